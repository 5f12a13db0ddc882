//! Turns, steps, tools, approvals and waits.

use serde::{Deserialize, Serialize};

use super::{ContentPart, impl_payload};
use crate::kind::open_list;
use crate::{Cost, Raw, Time};

impl_payload! {
    TurnStarted TurnStarted
    TurnCompleted TurnCompleted
    StepStarted StepStarted
    StepCompleted StepCompleted
    UsageReported UsageReported
    Retry Retry
    ToolCall ToolCall
    ToolStarted ToolStarted
    ToolDelta ToolDelta
    ToolResult ToolResult
    ApprovalRequested ApprovalRequested
    ApprovalResolved ApprovalResolved
    ApprovalCanceled ApprovalCanceled
    WaitStarted WaitStarted
    WaitResolved WaitResolved
}

/// The tokens and the cost of a model call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// The part of `cache_creation_tokens` that is cached for an hour and costs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_1h_tokens: Option<u64>,
    /// The part of `output_tokens` that is reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<bool>,
    /// How the request was served where that has a price of its own: `batch`, `fast`, `flex`,
    /// `priority`. None for the usual way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl TokenUsage {
    /// The mode that a tier or a speed names; none where it names the usual one.
    pub fn mode_from_tier(tier: Option<&str>) -> Option<String> {
        let usual = ["", "standard", "default", "auto"];
        tier.map(str::to_lowercase).filter(|tier| !usual.contains(&tier.as_str()))
    }
}

open_list! {
    /// Why a turn ended. A failed turn has none.
    StopReason {
        Completed = "completed",
        Handoff = "handoff",
        Waiting = "waiting",
        /// The user stopped it.
        Interrupted = "interrupted",
        /// The agent's process ended during the turn.
        Died = "died",
        MaxTurnsHit = "max_turns_hit",
        BudgetExhausted = "budget_exhausted",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TurnStarted {
    #[serde(default)]
    pub agent_id: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnCompleted {
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Hashes (SHA-256, hex) that show whether a provider's prompt cache could be used.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptCache {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_schema_hash: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepStarted {
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<PromptCache>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepCompleted {
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Sums that the agent keeps itself over all requests of a session so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageReported {
    pub agent_id: String,
    pub models: Vec<ModelUsage>,
}

/// What requests to one model have used and cost so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelUsage {
    pub model: String,
    pub usage: TokenUsage,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    pub agent_id: String,
    pub scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    pub attempt: u64,
    pub error: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ToolCall {
    #[serde(default)]
    pub call_id: String,
    #[serde(default)]
    pub tool: String,
    /// A string or an object, as the provider sent it.
    #[serde(default)]
    pub input: Raw,
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub block: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

open_list! {
    /// Whether a tool can safely run a second time.
    Effect {
        ReplaySafe = "replay_safe",
        Reconcile = "reconcile",
        NeverReplay = "never_replay",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolStarted {
    pub call_id: String,
    #[serde(default)]
    pub tool: String,
    #[serde(default)]
    pub idempotency_key: String,
    pub effect: Effect,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolDelta {
    pub call_id: String,
    pub tool: String,
    pub text: String,
    /// This text replaces all earlier ones.
    pub replaces: bool,
}

open_list! {
    /// How a call ended.
    Outcome {
        Ok = "ok",
        Error = "error",
        Rejected = "rejected",
        Canceled = "canceled",
        Lost = "lost",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolResult {
    #[serde(default)]
    pub call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Raw>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The text that the model got, if it was not `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The agent invented this result after a crash, to complete its history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repair: bool,
    /// The command continues in the background; an event that amends this one reports its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl Default for ToolResult {
    /// A successful call without output.
    fn default() -> ToolResult {
        ToolResult {
            call_id: String::new(),
            tool: None,
            idempotency_key: None,
            outcome: Outcome::Ok,
            output: None,
            parts: Vec::new(),
            error: None,
            shown: None,
            duration_ms: None,
            exit_code: None,
            repair: false,
            background: false,
        }
    }
}

impl ToolResult {
    /// Returns the output as text: a string as it is, any other value as JSON.
    pub fn output_text(&self) -> Option<String> {
        let output = self.output.as_ref().filter(|output| !output.is_null())?;
        Some(output.text().unwrap_or_else(|| output.get().to_owned()))
    }

    pub fn is_error(&self) -> bool {
        self.outcome != Outcome::Ok
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalRequested {
    pub approval_id: String,
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Raw>,
}

open_list! {
    /// The decision on an approval request.
    Decision {
        Allow = "allow",
        Deny = "deny",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApprovalResolved {
    pub approval_id: String,
    pub decision: Decision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `rule`, `person` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default)]
    pub automated: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalCanceled {
    pub approval_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub reason: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitStarted {
    pub wait_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitResolved {
    pub wait_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}
