//! Compaction, snapshots, epochs and settings.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::{
    AssistantThinking, Content, ContextKind, Placement, SessionParent, ToolCall, ToolResult,
    impl_payload,
};
use crate::{EventId, ProcessIdentity, Raw};

impl_payload! {
    CompactionStarted CompactionStarted
    Compaction Compaction
    Snapshot Snapshot
    EpochClosed EpochClosed
    SettingsChanged SettingsChanged
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionStarted {
    /// `offload`, `summarize`, `captured`, or a host's own.
    pub strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The share of `max_tokens` at which to compact, in percent or, below 1, as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_pct: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_tokens: Option<u64>,
}

/// The strategy of a compaction that the agent itself made.
pub const CAPTURED: &str = "captured";

/// The entries that replace the view of everything up to a cutoff.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Compaction {
    pub strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_pct: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_tokens: Option<u64>,
    /// The last event, of any kind, that the producer took into account.
    pub cutoff_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoff_event_id: Option<EventId>,
    pub entries: Vec<SavedEntry>,
    /// Bare messages of older producers; `entries` take precedence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<SavedEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_files: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified_files: Vec<String>,
}

impl Compaction {
    /// Returns the last event that a compaction at `seq` covers.
    ///
    /// A compaction of the agent covers all events before it. The agent does not know their
    /// numbers in our log, so it leaves the cutoff at 0.
    pub fn cutoff_seq_at(&self, seq: u64) -> u64 {
        match self.cutoff_seq {
            0 if self.strategy == CAPTURED && self.cutoff_event_id.is_none() => {
                seq.saturating_sub(1)
            }
            given => given,
        }
    }
}

/// A saved view, on top of a compaction or of the whole log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// `count`, `time` or `manual`.
    pub strategy: String,
    /// The compaction it is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_seq: Option<u64>,
    pub cutoff_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoff_event_id: Option<EventId>,
    pub entries: Vec<SavedEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_files: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified_files: Vec<String>,
}

/// One entry of a saved view: a reference to events where possible, else its own content.
///
/// `seq` alone refers to one event; `seq` and `to_seq` to all talk and context in between; `seq`
/// with `shown` to an event that has its text replaced; without `seq` the entry says all of it
/// itself, and `event_id` is where that comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Text that replaces the event's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// The artifact that holds the replaced text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_kind: Option<ContextKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<AssistantThinking>,
    /// The calls of an answer. Their results are the next entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The result that an entry with the role `tool` shows as `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
}

impl SavedEntry {
    /// Whether it says all of it itself.
    pub fn is_in_full(&self) -> bool {
        let says = self.content.is_some()
            || !self.thinking.is_empty()
            || !self.calls.is_empty()
            || self.result.is_some();
        self.seq.is_none() && says
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochClosed {
    pub epoch: u64,
    pub cause: String,
    pub from_seq: u64,
    pub to_seq: u64,
    pub day: String,
    pub stream: String,
    pub segment: String,
}

/// New values of a session's settings; an absent field leaves the setting unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsChanged {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Raw>,
    /// An empty list means no tools; an absent one leaves the tools unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Raw>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The title that the user gave the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The process that has the session open from now on.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "ProcessIdentity::read_known"
    )]
    pub process: Option<ProcessIdentity>,
    /// The session it was forked from, if that was found only after the session had started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionParent>,
}
