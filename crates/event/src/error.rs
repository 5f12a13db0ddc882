//! The errors of reading events.

use crate::{BadId, EventId, Kind};

/// The text is not a valid event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    #[error("not a JSON object: {0}")]
    Json(String),
    #[error("the member `{0}` appears twice")]
    Twice(String),
    #[error("the member `{0}` is missing")]
    Missing(&'static str),
    #[error("the member `{field}` cannot be read: {why}")]
    Field { field: &'static str, why: String },
    #[error(transparent)]
    Id(#[from] BadId),
}

/// The payload does not have the shape of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` event {event_id} has a payload that does not fit at `{path}`: {why}")]
pub struct BadPayload {
    pub kind: Kind,
    pub event_id: EventId,
    pub path: String,
    pub why: String,
}

/// Characters of a foreign text that an error repeats: enough to recognise it, and bounded for
/// any input.
const EXCERPT_MAX: usize = 200;

/// Returns the beginning of a foreign text for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
