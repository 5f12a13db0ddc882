//! Committed events that are not indexed yet, as far as they are still in memory.
//!
//! The indexer takes events from here and reads only the rest from the store, so that what was
//! packed a moment ago is not unpacked again.

use std::collections::VecDeque;
use std::sync::Arc;

use event::Draft;

use crate::limit::BACKLOG_BYTES_MAX;
use crate::prepare;
use crate::store::EventRow;

/// Events in the order of their positions, perhaps with gaps.
#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<UnindexedEvent>,
    bytes: usize,
    /// Without an indexer in this process nothing is kept.
    is_enabled: bool,
}

/// An event that was just committed.
#[derive(Clone)]
pub(crate) struct UnindexedEvent {
    pub position: u64,
    pub draft: Arc<Draft>,
}

impl Backlog {
    /// Keeps events from now on: an indexer takes them.
    pub(crate) fn enable(&mut self) {
        self.is_enabled = true;
    }

    /// Adds committed events while there is room; the others are read from the store later.
    pub(crate) fn push(&mut self, rows: &[EventRow]) {
        if !self.is_enabled {
            return;
        }
        for row in rows {
            // Once it is full, the rest of the commit is left out as well: the indexer takes runs
            // without a gap.
            if self.bytes >= BACKLOG_BYTES_MAX {
                break;
            }
            self.bytes += prepare::json_size(&row.draft);
            let draft = Arc::clone(&row.draft);
            self.events.push_back(UnindexedEvent { position: row.position, draft });
        }
    }

    /// Takes up to `count` events without a gap that begin at a position. Older ones are dropped:
    /// they are indexed by now.
    pub(crate) fn take(&mut self, from: u64, count: usize) -> Vec<UnindexedEvent> {
        let mut taken = Vec::new();
        while let Some(first) = self.events.front() {
            // Another process may have committed in between, or this backlog was full: a gap ends
            // the run, and the store has what is missing.
            let is_next = first.position == from + taken.len() as u64;
            if first.position >= from && (!is_next || taken.len() == count) {
                break;
            }
            self.bytes -= prepare::json_size(&first.draft);
            let first = self.events.pop_front();
            taken.extend(first.filter(|_| is_next));
        }
        taken
    }

    /// Whether the backlog is so long that a bulk appender should help to index.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes >= BACKLOG_BYTES_MAX / 4 * 3
    }

    /// Forgets everything, because a session was deleted or no indexer will take the events.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.bytes = 0;
    }
}
