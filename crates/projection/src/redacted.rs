//! Events without secrets, for everything that cuts, keeps or passes on what they say.

use std::borrow::Cow;

use event::{Event, Raw};

/// Takes secrets out of a text before it leaves the machine.
pub type Redact<'r> = dyn FnMut(&str) -> Cow<'_, str> + 'r;

/// How deep texts are looked for one by one. What is nested deeper is looked at as it is written.
const DEPTH_MAX: usize = 16;

/// The event with every text redacted.
///
/// Texts are looked at one by one, as they read, and then together with the names beside them.
pub fn redacted(event: &Event, redact: &mut Redact<'_>) -> Event {
    let mut event = event.clone();
    let draft = &mut event.draft;
    draft.text = draft.text.as_deref().map(|text| redact(text).into_owned());
    // Unknown fields are redacted, too: what no adapter understands may hold a secret all the same.
    draft.data = redact_json(&draft.data, redact);
    draft.metadata.values_mut().for_each(|value| *value = redact_json(value, redact));
    draft.extra.iter_mut().for_each(|(_, value)| *value = redact_json(value, redact));
    event
}

/// The value with each of its texts, and the names of its members, as `change` makes them.
pub(crate) fn with_texts(value: &Raw, change: &mut dyn FnMut(&str) -> String) -> Raw {
    let mut out = String::with_capacity(value.get().len());
    write_value(value, change, DEPTH_MAX, &mut out);
    // `write_value` puts out valid JSON, so the parse does not fail.
    Raw::parse(out).unwrap_or_else(|_| value.clone())
}

fn redact_json(value: &Raw, redact: &mut Redact<'_>) -> Raw {
    // Each text first, without its escapes, where rules see it as it reads. Then all of it as JSON,
    // where a name stands beside its value: `"password": "…"`.
    let value = with_texts(value, &mut |text| redact(text).into_owned());
    let whole = match redact(value.get()) {
        Cow::Borrowed(_) => None,
        Cow::Owned(whole) => Some(whole),
    };
    match whole {
        None => value,
        // A number that had to go leaves no JSON behind; the text around it is worth more.
        Some(whole) => {
            Raw::parse(whole.clone()).or_else(|_| Raw::from_value(&whole)).unwrap_or_default()
        }
    }
}

fn write_value(
    value: &Raw,
    change: &mut dyn FnMut(&str) -> String,
    depth: usize,
    out: &mut String,
) {
    if let Some(text) = value.text() {
        write_quoted(&change(&text), out);
    } else if depth == 0 {
        out.push_str(value.get());
    } else if let Some(members) = value.members() {
        write_list(out, '{', '}', members, |(name, value), out| {
            write_quoted(&change(&name), out);
            out.push(':');
            write_value(&value, change, depth - 1, out);
        });
    } else if let Some(elements) = value.elements() {
        write_list(out, '[', ']', elements, |value, out| {
            write_value(&value, change, depth - 1, out)
        });
    } else {
        out.push_str(value.get());
    }
}

fn write_list<T>(
    out: &mut String,
    open: char,
    close: char,
    parts: Vec<T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(part, out);
    }
    out.push(close);
}

fn write_quoted(text: &str, out: &mut String) {
    out.push_str(Raw::from_value(text).unwrap_or_default().get());
}
