//! The epochs of a session, each with its digest.
//!
//! An epoch has its digest from the moment it is closed; the open one has one whenever somebody
//! asks for it. What an epoch was found to hold is never changed by a later one.

use event::Event;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestFact};
use crate::epoch::{Epoch, Epochs};

/// Epochs and digests, told from the events of a session in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Chronicle {
    epochs: Epochs,
    digest: Digest,
    facts: Vec<DigestFact>,
}

impl Chronicle {
    /// Takes the next event, and tells the number of the epoch that was closed by it.
    pub fn apply(&mut self, event: &Event) -> Option<u64> {
        self.digest.apply(event);
        self.facts.append(&mut self.digest.take_new());
        self.epochs.apply(event).map(|epoch| epoch.number)
    }

    /// Gives the open epoch its digest so far.
    pub fn flush(&mut self) {
        self.digest.flush();
        self.facts.append(&mut self.digest.take_new());
    }

    /// All epochs with what is worth keeping of each.
    pub fn chapters(&self) -> impl Iterator<Item = (&Epoch, Vec<DigestFact>)> {
        self.epochs.list().iter().map(|epoch| {
            let of_epoch = self.facts.iter().filter(|fact| fact.epoch == epoch.number);
            (epoch, of_epoch.cloned().collect())
        })
    }
}
