//! Qwen Code: one transcript a session, below `~/.qwen/projects`.
//!
//! Records are named and chained as Claude's, their content is Gemini's. A record of the model is
//! one whole answer with its usage; its telemetry repeats that, and alone tells what tools were
//! let through and what the agent asked a model for itself.
//!
//! Not here: hooks, which make up ids of calls.

mod record; // the lines
mod hooks; // what its hooks say

use std::path::Path;

use event::Raw;
use event::payload::{
    ApprovalResolved, AssistantMessage, AssistantThinking, Content, Decision, ErrorRaised, Note,
    Outcome, StepCompleted, ToolCall, ToolResult, UserPrompt,
};
use serde::{Deserialize, Serialize};

use self::record::{QwenLine, QwenPayload, Response, UiEvent};
use super::gemini::exit_code;
use crate::agent::calls::{Call, Calls, Nothing};
use crate::agent::{
    Agent, LineageHint, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::branches::Branches;
use crate::environment::Environment;
use crate::event_builder::{EventBuilder, questions};
use crate::hook::HookMap;
use crate::lineage::lineage_hint_by_uuid;
use crate::record::SourceRecord;
use crate::source::Source;
use crate::thread_state::SessionSettings;

pub(crate) struct Qwen;

impl Agent for Qwen {
    fn provider(&self) -> &'static str {
        "qwen"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let runtime = environment.absolute("QWEN_RUNTIME_DIR");
        let folder = runtime.unwrap_or_else(|| environment.agent_folder("QWEN_HOME", ".qwen"));
        vec![SourceRoot { path: folder.join("projects"), depth_max: 2 }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let names: Option<Vec<&str>> = path.iter().map(|name| name.to_str()).collect();
        match names?[..] {
            [_, "chats", name] => {
                let session = name.strip_suffix(".jsonl").filter(|stem| !stem.is_empty())?;
                Some(RecognizedSource {
                    form: SourceForm::Lines,
                    session: session.to_owned(),
                    role: SourceRole::Main,
                })
            }
            _ => None,
        }
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        lineage_hint_by_uuid(head)
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["qwen", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, _source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(QwenTranscript { state })
    }
}

/// The tool that asks the user.
const ASKING: &str = "ask_user_question";

/// The shell: its output says how the command ended.
const SHELL: &str = "run_shell_command";

struct QwenTranscript {
    state: QwenState,
}

/// What has to be known of the records before.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct QwenState {
    /// A person named the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_own_title: bool,
    branches: Branches,
    calls: Calls<Nothing>,
    /// What became of calls that are about to get their results.
    rulings: Vec<Ruling>,
}

/// Rulings that are remembered. A call that has lost its ruling is told with its result only.
const RULINGS_MAX: usize = 12;

/// What telemetry says of a call. It names the tool only; the result follows at once.
#[derive(Clone, Serialize, Deserialize)]
struct Ruling {
    tool: String,
    decision: Option<String>,
    duration_ms: Option<u64>,
}

impl Parser for QwenTranscript {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let line: QwenLine = match record.read() {
            Ok(line) => line,
            Err(error) => {
                return builder.add_unknown(record, "no record", Some(&error.to_string()));
            }
        };
        // Every record repeats its surroundings; only what changed becomes an event.
        let settings = SessionSettings {
            agent_version: line.version.clone(),
            cwd: line.cwd.clone(),
            branch: line.git_branch.clone(),
            model: line.model.clone(),
            ..SessionSettings::default()
        };
        builder.settings(line.timestamp, settings);
        match (line.kind.as_str(), line.subtype.as_deref().unwrap_or_default()) {
            ("user", "") if !line.is_sidechain => self.add_prompt(&line, builder),
            // Typed while the agent works: it opens no turn.
            ("user", "mid_turn_user_message") => {
                let content = line.user_content();
                let text = content.joined_text();
                let prompt = UserPrompt { content, queued: true };
                builder.add_event(line.identity("prompt"), line.timestamp, &prompt).text =
                    Some(text);
            }
            // The agent's words in the user's place.
            ("user", "" | "notification" | "cron" | "agent_launch_prompt") => {
                builder.turn_opened(Some(&line.uuid));
                let text = line.user_content().joined_text();
                builder.add_context(line.identity("context"), line.timestamp, None, text);
            }
            ("assistant", _) => self.parse_answer(record, &line, builder),
            ("tool_result", _) => self.parse_results(&line, builder),
            ("system", subtype) => self.parse_system(record, &line, subtype, builder),
            (kind, _) => builder.add_unknown(record, kind, None),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl QwenTranscript {
    fn add_prompt(&mut self, line: &QwenLine, builder: &mut EventBuilder<'_>) {
        let last = builder.last_event(line.timestamp);
        // A prompt behind the record that an earlier prompt followed goes back to there.
        let goes_back_to = self.state.branches.next(line.parent_uuid.as_deref(), last);
        builder.turn_opened(Some(&line.uuid));
        let draft =
            builder.add_prompt(line.identity("prompt"), line.timestamp, line.user_content());
        // A `rewind` record in front of it has told already where it goes on.
        draft.parent_id = draft.parent_id.or(goes_back_to);
    }

    /// One answer of the model, whole.
    fn parse_answer(
        &mut self,
        record: &SourceRecord<'_>,
        line: &QwenLine,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = line.timestamp;
        let mut block = 0;
        let mut is_calling = false;
        for (number, part) in line.message.parts.iter().enumerate() {
            let identity = line.identity(&format!("block {number}"));
            let message_id = line.uuid.clone();
            if let Some(call) = &part.function_call {
                is_calling = true;
                let call = ToolCall {
                    call_id: call.id.clone(),
                    tool: call.name.clone(),
                    input: call.args.clone(),
                    message_id,
                    block,
                    ..ToolCall::default()
                };
                let event = builder.add_call(identity, at, &call).id;
                if call.tool == ASKING {
                    builder.open_question(at, &call.call_id, &questions(&call.input));
                }
                self.state.calls.open(Call {
                    call_id: call.call_id,
                    event_id: event,
                    // The response names the tool again, so it is not kept.
                    tool: String::new(),
                    task: None,
                    more: Nothing {},
                });
            } else if part.thought {
                let thinking = part.text.clone().unwrap_or_default();
                let thinking =
                    AssistantThinking { message_id, block, thinking, ..Default::default() };
                builder.thinking(identity, at, &thinking);
            } else if let Some(text) = &part.text {
                let content = Content::text(text);
                let message = AssistantMessage { message_id, block, content, ..Default::default() };
                builder.add_message(identity, at, &message);
            } else {
                builder.add_unknown(record, "assistant part", None);
                continue;
            }
            block += 1;
        }
        if let Some(usage) = &line.usage_metadata {
            let step = StepCompleted {
                model: line.model.clone(),
                response_id: Some(line.uuid.clone()),
                usage: Some(usage.token_usage()),
                ..StepCompleted::default()
            };
            builder.add_event(line.identity("step"), at, &step);
        }
        // No record tells the end of a turn: an answer without calls is the last one.
        if !is_calling {
            builder.turn_answered();
        }
    }

    fn parse_results(&mut self, line: &QwenLine, builder: &mut EventBuilder<'_>) {
        let responses =
            line.message.parts.iter().filter_map(|part| part.function_response.as_ref());
        for (number, response) in responses.enumerate() {
            self.parse_result(line, number, response, builder);
        }
    }

    fn parse_result(
        &mut self,
        line: &QwenLine,
        number: usize,
        response: &Response,
        builder: &mut EventBuilder<'_>,
    ) {
        // Telemetry names no call: the oldest ruling about the tool is this call's.
        let rulings = &mut self.state.rulings;
        let ruling = rulings.iter().position(|ruling| ruling.tool == response.name);
        let ruling = ruling.map(|place| rulings.remove(place));
        let status = line.tool_call_result.as_ref().and_then(|result| result.status.as_deref());
        let error = response.response.error.as_ref().and_then(Raw::text);
        let mut result = ToolResult {
            call_id: response.id.clone(),
            tool: Some(response.name.clone()),
            output: response.response.output.clone(),
            error,
            duration_ms: ruling.as_ref().and_then(|ruling| ruling.duration_ms),
            ..ToolResult::default()
        };
        if response.name == SHELL {
            result.exit_code = exit_code(&result.output_text().unwrap_or_default());
        }
        let decision = ruling.as_ref().and_then(|ruling| ruling.decision.as_deref());
        // A command that failed counts as a success for the agent; only its text says otherwise.
        result.outcome = match (status, decision) {
            (Some("cancelled"), Some("reject")) => Outcome::Rejected,
            (Some("cancelled"), _) => Outcome::Canceled,
            (Some("error"), _) => Outcome::Error,
            _ if result.error.is_some() => Outcome::Error,
            _ if result.exit_code.is_some_and(|code| code != 0) => Outcome::Error,
            _ => Outcome::Ok,
        };
        let resolved = match decision {
            Some("auto_accept") => Some((Decision::Allow, "rule")),
            Some("accept" | "modify") => Some((Decision::Allow, "person")),
            Some("reject") => Some((Decision::Deny, "person")),
            _ => None,
        };
        // A question passes through the permission dialog, too; its decision is the answer.
        if let Some((decision, by)) = resolved.filter(|_| response.name != ASKING) {
            let approval = ApprovalResolved {
                approval_id: response.id.clone(),
                decision,
                reason: None,
                by: Some(by.to_owned()),
                automated: by == "rule",
            };
            builder.add_event(
                line.identity(&format!("approval {number}")),
                line.timestamp,
                &approval,
            );
        }
        let call = self.state.calls.close(&response.id).map(|call| call.event_id);
        let identity = line.identity(&format!("result {number}"));
        builder.add_result(identity, line.timestamp, &result).parent_id = call;
        if response.name == ASKING {
            builder.close_question(line.timestamp, "", &result);
        }
    }

    fn parse_system(
        &mut self,
        record: &SourceRecord<'_>,
        line: &QwenLine,
        subtype: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = line.timestamp;
        let payload: QwenPayload = match line.system_payload.as_ref().map(Raw::read).transpose() {
            Ok(payload) => payload.unwrap_or_default(),
            Err(error) => return builder.add_unknown(record, subtype, Some(&error.to_string())),
        };
        match subtype {
            "ui_telemetry" => self.telemetry(line, payload.ui_event, builder),
            "chat_compression" => {
                // The compressed history begins with the summary.
                let history = payload.compressed_history.iter();
                let summary =
                    history.flat_map(|said| &said.parts).find_map(|part| part.text.clone());
                let tokens_before = payload.info.original_token_count;
                builder.compacted(line.identity("compaction"), at, summary, tokens_before);
            }
            // No hook tells that a compression was given up.
            "slash_command" if payload.is_compression_given_up() => {
                let text = "the history was not compressed".to_owned();
                builder.add_note(line.identity("note"), at, Note::COMPACTION_GIVEN_UP, text);
            }
            // Of the phases of a command only the first is told, which has it as it was typed.
            "slash_command" if payload.phase.as_deref() == Some("invocation") => {
                let command = payload.raw_command.unwrap_or_default();
                builder.add_note(line.identity("note"), at, "command", command);
            }
            "notification" => {
                let text = payload.display_text.unwrap_or_default();
                builder.add_note(line.identity("note"), at, "agent", text);
            }
            "custom_title" => {
                let by_person = payload.title_source.as_deref() != Some("auto");
                if by_person || !self.state.has_own_title {
                    self.state.has_own_title = by_person;
                    let title = payload.custom_title;
                    builder.settings(at, SessionSettings { title, ..SessionSettings::default() });
                }
            }
            "session_model" => {
                let model = payload.model_id;
                builder.settings(at, SessionSettings { model, ..SessionSettings::default() });
            }
            "session_approval_mode" => {
                let permission_mode = payload.mode;
                builder.settings(
                    at,
                    SessionSettings { permission_mode, ..SessionSettings::default() },
                );
            }
            "rewind" => {
                // The session goes on behind the parent of the record.
                let to = self.state.branches.event_before(line.parent_uuid.as_deref());
                builder.add_rewind(line.identity("rewind"), at, to);
            }
            "slash_command"
            | "at_command"
            | "attribution_snapshot"
            | "file_history_snapshot"
            | "user_text_elements"
            | "session_source"
            | "session_sources_snapshot"
            | "session_artifact_event"
            | "session_artifact_snapshot"
            | "branch_checkpoint"
            | "session_notes"
            | "omni_recall" => builder.count_silent(),
            subtype => builder.add_unknown(record, &format!("system {subtype}"), None),
        }
    }

    /// What the agent counts: only what no other record says is told.
    fn telemetry(&mut self, line: &QwenLine, event: UiEvent, builder: &mut EventBuilder<'_>) {
        // The last part of the name counts; the first is the vendor's.
        match event.name.as_deref().and_then(|name| name.rsplit('.').next()) {
            Some("tool_call") => {
                let tool = event.function_name.unwrap_or_default();
                let UiEvent { decision, duration_ms, .. } = event;
                if self.state.rulings.len() == RULINGS_MAX {
                    self.state.rulings.remove(0);
                }
                self.state.rulings.push(Ruling { tool, decision, duration_ms });
            }
            // The session's own answers have their usage beside them: only a subagent's is told
            // here.
            Some("api_response") if event.subagent_name.is_some() => {
                let step = StepCompleted {
                    agent_id: event.subagent_name.clone().unwrap_or_default(),
                    model: event.model.clone(),
                    response_id: event.response_id.clone(),
                    usage: Some(event.token_usage()),
                    error: None,
                };
                builder.add_event(line.identity("step"), line.timestamp, &step);
            }
            Some("api_error") => {
                let error = ErrorRaised {
                    message: event.error_message.or(event.error).unwrap_or_default(),
                    code: event.status_code,
                    scope: Some("model".to_owned()),
                    recoverable: None,
                };
                builder.add_error(line.identity("error"), line.timestamp, &error);
            }
            _ => builder.count_silent(),
        }
    }
}
