//! The typed `data` of each kind.
//!
//! The types read tolerantly: a captured event may lack fields that a hosted session must give.
//! [`check_hosted`] has the table of those.

mod talk; // messages, context, questions to the user
mod work; // turns, steps, tools, approvals, waits
mod history; // compaction, snapshots, epochs, settings
mod tree; // child runs
mod rule; // rules of the user, and what came of them
mod thing; // sessions, artifacts, notes, records of unknown form
mod model; // what a model wrote about a session

pub use history::{
    CAPTURED, Compaction, CompactionStarted, EpochClosed, SavedEntry, SettingsChanged, Snapshot,
};
pub use model::{ModelFact, ModelWords};
pub use rule::{MatchedRule, RuleAdded, RuleMatched, RuleRemoved};
pub use talk::{
    AssistantDelta, AssistantMessage, AssistantThinking, Content, ContentPart, ContextAdded,
    ContextKind, Covers, ExternalInput, Handoff, InputStatus, Placement, UserPrompt,
};
pub use thing::{
    Artifact, ArtifactRecorded, ErrorRaised, Note, SessionExited, SessionMode, SessionParent,
    SessionStarted, StatusChanged, Unknown, WORKSPACE_FILE_REF,
};
pub use tree::{
    ChildBlocked, ChildCanceled, ChildCompleted, ChildFailed, ChildMerged, ChildMode,
    ChildProgressed, ChildRequested, ChildStarted,
};
pub use work::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, Decision, Effect, ModelUsage, Outcome,
    PromptCache, Retry, StepCompleted, StepStarted, StopReason, TokenUsage, ToolCall, ToolDelta,
    ToolResult, ToolStarted, TurnCompleted, TurnStarted, UsageReported, WaitResolved, WaitStarted,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::decode_string;
use crate::raw::members;
use crate::{BadPayload, Draft, Kind};

/// The type of the `data` of one kind.
pub trait Payload: Serialize + DeserializeOwned {
    const KIND: Kind;
}

/// Checks that a draft of a hosted session has the payload that its kind needs.
pub fn check_hosted(draft: &Draft) -> Result<(), BadPayload> {
    let bad = |path: &str, why: &str| BadPayload {
        kind: draft.kind.clone(),
        event_id: draft.id,
        path: path.to_owned(),
        why: why.to_owned(),
    };
    // First the table, for errors that say what is missing; then the shape, which would call the
    // same mistake a type error.
    let required = required(&draft.kind);
    if !required.is_empty() {
        let members = members(draft.data.get()).map_err(|_| bad(".", "it is not an object"))?;
        for field in required {
            let value = members.iter().find(|(name, _)| name == field).map(|(_, value)| value);
            match value {
                None => return Err(bad(field, "it is missing")),
                Some(value) if value.get() == "null" => return Err(bad(field, "it is null")),
                Some(value) if is_blank(value.get()) && !may_be_blank(&draft.kind, field) => {
                    return Err(bad(field, "it is blank"));
                }
                Some(_) => {}
            }
        }
    }
    check_shape(draft)
}

/// Whether the JSON is a string of white space only.
fn is_blank(json: &str) -> bool {
    decode_string(json).is_some_and(|text| text.trim().is_empty())
}

/// Whether a required field may be blank. The append rules report a blank answer with a better
/// error, and some providers send a call without arguments as an empty text.
fn may_be_blank(kind: &Kind, field: &str) -> bool {
    matches!(
        (kind, field),
        (Kind::AssistantMessage, "content") | (Kind::ToolCall, "input") | (Kind::Unknown, "raw")
    )
}

/// Returns the fields of `data` that a hosted session must give.
fn required(kind: &Kind) -> &'static [&'static str] {
    match kind {
        // The session and its turns.
        Kind::StatusChanged => &["status", "reason"],
        Kind::Error => &["message"],
        Kind::TurnStarted | Kind::TurnCompleted | Kind::StepStarted | Kind::StepCompleted => {
            &["agent_id"]
        }
        Kind::UsageReported => &["agent_id", "models"],
        Kind::Retry => &["agent_id", "scope", "attempt", "error"],
        // Messages. `message_id` and `block` are what live deltas are matched with.
        Kind::UserPrompt | Kind::ContextAdded => &["content"],
        Kind::AssistantThinking => &["message_id", "block"],
        Kind::AssistantMessage => &["message_id", "block", "content"],
        Kind::ExternalInput => &["request_id", "prompt", "status"],
        Kind::Handoff => &["target_agent_id"],
        // Calls, approvals and waits: each names the id by which its events are paired.
        Kind::ToolCall => &["call_id", "tool", "input", "message_id", "block"],
        Kind::ToolStarted => &["call_id", "tool", "idempotency_key", "effect"],
        // A blank call id is a result without a call; the append rules report it better.
        Kind::ToolResult => &["outcome"],
        Kind::ApprovalRequested => &["approval_id", "tool"],
        Kind::ApprovalResolved => &["approval_id", "decision"],
        Kind::ApprovalCanceled => &["approval_id", "reason"],
        Kind::WaitStarted | Kind::WaitResolved => &["wait_id"],
        // The history. A compaction without its cutoff would hide an unknown part of the session.
        Kind::CompactionStarted => &["strategy"],
        Kind::Compaction => &["strategy", "cutoff_seq", "cutoff_event_id", "entries"],
        Kind::Snapshot => &["strategy"],
        Kind::EpochClosed => &["epoch", "cause", "from_seq", "to_seq", "day", "stream", "segment"],
        // Child runs: both ids, so that the child's own session can be found from every event.
        Kind::ChildRequested => &["child_id", "child_session_id", "agent_id", "mode", "task"],
        Kind::ChildStarted => &["child_id", "child_session_id", "agent_id"],
        Kind::ChildBlocked => &["child_id", "child_session_id", "reason"],
        Kind::ChildFailed => &["child_id", "child_session_id", "error"],
        Kind::ChildProgressed | Kind::ChildCompleted | Kind::ChildCanceled | Kind::ChildMerged => {
            &["child_id", "child_session_id"]
        }
        Kind::ArtifactRecorded => &["artifact"],
        Kind::Note => &["text"],
        Kind::RuleAdded => &["rule"],
        Kind::RuleRemoved => &["rule_id"],
        Kind::RuleMatched => &["tool", "rules"],
        Kind::Unknown => &["raw"],
        _ => &[],
    }
}

macro_rules! shapes {
    ($($payload:ident)*) => {
        fn check_shape(draft: &Draft) -> Result<(), BadPayload> {
            match draft.kind {
                $($payload::KIND => draft.payload::<$payload>().map(drop),)*
                _ => Ok(()),
            }
        }
    };
}

shapes! {
    SessionStarted SessionExited StatusChanged ErrorRaised
    TurnStarted TurnCompleted StepStarted StepCompleted UsageReported Retry
    UserPrompt AssistantMessage AssistantThinking AssistantDelta ContextAdded ExternalInput Handoff
    ToolCall ToolStarted ToolDelta ToolResult
    ApprovalRequested ApprovalResolved ApprovalCanceled WaitStarted WaitResolved
    CompactionStarted Compaction Snapshot EpochClosed SettingsChanged
    ChildRequested ChildStarted ChildProgressed ChildBlocked ChildCompleted ChildFailed
    ChildCanceled ChildMerged
    ArtifactRecorded Note Unknown
    RuleAdded RuleRemoved RuleMatched
}

/// Implements [`Payload`] for types and their kinds.
macro_rules! impl_payload {
    ($($payload:ident $kind:ident)*) => {
        $(impl $crate::payload::Payload for $payload {
            const KIND: $crate::Kind = $crate::Kind::$kind;
        })*
    };
}
pub(crate) use impl_payload;
