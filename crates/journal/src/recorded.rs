//! An event with its place in the journal.

use event::Event;

/// An event and its position: the journal's own order over all sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub position: u64,
    pub event: Event,
}
