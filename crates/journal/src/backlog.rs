//! What was committed and is not searchable yet, as far as it is still in memory.
//!
//! Whoever feeds the index takes it from here and reads only the rest from the store: what was
//! packed a moment ago need not be unpacked.

use std::collections::VecDeque;
use std::sync::Arc;

use event::Draft;

use crate::limit::BACKLOG_BYTES_MAX;
use crate::prepare;
use crate::store::EventRow;

/// Events in the order of their positions, perhaps with gaps.
#[derive(Default)]
pub(crate) struct Backlog {
    fresh: VecDeque<Fresh>,
    bytes: usize,
    /// Nobody takes anything from here before somebody says so.
    is_wanted: bool,
}

/// An event that was just committed.
#[derive(Clone)]
pub(crate) struct Fresh {
    pub position: u64,
    pub draft: Arc<Draft>,
}

impl Backlog {
    /// From now on there is somebody who takes from here.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Holds committed events while there is room; the others are read from the store later.
    pub(crate) fn push(&mut self, rows: &[EventRow]) {
        if !self.is_wanted {
            return;
        }
        for row in rows {
            if self.bytes >= BACKLOG_BYTES_MAX {
                break;
            }
            self.bytes += prepare::json_size(&row.draft);
            let draft = Arc::clone(&row.draft);
            self.fresh.push_back(Fresh { position: row.position, draft });
        }
    }

    /// Takes up to `count` events without a gap that begin at a position. What is older goes: it
    /// is searchable by now.
    pub(crate) fn take(&mut self, from: u64, count: usize) -> Vec<Fresh> {
        let mut taken = Vec::new();
        while let Some(first) = self.fresh.front() {
            let is_next = first.position == from + taken.len() as u64;
            if first.position >= from && (!is_next || taken.len() == count) {
                break;
            }
            self.bytes -= prepare::json_size(&first.draft);
            let first = self.fresh.pop_front();
            taken.extend(first.filter(|_| is_next));
        }
        taken
    }

    /// Whether so much waits that whoever appends had better help.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes >= BACKLOG_BYTES_MAX / 4 * 3
    }

    /// Forgets everything: something of it was deleted, or nobody will take it.
    pub(crate) fn clear(&mut self) {
        self.fresh.clear();
        self.bytes = 0;
    }
}
