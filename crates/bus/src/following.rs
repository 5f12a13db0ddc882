//! A subscriber that gets everything recorded, in order: from the record while it is behind, from
//! the tape once it is there. Pure.
//!
//! All it needs to know is one number. Whatever is recorded up to it was sent; the next one is
//! taken wherever it is met, and a hole is filled from the record. So the join of history and news
//! leaves nothing out and repeats nothing, however often the tape goes past.

use crate::record::Wanted;
use crate::tape::Mark;

#[derive(Debug)]
pub(crate) struct Following {
    /// Everything recorded up to here was sent, or was not wanted.
    at: u64,
    /// What was recorded up to here lies before the subscription.
    join: u64,
    /// Whether it still has to be told that it has come to the join.
    is_told: bool,
    with_journal: bool,
    /// Tells pages of this subscription from those of an earlier one.
    ticket: u32,
    past: Past,
}

/// Whether something has to be read for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Past {
    No,
    Wanted { up_to: u64 },
    Asked,
}

/// What a line on the tape is to a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// It is in no record.
    Live,
    /// It was sent before.
    Known,
    Next,
    /// Something before it is missing.
    Hole,
}

impl Following {
    pub(crate) fn new(from: u64, recorded: u64, with_journal: bool, ticket: u32) -> Following {
        // The record may have come further than the bus was told; it knows.
        let past = if from > recorded { Past::Wanted { up_to: from } } else { Past::No };
        Following { at: from, join: recorded, is_told: false, with_journal, ticket, past }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn ticket(&self) -> u32 {
        self.ticket
    }

    /// Whether there is something to say or to read, `recorded` being how far the record goes.
    pub(crate) fn is_current(&self, recorded: u64) -> bool {
        self.is_told && self.at >= recorded
    }

    /// Whether it waits for the record.
    pub(crate) fn is_reading(&self) -> bool {
        self.past != Past::No
    }

    /// Where it has come to the join, once.
    pub(crate) fn joins(&mut self) -> Option<u64> {
        let is_due = !self.is_told && self.at >= self.join;
        self.is_told |= is_due;
        is_due.then_some(self.at)
    }

    /// Wants everything up to the join; whether something of it is missing.
    pub(crate) fn wants_history(&mut self) -> bool {
        self.wants(self.join)
    }

    /// Wants everything up to a position; whether something of it is missing.
    pub(crate) fn wants(&mut self, up_to: u64) -> bool {
        if self.at < up_to && self.past == Past::No {
            self.past = Past::Wanted { up_to };
        }
        self.at < up_to
    }

    /// What should be read now, once per page. Of one who wants nothing but to know whether the
    /// record has come to where it begins, both ends are that place.
    pub(crate) fn ask(&mut self) -> Option<Wanted> {
        let Past::Wanted { up_to } = self.past else { return None };
        self.past = Past::Asked;
        Some(Wanted { after: self.at, up_to, with_journal: self.with_journal })
    }

    /// There was nobody to ask: it is still wanted.
    pub(crate) fn ask_again(&mut self, wanted: Wanted) {
        self.past = Past::Wanted { up_to: wanted.up_to };
    }

    /// A page came that reaches so far.
    pub(crate) fn has_read(&mut self, up_to: u64) {
        self.at = self.at.max(up_to);
        self.past = Past::No;
    }

    pub(crate) fn meets(&self, mark: &Mark) -> Met {
        match mark.position {
            0 => Met::Live,
            position if position <= self.at => Met::Known,
            position if position == self.at + 1 && !self.with_journal => Met::Next,
            _ => Met::Hole,
        }
    }

    /// The next line was sent.
    pub(crate) fn pass(&mut self, mark: &Mark) {
        if mark.is_last {
            self.at = mark.position;
        }
    }
}
