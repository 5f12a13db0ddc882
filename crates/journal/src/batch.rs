//! What is appended, and what comes back.

use event::{Draft, EventId, SessionId, Time};

use event::payload::SessionMode;

/// Events that become part of the record together or not at all, over any number of sessions.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) door: Door,
    pub(crate) steps: Vec<Step>,
    pub(crate) expected: Vec<Ending>,
    pub(crate) source: Option<SourceMove>,
}

/// One thing a batch adds, in order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// An event, and the number it brings.
    Draft(Draft, Option<u64>),
    Ancestry(Ancestry),
}

/// Where a session is expected to end.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) session_id: SessionId,
    pub(crate) seq: u64,
    /// The event that has to stand there; any if absent.
    pub(crate) event_id: Option<EventId>,
}

/// How events come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Sessions we host: the caller can be told no.
    Hosted,
    /// What was seen elsewhere: it is never refused for its meaning.
    Observed,
}

/// A source and how far it was read, before and after the batch.
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
    /// Generations above; computed, never believed on import.
    #[serde(default)]
    pub depth: u32,
    pub created_at: Time,
}

/// What became of a batch, draft by draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub events: Vec<Appended>,
}

/// What became of one draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    pub id: EventId,
    pub seq: u64,
    pub position: u64,
    pub outcome: Recording,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// It is a new row.
    Recorded,
    /// The same fact was there before; `differs` tells whether this telling was another one.
    AlreadyRecorded { differs: bool },
    /// Its session was deleted, and a second reading does not bring it back.
    Ignored,
}

impl Batch {
    pub fn hosted() -> Batch {
        Batch::new(Door::Hosted)
    }

    pub fn observed() -> Batch {
        Batch::new(Door::Observed)
    }

    fn new(door: Door) -> Batch {
        Batch { door, steps: Vec::new(), expected: Vec::new(), source: None }
    }

    #[must_use]
    pub fn with(mut self, draft: Draft) -> Batch {
        self.steps.push(Step::Draft(draft, None));
        self
    }

    #[must_use]
    pub fn with_all(mut self, drafts: impl IntoIterator<Item = Draft>) -> Batch {
        self.steps.extend(drafts.into_iter().map(|draft| Step::Draft(draft, None)));
        self
    }

    /// An event that brings its number; it must be the next of its session.
    #[must_use]
    pub fn with_numbered(mut self, draft: Draft, seq: u64) -> Batch {
        self.steps.push(Step::Draft(draft, Some(seq)));
        self
    }

    /// Refuses the batch unless the session ends at `seq`.
    #[must_use]
    pub fn expecting(mut self, session_id: SessionId, seq: u64) -> Batch {
        self.expected.push(Ending { session_id, seq, event_id: None });
        self
    }

    /// Refuses the batch unless the session ends at `seq` with this very event: for what was
    /// submitted on top of something whose outcome is not known yet.
    #[must_use]
    pub fn behind(mut self, session_id: SessionId, seq: u64, event_id: EventId) -> Batch {
        self.expected.push(Ending { session_id, seq, event_id: Some(event_id) });
        self
    }

    /// Moves the position of a source together with the events read from it.
    #[must_use]
    pub fn from_source(mut self, source: SourceMove) -> Batch {
        self.source = Some(source);
        self
    }

    /// Says where a session comes from, before any event of its own in this batch.
    #[must_use]
    pub fn with_ancestry(mut self, ancestry: Ancestry) -> Batch {
        self.steps.push(Step::Ancestry(ancestry));
        self
    }
}
