//! Where an event that forks show was first recorded.

use event::ForkOrigin;
use journal::{Journal, ReadError};

/// Generations that are followed; the journal allows no more. A claim that leads further is none.
const GENERATIONS_MAX: usize = 1_024;

/// Follows an origin up to the session that made the event, as far as that is still there.
pub(crate) fn first_origin(journal: &Journal, origin: ForkOrigin) -> Result<ForkOrigin, ReadError> {
    let mut origin = origin;
    for _ in 0..GENERATIONS_MAX {
        let event = match journal.event(&origin.session_id, origin.event_id) {
            Err(ReadError::SessionNotFound(_) | ReadError::EventNotFound { .. }) => break,
            event => event?,
        };
        match event.fork_origin() {
            Some(further) => origin = further,
            None => break,
        }
    }
    Ok(origin)
}
