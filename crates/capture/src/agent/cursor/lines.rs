//! Cursor's transcripts as lines: roles, text, calls and ends of turns.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, Outcome, SessionMode, StopReason, ToolCall,
    ToolResult,
};
use event::{Raw, Time};
use serde::{Deserialize, Serialize};

use super::prompt::Prompt;
use crate::agent::Parser;
use crate::event_builder::{EventBuilder, argument};
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::thread_state::SessionSettings;

pub(super) struct CursorTranscript {
    /// The session this one works for.
    parent: Option<String>,
    state: CursorLineState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CursorLineState {
    /// The last time that was told: that of all that follows.
    at: Option<Time>,
}

#[derive(Deserialize)]
struct CursorLine {
    role: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<Raw>,
    status: Option<String>,
    error: Option<Raw>,
}

#[derive(Deserialize)]
struct CursorMessage {
    /// A text, or a list of parts.
    content: Raw,
}

#[derive(Deserialize)]
struct CursorPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    input: Raw,
    tool_use_id: Option<String>,
    content: Option<Raw>,
    #[serde(default)]
    is_error: bool,
}

/// Ends of a turn that the user caused.
const INTERRUPTED: &[&str] = &["aborted", "cancelled", "canceled", "interrupted"];

impl CursorTranscript {
    pub(super) fn new(parent: Option<String>, saved: Option<&str>) -> CursorTranscript {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        CursorTranscript { parent, state }
    }
}

impl Parser for CursorTranscript {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        if let Some(parent) = &self.parent {
            builder.set_parent(parent, SessionMode::Child, None);
        }
        let line: CursorLine = match record.read() {
            Ok(line) => line,
            Err(error) => return builder.add_unknown(record, "line", Some(&error.to_string())),
        };
        match (line.role.as_deref(), line.kind.as_deref()) {
            (Some(role @ ("user" | "assistant")), _) => match parse_parts(&line) {
                Ok(parts) if role == "user" => self.parse_user(&parts, record, builder),
                Ok(parse_parts) => self.assistant(&parse_parts, record, builder),
                Err(error) => builder.add_unknown(record, role, Some(&error.to_string())),
            },
            (_, Some("turn_ended")) => self.parse_end(&line, builder),
            (role, kind) => builder.add_unknown(record, kind.or(role).unwrap_or("line"), None),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl CursorTranscript {
    fn parse_user(
        &mut self,
        parts: &[CursorPart],
        record: &SourceRecord<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let texts = parts.iter().filter(|part| part.kind == "text");
        let text = texts.map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n");
        let is_child = self.parent.is_some();
        if !text.is_empty() {
            tell_prompt(&text, is_child, &mut self.state.at, builder);
        }
        for (number, part) in parts.iter().enumerate() {
            match part.kind.as_str() {
                "text" => {}
                "tool_result" => self.parse_result(part, number, builder),
                kind => builder.add_unknown(record, &format!("user {kind}"), None),
            }
        }
    }

    fn assistant(
        &mut self,
        parts: &[CursorPart],
        record: &SourceRecord<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = self.state.at;
        // Lines have no ids: the place in the file names the message.
        let message_id = builder.record_name();
        let mut block = 0;
        for (number, part) in parts.iter().enumerate() {
            let name = number.to_string();
            let identity = EventIdentity::in_session(&[&message_id, &name]);
            match part.kind.as_str() {
                "text" if part.text.trim().is_empty() => continue,
                "text" => {
                    let message = AssistantMessage {
                        message_id: message_id.clone(),
                        block,
                        content: Content::text(part.text.as_str()),
                        ..AssistantMessage::default()
                    };
                    builder.add_message(identity, at, &message);
                }
                "thinking" | "reasoning" => {
                    let words = if part.thinking.is_empty() { &part.text } else { &part.thinking };
                    let thinking = AssistantThinking {
                        message_id: message_id.clone(),
                        block,
                        thinking: words.clone(),
                        ..AssistantThinking::default()
                    };
                    builder.thinking(identity, at, &thinking);
                }
                "tool_use" => {
                    // No line names the session's folder, but calls of the shell do.
                    if let Some(cwd) = argument(&part.input, "working_directory") {
                        builder.settings(
                            at,
                            SessionSettings { cwd: Some(cwd), ..SessionSettings::default() },
                        );
                    }
                    let call = ToolCall {
                        // No result can name a call without an id: its place only tells it apart
                        // from the others.
                        call_id: part.id.clone().unwrap_or(format!("{message_id}#{number}")),
                        tool: part.name.clone(),
                        input: part.input.clone(),
                        message_id: message_id.clone(),
                        block,
                        ..ToolCall::default()
                    };
                    builder.add_call(identity, at, &call);
                }
                kind => {
                    builder.add_unknown(record, &format!("assistant {kind}"), None);
                    continue;
                }
            }
            block += 1;
        }
    }

    fn parse_result(&mut self, part: &CursorPart, number: usize, builder: &mut EventBuilder<'_>) {
        let identity = EventIdentity::in_session(&[&builder.record_name(), &number.to_string()]);
        let result = ToolResult {
            call_id: part.tool_use_id.clone().unwrap_or_default(),
            outcome: if part.is_error { Outcome::Error } else { Outcome::Ok },
            output: part.content.clone(),
            ..ToolResult::default()
        };
        builder.add_result(identity, self.state.at, &result);
    }

    fn parse_end(&mut self, line: &CursorLine, builder: &mut EventBuilder<'_>) {
        let identity = EventIdentity::in_session(&["ended", &builder.record_name()]);
        let status = line.status.as_deref().unwrap_or_default();
        let error = line.error.as_ref().filter(|error| !error.is_null());
        let error = error.map(|error| error.text().unwrap_or_else(|| error.get().to_owned()));
        let (reason, error) = match status {
            status if INTERRUPTED.contains(&status) => (StopReason::Interrupted, None),
            "error" | "failed" => (StopReason::Completed, Some(error.unwrap_or(status.to_owned()))),
            _ => (StopReason::Completed, error),
        };
        builder.turn_completed(self.state.at, identity, reason, error);
    }
}

/// A user's message: the prompt, and what the editor added to it.
pub(super) fn tell_prompt(
    text: &str,
    is_child: bool,
    at: &mut Option<Time>,
    builder: &mut EventBuilder<'_>,
) {
    let prompt = Prompt::from_text(text);
    // The only time is the one in a prompt. It holds for everything up to the next prompt.
    *at = prompt.at.or(*at);
    let place = builder.record_name();
    if !prompt.added.is_empty() {
        builder.add_context(EventIdentity::in_session(&["added", &place]), *at, None, prompt.added);
    }
    let Some(query) = prompt.query.filter(|query| !query.is_empty()) else { return };
    let identity = EventIdentity::in_session(&["prompt", &place]);
    if is_child {
        // A subagent's query is its parent's task.
        builder.add_context(identity, *at, None, query.to_owned());
    } else {
        builder.turn_opened(Some(&place));
        builder.add_prompt(identity, *at, Content::text(query));
    }
}

fn parse_parts(line: &CursorLine) -> Result<Vec<CursorPart>, serde_json::Error> {
    let message = line.message.clone().unwrap_or_default();
    let plain = |text: String| {
        let part = serde_json::json!({"type": "text", "text": text});
        serde_json::from_value(part).map(|part| vec![part])
    };
    if let Some(text) = message.text() {
        return plain(text);
    }
    let CursorMessage { content } = message.read()?;
    match content.text() {
        Some(text) => plain(text),
        None => content.read(),
    }
}
