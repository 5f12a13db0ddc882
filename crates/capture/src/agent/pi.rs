//! pi: one tree of entries a session, `sessions/--<cwd>--/<time>_<session>.jsonl`.
//!
//! Entries stand in the order they came about, each with the one before it on its branch: an entry
//! behind another one than the last goes back in the tree. Ids are unique within a file only; with
//! their time they are unique enough to know the copies in a fork. No file is there before the
//! first answer.

mod entry; // the shapes
mod tree; // where the branches meet

use std::path::Path;

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContentPart, ContextKind, ErrorRaised, Outcome,
    SessionMode, StepCompleted, StopReason, TokenUsage, ToolCall, ToolResult,
};
use event::{Cost, Raw};
use serde::{Deserialize, Serialize};

use self::entry::{PiBlock, PiEntry, PiMessage, PiUsage, join_texts, parent_session};
use self::tree::Tree;
use crate::agent::calls::{Call, Calls, ID_BYTES_MAX};
use crate::agent::{
    Agent, LineageHint, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::environment::Environment;
use crate::event_builder::{EventBuilder, preview_text};
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::source::Source;
use crate::thread_state::SessionSettings;

pub(crate) struct Pi;

/// Entries that say nothing to people: what extensions remember, how hard to think.
const SILENT: &[&str] =
    &["active_tools_change", "context_transform", "custom", "ephemeral", "thinking_level_change"];

impl Agent for Pi {
    fn provider(&self) -> &'static str {
        "pi"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let sessions = environment.absolute("PI_CODING_AGENT_SESSION_DIR").unwrap_or_else(|| {
            environment.agent_folder("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions")
        });
        vec![SourceRoot { path: sessions, depth_max: 1 }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
        let session = entry::session_in(stem).to_owned();
        Some(RecognizedSource { form: SourceForm::Lines, session, role: SourceRole::Main })
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        LineageHint { parent: parent_session(head), ..LineageHint::default() }
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["pi", "--session", session].map(str::to_owned).to_vec())
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(PiSession { named: source.session.clone(), state })
    }
}

/// Reads one session.
struct PiSession {
    /// The session as the file's name tells it.
    named: String,
    state: PiState,
}

/// What has to be known of the entries before.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct PiState {
    /// The session, where the file's name does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    tree: Tree,
    calls: Calls<PiCallDetail>,
}

/// There is nothing to know of a call but that it was made.
#[derive(Default, Serialize, Deserialize)]
struct PiCallDetail {}

/// What became of an entry.
enum PiOutcome {
    Added,
    Silent,
    Unknown(String),
}

type Understood = Result<PiOutcome, serde_json::Error>;

impl Parser for PiSession {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let entry: PiEntry<'_> = match record.read() {
            Ok(entry) => entry,
            Err(error) => {
                return builder.add_unknown(record, "malformed", Some(&error.to_string()));
            }
        };
        if let Some(session) = &self.state.session {
            builder.switch_session(session);
        }
        let at = entry.parse_time();
        // Every message has a parent, if only the start of the session.
        let last =
            if entry.kind == "message" { builder.last_event(at) } else { builder.last_told() };
        // Before the entry is told: a rewind stands in front of what goes on from it.
        if let Some(effective) = self.state.tree.enter_entry(&entry, last) {
            builder.add_rewind(identity(&entry, builder, "rewind"), at, effective);
        }
        match self.parse_entry(&entry, builder) {
            Ok(PiOutcome::Added) => {}
            Ok(PiOutcome::Silent) => builder.count_silent(),
            Ok(PiOutcome::Unknown(kind)) => builder.add_unknown(record, &kind, None),
            Err(error) => builder.add_unknown(record, &entry.kind, Some(&error.to_string())),
        }
        // Behind it: the events of the entry are now the last ones of its branch.
        self.state.tree.leave_entry(&entry, builder.last_told());
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("state always encodes")
    }
}

/// An id and its time are the same in every copy; a part tells what was made of the entry. The
/// first versions had no ids.
fn identity(entry: &PiEntry<'_>, builder: &EventBuilder<'_>, part: &str) -> EventIdentity {
    match (entry.id.as_deref(), entry.timestamp.as_deref()) {
        (Some(id), Some(at)) => EventIdentity::everywhere(&["entry", id, at, part]),
        _ => EventIdentity::in_session(&[&builder.record_name(), part]),
    }
}

impl PiSession {
    fn parse_entry(&mut self, entry: &PiEntry<'_>, builder: &mut EventBuilder<'_>) -> Understood {
        let at = entry.parse_time();
        match entry.kind.as_str() {
            "message" => return self.parse_message(entry, builder),
            "session" => self.parse_header(entry, builder),
            "model_change" => {
                let model = entry.model_id.clone();
                builder.settings(at, SessionSettings { model, ..SessionSettings::default() });
            }
            "session_info" => {
                let title = entry.name.clone();
                builder.settings(at, SessionSettings { title, ..SessionSettings::default() });
            }
            "compaction" => {
                let identity = identity(entry, builder, "");
                builder.compacted(identity, at, entry.summary.clone(), entry.tokens_before);
            }
            "branch_summary" => {
                let (identity, kind) = (identity(entry, builder, ""), Some(ContextKind::Generic));
                builder.add_context(identity, at, kind, entry.summary.clone().unwrap_or_default());
            }
            "custom_message" => {
                let identity = identity(entry, builder, "");
                builder.add_context(identity, at, None, join_texts(entry.content));
            }
            "label" => {
                let Some(label) = entry.label.clone() else { return Ok(PiOutcome::Silent) };
                builder.add_note(identity(entry, builder, ""), at, "label", label);
            }
            kind if SILENT.contains(&kind) => return Ok(PiOutcome::Silent),
            kind => return Ok(PiOutcome::Unknown(kind.to_owned())),
        }
        Ok(PiOutcome::Added)
    }

    fn parse_header(&mut self, entry: &PiEntry<'_>, builder: &mut EventBuilder<'_>) {
        // A file may be renamed; the header has the session's id.
        let id = entry.id.as_ref().filter(|id| **id != self.named && id.len() <= ID_BYTES_MAX);
        if let Some(session) = id {
            self.state.session = Some(session.clone());
            builder.switch_session(session);
        }
        if let Some(parent) = entry.parent_session() {
            builder.set_parent(&parent, SessionMode::Fork, None);
        }
        let (cwd, model) = (entry.cwd.clone(), entry.model_id.clone());
        builder.settings(
            entry.parse_time(),
            SessionSettings { cwd, model, ..SessionSettings::default() },
        );
    }

    fn parse_message(&mut self, entry: &PiEntry<'_>, builder: &mut EventBuilder<'_>) -> Understood {
        let Some(message) = entry.message else {
            return Ok(PiOutcome::Unknown("message".to_owned()));
        };
        let message: PiMessage<'_> = serde_json::from_str(message.get())?;
        let at = entry.parse_time();
        match message.role.as_str() {
            "user" => {
                self.state.tree.mark_prompt(entry, builder.last_event(at));
                builder.turn_opened(entry.id.as_deref());
                let identity = identity(entry, builder, "");
                builder.add_prompt(identity, at, prompt_content(&message));
            }
            "assistant" => return self.parse_answer(entry, &message, builder),
            "toolResult" => self.parse_result(entry, &message, builder),
            // A command that the user ran with `!`: the model did not ask for it.
            "bashExecution" => {
                let (command, output) = (message.command, message.output);
                let text =
                    format!("! {}\n{}", command.unwrap_or_default(), output.unwrap_or_default());
                builder.add_note(
                    identity(entry, builder, ""),
                    at,
                    "bash",
                    preview_text(text.trim_end()),
                );
            }
            "custom" | "hookMessage" | "branchSummary" | "compactionSummary" => {
                builder.add_context(
                    identity(entry, builder, ""),
                    at,
                    None,
                    join_texts(message.content),
                );
            }
            role => return Ok(PiOutcome::Unknown(format!("message {role}"))),
        }
        Ok(PiOutcome::Added)
    }

    fn parse_answer(
        &mut self,
        entry: &PiEntry<'_>,
        message: &PiMessage<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let at = entry.parse_time();
        let blocks: Vec<PiBlock> = match message.content {
            Some(content) => serde_json::from_str(content.get())?,
            None => Vec::new(),
        };
        // The provider's id where there is one: an entry's own is unique in its file only.
        let message_id = message.response_id.clone().or_else(|| entry.id.clone());
        let message_id = message_id.unwrap_or_else(|| builder.record_name());
        let mut block = 0;
        let mut outcome = PiOutcome::Added;
        for part in blocks {
            let identity = identity(entry, builder, &block.to_string());
            let message_id = message_id.clone();
            match part.kind.as_str() {
                "thinking" => {
                    let thinking = part.thinking.unwrap_or_default();
                    let thinking = AssistantThinking {
                        message_id,
                        block,
                        thinking,
                        ..AssistantThinking::default()
                    };
                    builder.thinking(identity, at, &thinking);
                }
                "text" => {
                    let content = Content::text(part.text.unwrap_or_default());
                    let message = AssistantMessage {
                        message_id,
                        block,
                        content,
                        ..AssistantMessage::default()
                    };
                    builder.add_message(identity, at, &message);
                }
                "toolCall" => {
                    let call = ToolCall {
                        call_id: part.id.unwrap_or_default(),
                        tool: part.name.unwrap_or_default(),
                        input: part.arguments,
                        message_id,
                        block,
                        ..ToolCall::default()
                    };
                    let event_id = builder.add_call(identity, at, &call).id;
                    let ToolCall { call_id, tool, .. } = call;
                    let more = PiCallDetail {};
                    self.state.calls.open(Call { call_id, event_id, tool, task: None, more });
                }
                kind => {
                    // The other blocks are told all the same.
                    outcome = PiOutcome::Unknown(format!("assistant {kind}"));
                    continue;
                }
            }
            block += 1;
        }
        self.answered(entry, message, builder);
        Ok(outcome)
    }

    /// What the request used, and how the turn stands after it.
    fn answered(
        &mut self,
        entry: &PiEntry<'_>,
        message: &PiMessage<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = entry.parse_time();
        let error = message.error_message.clone();
        let is_failed = message.stop_reason.as_deref() == Some("error");
        let step = StepCompleted {
            model: message.model.clone().or_else(|| builder.known_settings().model.clone()),
            response_id: message.response_id.clone(),
            usage: message.usage.as_ref().and_then(token_usage),
            error: error.clone().filter(|_| is_failed),
            ..StepCompleted::default()
        };
        builder.add_event(identity(entry, builder, "usage"), at, &step);
        let turn = identity(entry, builder, "turn");
        // pi writes no end of a turn: an answer that wants no tools is the end.
        match message.stop_reason.as_deref() {
            Some("toolUse") | None => {}
            Some("aborted") => builder.turn_completed(at, turn, StopReason::Interrupted, None),
            Some("error") => {
                let message = error.unwrap_or_else(|| "the request failed".to_owned());
                let raised = ErrorRaised { message: message.clone(), ..ErrorRaised::default() };
                builder.add_error(identity(entry, builder, "error"), at, &raised);
                builder.turn_completed(at, turn, StopReason::Completed, Some(message));
            }
            Some(_) => builder.turn_completed(at, turn, StopReason::Completed, None),
        }
    }

    fn parse_result(
        &mut self,
        entry: &PiEntry<'_>,
        message: &PiMessage<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call_id = message.tool_call_id.clone().unwrap_or_default();
        let call = self.state.calls.close(&call_id);
        let text = join_texts(message.content);
        // Only a failed command ends its output with its code; another may print the same line.
        let result = ToolResult {
            call_id,
            tool: message.tool_name.clone(),
            outcome: if message.is_error { Outcome::Error } else { Outcome::Ok },
            output: message.content.map(Raw::from),
            exit_code: exit_code(&text).filter(|_| message.is_error),
            ..ToolResult::default()
        };
        let draft = builder.add_event(identity(entry, builder, ""), entry.parse_time(), &result);
        draft.text = Some(preview_text(&text));
        draft.parent_id = call.map(|call| call.event_id);
    }
}

/// What was typed; images stay in the record, which is kept.
fn prompt_content(message: &PiMessage<'_>) -> Content {
    let parts = entry::parse_parts(message.content).into_iter().map(|part| ContentPart {
        kind: part.kind,
        text: part.text,
        mime_type: part.mime_type,
        ..ContentPart::default()
    });
    Content(parts.collect())
}

/// What was cached is no input here from the start. A request that used nothing got no answer.
fn token_usage(used: &PiUsage) -> Option<TokenUsage> {
    let PiUsage { input, output, cache_read, cache_write, reasoning, .. } = *used;
    if [input, output, cache_read, cache_write] == [0; 4] {
        return None;
    }
    Some(TokenUsage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cache_read_tokens: Some(cache_read),
        cache_creation_tokens: Some(cache_write),
        reasoning_tokens: reasoning,
        // Nothing may be free, or have no known price.
        cost: used.cost.as_ref().map(|cost| cost.total).filter(|cost| *cost > Cost::ZERO),
        ..TokenUsage::default()
    })
}

/// A failed command says its code in its last line.
fn exit_code(text: &str) -> Option<i64> {
    text.trim_end().lines().last()?.strip_prefix("Command exited with code ")?.parse().ok()
}
