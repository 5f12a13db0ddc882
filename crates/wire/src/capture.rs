//! How it stands with each agent: where it is looked, what was found and understood, and its hooks.

use event::Time;
use serde::Serialize;
use utoipa::ToSchema;

/// One agent.
#[derive(Serialize, ToSchema)]
pub struct Adapter {
    pub provider: String,
    /// Where its records would be; those that are there.
    pub roots: Vec<AdapterRoot>,
    pub sessions: u64,
    /// Sessions whose file has news that is not in the journal.
    pub behind: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_event_at: Option<Time>,
    /// Its versions, those seen last first.
    pub versions: Vec<String>,
    pub events: u64,
    /// Records that no adapter understands. They are kept.
    pub unknown: Vec<UnknownRecord>,
    /// `null` for an agent without hooks.
    pub hooks: Option<AdapterHooks>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Root)]
pub struct AdapterRoot {
    pub path: String,
    pub is_there: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Unknown)]
pub struct UnknownRecord {
    pub version: Option<String>,
    pub record: String,
    pub count: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Hooks)]
pub struct AdapterHooks {
    pub path: String,
    /// Events that call us; none if they are not installed.
    pub events: Vec<String>,
    /// Whether the agent runs them; `null` where that is unknown.
    pub is_trusted: Option<bool>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_call_at: Option<Time>,
    pub problem: Option<String>,
}
