//! What a session's file says, as far as it is needed.

use event::{Cost, Raw, Time, json};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PiEntry<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub id: Option<String>,
    /// The entry before it on its branch; `null` at the root.
    #[serde(default)]
    pub parent_id: Option<String>,
    #[serde(default)]
    pub timestamp: Option<String>,
    #[serde(default, borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub model_id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub summary: Option<String>,
    #[serde(default)]
    pub tokens_before: Option<u64>,
    /// The path of the file that it was forked from.
    #[serde(default, alias = "branchedFrom")]
    parent_session: Option<String>,
}

impl PiEntry<'_> {
    pub(super) fn parse_time(&self) -> Option<Time> {
        self.timestamp.as_ref().and_then(|at| at.parse().ok())
    }

    /// The session that it was forked from.
    pub(super) fn parent_session(&self) -> Option<String> {
        let name = self.parent_session.as_ref()?.rsplit(['/', '\\']).next()?;
        Some(session_in(name.trim_end_matches(".jsonl")).to_owned())
    }
}

/// The session in the name of a file: what follows the time.
pub(super) fn session_in(stem: &str) -> &str {
    stem.split_once('_').map_or(stem, |(_, session)| session)
}

/// The session that a file was forked from, by its first line.
pub(super) fn parent_session(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<PiEntry<'_>>(line).ok()?.parent_session()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PiMessage<'a> {
    pub role: String,
    /// A text or parts.
    #[serde(default, borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub usage: Option<PiUsage>,
    #[serde(default)]
    pub stop_reason: Option<String>,
    #[serde(default)]
    pub error_message: Option<String>,
    #[serde(default)]
    pub response_id: Option<String>,
    #[serde(default)]
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub tool_name: Option<String>,
    #[serde(default)]
    pub is_error: bool,
    /// What a person ran.
    #[serde(default)]
    pub command: Option<String>,
    #[serde(default)]
    pub output: Option<String>,
}

/// A block of an answer.
#[derive(Deserialize)]
pub(super) struct PiBlock {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub thinking: Option<String>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub arguments: Raw,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct PiUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: Option<u64>,
    pub cost: Option<Price>,
}

#[derive(Deserialize)]
pub(super) struct Price {
    pub total: Cost,
}

/// A part of a content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PiPart {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub mime_type: Option<String>,
}

pub(super) fn parse_parts(content: Option<&RawValue>) -> Vec<PiPart> {
    let Some(content) = content else { return Vec::new() };
    match json::text(content) {
        Some(text) => vec![PiPart { kind: "text".to_owned(), text: Some(text), mime_type: None }],
        None => json::read(content.get()).unwrap_or_default(),
    }
}

/// All texts of a content, one after the other.
pub(super) fn join_texts(content: Option<&RawValue>) -> String {
    let texts: Vec<String> =
        parse_parts(content).into_iter().filter_map(|part| part.text).collect();
    texts.join("\n")
}
