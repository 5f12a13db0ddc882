//! Parts of what is long: of a list, of a log.

use event::{Event, Raw, SessionId, json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::SessionMessage;

/// A part of a list, and where the next one begins.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Given as `after`, it goes on behind these; `null` at the end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// All there is, in one part.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None }
    }
}

/// What was said in a session, oldest first.
#[derive(Serialize, ToSchema)]
pub struct Messages {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub items: Vec<SessionMessage>,
    /// Given as `after`, it goes on behind these; `null` at the end.
    pub next: Option<String>,
}

/// An event as it is recorded. The fields every kind has are named here; `data` is what its kind
/// carries. `truncated` says that texts of it were cut.
#[derive(Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct RecordedEvent(Box<RawValue>);

impl RecordedEvent {
    pub fn whole(event: &Event) -> RecordedEvent {
        RecordedEvent::from_json(event.encode())
    }

    /// The event with texts of at most so many characters.
    pub fn cut(mut event: Event, chars_max: usize) -> RecordedEvent {
        let data =
            json::cut_strings(event.data.get(), chars_max).and_then(|data| Raw::parse(data).ok());
        let long = event.text.as_ref().and_then(|text| text.char_indices().nth(chars_max));
        if data.is_none() && long.is_none() {
            return RecordedEvent::whole(&event);
        }
        event.draft.data = data.unwrap_or(event.draft.data);
        if let (Some(text), Some((end, _))) = (&mut event.draft.text, long) {
            text.truncate(end);
        }
        let mut encoded = event.encode();
        encoded.truncate(encoded.len() - 1);
        encoded.push_str(r#","truncated":true}"#);
        RecordedEvent::from_json(encoded)
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }

    fn from_json(json: String) -> RecordedEvent {
        RecordedEvent(RawValue::from_string(json).expect("an event encodes to an object"))
    }
}
