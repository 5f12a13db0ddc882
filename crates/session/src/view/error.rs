//! Why a view could not be had.

use event::{BadPayload, EventId};
use journal::ReadError;

use super::entry::{Repair, Why};

/// A view could not be kept, loaded or, in strict reading, believed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ViewError {
    #[error("event {seq} covers the history up to an event that is not in the log before it")]
    CutoffNotFound { seq: u64 },
    #[error("event {seq}: {error}")]
    BadPayload { seq: u64, error: Box<BadPayload> },
    #[error("event {seq} has an entry that names no event of the active path")]
    EntryNotFound { seq: u64 },
    #[error("event {seq} has an entry that does not say who speaks")]
    NoRole { seq: u64 },
    #[error("event {seq} is empty")]
    Empty { seq: u64 },
    #[error("event {expected} comes next, not {found} ({event_id})")]
    OutOfOrder { expected: u64, found: u64, event_id: EventId },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Repair {
    /// What strict reading says instead of working around it; none for what does no harm.
    pub(crate) fn strict_error(&self) -> Option<ViewError> {
        let seq = self.seq;
        match &self.why {
            Why::Unreadable(error) => Some(ViewError::BadPayload { seq, error: error.clone() }),
            Why::CutoffNotFound => Some(ViewError::CutoffNotFound { seq }),
            Why::EntryNotFound => Some(ViewError::EntryNotFound { seq }),
            Why::NoRole => Some(ViewError::NoRole { seq }),
            Why::Empty => Some(ViewError::Empty { seq }),
            _ => None,
        }
    }
}
