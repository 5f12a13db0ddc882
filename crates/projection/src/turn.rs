//! One turn: from a prompt to the end of its answer, and everything people ask about it.

use std::collections::BTreeMap;

use event::{Event, Time};
use serde::{Deserialize, Serialize};

use crate::turn_machine::TurnOutcome;
use crate::usage::UsageTotals;

/// One turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// The turn's own id, else that of its first event.
    pub id: String,
    pub seq_from: u64,
    pub seq_to: u64,
    pub started_at: Time,
    /// When it ended, or when its last answer so far did.
    pub completed_at: Option<Time>,
    /// How it ended; absent while it is open.
    pub outcome: Option<TurnOutcome>,
    pub prompt: Option<String>,
    /// What was typed meanwhile and handed over in the middle.
    pub queued: Vec<String>,
    /// The last thing the model said, in short.
    pub answer: Option<String>,
    pub tools: BTreeMap<String, ToolCount>,
    pub approvals: Vec<Approval>,
    pub approval_count: u64,
    /// Errors, and results that are failures.
    pub errors: u64,
    /// Files in the order they were first touched.
    pub read_files: Vec<String>,
    pub modified_files: Vec<String>,
    /// Files that were to be modified, and are as they were.
    #[serde(default)]
    pub failed_files: Vec<String>,
    /// Time spent waiting for a person.
    pub waited_ms: u64,
    /// Its own use; what is inherited was used elsewhere.
    pub used: UsageTotals,
}

/// How often a tool was called, and how often that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ToolCount {
    pub calls: u64,
    pub failures: u64,
}

/// A question to the user whether a call may be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Approval {
    pub approval_id: String,
    pub tool: String,
    pub requested_at: Time,
    /// When it was answered or withdrawn.
    pub answered_at: Option<Time>,
    /// Absent while the question is open, and for one that was withdrawn.
    pub is_allowed: Option<bool>,
}

impl Turn {
    /// A turn of which nothing is known but its first event.
    pub(crate) fn begun_by(event: &Event) -> Turn {
        Turn {
            id: event.turn_id.clone().unwrap_or_else(|| event.id.to_string()),
            seq_from: event.seq,
            seq_to: event.seq,
            started_at: event.created_at,
            completed_at: None,
            outcome: None,
            prompt: None,
            queued: Vec::new(),
            answer: None,
            tools: BTreeMap::new(),
            approvals: Vec::new(),
            approval_count: 0,
            errors: 0,
            read_files: Vec::new(),
            modified_files: Vec::new(),
            failed_files: Vec::new(),
            waited_ms: 0,
            used: UsageTotals::default(),
        }
    }

    /// Whether it is more than a prompt, or the announcement of one.
    pub(crate) fn has_worked(&self) -> bool {
        self.answer.is_some() || !self.tools.is_empty()
    }
}
