//! Amendments: events that replace an earlier one at its place.

use std::collections::BTreeMap;

/// The amendments of a session. They apply to every path: a better account of an event does not
/// depend on later rewinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Amends {
    /// By amending event, the place it belongs to.
    place_of: BTreeMap<u64, u64>,
    /// By place, the newest account.
    newest: BTreeMap<u64, u64>,
}

impl Amends {
    /// Notes that event `seq`, newer than all before, amends `target`.
    pub(crate) fn add_amend(&mut self, seq: u64, target: u64) {
        let place = self.place_of(target);
        self.place_of.insert(seq, place);
        self.newest.insert(place, seq);
    }

    /// The place where event `seq` is shown.
    pub(crate) fn place_of(&self, seq: u64) -> u64 {
        self.place_of.get(&seq).copied().unwrap_or(seq)
    }

    /// Whether event `seq` has no place of its own.
    pub(crate) fn is_amending(&self, seq: u64) -> bool {
        self.place_of.contains_key(&seq)
    }

    /// Amended places in a range, each with the event that stands there now.
    pub(crate) fn within(&self, from_seq: u64, to_seq: u64) -> impl Iterator<Item = (u64, u64)> {
        self.newest.range(from_seq..=to_seq).map(|(place, seq)| (*place, *seq))
    }

    /// Every amending event with its place, in log order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.place_of.iter().map(|(seq, place)| (*seq, *place))
    }
}
