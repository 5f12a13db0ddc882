//! Compaction, snapshots, epochs and settings.

use serde::{Deserialize, Serialize};

use super::{Content, ContextKind, Placement, SessionParent, impl_payload};
use crate::{EventId, Raw};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_pct: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_tokens: Option<u64>,
}

/// The strategy of a compaction that the agent itself did.
pub const CAPTURED: &str = "captured";

/// The view of everything up to a cutoff, replaced.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Compaction {
    pub strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_pct: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_tokens: Option<u64>,
    /// The last event the producer looked at, of any kind.
    pub cutoff_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoff_event_id: Option<EventId>,
    pub entries: Vec<SavedEntry>,
    /// Bare messages, as older producers give them; `entries` win.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<SavedEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_files: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified_files: Vec<String>,
}

impl Compaction {
    /// The last event a compaction at `seq` covers. What an agent did itself covers all before
    /// it: where that is in our log, only the log knows.
    pub fn cutoff_seq_at(&self, seq: u64) -> u64 {
        match self.cutoff_seq {
            0 if self.strategy == CAPTURED && self.cutoff_event_id.is_none() => {
                seq.saturating_sub(1)
            }
            said => said,
        }
    }
}

/// A view saved as a fact, on top of a compaction or of none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// `count`, `time` or `manual`.
    pub strategy: String,
    /// The compaction it stands on.
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

/// One entry of a saved view: a reference wherever an event says it already.
///
/// `seq` alone refers to one event; `seq` and `to_seq` to all talk and context in between; `seq`
/// with `shown` to an event whose text was replaced; without `seq` the entry speaks for itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Text that stands for the event's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// The artifact that holds the text that was replaced.
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

/// Any of a session's settings; what is absent stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsChanged {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Raw>,
    /// An empty list is a choice, an absent one is not.
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
    /// What a person calls the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The session it was forked from, where that was seen only after it had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionParent>,
}
