//! GitHub Copilot CLI: one log of events a session, `session-state/<session>/events.jsonl`.
//!
//! Every event has an id that stays when a session is forked, so copies are known again. What a
//! subagent does stands in the same file under its own `agentId`. Going back replaces the file by
//! a shorter one that says so; what vanished from it stays told.

mod answer; // what the model says and uses
mod log; // the shapes
mod state; // what has to be known of the events before
mod tool; // calls, their results, and the decisions about them
mod hooks; // what its hooks say

use std::path::Path;

use event::payload::{
    CompactionStarted, Content, ContentPart, ErrorRaised, Outcome, SessionMode, StopReason,
    ToolResult, UserPrompt,
};

use self::log::{
    Compacted, CopilotLine, CopilotSession, CopilotSubagent, TelemetryFact, UserMessage, first_id,
    first_session, forked_from,
};
use self::state::CopilotState;
use crate::agent::calls::ID_BYTES_MAX;
use crate::agent::{
    Agent, LineageHint, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::environment::Environment;
use crate::event_builder::{ChildCall, EventBuilder};
use crate::hook::HookMap;
use crate::record::SourceRecord;
use crate::source::Source;
use crate::thread_state::SessionSettings;

pub(crate) struct Copilot;

const LOG: &str = "events.jsonl";

/// Events that say nothing to people, or nothing that others do not say.
const SILENT: &[&str] = &[
    "assistant.intent",
    "assistant.reasoning",
    "hook.end",
    "hook.start",
    "model.message",
    "model.messages_snapshot",
    "model.model_call_failure",
    "model.model_call_started",
    "model.model_call_success",
    "model.response",
    "model.turn_ended",
    "model.turn_started",
    "session.mode_changed",
    "session.plan_changed",
    "session.truncation",
    "session.usage_checkpoint",
    "session.usage_info",
    "session.workspace_file_changed",
    "subagent.configured",
    "subagent.deselected",
    "subagent.selected",
    "system.message",
    "system.notification",
];

impl Agent for Copilot {
    fn provider(&self) -> &'static str {
        "copilot"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let home = environment.agent_folder("COPILOT_HOME", ".copilot");
        vec![SourceRoot { path: home.join("session-state"), depth_max: 1 }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let name = path.file_name()?.to_str()?;
        let folder = path.parent()?.to_str()?;
        let session = match folder {
            // Older versions had no folders.
            "" => name.strip_suffix(".jsonl")?,
            folder if name == LOG => folder,
            _ => return None,
        };
        Some(RecognizedSource {
            form: SourceForm::Lines,
            session: session.to_owned(),
            role: SourceRole::Main,
        })
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        // A fork copies the log as it is: its first event names the parent, and has an id that all
        // copies share.
        LineageHint {
            parent: first_session(head),
            family: first_id(head),
            ..LineageHint::default()
        }
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["copilot", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(CopilotLog { session: source.session.clone(), state })
    }
}

/// Reads one log.
struct CopilotLog {
    session: String,
    state: CopilotState,
}

/// What became of an event.
enum CopilotOutcome {
    Added,
    Silent,
    Unknown,
}

type Understood = Result<CopilotOutcome, serde_json::Error>;

/// The result of a record that is always understood if its data can be read.
type Parsed = Result<(), serde_json::Error>;

impl Parser for CopilotLog {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let line: CopilotLine<'_> = match record.read() {
            Ok(line) => line,
            Err(error) => {
                return builder.add_unknown(record, "malformed", Some(&error.to_string()));
            }
        };
        if SILENT.contains(&line.kind.as_str()) {
            return builder.count_silent();
        }
        // A subagent's events stand in the same file: the rest of the record belongs to its
        // session.
        if let Some(agent) = &line.agent_id {
            builder.switch_session(agent);
        }
        match self.parse_event(&line, builder) {
            Ok(CopilotOutcome::Added) => {}
            Ok(CopilotOutcome::Silent) => builder.count_silent(),
            Ok(CopilotOutcome::Unknown) => builder.add_unknown(record, &line.kind, None),
            Err(error) => builder.add_unknown(record, &line.kind, Some(&error.to_string())),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("state always encodes")
    }
}

impl CopilotLog {
    fn parse_event(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let at = line.parse_time();
        match line.kind.as_str() {
            "user.message" => self.user_message(line, builder)?,
            "assistant.message" => self.parse_answer(line, builder)?,
            // A `turn` is one request to the model here (1.0.102), not one turn of the user.
            "assistant.turn_start" => self.step_started(line, builder),
            "assistant.turn_end" => return Ok(self.step_ended(line, builder)),
            "session.usage_record" => self.parse_usage(line, builder)?,
            // Tools, and the decisions about them.
            "tool.execution_start" | "tool.user_requested" => self.tool_started(line, builder)?,
            "tool.execution_complete" => self.tool_completed(line, builder)?,
            "permission.requested" => self.approval_requested(line, builder)?,
            "permission.completed" => self.approval_resolved(line, builder)?,
            // The session as a whole.
            "session.start" => self.session_started(line, builder)?,
            "session.resume" => self.session_resumed(line, builder)?,
            "session.shutdown" => self.session_exited(line, builder)?,
            "session.model_change" | "session.context_changed" | "session.title_changed" => {
                let changed: CopilotSession = line.parse_data()?;
                builder.settings(at, changed.settings());
            }
            "session.error" => self.parse_error(line, builder)?,
            "session.info" | "session.warning" | "session.handoff" | "session.task_complete" => {
                self.parse_info(line, builder)?;
            }
            "session.compaction_start" => self.compaction_started(line, builder)?,
            "session.compaction_complete" => self.compacted(line, builder)?,
            "subagent.started" => return self.subagent_started(line, builder),
            "subagent.completed" | "subagent.failed" => return self.subagent_ended(line, builder),
            "skill.invoked" => {
                let skill: UserMessage<'_> = line.parse_data()?;
                builder.add_context(line.identity(""), at, None, skill.content);
            }
            // Esc, or a denied call.
            "abort" => {
                self.turn_ended(line, builder, StopReason::Interrupted, None);
            }
            _ => return Ok(CopilotOutcome::Unknown),
        }
        Ok(CopilotOutcome::Added)
    }

    fn session_started(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let session: CopilotSession = line.parse_data()?;
        // A copy may still be called what it was copied from.
        if let Some(named) = &session.session_id {
            builder.set_parent(named, SessionMode::Fork, None);
        }
        builder.settings(line.parse_time(), session.settings());
        builder.start_session(line.parse_time());
        Ok(())
    }

    fn session_resumed(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let session: CopilotSession = line.parse_data()?;
        builder.add_resume(line.identity(""), line.parse_time());
        builder.settings(line.parse_time(), session.settings());
        builder.start_session(line.parse_time());
        Ok(())
    }

    fn session_exited(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) -> Parsed {
        let reported: TelemetryFact = line.parse_data()?;
        self.check_title(line, builder);
        builder.add_exit(line.identity(""), line.parse_time(), reported.shutdown_type);
        Ok(())
    }

    /// The name that a person gave stands beside the log, so it is looked at now and then.
    fn check_title(&self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) {
        let title = builder.read_beside("workspace.yaml").and_then(|yaml| given_name(&yaml));
        builder
            .settings(line.parse_time(), SessionSettings { title, ..SessionSettings::default() });
    }

    /// What was typed, or what a parent or a skill says to the model.
    fn user_message(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) -> Parsed {
        let message: UserMessage<'_> = line.parse_data()?;
        let is_steering = message.delivery.as_deref() == Some("steering");
        let talk = self.state.open_thread(line.agent_id());
        // Steering goes into the running turn. A turn that has ended meanwhile goes on with it, and
        // every other message opens one.
        if !is_steering || !talk.is_turn_open {
            talk.turn = message.interaction_id.clone().filter(|turn| turn.len() <= ID_BYTES_MAX);
            talk.is_turn_open = true;
            builder.turn_opened(message.interaction_id.as_deref());
        }
        // Skills and other programs name themselves as the source.
        let is_typed = line.agent_id.is_none()
            && message.source.as_deref().is_none_or(|source| source == "user");
        let identity = line.identity("");
        if is_typed {
            self.check_title(line, builder);
            let files = message.attachments().into_iter().map(|file| ContentPart {
                kind: "file".to_owned(),
                url: Some(file),
                ..ContentPart::default()
            });
            let mut content = Content::text(message.content);
            content.0.extend(files);
            let text = content.joined_text();
            let prompt = UserPrompt { content, queued: is_steering };
            builder.add_event(identity, line.parse_time(), &prompt).text = Some(text);
        } else {
            builder.add_context(identity, line.parse_time(), None, message.content);
        }
        Ok(())
    }

    fn parse_error(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) -> Parsed {
        let reported: TelemetryFact = line.parse_data()?;
        let message = reported.message.unwrap_or_default();
        let error = ErrorRaised {
            message: message.clone(),
            code: reported.status_code,
            scope: reported.error_type,
            ..ErrorRaised::default()
        };
        builder.add_error(line.identity(""), line.parse_time(), &error);
        // An error between two turns ends none.
        if self.state.open_thread(line.agent_id()).is_turn_open {
            self.turn_ended(line, builder, StopReason::Completed, Some(message));
        }
        Ok(())
    }

    /// Information, among it that the session went back: the file ends there with what still
    /// holds.
    fn parse_info(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) -> Parsed {
        let reported: TelemetryFact = line.parse_data()?;
        let about = reported.info_type.or(reported.warning_type);
        // `/rewind` replaces the file by a shorter one that ends with this record.
        if about.as_deref() == Some("rewind") {
            let effective = builder.last_event(line.parse_time());
            builder.add_rewind(line.identity(""), line.parse_time(), effective);
            return Ok(());
        }
        let text = reported.message.or(reported.summary).unwrap_or_default();
        // Both files of a fork have these words; only in the copy's they are about this session.
        if about.as_deref() == Some("fork")
            && let Some(parent) = forked_from(&text, &self.session)
        {
            builder.set_parent(parent, SessionMode::Fork, None);
        }
        let about = about.unwrap_or_else(|| line.kind.replace("session.", ""));
        builder.add_note(line.identity(""), line.parse_time(), &about, text);
        Ok(())
    }

    fn compaction_started(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let compacted: Compacted = line.parse_data()?;
        let started = CompactionStarted {
            strategy: "captured".to_owned(),
            max_tokens: compacted.token_limit,
            current_tokens: compacted.current_tokens,
            ..CompactionStarted::default()
        };
        builder.add_event(line.identity(""), line.parse_time(), &started);
        Ok(())
    }

    /// The request that made the summary has no record of its own.
    fn compacted(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) -> Parsed {
        let compacted: Compacted = line.parse_data()?;
        // A compaction that failed has used tokens, too.
        if let Some(used) = &compacted.compaction_tokens_used {
            self.step_completed(line.identity("usage"), line.parse_time(), used, builder);
        }
        if compacted.success == Some(false) {
            let message = compacted.error.unwrap_or_else(|| "the compaction failed".to_owned());
            let error = ErrorRaised { message, ..ErrorRaised::default() };
            builder.add_error(line.identity(""), line.parse_time(), &error);
            return Ok(());
        }
        let (summary, before) = (compacted.summary_content, compacted.pre_compaction_tokens);
        builder.compacted(line.identity(""), line.parse_time(), summary, before);
        Ok(())
    }

    /// A subagent begins: its session works for this one, and knows what this one knows.
    fn subagent_started(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let Some(session) = line.agent_id.as_deref() else { return Ok(CopilotOutcome::Unknown) };
        let subagent: CopilotSubagent = line.parse_data()?;
        // The `task` call came before and has the whole task; this event has only a description.
        let call = self.state.calls.get(&subagent.tool_call_id);
        let (event_id, task) = call.map(|call| (call.event_id, call.task.take())).unzip();
        // The builder speaks for one session at a time: the parent's settings are read, given to
        // the child, and then the parent goes on.
        builder.switch_session(&self.session);
        let known =
            SessionSettings { title: None, entry_point: None, ..builder.known_settings().clone() };
        builder.switch_session(session);
        builder.set_parent(&self.session, SessionMode::Child, Some(subagent.tool_call_id));
        builder.settings(
            line.parse_time(),
            SessionSettings { model: subagent.model.or(known.model.clone()), ..known },
        );
        builder.switch_session(&self.session);
        let task = task.flatten().or(subagent.agent_description).unwrap_or_default();
        let agent = subagent.agent_name.unwrap_or_default();
        builder
            .child_requested(line.parse_time(), ChildCall { session, agent, task, call: event_id });
        Ok(CopilotOutcome::Added)
    }

    fn subagent_ended(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let Some(session) = line.agent_id.as_deref() else { return Ok(CopilotOutcome::Unknown) };
        let subagent: CopilotSubagent = line.parse_data()?;
        let outcome = match line.kind.as_str() {
            "subagent.failed" => Outcome::Error,
            _ => Outcome::Ok,
        };
        let result = ToolResult { outcome, error: subagent.error, ..ToolResult::default() };
        builder.switch_session(&self.session);
        builder.child_ended(line.parse_time(), session, &result);
        // Its turns are over, and only a few subagents are followed at a time.
        self.state.end_thread(session);
        Ok(CopilotOutcome::Added)
    }

    fn turn_ended(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
        stop_reason: StopReason,
        error: Option<String>,
    ) {
        self.state.open_thread(line.agent_id()).is_turn_open = false;
        builder.turn_completed(line.parse_time(), line.identity("turn"), stop_reason, error);
    }
}

/// What a person calls a session. What the agent made up itself is its first prompt.
fn given_name(yaml: &str) -> Option<String> {
    // The file is flat: two of its keys do not need a YAML parser.
    let value = |name: &str| yaml.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let name = value("name:").filter(|_| value("user_named:") == Some("true"))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}
