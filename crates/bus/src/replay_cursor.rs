//! Joins recorded and live messages into one stream without holes or repeats. Pure.
//!
//! The cursor is one number: the position up to which everything recorded was sent. A recorded line
//! on the tape is sent if its position is the next one, skipped if it was sent, and otherwise shows
//! a hole, which is filled from the record. This holds however often the tape drops lines:
//!
//! ```text
//! record   1 2 3 4 5 6 7 8          cursor 4
//! tape               6 . 7 . 8      6 is a gap: read 5..8 from the record, then go on with 9
//! ```

use crate::replay::PageRequest;
use crate::tape::LineMeta;

#[derive(Debug)]
pub(crate) struct ReplayCursor {
    /// Everything recorded up to here was sent or not wanted.
    position: u64,
    /// The end of the record when the subscription began: history up to here, news behind.
    join_position: u64,
    /// Whether the client was told that it has reached the join.
    is_joined: bool,
    with_journal: bool,
    /// The number of the subscription; pages for an earlier one are ignored.
    ticket: u32,
    read_state: ReadState,
}

/// Whether a page has to be read for the subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadState {
    Idle,
    Wanted { up_to: u64 },
    Requested,
}

/// How a line on the tape relates to what the subscriber has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordOrder {
    /// The line is not recorded.
    Unrecorded,
    /// Its position was sent before.
    AlreadySent,
    Next,
    /// An earlier position is missing.
    Gap,
}

impl ReplayCursor {
    pub(crate) fn new(from: u64, recorded: u64, with_journal: bool, ticket: u32) -> ReplayCursor {
        // The start may lie beyond what the publisher announced. The record knows whether it exists.
        let read_state =
            if from > recorded { ReadState::Wanted { up_to: from } } else { ReadState::Idle };
        ReplayCursor {
            position: from,
            join_position: recorded,
            is_joined: false,
            with_journal,
            ticket,
            read_state,
        }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn ticket(&self) -> u32 {
        self.ticket
    }

    /// Returns whether nothing is left to send or read; the record ends at `recorded`.
    pub(crate) fn is_current(&self, recorded: u64) -> bool {
        self.is_joined && self.position >= recorded
    }

    /// Returns whether the subscriber waits for the record.
    pub(crate) fn is_reading(&self) -> bool {
        self.read_state != ReadState::Idle
    }

    /// Returns the position once the join is reached, the first time only.
    pub(crate) fn take_join(&mut self) -> Option<u64> {
        let is_due = !self.is_joined && self.position >= self.join_position;
        self.is_joined |= is_due;
        is_due.then_some(self.position)
    }

    /// Requests everything up to the join; returns whether any of it is missing.
    pub(crate) fn request_history(&mut self) -> bool {
        self.request_up_to(self.join_position)
    }

    /// Requests everything up to a position; returns whether any of it is missing.
    pub(crate) fn request_up_to(&mut self, up_to: u64) -> bool {
        // One page at a time. The request on its way ends at a position that was known when it was
        // made; the rest is asked for after it.
        if self.position < up_to && self.read_state == ReadState::Idle {
            self.read_state = ReadState::Wanted { up_to };
        }
        self.position < up_to
    }

    /// Returns the page to read now, once per page. If `after` equals `up_to`, the request only asks
    /// whether the record reaches that position.
    pub(crate) fn next_request(&mut self) -> Option<PageRequest> {
        let ReadState::Wanted { up_to } = self.read_state else { return None };
        self.read_state = ReadState::Requested;
        Some(PageRequest { after: self.position, up_to, with_journal: self.with_journal })
    }

    /// Restores a request that the reader had no room for.
    pub(crate) fn retry_request(&mut self, wanted: PageRequest) {
        self.read_state = ReadState::Wanted { up_to: wanted.up_to };
    }

    /// Takes note of a page that is complete up to a position.
    pub(crate) fn apply_page(&mut self, up_to: u64) {
        self.position = self.position.max(up_to);
        self.read_state = ReadState::Idle;
    }

    /// Decides what to do with a line on the tape.
    pub(crate) fn classify(&self, meta: &LineMeta) -> RecordOrder {
        match meta.position {
            0 => RecordOrder::Unrecorded,
            position if position <= self.position => RecordOrder::AlreadySent,
            // Whole events of the tract `journal` are never on the tape. A subscriber to it reads
            // every position from the record, even the next one.
            position if position == self.position + 1 && !self.with_journal => RecordOrder::Next,
            _ => RecordOrder::Gap,
        }
    }

    /// Takes note that the next line was sent.
    pub(crate) fn line_sent(&mut self, meta: &LineMeta) {
        // One position may have several messages; it is complete with the last one.
        if meta.is_last {
            self.position = meta.position;
        }
    }
}
