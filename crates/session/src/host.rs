//! The dependencies of a session: a journal, the time and ids.

use std::sync::Arc;

use event::{EventId, Time};
use journal::Journal;

/// A journal and the source of times and ids. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    journal: Journal,
    stamps: Arc<dyn Stamps>,
}

/// The clock and the random source, passed in so that tests can fix them.
pub trait Stamps: Send + Sync {
    fn now(&self) -> Time;

    /// Returns ten random bytes for a new event id.
    fn tail(&self) -> [u8; 10];
}

impl Host {
    pub fn new(journal: Journal, stamps: Arc<dyn Stamps>) -> Host {
        Host { journal, stamps }
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn now(&self) -> Time {
        self.stamps.now()
    }

    /// Creates the id of an event that happens at `at`.
    pub fn new_event_id(&self, at: Time) -> EventId {
        EventId::new(at, self.stamps.tail())
    }
}
