//! The lines of Qwen's transcripts, as far as they are read.

use event::payload::{Content, ContentPart, TokenUsage};
use event::{Raw, Time};
use serde::Deserialize;

use crate::identity::EventIdentity;

/// One line of a transcript.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QwenLine {
    #[serde(rename = "type")]
    pub kind: String,
    pub subtype: Option<String>,
    pub uuid: String,
    pub parent_uuid: Option<String>,
    pub timestamp: Option<Time>,
    pub cwd: Option<String>,
    pub version: Option<String>,
    pub git_branch: Option<String>,
    pub model: Option<String>,
    #[serde(default)]
    pub is_sidechain: bool,
    #[serde(default)]
    pub message: QwenMessage,
    pub usage_metadata: Option<QwenCounts>,
    pub tool_call_result: Option<CallResult>,
    pub system_payload: Option<Raw>,
}

impl QwenLine {
    pub(super) fn identity(&self, part: &str) -> EventIdentity {
        EventIdentity::everywhere(&[&self.uuid, part])
    }

    /// What a person said. Bytes of pictures stay where they are.
    pub(super) fn user_content(&self) -> Content {
        let parts = self.message.parts.iter().map(|part| match &part.inline_data {
            Some(data) => ContentPart {
                kind: "image".to_owned(),
                mime_type: data.mime_type.clone(),
                ..ContentPart::default()
            },
            None => ContentPart {
                kind: "text".to_owned(),
                text: part.text.clone(),
                ..ContentPart::default()
            },
        });
        Content(parts.collect())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct QwenMessage {
    pub parts: Vec<QwenPart>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct QwenPart {
    pub text: Option<String>,
    pub thought: bool,
    pub function_call: Option<FunctionCall>,
    pub function_response: Option<Response>,
    pub inline_data: Option<InlineData>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InlineData {
    pub mime_type: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct FunctionCall {
    pub id: String,
    pub name: String,
    pub args: Raw,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Response {
    pub id: String,
    pub name: String,
    pub response: QwenOutput,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct QwenOutput {
    pub output: Option<Raw>,
    pub error: Option<Raw>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CallResult {
    pub status: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct QwenCounts {
    pub prompt_token_count: u64,
    pub candidates_token_count: u64,
    pub cached_content_token_count: u64,
    pub thoughts_token_count: u64,
}

impl QwenCounts {
    pub(super) fn token_usage(&self) -> TokenUsage {
        let (prompt, cached) = (self.prompt_token_count, self.cached_content_token_count);
        TokenUsage {
            // Cached ones are among those of the prompt, for models that count so.
            input_tokens: Some(prompt.checked_sub(cached).unwrap_or(prompt)),
            output_tokens: Some(self.candidates_token_count),
            cache_read_tokens: Some(cached),
            reasoning_tokens: Some(self.thoughts_token_count),
            ..TokenUsage::default()
        }
    }
}

/// What records of the agent itself carry, whichever it is.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct QwenPayload {
    pub ui_event: UiEvent,
    pub info: Compression,
    pub compressed_history: Vec<QwenMessage>,
    pub phase: Option<String>,
    pub raw_command: Option<String>,
    pub output_history_items: Vec<OutputItem>,
    pub display_text: Option<String>,
    pub custom_title: Option<String>,
    pub title_source: Option<String>,
    pub model_id: Option<String>,
    pub mode: Option<String>,
}

impl QwenPayload {
    /// Whether it is the result of a command that was to compress the history and did not.
    pub(super) fn is_compression_given_up(&self) -> bool {
        let results = self.output_history_items.iter().filter_map(|item| item.compression.as_ref());
        let mut statuses = results.filter_map(|result| result.compression_status);
        self.phase.as_deref() == Some("result") && statuses.any(|status| status != COMPRESSED)
    }
}

/// The status of a compression that succeeded. The others tell why it did not.
const COMPRESSED: u64 = 1;

/// What the result of a command shows.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct OutputItem {
    compression: Option<Compression>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Compression {
    pub original_token_count: Option<u64>,
    compression_status: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct UiEvent {
    #[serde(rename = "event.name")]
    pub name: Option<String>,
    pub function_name: Option<String>,
    pub decision: Option<String>,
    pub duration_ms: Option<u64>,
    pub subagent_name: Option<String>,
    pub model: Option<String>,
    pub response_id: Option<String>,
    pub input_token_count: u64,
    pub output_token_count: u64,
    pub cached_content_token_count: u64,
    pub thoughts_token_count: u64,
    pub error: Option<String>,
    pub error_message: Option<String>,
    pub status_code: Option<Raw>,
}

impl UiEvent {
    pub(super) fn token_usage(&self) -> TokenUsage {
        let counts = QwenCounts {
            prompt_token_count: self.input_token_count,
            candidates_token_count: self.output_token_count,
            cached_content_token_count: self.cached_content_token_count,
            thoughts_token_count: self.thoughts_token_count,
        };
        counts.token_usage()
    }
}
