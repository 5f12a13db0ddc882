//! Parts of what is long: of a list, of a log.

use event::{Event, SessionId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::Message;

/// A part of a list, and where the next one begins.
#[derive(Serialize, ToSchema)]
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
    pub items: Vec<Message>,
    /// Given as `after`, it goes on behind these; `null` at the end.
    pub next: Option<String>,
}

/// An event as it is recorded. The fields every kind has are named here; `data` is what its kind
/// carries.
#[derive(Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct RecordedEvent(pub Event);
