//! Messages that ask the supervisor for something, field by field.

use std::time::Duration;

use bus::{FieldValue, Message};

use crate::day::Day;
use crate::run_ref::Ref;
use crate::services_file::{IfBusy, check_words};

/// The longest a task may be given.
const TIMEOUT_MAX: f64 = 365.0 * 24.0 * 3_600.0;

/// What `supervisor.request` asks for, as far as it could be read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Asked {
    pub cmd: Vec<String>,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub if_busy: IfBusy,
    pub rerun: bool,
}

/// The ref of a message: absent, good, or something that is none.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum AskedRef {
    Absent,
    Good(Ref),
    Bad,
}

impl AskedRef {
    pub(crate) fn read(message: &Message) -> AskedRef {
        match present(message, "ref") {
            None => AskedRef::Absent,
            Some(field) => Ref::read(field).map_or(AskedRef::Bad, AskedRef::Good),
        }
    }
}

impl Asked {
    /// Reads a request; the error says what is wrong with it.
    pub(crate) fn read(message: &Message) -> Result<Asked, String> {
        Ok(Asked {
            cmd: words(message)?,
            day: day(message)?,
            timeout: timeout(message)?,
            if_busy: match choice(message, "if_busy", &["queue", "skip"])? {
                Some(1) => IfBusy::Skip,
                _ => IfBusy::Queue,
            },
            rerun: choice(message, "after_crash", &["drop", "rerun"])? == Some(1),
        })
    }
}

fn words(message: &Message) -> Result<Vec<String>, String> {
    let Some(field) = present(message, "cmd") else {
        return Err("`cmd` is missing".to_owned());
    };
    let words: Vec<String> =
        serde_json::from_value(field.json()).map_err(|_| "`cmd` is no list of texts".to_owned())?;
    check_words(&words)?;
    Ok(words)
}

fn day(message: &Message) -> Result<Option<Day>, String> {
    let Some(field) = present(message, "day") else { return Ok(None) };
    let text = match field.text() {
        Some(text) => text.into_owned(),
        None => field.integer().map(|number| number.to_string()).unwrap_or_default(),
    };
    match Day::parse(&text) {
        Some(day) => Ok(Some(day)),
        None => Err("`day` is no day such as 20250213".to_owned()),
    }
}

fn timeout(message: &Message) -> Result<Option<Duration>, String> {
    let Some(field) = present(message, "timeout_seconds") else { return Ok(None) };
    let seconds = field.json().as_f64().filter(|seconds| (0.001..=TIMEOUT_MAX).contains(seconds));
    match seconds {
        Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        None => Err("`timeout_seconds` is no number of seconds".to_owned()),
    }
}

/// Which of some words a field has.
fn choice(message: &Message, name: &str, words: &[&str]) -> Result<Option<usize>, String> {
    let Some(field) = present(message, name) else { return Ok(None) };
    let text = field.text().unwrap_or_default();
    match words.iter().position(|word| *word == text) {
        Some(at) => Ok(Some(at)),
        None => Err(format!("`{name}` is one of: {}", words.join(", "))),
    }
}

/// A field that says something: `null` is how some languages leave one out.
fn present<'a>(message: &'a Message, name: &str) -> Option<FieldValue<'a>> {
    message.field(name).filter(|field| field.raw() != b"null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(fields: &str) -> Result<Asked, String> {
        let line = format!(r#"{{"tract":"supervisor","event":"request"{fields}}}"#);
        Asked::read(&Message::parse(line.as_bytes()).unwrap())
    }

    fn reference(value: &str) -> AskedRef {
        let line = format!(r#"{{"tract":"supervisor","event":"request","ref":{value}}}"#);
        AskedRef::read(&Message::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn a_request_is_read_whole() {
        let read = asked(
            r#","cmd":["git","fetch"],"day":20250213,"timeout_seconds":1.5,"if_busy":"skip","after_crash":"rerun""#,
        );
        let read = read.unwrap();
        assert_eq!(read.cmd, ["git", "fetch"]);
        assert_eq!(read.day, Day::parse("20250213"));
        assert_eq!(read.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(read.if_busy, IfBusy::Skip);
        assert!(read.rerun);
        let plain = asked(r#","cmd":["x"],"day":null,"timeout_seconds":null"#).unwrap();
        assert_eq!((plain.day, plain.timeout, plain.if_busy), (None, None, IfBusy::Queue));
    }

    #[test]
    fn what_cannot_be_a_request_is_refused() {
        let long = format!(r#","cmd":["{}"]"#, "x".repeat(200_000));
        let many = format!(r#","cmd":[{}"x"]"#, r#""x","#.repeat(256));
        for fields in [
            "",
            r#","cmd":[]"#,
            r#","cmd":"make x""#,
            r#","cmd":["sleep",1]"#,
            r#","cmd":["a\u0000b"]"#,
            &long,
            &many,
            r#","cmd":["x"],"day":"2025-02-13""#,
            r#","cmd":["x"],"day":"20250230""#,
            r#","cmd":["x"],"day":"../../..""#,
            r#","cmd":["x"],"timeout_seconds":"5""#,
            r#","cmd":["x"],"timeout_seconds":0"#,
            r#","cmd":["x"],"timeout_seconds":-1"#,
            r#","cmd":["x"],"timeout_seconds":1e300"#,
            r#","cmd":["x"],"timeout_seconds":NaN"#,
            r#","cmd":["x"],"if_busy":"perhaps""#,
            r#","cmd":["x"],"after_crash":7"#,
        ] {
            assert!(asked(fields).is_err(), "{}", &fields[..fields.len().min(60)]);
        }
    }

    #[test]
    fn a_ref_is_a_text_or_an_integer() {
        let good = |value: &str| match reference(value) {
            AskedRef::Good(reference) => reference.json().as_str().to_owned(),
            other => panic!("{value}: {other:?}"),
        };
        for value in [r#""a""#, r#""""#, "7", "-7", "123456789012345678901234567890"] {
            assert_eq!(good(value), value, "given back as it came");
        }
        assert_eq!(good(r#""\ud800""#), r#""\ud800""#);
        assert_eq!(reference("null"), AskedRef::Absent);
        let long = format!(r#""{}""#, "x".repeat(257));
        for value in ["1.5", "1e3", "true", "[]", "{}", &long] {
            assert_eq!(reference(value), AskedRef::Bad, "{value}");
        }
        assert_ne!(reference("7"), reference(r#""7""#));
        assert_eq!(reference(r#""\u0061""#), reference(r#""a""#));
        assert_ne!(reference(r#""\udcff""#), reference(r#""\udcfe""#));
        assert_ne!(reference(r#""\udcff""#), reference(r#""\ufffd""#));
    }
}
