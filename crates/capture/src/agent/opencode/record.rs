//! The rows of OpenCode, as far as they are read.

use event::payload::TokenUsage;
use event::{Cost, Raw, Time};
use serde::Deserialize;

/// An event of the log, or a row of a table.
#[derive(Deserialize)]
pub(super) struct OpenCodeRow {
    #[serde(rename = "type")]
    pub kind: String,
    /// Of the row itself, of its message, and what that message says: for rows of tables.
    pub id: Option<String>,
    pub message: Option<String>,
    pub updated: Option<i64>,
    pub info: Option<Info>,
    pub data: Raw,
}

/// What an event of the log carries.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data<T> {
    #[serde(alias = "info", alias = "part")]
    pub about: T,
    #[serde(default)]
    pub time: Option<i64>,
}

/// What was taken away.
#[derive(Deserialize)]
pub(super) struct Removed {
    #[serde(rename = "messageID")]
    pub message_id: String,
}

#[derive(Deserialize)]
pub(super) struct OpenCodeSession {
    pub directory: Option<String>,
    pub title: Option<String>,
    pub version: Option<String>,
    pub model: Option<SessionModel>,
    pub revert: Option<Revert>,
    #[serde(default)]
    pub time: Times,
}

#[derive(Deserialize)]
pub(super) struct SessionModel {
    pub id: Option<String>,
}

/// The message from which on everything is taken back.
#[derive(Deserialize)]
pub(super) struct Revert {
    #[serde(rename = "messageID")]
    pub message_id: String,
}

/// A message without its parts.
#[derive(Deserialize)]
pub(super) struct Info {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub time: Times,
    #[serde(rename = "modelID")]
    pub model_id: Option<String>,
    /// True on an answer that sums up the talk; an object on a prompt.
    pub summary: Option<Raw>,
    pub finish: Option<String>,
    pub error: Option<OpenCodeFailure>,
}

impl Info {
    pub(super) fn is_summary(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.get() == "true")
    }
}

#[derive(Deserialize)]
pub(super) struct OpenCodeFailure {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub data: FailureData,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FailureData {
    pub message: String,
    pub is_retryable: Option<bool>,
}

/// Milliseconds, each where it makes sense.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct Times {
    pub created: Option<i64>,
    pub updated: Option<i64>,
    pub completed: Option<i64>,
    pub start: Option<i64>,
    pub end: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct OpenCodePart {
    #[serde(default)]
    pub id: String,
    #[serde(default, rename = "messageID")]
    pub message_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: String,
    /// Put there by the agent.
    #[serde(default)]
    pub synthetic: bool,
    #[serde(default)]
    pub ignored: bool,
    pub time: Option<Times>,
    #[serde(default, rename = "callID")]
    pub call_id: String,
    #[serde(default)]
    pub tool: String,
    pub state: Option<OpenCodeState>,
    pub tokens: Option<OpenCodeTokens>,
    pub cost: Option<Cost>,
    #[serde(default)]
    pub mime: Option<String>,
    #[serde(default)]
    pub filename: Option<String>,
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub hash: Option<String>,
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default)]
    pub attempt: u64,
    pub error: Option<OpenCodeFailure>,
    #[serde(default)]
    pub description: Option<String>,
}

/// How far a tool has got.
#[derive(Deserialize)]
pub(super) struct OpenCodeState {
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub input: Raw,
    pub output: Option<String>,
    pub error: Option<String>,
    #[serde(default)]
    pub metadata: OpenCodeMetadata,
    #[serde(default)]
    pub time: Times,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OpenCodeMetadata {
    /// Tools have metadata of any shape; one that does not fit says nothing.
    #[serde(deserialize_with = "parse_lenient")]
    pub exit: Option<i64>,
    #[serde(deserialize_with = "parse_lenient")]
    pub session_id: Option<String>,
    #[serde(deserialize_with = "parse_lenient")]
    pub output_path: Option<String>,
}

fn parse_lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    // The value is read whole before its type is tried: a failure in the middle of it would cost
    // the row.
    let raw = Raw::deserialize(deserializer)?;
    Ok(raw.read().ok())
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OpenCodeTokens {
    /// Without the cached ones.
    input: u64,
    /// Without reasoning.
    output: u64,
    reasoning: u64,
    cache: Cached,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cached {
    read: u64,
    write: u64,
}

impl OpenCodeTokens {
    pub(super) fn token_usage(&self, cost: Option<Cost>) -> TokenUsage {
        TokenUsage {
            input_tokens: Some(self.input),
            // OpenCode counts reasoning beside the output; in an event's usage it is a part of it.
            output_tokens: Some(self.output.saturating_add(self.reasoning)),
            cache_read_tokens: Some(self.cache.read),
            cache_creation_tokens: Some(self.cache.write),
            reasoning_tokens: Some(self.reasoning),
            cost,
            ..TokenUsage::default()
        }
    }
}

pub(super) fn parse_millis(millis: Option<i64>) -> Option<Time> {
    millis.map(Time::from_millis)
}
