//! A log as a run: turns, their steps, what went in, what came out, what it cost.
//!
//! Over the raw log: compaction is ignored and left paths are part of it. What has no place in a
//! step is listed, never dropped.
//!
//! Not here: runs of children (`run_tree`), what was learned (`episode`).

mod builder; // the log, event by event
mod step; // one answer while its events come in

use event::payload::{
    AssistantThinking, Content, ContextKind, Placement, StopReason, TokenUsage, ToolResult,
};
use event::{Cost, Event, EventId, Kind, Metadata, Raw, SessionId, Time};
use serde::Serialize;

use crate::ChildRun;
use crate::amend::in_place;
use builder::Builder;

/// Everything a session did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Run {
    pub session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The earliest and the latest instant of its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The last event it was made from; 0 for none.
    pub last_seq: u64,
    pub turns: Vec<RunTurn>,
    /// By time of request, then id.
    pub children: Vec<ChildRun>,
    /// Input without an answer yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_input: Vec<RunInput>,
    /// Events that found no place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Of all events shown, inherited ones included.
    pub total_cost: Cost,
    /// Of this run and those of all children that were loaded, every event counted once.
    pub tree_cost: Cost,
    /// What the session was started with.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// From a prompt to the end of what it led to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RunTurn {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    pub steps: Vec<RunStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One answer of the model and what its calls brought.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunStep {
    /// The answer's first event.
    pub step_id: EventId,
    pub at: Time,
    pub input: Vec<RunInput>,
    pub output: Content,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<AssistantThinking>,
    pub calls: Vec<RunCall>,
    pub results: Vec<RunResult>,
    /// Of the answer and its results.
    pub cost: Cost,
    pub metrics: RunMetrics,
}

/// An input of the model and its place in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunInput {
    pub event_id: EventId,
    pub seq: u64,
    pub kind: Kind,
    /// `user` or `tool`; what a provider ranked higher is shown as user.
    pub role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_kind: Option<ContextKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The call a result answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    pub content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunCall {
    pub event_id: EventId,
    pub seq: u64,
    pub call_id: String,
    pub tool: String,
    pub input: Raw,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunResult {
    pub event_id: EventId,
    pub seq: u64,
    pub result: ToolResult,
}

/// What a step took.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RunMetrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    pub retries: u64,
}

/// An event that found no place in any step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Skipped {
    pub event_id: EventId,
    pub seq: u64,
    pub kind: Kind,
    pub why: String,
}

/// The run of a session, from all its events in order. Children are listed without their own runs.
pub fn export_run(session_id: SessionId, events: &[Event]) -> Run {
    let mut builder = Builder::new(session_id);
    for told in in_place(events) {
        builder.apply(&told);
    }
    builder.finish(events.last().map_or(0, |event| event.seq))
}
