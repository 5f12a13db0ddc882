//! The epochs of a session, each with its digest and the work done in it.
//!
//! An epoch has its digest from the moment it is closed; the open one has one after
//! [`Chronicle::flush`]. A later epoch never changes the facts of an earlier one. What a model said
//! of an epoch stands beside its facts, and in the place of those it names.

use std::collections::BTreeSet;

use event::Event;
use event::payload::ModelWords;
use serde::{Deserialize, Serialize};

use crate::digest::{self, Digest, DigestFact, FactOrigin, Naming};
use crate::epoch::{Epoch, Epochs};
use crate::projection::Projection;
use crate::work_span::{WorkSpan, WorkSpans};

/// Epochs and digests, told from the events of a session in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Chronicle {
    seq: u64,
    epochs: Epochs,
    digest: Digest,
    facts: Vec<DigestFact>,
    stretches: WorkSpans,
    /// What a model calls the epochs; the last word on one counts.
    #[serde(default)]
    namings: Vec<Naming>,
}

/// An epoch, what is worth keeping of it, and the spans of work in it.
#[derive(Clone, Debug)]
pub struct Chapter<'a> {
    pub epoch: &'a Epoch,
    pub facts: Vec<DigestFact>,
    pub stretches: Vec<&'a WorkSpan>,
    /// What a model calls it, if one was asked.
    pub naming: Option<&'a Naming>,
}

impl Chapter<'_> {
    /// The title of the epoch, and whether a model or a rule found it.
    pub fn title(&self) -> Option<(String, FactOrigin)> {
        let told = self.naming.and_then(|naming| naming.title.clone());
        let told = told.map(|title| (title, FactOrigin::Model));
        told.or_else(|| Some((digest::find_title(&self.facts)?, FactOrigin::Heuristic)))
    }
}

impl Projection for Chronicle {
    const NAME: &'static str = "chronicle";
    const IS_REDACTED: bool = true;
    /// Finding secrets is the dearer part, so a chronicle is saved sooner than other views.
    const SAVE_AFTER: Option<u64> = Some(256);

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        self.seq = self.seq.max(event.seq);
        // The digest comes before the epochs and keeps a count of its own: what an `epoch.closed`
        // flushes belongs to the epoch that it closes.
        self.digest.apply(event);
        self.facts.append(&mut self.digest.take_new());
        self.stretches.apply(event);
        self.epochs.apply(event);
        if event.fork_origin().is_none()
            && let Some(words) = ModelWords::from_event(event)
        {
            self.apply_model_words(&words, event);
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        let saved = serde_json::to_vec(&(Chronicle::VERSION, self));
        Some(saved.expect("a chronicle always encodes"))
    }

    fn load(saved: &[u8]) -> Option<Chronicle> {
        let (version, chronicle): (u32, Chronicle) = serde_json::from_slice(saved).ok()?;
        (version == Chronicle::VERSION).then_some(chronicle)
    }
}

impl Chronicle {
    /// Any change of what is found or counted is a new number.
    const VERSION: u32 = 3;

    /// Takes what a model said. A model answers late, so its words belong to the epoch of the
    /// events it was asked about, not to the open one.
    fn apply_model_words(&mut self, words: &ModelWords, event: &Event) {
        // The last epoch that began at or before the last event the model knew.
        let begun = self.epochs.list().iter().rev();
        let Some(epoch) = begun
            .map(|epoch| (epoch.number, epoch.from_seq))
            .find(|(_, from)| *from <= words.to_seq)
        else {
            return;
        };
        self.facts.extend(digest::facts_of(words, epoch.0, event));
        if let Some(naming) = Naming::from_words(words, epoch.0, event) {
            self.namings.retain(|before| before.epoch != naming.epoch);
            self.namings.push(naming);
        }
    }

    /// Gives the open epoch its digest so far.
    pub fn flush(&mut self) {
        self.digest.flush();
        self.facts.append(&mut self.digest.take_new());
    }

    /// All epochs with what is worth keeping of each.
    pub fn chapters(&self) -> impl Iterator<Item = Chapter<'_>> {
        self.epochs.list().iter().map(|epoch| {
            let stretches = self.stretches.list().filter(|stretch| stretch.epoch == epoch.number);
            Chapter {
                epoch,
                facts: self.standing(epoch.number),
                stretches: stretches.collect(),
                naming: self.namings.iter().find(|naming| naming.epoch == epoch.number),
            }
        })
    }

    /// The facts of an epoch without those that a model said better.
    fn standing(&self, epoch: u64) -> Vec<DigestFact> {
        let facts = || self.facts.iter().filter(|fact| fact.epoch == epoch);
        let replaced: BTreeSet<&String> = facts().flat_map(|fact| &fact.replaces).collect();
        let stands = |fact: &&DigestFact| {
            // A name is a hash over the text, so it is made only where a model replaced anything. A
            // model cannot replace what another model said.
            replaced.is_empty()
                || fact.origin == FactOrigin::Model
                || !replaced.contains(&fact.name())
        };
        facts().filter(stands).cloned().collect()
    }
}
