//! What is appended, and the receipt for it.

use event::{Draft, EventId, SessionId, Time};

use event::payload::SessionMode;

/// Events of any number of sessions that are recorded in one transaction or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) mode: AppendMode,
    pub(crate) steps: Vec<BatchStep>,
    pub(crate) expected: Vec<ExpectedTail>,
    pub(crate) source: Option<SourceMove>,
}

/// One item of a batch, in order.
#[derive(Debug, Clone)]
pub(crate) enum BatchStep {
    /// An event, and the `seq` it brings.
    Draft(Draft, Option<u64>),
    Ancestry(Ancestry),
}

/// The tail that the caller expects a session to have.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedTail {
    pub(crate) session_id: SessionId,
    pub(crate) seq: u64,
    /// The event that has to be the last one; any if absent.
    pub(crate) event_id: Option<EventId>,
}

/// Which rules an append follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendMode {
    /// Events of a session that the caller hosts: a batch that breaks a rule is refused.
    Hosted,
    /// Events that were captured elsewhere: they happened, so no meaning is a reason to refuse
    /// them.
    Observed,
}

/// The checkpoint of a source: how far it was read before and after the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceMove {
    pub source_id: String,
    /// Where reading began; `None` for a source never read before.
    pub from: Option<String>,
    pub to: String,
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ancestry {
    pub session_id: SessionId,
    pub parent_session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<SessionMode>,
    pub fork_point_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fork_point_event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Generations above; computed, and ignored on import.
    #[serde(default)]
    pub depth: u32,
    pub created_at: Time,
}

impl Ancestry {
    /// A session that comes from no other.
    pub fn root(session_id: SessionId, created_at: Time) -> Ancestry {
        Ancestry {
            session_id,
            parent_session_id: None,
            mode: None,
            fork_point_seq: 0,
            fork_point_event_id: None,
            label: None,
            reason: None,
            depth: 0,
            created_at,
        }
    }
}

/// The result of an append, event by event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub events: Vec<EventReceipt>,
}

/// The result for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventReceipt {
    pub id: EventId,
    pub seq: u64,
    pub position: u64,
    pub outcome: AppendOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is new.
    Recorded,
    /// The same fact was recorded before; `differs` says whether its content is another.
    AlreadyRecorded { differs: bool },
    /// Its session was deleted, and reading the source again does not bring it back.
    Ignored,
}

impl Batch {
    pub fn hosted() -> Batch {
        Batch::new(AppendMode::Hosted)
    }

    pub fn observed() -> Batch {
        Batch::new(AppendMode::Observed)
    }

    fn new(mode: AppendMode) -> Batch {
        Batch { mode, steps: Vec::new(), expected: Vec::new(), source: None }
    }

    #[must_use]
    pub fn with(mut self, draft: Draft) -> Batch {
        self.steps.push(BatchStep::Draft(draft, None));
        self
    }

    #[must_use]
    pub fn with_all(mut self, drafts: impl IntoIterator<Item = Draft>) -> Batch {
        self.steps.extend(drafts.into_iter().map(|draft| BatchStep::Draft(draft, None)));
        self
    }

    /// Adds an event with its `seq`, which has to be the next of its session.
    #[must_use]
    pub fn with_numbered(mut self, draft: Draft, seq: u64) -> Batch {
        self.steps.push(BatchStep::Draft(draft, Some(seq)));
        self
    }

    /// Refuses the batch unless the session ends at `seq`.
    #[must_use]
    pub fn expecting(mut self, session_id: SessionId, seq: u64) -> Batch {
        self.expected.push(ExpectedTail { session_id, seq, event_id: None });
        self
    }

    /// Refuses the batch unless the session ends at `seq` with this event. For a batch that is
    /// submitted before the one it builds on is answered.
    #[must_use]
    pub fn expecting_event(mut self, session_id: SessionId, seq: u64, event_id: EventId) -> Batch {
        self.expected.push(ExpectedTail { session_id, seq, event_id: Some(event_id) });
        self
    }

    /// Moves the checkpoint of a source in the same transaction as the events read from it.
    #[must_use]
    pub fn from_source(mut self, source: SourceMove) -> Batch {
        self.source = Some(source);
        self
    }

    /// Adds the ancestry of a session, ahead of its own events in this batch.
    #[must_use]
    pub fn with_ancestry(mut self, ancestry: Ancestry) -> Batch {
        self.steps.push(BatchStep::Ancestry(ancestry));
        self
    }
}
