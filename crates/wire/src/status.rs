//! What a session is doing, and why we think so.

use std::borrow::Cow;

use event::{EventId, SessionId, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A verdict with its evidence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub project: Option<String>,
    pub title: Option<String>,
    /// `given`, `model` or `heuristic`.
    pub title_origin: Option<Cow<'static, str>>,
    /// `exited`, `waiting_approval`, `running`, `waiting`, `idle` or `unknown`.
    pub status: Cow<'static, str>,
    /// Where lists and counts put it: `needs_you`, `running`, `waiting`, `idle`, `unknown` or
    /// `exited`.
    pub group: Cow<'static, str>,
    pub reason: Cow<'static, str>,
    #[schema(value_type = String, format = DateTime)]
    pub since: Time,
    /// `high`, `medium` or `low`.
    pub confidence: String,
    pub evidence: Vec<Evidence>,
    pub turn_id: Option<String>,
    pub pending_approvals: Vec<String>,
    pub pid: Option<u32>,
    pub summary: StatusSummary,
    /// What it wants of the user, if anything.
    pub attention: Option<Attention>,
    /// The agent's file has news that is not in the journal.
    pub behind: bool,
    /// What speaks against it, where it is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overruled: Option<Vec<Overruled>>,
    /// What it was before, where it is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<StatusChange>>,
}

impl Status {
    /// The one way it is written.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("it has only names and texts in it")
    }
}

/// What a session wants of a person.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    /// `risky_approval`, `approval`, `question`, `failed`, `looping`, `stuck` or `finished`.
    pub want: Cow<'static, str>,
    /// The same in words.
    pub what: String,
    #[schema(value_type = String, format = DateTime)]
    pub since: Time,
    /// `high`, `medium` or `low`.
    pub confidence: String,
    /// Commands that help: `approvals`, `explain`, `hooks`, `resume`, `seen`, `show`.
    pub can: Vec<Cow<'static, str>>,
}

/// A sign that stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    pub what: String,
    pub source: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    pub confidence: String,
    /// What would end it.
    pub ends: Cow<'static, str>,
}

/// A sign that contradicts the verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Overruled {
    #[serde(flatten)]
    pub evidence: Evidence,
    pub says: Cow<'static, str>,
    pub why: String,
}

/// A status a session had.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Change)]
pub struct StatusChange {
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    pub status: Cow<'static, str>,
    pub because: Cow<'static, str>,
}

/// Three lines for people, without secrets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Summary)]
pub struct StatusSummary {
    pub current: String,
    pub recent: Option<String>,
    /// Whose words those are: `heuristic` or `model`.
    pub recent_origin: Option<Cow<'static, str>>,
    pub last_prompt: Option<String>,
}
