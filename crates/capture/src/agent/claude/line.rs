//! The shape of a record, as far as it is needed.

use event::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::record::RecordText;

/// One line of a transcript. What is large or varies stays as it is written.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaudeLine<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: RecordText<'a>,
    #[serde(borrow)]
    pub subtype: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub uuid: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub parent_uuid: Option<RecordText<'a>>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    pub session_id: Option<RecordText<'a>>,

    // What every record of the talk repeats beside it.
    #[serde(borrow)]
    pub version: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub cwd: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub git_branch: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub entrypoint: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub permission_mode: Option<RecordText<'a>>,

    // What sort of talk the record is.
    #[serde(borrow)]
    pub forked_from: Option<&'a RawValue>,
    pub is_sidechain: bool,
    pub is_meta: bool,
    pub is_compact_summary: bool,
    pub is_api_error_message: bool,
    #[serde(borrow)]
    pub prompt_id: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub turn_origin: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub prompt_source: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub request_id: Option<RecordText<'a>>,

    // What the record carries; each type fills its own fields.
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_use_result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub permission_decision: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_denial_kind: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub attachment: Option<&'a RawValue>,
    #[serde(borrow)]
    pub rendered: Option<&'a RawValue>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub compact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub api_error_status: Option<&'a RawValue>,
    pub retry_attempt: Option<u64>,
    #[serde(borrow)]
    pub operation: Option<RecordText<'a>>,

    // State records.
    #[serde(borrow)]
    pub summary: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub ai_title: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub custom_title: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub agent_name: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub relocated_cwd: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub pr_url: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub model_usage: Option<&'a RawValue>,
    pub has_unknown_model_cost: bool,
    #[serde(borrow)]
    pub hook_errors: Option<&'a RawValue>,
}

impl ClaudeLine<'_> {
    pub(super) fn parse_time(&self) -> Option<Time> {
        // A timestamp that is no time costs the event its time, not the whole record.
        parse_text(self.timestamp?)?.parse().ok()
    }
}

/// The session a record was copied from.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Copied<'a> {
    #[serde(borrow)]
    pub session_id: Option<RecordText<'a>>,
}

/// What a record that does not fit calls itself.
#[derive(Deserialize)]
pub(super) struct ClaudeLineKind<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: RecordText<'a>,
}

/// What an agent or a person said.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ClaudeMessage<'a> {
    #[serde(borrow)]
    pub id: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub model: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub stop_reason: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
}

/// A part of a message.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ClaudeBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: RecordText<'a>,
    #[serde(borrow)]
    pub text: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub thinking: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub signature: Option<RecordText<'a>>,
    /// What a redacted thought is kept as.
    #[serde(borrow)]
    pub data: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub id: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub name: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tool_use_id: Option<RecordText<'a>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    pub is_error: Option<bool>,
    #[serde(borrow)]
    pub source: Option<&'a RawValue>,
}

/// The parts of a message. A plain string is one text.
pub(super) fn parse_blocks(content: &RawValue) -> Result<Vec<ClaudeBlock<'_>>, serde_json::Error> {
    // The content of a prompt is a string; everything else is a list of blocks.
    if content.get().starts_with('"') {
        let text = serde_json::from_str(content.get())?;
        return Ok(vec![ClaudeBlock {
            kind: serde_json::from_str("\"text\"")?,
            text: Some(text),
            ..ClaudeBlock::default()
        }]);
    }
    serde_json::from_str(content.get())
}

/// What is beside a subagent's transcript.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaudeMeta {
    pub tool_use_id: Option<String>,
}

/// A JSON string, or `None` for any other value.
pub(super) fn parse_text(raw: &RawValue) -> Option<RecordText<'_>> {
    serde_json::from_str(raw.get()).ok()
}
