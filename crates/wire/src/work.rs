//! How the work went, over sessions.

use std::collections::BTreeMap;

use event::{SessionId, Time};
use serde::Serialize;
use utoipa::ToSchema;

/// How the work went in a time. Turns count when they began in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Work)]
pub struct WorkReport {
    pub sessions: u64,
    /// More sessions were active than are looked at; these are the newest.
    pub is_cut: bool,
    /// The median number of turns of a session.
    pub turns_per_session: Option<f64>,
    pub all: Effort,
    /// The oldest first.
    pub days: Vec<WorkGroup>,
    /// The most turns first.
    pub projects: Vec<WorkGroup>,
    /// The most frequent first.
    pub faults: Vec<FaultKind>,
}

/// The same of a day or a project.
#[derive(Serialize, ToSchema)]
pub struct WorkGroup {
    /// A day in the machine's time zone, or a project; `null` for none.
    pub key: Option<String>,
    #[serde(flatten)]
    pub effort: Effort,
}

#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Effort {
    pub turns: u64,
    /// Turns by how they ended: `done`, `failed`, `interrupted`, `died`, `replaced`, `open`.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub outcomes: BTreeMap<&'static str, u64>,
    pub tool_calls: u64,
    pub tool_failures: u64,
    /// The median time from prompt to end, of the turns that ended.
    pub turn_seconds: Option<f64>,
    pub approvals: u64,
    /// Time that agents waited for a person.
    pub waited_seconds: f64,
    /// Tests that passed after they had failed.
    pub test_fix_loops: u64,
}

/// Faults of one kind.
#[derive(Serialize, ToSchema)]
pub struct FaultKind {
    pub kind: &'static str,
    pub count: u64,
    #[schema(value_type = String, format = DateTime)]
    pub first_at: Time,
    #[schema(value_type = String, format = DateTime)]
    pub last_at: Time,
    /// The newest, without secrets.
    pub example: String,
    #[schema(value_type = String)]
    pub session_id: SessionId,
    pub seq: u64,
}
