//! The newest events, encoded once for everybody who follows.
//!
//! It holds everything behind one position up to another, within a limit; who stands before it
//! reads from the journal.

use std::collections::VecDeque;

use axum::extract::ws::Utf8Bytes;
use event::payload::{ApprovalCanceled, ApprovalResolved};
use event::{Event, SessionId};
use journal::Recorded;
use wire::{Frame, RecordedEvent};

/// Events held. With more, the oldest goes: it is in the journal.
pub(crate) const RECENT_EVENTS_MAX: usize = 4_096;

/// Bytes of them.
pub(crate) const RECENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An event as followers get it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) position: u64,
    pub(crate) session_id: SessionId,
    pub(crate) seq: u64,
    pub(crate) frame: Utf8Bytes,
    /// What it decides, if somebody waited for that.
    pub(crate) decision: Option<Utf8Bytes>,
}

/// Bytes of one frame. Of an event that is longer, followers get what its texts begin with; if that
/// is still too much, where it is.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Characters of each text in such an event.
const FRAME_TEXT_CHARS: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Recent {
    events: VecDeque<Told>,
    bytes: usize,
    /// Everything behind this position is here.
    after: u64,
    tail: u64,
}

impl Told {
    pub(crate) fn of(recorded: &Recorded) -> Told {
        let Recorded { position, event } = recorded;
        Told {
            position: *position,
            session_id: event.session_id.clone(),
            seq: event.seq,
            frame: frame(*position, event).into(),
            decision: decision(event, *position).map(|frame| frame.encode().into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.frame.len() + self.decision.as_ref().map_or(0, |frame| frame.len())
    }
}

impl Recent {
    /// Nothing, of a journal that has come to this position.
    pub(crate) fn new(tail: u64) -> Recent {
        Recent { events: VecDeque::new(), bytes: 0, after: tail, tail }
    }

    pub(crate) fn push(&mut self, told: Told) {
        self.tail = told.position;
        self.bytes += told.len();
        self.events.push_back(told);
        while self.events.len() > RECENT_EVENTS_MAX || self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.len();
            self.after = oldest.position;
        }
    }

    /// Forgets everything up to here, which nobody waits for.
    pub(crate) fn pass(&mut self, position: u64) {
        *self = Recent::new(position);
    }

    pub(crate) fn after(&self) -> u64 {
        self.after
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Everything behind a position; `None` if some of it is no longer here.
    pub(crate) fn behind(&self, position: u64) -> Option<impl Iterator<Item = &Told>> {
        let from = self.events.partition_point(|told| told.position <= position);
        (position >= self.after).then(|| self.events.iter().skip(from))
    }
}

fn frame(position: u64, event: &Event) -> String {
    let encoded = event.encode();
    if encoded.len() <= FRAME_BYTES_MAX {
        return Frame::of_event(position, &encoded);
    }
    let cut = RecordedEvent::cut(event.clone(), FRAME_TEXT_CHARS);
    if cut.get().len() <= FRAME_BYTES_MAX {
        return Frame::of_event(position, cut.get());
    }
    let short = serde_json::json!({
        "id": event.id,
        "session_id": event.session_id,
        "seq": event.seq,
        "kind": event.kind.as_str(),
        "created_at": event.created_at,
        "truncated": true,
    });
    Frame::of_event(position, &short.to_string())
}

/// What an event says of a request somebody may wait for.
fn decision(event: &Event, position: u64) -> Option<Frame> {
    let session_id = event.session_id.clone();
    if let Some(resolved) = event.readable::<ApprovalResolved>() {
        return Some(Frame::ApprovalDecision {
            session_id,
            approval_id: resolved.approval_id,
            decision: resolved.decision.to_string(),
            by: resolved.by,
            reason: resolved.reason,
            position,
        });
    }
    let canceled = event.readable::<ApprovalCanceled>()?;
    Some(Frame::ApprovalDecision {
        session_id,
        approval_id: canceled.approval_id,
        decision: "canceled".to_owned(),
        by: None,
        reason: Some(canceled.reason),
        position,
    })
}
