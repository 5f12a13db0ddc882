//! Sessions themselves, artifacts, notes and records of unknown form.

use serde::{Deserialize, Serialize};

use super::impl_payload;
use crate::kind::open_list;
use crate::{EventId, Raw, SessionId};

impl_payload! {
    SessionStarted SessionStarted
    SessionExited SessionExited
    StatusChanged StatusChanged
    ErrorRaised Error
    ArtifactRecorded ArtifactRecorded
    Note Note
    Unknown Unknown
}

open_list! {
    /// The relation of a session to its parent.
    SessionMode {
        /// It inherits the parent's events up to a point.
        Fork = "fork",
        /// It continues the parent's work.
        Resume = "resume",
        /// It works for the parent.
        Child = "child",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionStarted {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The remote of the repository, as the agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// How the agent was started: `cli`, `sdk`, `exec` or another word of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_point: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionParent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SessionMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The session continued after it had exited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
}

/// The point in the parent session where this one begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionParent {
    pub session_id: SessionId,
    /// The last event of the parent that the session inherits; 0 for none.
    #[serde(default)]
    pub seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionExited {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusChanged {
    pub status: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Raw>,
}

/// The payload of `error`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRaised {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<bool>,
}

/// The kind of an artifact that only refers to a file of the workspace. Lists leave it out.
pub const WORKSPACE_FILE_REF: &str = "workspace_file_ref";

/// The description of an artifact; its bytes are stored beside the log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Artifact {
    pub id: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// `sha256:` and 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Raw>,
}

impl Artifact {
    /// Whether it only refers to a file of the workspace.
    pub fn is_file_ref(&self) -> bool {
        self.kind == WORKSPACE_FILE_REF
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArtifactRecorded {
    pub artifact: Artifact,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Raw>,
}

impl Note {
    /// The `about` of a note which tells that a compaction ended without a result.
    pub const COMPACTION_GIVEN_UP: &'static str = "compaction_given_up";
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unknown {
    /// The record, or null if it is too long; `metadata.record` then says where it is stored.
    pub raw: Raw,
    /// The agent's name for this type of record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_type: Option<String>,
    /// Why it was not understood: `torn`, or the error of the parser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
