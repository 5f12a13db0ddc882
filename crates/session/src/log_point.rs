//! A point in the log of a session, as people name it.

use std::str::FromStr;

use event::{EventId, SessionId, Time};
use journal::{Journal, ReadError, Selection};

use crate::SessionError;

/// An event of a session, or the instant after one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogPoint {
    Seq(u64),
    Event(EventId),
    /// Up to the last event created at or before it.
    Time(Time),
}

impl LogPoint {
    /// Returns the `seq` of the last event up to the point; 0 before the first. The session is not
    /// folded for it.
    pub fn resolve(self, journal: &Journal, id: &SessionId) -> Result<u64, SessionError> {
        match self {
            LogPoint::Seq(point) => {
                let tail = journal.stat(id)?.tail_seq;
                if point > tail {
                    let session_id = id.clone();
                    return Err(SessionError::PointOutOfRange { session_id, point, tail });
                }
                Ok(point)
            }
            LogPoint::Event(event_id) => {
                let not_found = || ReadError::EventNotFound { session_id: id.clone(), event_id };
                Ok(journal.seq_of(id, event_id)?.ok_or_else(not_found)?)
            }
            LogPoint::Time(at) => {
                let selection = Selection { until: Some(at), ..Selection::all() }.newest_first();
                let last = journal.events(id, selection)?.next().transpose()?;
                Ok(last.map_or(0, |event| event.seq))
            }
        }
    }
}

impl FromStr for LogPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<LogPoint, String> {
        if let Ok(seq) = text.parse() {
            return Ok(LogPoint::Seq(seq));
        }
        if let Ok(time) = text.parse() {
            return Ok(LogPoint::Time(time));
        }
        text.parse().map(LogPoint::Event).map_err(|_| "not a seq, an event id or a time".into())
    }
}
