//! The newest events, encoded once for all followers.
//!
//! The buffer holds all events between two positions, within a limit. A follower that is further
//! behind reads from the journal.

use std::collections::VecDeque;

use axum::extract::ws::Utf8Bytes;
use event::payload::{ApprovalCanceled, ApprovalResolved};
use event::{Event, SessionId};
use journal::Recorded;
use wire::{RecordedEvent, StreamFrame};

/// The maximum number of events. The oldest are dropped: they are in the journal.
pub(crate) const RECENT_EVENTS_MAX: usize = 4_096;

/// The maximum number of bytes in the frames of the buffer.
pub(crate) const RECENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An event as followers get it.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    pub(crate) position: u64,
    pub(crate) session_id: SessionId,
    pub(crate) seq: u64,
    pub(crate) frame: Utf8Bytes,
    /// The second frame of an event that decides an approval.
    pub(crate) decision: Option<Utf8Bytes>,
}

/// The maximum length of one frame. Of a longer event followers get the beginnings of its texts; if
/// that is still too long, only its ids.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Characters of each text in such an event.
const FRAME_TEXT_CHARS: usize = 16_384;

#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    events: VecDeque<StreamEvent>,
    bytes: usize,
    /// Everything behind this position is here.
    after: u64,
    tail: u64,
}

impl StreamEvent {
    pub(crate) fn from_recorded(recorded: &Recorded) -> StreamEvent {
        let Recorded { position, event } = recorded;
        StreamEvent {
            position: *position,
            session_id: event.session_id.clone(),
            seq: event.seq,
            frame: event_frame(*position, event).into(),
            decision: decision(event, *position).map(|frame| frame.encode().into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.frame.len() + self.decision.as_ref().map_or(0, |frame| frame.len())
    }
}

impl ReplayBuffer {
    /// Creates an empty buffer for a journal whose last event is at `tail`.
    pub(crate) fn new(tail: u64) -> ReplayBuffer {
        ReplayBuffer { events: VecDeque::new(), bytes: 0, after: tail, tail }
    }

    pub(crate) fn push(&mut self, told: StreamEvent) {
        self.tail = told.position;
        self.bytes += told.len();
        self.events.push_back(told);
        while self.events.len() > RECENT_EVENTS_MAX || self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.len();
            // A follower before this position has to read from the journal.
            self.after = oldest.position;
        }
    }

    /// Drops everything up to this position, because there is no follower.
    pub(crate) fn skip_to(&mut self, position: u64) {
        *self = ReplayBuffer::new(position);
    }

    pub(crate) fn after(&self) -> u64 {
        self.after
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns the events after a position; `None` if the oldest of them were dropped.
    pub(crate) fn events_after(&self, position: u64) -> Option<impl Iterator<Item = &StreamEvent>> {
        let from = self.events.partition_point(|told| told.position <= position);
        (position >= self.after).then(|| self.events.iter().skip(from))
    }
}

fn event_frame(position: u64, event: &Event) -> String {
    let encoded = event.encode();
    if encoded.len() <= FRAME_BYTES_MAX {
        return StreamFrame::of_event(position, &encoded);
    }
    // Long events are mostly long texts. A list of many short ones is not shortened by this.
    let cut = RecordedEvent::cut(event.clone(), FRAME_TEXT_CHARS);
    if cut.get().len() <= FRAME_BYTES_MAX {
        return StreamFrame::of_event(position, cut.get());
    }
    // With the ids a client can still read the event through the API.
    let short = serde_json::json!({
        "id": event.id,
        "session_id": event.session_id,
        "seq": event.seq,
        "kind": event.kind.as_str(),
        "created_at": event.created_at,
        "truncated": true,
    });
    StreamFrame::of_event(position, &short.to_string())
}

/// Returns the frame for an event that decides an approval.
fn decision(event: &Event, position: u64) -> Option<StreamFrame> {
    let session_id = event.session_id.clone();
    if let Some(resolved) = event.readable::<ApprovalResolved>() {
        return Some(StreamFrame::ApprovalDecision {
            session_id,
            approval_id: resolved.approval_id,
            decision: resolved.decision.to_string(),
            by: resolved.by,
            reason: resolved.reason,
            position,
        });
    }
    let canceled = event.readable::<ApprovalCanceled>()?;
    Some(StreamFrame::ApprovalDecision {
        session_id,
        approval_id: canceled.approval_id,
        decision: "canceled".to_owned(),
        by: None,
        reason: Some(canceled.reason),
        position,
    })
}
