//! pi: one tree of entries a session, `sessions/--<cwd>--/<time>_<session>.jsonl`.
//!
//! Entries stand in the order they came about, each with the one before it on its branch: an entry
//! whose parent is not the last one goes back in the tree. Ids are unique within a file only; with
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

use self::entry::{Block, Entry, Message, Used, parent_session, texts};
use self::tree::Tree;
use crate::agent::calls::{Call, Calls, ID_BYTES_MAX};
use crate::agent::{Agent, Form, Found, Kin, Parser, Role, Root};
use crate::environment::Environment;
use crate::identity::Identity;
use crate::record::Record;
use crate::source::Source;
use crate::thread::Settings;
use crate::told::{Told, shown};

pub(crate) struct Pi;

/// Entries that say nothing to people: what extensions remember, how hard to think.
const SILENT: &[&str] =
    &["active_tools_change", "context_transform", "custom", "ephemeral", "thinking_level_change"];

impl Agent for Pi {
    fn provider(&self) -> &'static str {
        "pi"
    }

    fn roots(&self, environment: &Environment) -> Vec<Root> {
        let sessions = environment.absolute("PI_CODING_AGENT_SESSION_DIR").unwrap_or_else(|| {
            environment.folder("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions")
        });
        vec![Root { path: sessions, depth_max: 1 }]
    }

    fn recognise(&self, path: &Path) -> Option<Found> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
        let session = entry::session_in(stem).to_owned();
        Some(Found { form: Form::Lines, session, role: Role::Main })
    }

    fn kin(&self, head: &[u8]) -> Kin {
        Kin { parent: parent_session(head), ..Kin::default() }
    }

    fn resume(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["pi", "--session", session].map(str::to_owned).to_vec())
    }

    fn parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(Session { named: source.session.clone(), state })
    }
}

/// Reads one session.
struct Session {
    /// The session as the file's name tells it.
    named: String,
    state: State,
}

/// What has to be known of the entries before.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// The session, where the file's name does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    tree: Tree,
    calls: Calls<Nothing>,
}

/// There is nothing to know of a call but that it was made.
#[derive(Default, Serialize, Deserialize)]
struct Nothing {}

/// What became of an entry.
enum Known {
    Told,
    Silent,
    Unknown(String),
}

type Understood = Result<Known, serde_json::Error>;

impl Parser for Session {
    fn record(&mut self, record: &Record<'_>, told: &mut Told<'_>) {
        let entry: Entry<'_> = match record.read() {
            Ok(entry) => entry,
            Err(error) => return told.unknown(record, "malformed", Some(&error.to_string())),
        };
        if let Some(session) = &self.state.session {
            told.session(session);
        }
        let at = entry.at();
        // Everything that is said stands behind something, be it the beginning.
        let last = if entry.kind == "message" { told.last(at) } else { told.last_told() };
        if let Some(effective) = self.state.tree.step(&entry, last) {
            told.rewound(identity(&entry, told, "rewind"), at, effective);
        }
        match self.entry(&entry, told) {
            Ok(Known::Told) => {}
            Ok(Known::Silent) => told.silent(),
            Ok(Known::Unknown(kind)) => told.unknown(record, &kind, None),
            Err(error) => told.unknown(record, &entry.kind, Some(&error.to_string())),
        }
        self.state.tree.end(&entry, told.last_told());
    }

    fn state(&self) -> String {
        serde_json::to_string(&self.state).expect("state always encodes")
    }
}

/// An id and its time are the same in every copy; a part tells what was made of the entry. The
/// first versions had no ids.
fn identity(entry: &Entry<'_>, told: &Told<'_>, part: &str) -> Identity {
    match (entry.id.as_deref(), entry.timestamp.as_deref()) {
        (Some(id), Some(at)) => Identity::everywhere(&["entry", id, at, part]),
        _ => Identity::in_session(&[&told.place(), part]),
    }
}

impl Session {
    fn entry(&mut self, entry: &Entry<'_>, told: &mut Told<'_>) -> Understood {
        let at = entry.at();
        match entry.kind.as_str() {
            "message" => return self.message(entry, told),
            "session" => self.header(entry, told),
            "model_change" => {
                let model = entry.model_id.clone();
                told.settings(at, Settings { model, ..Settings::default() });
            }
            "session_info" => {
                let title = entry.name.clone();
                told.settings(at, Settings { title, ..Settings::default() });
            }
            "compaction" => {
                let identity = identity(entry, told, "");
                told.compacted(identity, at, entry.summary.clone(), entry.tokens_before);
            }
            "branch_summary" => {
                let (identity, kind) = (identity(entry, told, ""), Some(ContextKind::Generic));
                told.context(identity, at, kind, entry.summary.clone().unwrap_or_default());
            }
            "custom_message" => {
                let identity = identity(entry, told, "");
                told.context(identity, at, None, texts(entry.content));
            }
            "label" => {
                let Some(label) = entry.label.clone() else { return Ok(Known::Silent) };
                told.note(identity(entry, told, ""), at, "label", label);
            }
            kind if SILENT.contains(&kind) => return Ok(Known::Silent),
            kind => return Ok(Known::Unknown(kind.to_owned())),
        }
        Ok(Known::Told)
    }

    fn header(&mut self, entry: &Entry<'_>, told: &mut Told<'_>) {
        let id = entry.id.as_ref().filter(|id| **id != self.named && id.len() <= ID_BYTES_MAX);
        if let Some(session) = id {
            self.state.session = Some(session.clone());
            told.session(session);
        }
        if let Some(parent) = entry.parent_session() {
            told.parent(&parent, SessionMode::Fork, None);
        }
        let (cwd, model) = (entry.cwd.clone(), entry.model_id.clone());
        told.settings(entry.at(), Settings { cwd, model, ..Settings::default() });
    }

    fn message(&mut self, entry: &Entry<'_>, told: &mut Told<'_>) -> Understood {
        let Some(message) = entry.message else {
            return Ok(Known::Unknown("message".to_owned()));
        };
        let message: Message<'_> = serde_json::from_str(message.get())?;
        let at = entry.at();
        match message.role.as_str() {
            "user" => {
                self.state.tree.mark(entry, told.last(at));
                told.turn_opened(entry.id.as_deref());
                let identity = identity(entry, told, "");
                told.prompt(identity, at, content(&message));
            }
            "assistant" => self.answer(entry, &message, told)?,
            "toolResult" => self.result(entry, &message, told),
            "bashExecution" => {
                let (command, output) = (message.command, message.output);
                let text =
                    format!("! {}\n{}", command.unwrap_or_default(), output.unwrap_or_default());
                told.note(identity(entry, told, ""), at, "bash", shown(text.trim_end()));
            }
            "custom" | "hookMessage" | "branchSummary" | "compactionSummary" => {
                told.context(identity(entry, told, ""), at, None, texts(message.content));
            }
            role => return Ok(Known::Unknown(format!("message {role}"))),
        }
        Ok(Known::Told)
    }

    fn answer(
        &mut self,
        entry: &Entry<'_>,
        message: &Message<'_>,
        told: &mut Told<'_>,
    ) -> Result<(), serde_json::Error> {
        let at = entry.at();
        let blocks: Vec<Block> = match message.content {
            Some(content) => serde_json::from_str(content.get())?,
            None => Vec::new(),
        };
        let message_id = message.response_id.clone().or_else(|| entry.id.clone());
        let message_id = message_id.unwrap_or_else(|| told.place());
        let mut block = 0;
        for part in blocks {
            let identity = identity(entry, told, &block.to_string());
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
                    told.thinking(identity, at, &thinking);
                }
                "text" => {
                    let content = Content::text(part.text.unwrap_or_default());
                    let message = AssistantMessage {
                        message_id,
                        block,
                        content,
                        ..AssistantMessage::default()
                    };
                    told.message(identity, at, &message);
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
                    let event_id = told.call(identity, at, &call).id;
                    let ToolCall { call_id, tool, .. } = call;
                    let more = Nothing {};
                    self.state.calls.open(Call { call_id, event_id, tool, task: None, more });
                }
                _ => continue,
            }
            block += 1;
        }
        self.answered(entry, message, told);
        Ok(())
    }

    /// What the request used, and how the turn stands after it.
    fn answered(&mut self, entry: &Entry<'_>, message: &Message<'_>, told: &mut Told<'_>) {
        let at = entry.at();
        let error = message.error_message.clone();
        let is_failed = message.stop_reason.as_deref() == Some("error");
        let step = StepCompleted {
            model: message.model.clone().or_else(|| told.known().model.clone()),
            response_id: message.response_id.clone(),
            usage: message.usage.as_ref().and_then(usage),
            error: error.clone().filter(|_| is_failed),
            ..StepCompleted::default()
        };
        told.fact(identity(entry, told, "usage"), at, &step);
        let turn = identity(entry, told, "turn");
        match message.stop_reason.as_deref() {
            Some("toolUse") | None => {}
            Some("aborted") => told.turn_completed(at, turn, StopReason::Interrupted, None),
            Some("error") => {
                let message = error.unwrap_or_else(|| "the request failed".to_owned());
                let raised = ErrorRaised { message: message.clone(), ..ErrorRaised::default() };
                told.error(identity(entry, told, "error"), at, &raised);
                told.turn_completed(at, turn, StopReason::Completed, Some(message));
            }
            Some(_) => told.turn_completed(at, turn, StopReason::Completed, None),
        }
    }

    fn result(&mut self, entry: &Entry<'_>, message: &Message<'_>, told: &mut Told<'_>) {
        let call_id = message.tool_call_id.clone().unwrap_or_default();
        let call = self.state.calls.close(&call_id);
        let text = texts(message.content);
        let result = ToolResult {
            call_id,
            tool: message.tool_name.clone(),
            outcome: if message.is_error { Outcome::Error } else { Outcome::Ok },
            output: message.content.map(Raw::from),
            exit_code: exit_code(&text).filter(|_| message.is_error),
            ..ToolResult::default()
        };
        let draft = told.fact(identity(entry, told, ""), entry.at(), &result);
        draft.text = Some(shown(&text));
        draft.parent_id = call.map(|call| call.event_id);
    }
}

/// What was typed; images stay in the record, which is kept.
fn content(message: &Message<'_>) -> Content {
    let parts = entry::parts(message.content).into_iter().map(|part| ContentPart {
        kind: part.kind,
        text: part.text,
        mime_type: part.mime_type,
        ..ContentPart::default()
    });
    Content(parts.collect())
}

/// What was cached is no input here from the start. A request that used nothing got no answer.
fn usage(used: &Used) -> Option<TokenUsage> {
    let Used { input, output, cache_read, cache_write, reasoning, .. } = *used;
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
