//! What a person asked, among what the editor adds to it.

use event::Time;

use super::moment::parse_moment;

pub(super) const OPEN: &str = "<user_query>";
pub(super) const CLOSE: &str = "</user_query>";

/// What the editor puts around a prompt. Text that begins otherwise was typed by the user.
const ADDED: &[&str] = &[
    "<additional_data>",
    "<attached_files>",
    "<cursor_commands>",
    "<environment_context>",
    "<external_links>",
    "<manually_attached_skills>",
    "<open_and_recently_viewed_files>",
    "<project_layout>",
    "<rules>",
    "<system_notification>",
    "<system_reminder>",
    "<timestamp>",
    "<user_info>",
];

/// A user's message, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompt<'a> {
    /// What the person typed; `None` if it is all the editor's.
    pub query: Option<&'a str>,
    /// The rest.
    pub added: String,
    pub at: Option<Time>,
}

impl<'a> Prompt<'a> {
    /// Marks are not escaped, so a query goes from the first to the last of them.
    pub(super) fn from_text(text: &'a str) -> Prompt<'a> {
        let stamp = text.split_once("<timestamp>").and_then(|(_, rest)| rest.split_once('<'));
        let at = stamp.and_then(|(stamp, _)| parse_moment(stamp));
        let marked = text.find(OPEN).map(|open| {
            // A mark that is not closed takes the rest of the text.
            let end = text.rfind(CLOSE).filter(|close| *close >= open + OPEN.len());
            (open, end)
        });
        match marked {
            Some((open, end)) => {
                let query = &text[open + OPEN.len()..end.unwrap_or(text.len())];
                let after = end.map_or("", |end| &text[end + CLOSE.len()..]);
                let around = [without_stamp(&text[..open]), after.trim().to_owned()];
                let added: Vec<String> =
                    around.into_iter().filter(|text| !text.is_empty()).collect();
                Prompt { query: Some(query.trim()), added: added.join("\n"), at }
            }
            None if ADDED.iter().any(|mark| text.trim_start().starts_with(mark)) => {
                Prompt { query: None, added: without_stamp(text), at }
            }
            None => Prompt { query: Some(text.trim()), added: String::new(), at },
        }
    }
}

/// The time is told by the events themselves.
fn without_stamp(text: &str) -> String {
    const CLOSE: &str = "</timestamp>";
    let cut = text.find("<timestamp>").zip(text.find(CLOSE)).filter(|(open, close)| open < close);
    match cut {
        Some((open, close)) => {
            let (before, after) = (&text[..open], &text[close + CLOSE.len()..]);
            format!("{}{}", before.trim_start(), after.trim_start()).trim().to_owned()
        }
        None => text.trim().to_owned(),
    }
}
