//! What a session needs of the world: a journal, the time, and ids.

use std::sync::Arc;

use event::{EventId, Time};
use journal::Journal;

/// Where sessions live. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    journal: Journal,
    stamps: Arc<dyn Stamps>,
}

/// The clock and the dice, handed in so that tests can fix them.
pub trait Stamps: Send + Sync {
    fn now(&self) -> Time;

    /// Ten bytes nobody has drawn before.
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

    /// A fresh id for something that happens at `at`.
    pub fn new_event_id(&self, at: Time) -> EventId {
        EventId::new(at, self.stamps.tail())
    }
}
