//! What the user decided in advance about tool calls, and what agents were told of it.

use serde::{Deserialize, Serialize};

use super::impl_payload;

impl_payload! {
    RuleAdded RuleAdded
    RuleRemoved RuleRemoved
    RuleMatched RuleMatched
}

/// A rule is in force from now on. The id of this event is the id of the rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleAdded {
    /// The line as the user wrote it.
    pub rule: String,
    /// The file that it was imported from; absent if the user wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// A rule is not in force any more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleRemoved {
    pub rule_id: String,
}

/// Rules were about a tool call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleMatched {
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// `block`, `ask`, `warn` or `allow`: the strongest of the rules that are in force. Absent if
    /// only rules on trial matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What the agent was told: `deny`, `ask`, `allow` or `note`. Absent if it was told nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// Every rule that matched, the strongest first.
    pub rules: Vec<MatchedRule>,
}

/// One of the rules that matched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MatchedRule {
    pub rule_id: String,
    /// Its line, as it was then.
    pub rule: String,
    /// The rule is on trial: its match is noted, and the agent is told nothing of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_dry: bool,
}
