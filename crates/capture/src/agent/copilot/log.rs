//! What a log says, as far as it is needed.

use event::{Raw, Time, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::identity::EventIdentity;
use crate::thread_state::SessionSettings;

/// An event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotLine<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
    #[serde(default, borrow)]
    timestamp: Option<&'a RawValue>,
    /// The subagent that it belongs to.
    #[serde(default)]
    pub agent_id: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl<'a> CopilotLine<'a> {
    pub(super) fn parse_time(&self) -> Option<Time> {
        self.timestamp.and_then(|at| at.get().trim_matches('"').parse().ok())
    }

    pub(super) fn agent_id(&self) -> Option<&str> {
        self.agent_id.as_deref()
    }

    pub(super) fn parse_data<T: Deserialize<'a>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.get())
    }

    /// The event's id is the same in every copy; a part tells what was made of it.
    pub(super) fn identity(&self, part: &str) -> EventIdentity {
        EventIdentity::everywhere(&[&self.id, part])
    }
}

/// The session in the first event of a log. In a fork that is the session it was copied from.
pub(super) fn first_session(head: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Start {
        session_id: String,
    }
    let line = first_line(head)?;
    let line: CopilotLine<'_> = serde_json::from_str(&line).ok()?;
    line.parse_data::<Start>().ok().map(|start| start.session_id)
}

/// What copies of a log have in common.
pub(super) fn first_id(head: &[u8]) -> Option<String> {
    let line = first_line(head)?;
    serde_json::from_str::<CopilotLine<'_>>(&line).ok().map(|line| line.id)
}

/// The session that a fork was made of, in the words that it begins its own part with: `Forked from
/// one as two.`, where a session that has a title is `"title" (one)`. A fork of a fork has copied
/// such words of others.
pub(super) fn forked_from<'a>(words: &'a str, own: &str) -> Option<&'a str> {
    let origin = words.strip_prefix("Forked from ")?;
    // A title may contain spaces, an id does not.
    let (id, rest) = match origin.strip_prefix('"') {
        Some(titled) => behind_title(titled)?,
        None => origin.split_once(' ')?,
    };
    // The words that a fork of a fork has copied name another copy.
    rest.contains(own).then_some(id)
}

/// An id and what follows it, behind a title that may have quotes and brackets in it, too.
fn behind_title(titled: &str) -> Option<(&str, &str)> {
    let goes_on = |rest: &str| rest.starts_with(" as ") || rest.starts_with(" before event ");
    let ends = titled.match_indices("\" (").map(|(at, mark)| &titled[at + mark.len()..]);
    ends.filter_map(|id| id.split_once(')')).find(|(_, rest)| goes_on(rest))
}

fn first_line(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// What is said of a session when it begins, goes on or changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotSession {
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    copilot_version: Option<String>,
    #[serde(default, alias = "newModel")]
    selected_model: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    context: Option<Context>,
    // Some events have these fields without the `context` around them.
    #[serde(flatten)]
    bare: Context,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Context {
    cwd: Option<String>,
    branch: Option<String>,
    repository: Option<String>,
}

impl CopilotSession {
    pub(super) fn settings(self) -> SessionSettings {
        let context = self.context.unwrap_or(self.bare);
        SessionSettings {
            agent_version: self.copilot_version,
            model: self.selected_model,
            cwd: context.cwd,
            branch: context.branch,
            remote: context.repository,
            title: self.title,
            ..SessionSettings::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserMessage<'a> {
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub delivery: Option<String>,
    #[serde(default)]
    pub interaction_id: Option<String>,
    #[serde(default, borrow)]
    attachments: Option<&'a RawValue>,
}

impl UserMessage<'_> {
    /// The paths of what was attached.
    pub(super) fn attachments(&self) -> Vec<String> {
        #[derive(Deserialize)]
        struct Attachment {
            path: Option<String>,
        }
        let attachments: Option<Vec<Attachment>> =
            self.attachments.and_then(|raw| json::read(raw.get()).ok());
        attachments.into_iter().flatten().filter_map(|attachment| attachment.path).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotAnswer {
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub reasoning_text: Option<String>,
    #[serde(default)]
    pub tool_requests: Option<Vec<ToolRequest>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolRequest {
    pub tool_call_id: String,
    #[serde(default, alias = "toolName")]
    pub name: String,
    #[serde(default)]
    pub arguments: Raw,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCompleted {
    #[serde(default)]
    pub tool_call_id: String,
    /// `resumed` for what was made up after a crash.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub success: bool,
    #[serde(default)]
    pub result: Option<ToolOutput>,
    #[serde(default)]
    pub error: Option<ToolError>,
    #[serde(default)]
    pub shell_execution: Option<ShellExecution>,
}

#[derive(Deserialize)]
pub(super) struct ToolOutput {
    #[serde(default)]
    pub content: Option<Raw>,
}

#[derive(Deserialize)]
pub(super) struct ToolError {
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub code: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShellExecution {
    pub exit_code: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageRecord {
    pub usage: CopilotUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotUsage {
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub api_call_id: Option<String>,
    #[serde(default)]
    pub accounting: Option<Accounting>,
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default)]
    pub cache_read_tokens: u64,
    #[serde(default)]
    pub cache_write_tokens: u64,
    #[serde(default)]
    pub reasoning_tokens: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accounting {
    pub source_session_id: String,
    pub usage_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequested {
    pub request_id: String,
    pub permission_request: Raw,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Permission {
    pub kind: Option<String>,
    pub tool_call_id: Option<String>,
    pub intention: Option<String>,
    // Each kind of request names what it is about in a field of its own.
    #[serde(alias = "fileName", alias = "url", alias = "path")]
    pub full_command_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionCompleted {
    pub request_id: String,
    pub result: PermissionResult,
    #[serde(default)]
    pub decision_source: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct PermissionResult {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub feedback: Option<String>,
}

/// An error, a warning, an information or a shutdown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TelemetryFact {
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub summary: Option<String>,
    #[serde(default)]
    pub error_type: Option<String>,
    /// What the provider's server answered.
    #[serde(default)]
    pub status_code: Option<Raw>,
    #[serde(default)]
    pub info_type: Option<String>,
    #[serde(default)]
    pub warning_type: Option<String>,
    #[serde(default)]
    pub shutdown_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compacted {
    #[serde(default)]
    pub success: Option<bool>,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub summary_content: Option<String>,
    #[serde(default)]
    pub pre_compaction_tokens: Option<u64>,
    #[serde(default)]
    pub current_tokens: Option<u64>,
    #[serde(default)]
    pub token_limit: Option<u64>,
    #[serde(default)]
    pub compaction_tokens_used: Option<CopilotUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotSubagent {
    #[serde(default)]
    pub tool_call_id: String,
    #[serde(default)]
    pub agent_name: Option<String>,
    #[serde(default)]
    pub agent_description: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub error: Option<String>,
}

/// What some calls say in words.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CopilotCallText {
    /// What a subagent is to do.
    pub prompt: Option<String>,
    /// What a person is asked.
    pub question: Option<String>,
}
