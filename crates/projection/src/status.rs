//! What a session is doing, whether it needs a person, and why we think so.
//!
//! [`StatusState`] is what the events of a session say; it is folded like every projection and can
//! be saved at any `seq`. [`ProcessEvidence`] is what was seen beside the log at one moment: an
//! agent's own registry, its process, its lock, its file. [`verdict`] weighs both at a given time.
//! What follows from the clock is never stored, so that a verdict read later is a verdict about
//! later.
//!
//! Not here: looking at processes and files (`daemon`), and how a status is printed.

mod running_command; // what runs below its process
mod process_evidence; // what was seen beside the log
mod pending; // questions to the user without an answer
mod state; // what the events say
mod shell_edit; // whether a command edits files itself
mod repetition; // commands that fail again and again
mod summary; // three lines for people
mod attention; // what is wanted of a person
mod group; // where lists show it
mod verdict; // both, weighed
mod work; // what the three lines are made of

use event::{Confidence, EventId, Time};
use serde::{Deserialize, Serialize};

pub use attention::{Attention, AttentionKind, attention};
pub use group::StatusGroup;
pub use process_evidence::{Life, Lock, Missing, Process, ProcessEvidence, Registry, RegistryWord};
pub use repetition::Repetition;
pub use running_command::RunningCommand;
pub use state::{SEEN, StatusChange, StatusState};
pub use summary::{SUMMARY_CHARS_MAX, StatusSummary, summarize};
pub use verdict::{stands_until, verdict};

/// What a session is doing. The order is that of priority: of several that have a standing sign,
/// the first one is the verdict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Exited,
    /// The user has to allow or to refuse a call.
    WaitingApproval,
    Running,
    /// The user has to answer a question, or to say what is next.
    Waiting,
    Idle,
    Unknown,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Exited => "exited",
            Status::WaitingApproval => "waiting_approval",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Idle => "idle",
            Status::Unknown => "unknown",
        }
    }
}

/// Why it is that status, in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent said that it ended.
    Shutdown,
    /// Its process, or what it leaves while it runs, is gone.
    Gone,
    /// A run without a person ends with its answer.
    RunOver,
    Permission,
    Turn,
    Retry,
    Compaction,
    /// The turn is over, and its background work goes on.
    Background,
    /// Its file grows.
    Growth,
    Question,
    /// It is ready for the next prompt.
    Prompt,
    /// Its process ended in the middle of a turn, and a new one has it open.
    Resumed,
    Quiet,
    /// It has answered, and nothing tells whether it goes on.
    Answered,
    /// A turn was open and quiet for so long that its state is unknown.
    Silent,
    Nothing,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Shutdown => "shutdown",
            Reason::Gone => "gone",
            Reason::RunOver => "run_over",
            Reason::Permission => "permission",
            Reason::Turn => "turn",
            Reason::Retry => "retry",
            Reason::Compaction => "compaction",
            Reason::Background => "background",
            Reason::Growth => "growth",
            Reason::Question => "question",
            Reason::Prompt => "prompt",
            Reason::Resumed => "resumed",
            Reason::Quiet => "quiet",
            Reason::Answered => "answered",
            Reason::Silent => "silent",
            Reason::Nothing => "nothing",
        }
    }
}

/// A status with its reasons, as of one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    pub status: Status,
    pub reason: Reason,
    pub since: Time,
    pub confidence: Confidence,
    /// What the status stands on, the strongest first; empty only if nothing is known.
    pub evidence: Vec<Evidence>,
    /// Evidence for another status, and why it does not count.
    pub overruled: Vec<Overruled>,
    pub turn_id: Option<String>,
    /// The approvals that are waited for, by their ids.
    pub pending_approvals: Vec<String>,
    pub pid: Option<u32>,
}

/// One thing that speaks for a status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Evidence {
    pub says: Status,
    pub reason: Reason,
    pub what: String,
    /// The source of the event, or `registry`, `process`, `lock`, `file`, `clock`.
    pub source: String,
    pub confidence: Confidence,
    pub at: Time,
    pub event_id: Option<EventId>,
    /// What would end it.
    pub ends: &'static str,
}

/// Evidence that does not count, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Overruled {
    pub evidence: Evidence,
    pub why: String,
}
