//! The epochs of a session, each with its digest and the work done in it.
//!
//! An epoch has its digest from the moment it is closed; the open one has one whenever somebody
//! asks for it. What an epoch was found to hold is never changed by a later one.

use event::Event;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, DigestFact};
use crate::epoch::{Epoch, Epochs};
use crate::stretch::{Stretch, Stretches};

/// The version of the fold. Any change of what is found or counted is a new number, and what was
/// saved by another version is folded anew.
const VERSION: u32 = 1;

/// Epochs and digests, told from the events of a session in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Chronicle {
    seq: u64,
    epochs: Epochs,
    digest: Digest,
    facts: Vec<DigestFact>,
    stretches: Stretches,
}

/// An epoch, what is worth keeping of it, and when somebody worked in it.
#[derive(Clone, Debug)]
pub struct Chapter<'a> {
    pub epoch: &'a Epoch,
    pub facts: Vec<DigestFact>,
    pub stretches: Vec<&'a Stretch>,
}

impl Chronicle {
    /// Continues from a saved state, or `None` where this version cannot.
    pub fn load(saved: &[u8]) -> Option<Chronicle> {
        let (version, chronicle): (u32, Chronicle) = serde_json::from_slice(saved).ok()?;
        (version == VERSION).then_some(chronicle)
    }

    /// The state, to be continued another time.
    pub fn save(&self) -> Vec<u8> {
        serde_json::to_vec(&(VERSION, self)).expect("a chronicle always encodes")
    }

    /// Takes the next event, and tells the number of the epoch that was closed by it.
    pub fn apply(&mut self, event: &Event) -> Option<u64> {
        self.seq = self.seq.max(event.seq);
        self.digest.apply(event);
        self.facts.append(&mut self.digest.take_new());
        self.stretches.apply(event);
        self.epochs.apply(event).map(|epoch| epoch.number)
    }

    /// The last event that was taken.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Gives the open epoch its digest so far.
    pub fn flush(&mut self) {
        self.digest.flush();
        self.facts.append(&mut self.digest.take_new());
    }

    /// All epochs with what is worth keeping of each.
    pub fn chapters(&self) -> impl Iterator<Item = Chapter<'_>> {
        self.epochs.list().iter().map(|epoch| {
            let facts = self.facts.iter().filter(|fact| fact.epoch == epoch.number);
            let stretches = self.stretches.list().filter(|stretch| stretch.epoch == epoch.number);
            Chapter { epoch, facts: facts.cloned().collect(), stretches: stretches.collect() }
        })
    }
}
