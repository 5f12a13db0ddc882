//! What an observed log told that cannot have happened so.

use std::collections::VecDeque;

use event::{Event, EventId};
use serde::{Deserialize, Serialize};

/// Oddities kept. A log that has more is broken beyond listing; the oldest are forgotten and
/// still counted.
const ODDITIES_MAX: usize = 64;

/// An event that does not fit what came before it. The event is kept, the state stays at the last
/// legal one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Oddity {
    pub seq: u64,
    pub event_id: EventId,
    pub why: String,
}

impl Oddity {
    pub(crate) fn new(event: &Event, why: impl Into<String>) -> Oddity {
        Oddity { seq: event.seq, event_id: event.id, why: why.into() }
    }
}

/// The newest oddities and how many there were.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Oddities {
    newest: VecDeque<Oddity>,
    count: u64,
}

impl Oddities {
    pub(crate) fn push(&mut self, oddity: Oddity) {
        if self.newest.len() == ODDITIES_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(oddity);
        self.count += 1;
    }

    pub(crate) fn newest(&self) -> impl Iterator<Item = &Oddity> {
        self.newest.iter()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
