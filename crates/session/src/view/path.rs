//! Which events are on the active path.
//!
//! A prompt that names a parent continues after it; what lay between is left. Every other event
//! continues after the one before it. So a path is a few ranges, one per rewind on it.

/// The rewinds of a session, enough to tell the path that leads to any event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Path {
    /// In order of the prompts.
    rewinds: Vec<Rewind>,
}

/// A prompt that continues elsewhere than after the event before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rewind {
    pub(crate) prompt_seq: u64,
    pub(crate) parent_seq: u64,
}

/// A stretch of the log, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) from_seq: u64,
    pub(crate) to_seq: u64,
}

impl Path {
    pub(crate) fn new(rewinds: Vec<Rewind>) -> Path {
        Path { rewinds }
    }

    pub(crate) fn rewinds(&self) -> &[Rewind] {
        &self.rewinds
    }

    /// Adds a rewind that is newer than all others.
    pub(crate) fn add_rewind(&mut self, rewind: Rewind) {
        self.rewinds.push(rewind);
    }

    /// Iterates over the path to `to_seq` as ranges, the newest first.
    pub(crate) fn back_from(&self, to_seq: u64) -> impl Iterator<Item = Range> {
        // Prompt 6 continues after event 3, so the path to 8 is 6..=8 and then 1..=3:
        //
        //   1  2  3  4  5  6  7  8
        //   ──────┐        ┌──────
        //         └────────┘
        let mut rewinds = self.rewinds.as_slice();
        let mut to_seq = to_seq;
        std::iter::from_fn(move || {
            if to_seq == 0 {
                return None;
            }
            // The newest rewind at or before `to_seq` begins this range; the path continues at its
            // parent, where only older rewinds count.
            let known = rewinds.partition_point(|rewind| rewind.prompt_seq <= to_seq);
            let (range, next) = match rewinds[..known].last() {
                Some(rewind) => (Range { from_seq: rewind.prompt_seq, to_seq }, rewind.parent_seq),
                None => (Range { from_seq: 1, to_seq }, 0),
            };
            rewinds = &rewinds[..known.saturating_sub(1)];
            to_seq = next;
            Some(range)
        })
    }

    /// Returns the part of the path to `to_seq` after `after_seq`, the oldest range first.
    pub(crate) fn ranges_between(&self, after_seq: u64, to_seq: u64) -> Vec<Range> {
        let mut ranges: Vec<Range> = self
            .back_from(to_seq)
            .take_while(|range| range.to_seq > after_seq)
            .map(|range| Range { from_seq: range.from_seq.max(after_seq + 1), ..range })
            .collect();
        ranges.reverse();
        ranges
    }

    /// Returns the event before `seq` on its path; 0 for the first one.
    pub(crate) fn seq_before(&self, seq: u64) -> u64 {
        let at = self.rewinds.binary_search_by_key(&seq, |rewind| rewind.prompt_seq);
        at.map_or(seq.saturating_sub(1), |at| self.rewinds[at].parent_seq)
    }

    /// Whether the path to `to_seq` goes through `seq`.
    pub(crate) fn contains(&self, seq: u64, to_seq: u64) -> bool {
        seq > 0
            && self
                .back_from(to_seq)
                .find(|range| range.from_seq <= seq)
                .is_some_and(|range| seq <= range.to_seq)
    }
}
