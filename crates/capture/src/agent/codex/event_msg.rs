//! Event messages: what the agent told its screen. Most of it is told better elsewhere.

use event::payload::{
    Content, ErrorRaised, Outcome, Retry, StopReason, TokenUsage, ToolCall, ToolResult, TurnStarted,
};
use event::{Raw, Time, json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rollout::{
    Completed, Duration, RolloutNotice as Message, TokenInfo, TurnContext, join_texts,
};
use super::{CodexOutcome, Rollout, Understood, add_step_usage};
use crate::event_builder::{ChildCall, EventBuilder, preview_text};
use crate::identity::EventIdentity;
use crate::limit::SHOWN_CHARS_MAX;
use crate::thread_state::SessionSettings;

/// Messages that only move the screen, or repeat what other records tell.
const SILENT: &[&str] = &[
    "agent_message_delta",
    "agent_message_content_delta",
    "agent_reasoning_delta",
    "agent_reasoning_raw_content_delta",
    "agent_reasoning_section_break",
    "apply_patch_approval_request",
    "collab_agent_interaction_begin",
    "collab_agent_interaction_end",
    "collab_agent_spawn_begin",
    "collab_close_begin",
    "collab_resume_begin",
    "collab_waiting_begin",
    "exec_approval_request",
    "exec_command_begin",
    "exec_command_output_delta",
    "hook_completed",
    "hook_started",
    "item_started",
    "mcp_list_tools_response",
    "mcp_startup_complete",
    "mcp_startup_update",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "patch_apply_begin",
    "patch_apply_updated",
    "plan_delta",
    "plan_update",
    "raw_response_item",
    "reasoning_content_delta",
    "request_user_input",
    "session_configured",
    "shutdown_complete",
    "skills_update_available",
    "terminal_interaction",
    "thread_goal_updated",
    "turn_diff",
    "view_image_tool_call",
    "web_search_begin",
    "web_search_end",
];

/// Completed items that response items tell as well, or that only move the screen.
const SILENT_ITEMS: &[&str] =
    &["HookPrompt", "ImageGeneration", "ImageView", "McpToolCall", "Plan", "TodoList", "WebSearch"];

/// Ids of commands that a program ran, where the program itself is the call.
const RUN_BY_PROGRAM: &str = "exec-";

impl Rollout {
    pub(super) fn event_msg(
        &mut self,
        json: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let message: Message<'_> = serde_json::from_str(json)?;
        if SILENT.contains(&message.kind.as_str()) {
            return Ok(CodexOutcome::Silent);
        }
        match message.kind.as_str() {
            "token_count" => return self.token_count(&message, at, builder),
            "item_completed" => return self.item_completed(&message, at, builder),
            // Turns, under both of their names.
            "task_started" | "turn_started" => self.turn_started(message.turn_id, at, builder),
            "task_complete" | "turn_complete" => self.turn_completed(&message, at, builder),
            "turn_aborted" => self.turn_aborted(&message, at, builder),
            // The text of these is owned by the response items, where there are any.
            "user_message"
            | "agent_message"
            | "agent_reasoning"
            | "agent_reasoning_raw_content"
                if self.state.has_items =>
            {
                return Ok(CodexOutcome::Silent);
            }
            // Only rollouts without response items get here: the screen's words are all they have.
            "user_message" => {
                self.add_prompt(Content::text(plain_text(message.message)), at, builder);
            }
            "agent_message" => self.add_answer(None, plain_text(message.message), at, builder),
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                self.thinking(plain_text(message.text), at, builder);
            }
            // Earlier versions tell a command's end in an event of its own, which has the fields of
            // an item.
            "exec_command_end" | "patch_apply_end" => {
                let is_patch = message.kind == "patch_apply_end";
                let tool = if is_patch { "apply_patch" } else { "exec_command" };
                let item = serde_json::from_str(json)?;
                return self.parse_command(&item, tool, message.turn_id.as_deref(), at, builder);
            }
            // The history was summarised or taken back.
            "context_compacted" => return Ok(self.compaction_shown(at, builder)),
            "thread_rolled_back" => self.rolled_back(message.num_turns.unwrap_or(1), at, builder),
            "thread_settings_applied" => return self.thread_settings(&message, at, builder),
            "thread_name_updated" => {
                let title = message.thread_name;
                builder.settings(at, SessionSettings { title, ..SessionSettings::default() });
            }
            // Words to the user.
            "error" => self.add_error(plain_text(message.message), at, builder),
            "stream_error" => self.add_retry(plain_text(message.message), at, builder),
            "warning" | "deprecation_notice" | "background_event" | "guardian_warning" => {
                self.add_note(plain_text(message.message), &message.kind, at, builder);
            }
            "entered_review_mode" | "exited_review_mode" => {
                self.add_note(message.kind.replace('_', " "), &message.kind, at, builder);
            }
            // Subagents, in their oldest form.
            "collab_agent_spawn_end" => return self.parse_spawn(json, at, builder),
            "collab_waiting_end" | "collab_close_end" | "collab_resume_end" => {
                return Ok(CodexOutcome::Silent);
            }
            _ => return Ok(CodexOutcome::Unknown(message.kind)),
        }
        Ok(CodexOutcome::Added)
    }

    fn turn_started(
        &mut self,
        turn_id: Option<String>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        self.state.enter_turn(turn_id.as_deref());
        match turn_id {
            // A turn with a name is one fact, however often it is started.
            Some(turn_id) => builder.turn_started(at, &turn_id),
            None => {
                builder.turn_opened(None);
                let identity = self.state.identity(builder, "started");
                builder.add_event(identity, at, &TurnStarted::default());
            }
        }
    }

    fn turn_completed(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // A turn that went well may say `null` here.
        let error = message.error.filter(|error| error.get() != "null").map(error_text);
        let identity = self.turn_end(message, "completed", builder);
        builder.turn_completed(at, identity, StopReason::Completed, error);
    }

    fn turn_aborted(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let stop_reason = match message.reason.as_deref() {
            // Esc and a denied call end a turn alike.
            None | Some("interrupted" | "replaced" | "review_ended") => StopReason::Interrupted,
            Some("budget_limited") => StopReason::BudgetExhausted,
            Some(reason) => StopReason::from(reason),
        };
        let identity = self.turn_end(message, "aborted", builder);
        builder.turn_completed(at, identity, stop_reason, None);
    }

    /// A turn ends once in each way; a copy that was cut short ends in another way than the turn
    /// itself.
    fn turn_end(
        &mut self,
        message: &Message<'_>,
        how: &str,
        builder: &EventBuilder<'_>,
    ) -> EventIdentity {
        match &message.turn_id {
            Some(turn) => EventIdentity::everywhere(&[turn, how]),
            None => self.state.identity(builder, how),
        }
    }

    /// A count is news only if the total has changed, and only where no response has told its own
    /// usage.
    fn token_count(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        // Before the first response there are only rate limits.
        let Some(info) = message.info.filter(|info| info.get() != "null") else {
            return Ok(CodexOutcome::Silent);
        };
        let info: TokenInfo = json::read(info.get())?;
        if !self.state.is_new_total(info.total_token_usage.total_tokens) {
            return Ok(CodexOutcome::Silent);
        }
        let identity = self.state.identity(builder, "usage");
        let mode = self.state.mode.clone();
        let draft = add_step_usage(identity, at, None, &info.last_token_usage, mode, builder);
        if let Some(limits) = message.rate_limits.filter(|limits| limits.get() != "null") {
            draft.metadata.insert("rate_limits".to_owned(), Raw::from(limits));
        }
        Ok(CodexOutcome::Added)
    }

    fn item_completed(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let Some(item) = message.item else { return Ok(CodexOutcome::Silent) };
        self.state.tells_ends = true;
        let item: Completed<'_> = serde_json::from_str(item.get())?;
        match item.kind.as_str() {
            // Each message is written twice; the response item of it owns the text.
            "UserMessage" | "AgentMessage" | "Reasoning" if self.state.has_items => {
                return Ok(CodexOutcome::Silent);
            }
            "UserMessage" => self.add_prompt(Content::text(join_texts(item.content)), at, builder),
            "AgentMessage" => {
                self.add_answer(item.id.clone(), join_texts(item.content), at, builder)
            }
            "Reasoning" => self.thinking(join_lines(item.summary_text), at, builder),
            "CommandExecution" | "FileChange" => {
                let tool = if item.changes.is_some() { "apply_patch" } else { "exec_command" };
                return self.parse_command(&item, tool, message.turn_id.as_deref(), at, builder);
            }
            "ContextCompaction" => return Ok(self.compaction_shown(at, builder)),
            "SubAgentActivity" => return Ok(self.activity(&item, at, builder)),
            "CollabAgentToolCall" => return Ok(self.collaboration(&item, at, builder)),
            "EnteredReviewMode" | "ExitedReviewMode" => {
                let text = item.kind.replace("ReviewMode", " review mode").to_lowercase();
                self.add_note(text, &item.kind, at, builder);
            }
            kind if SILENT_ITEMS.contains(&kind) => return Ok(CodexOutcome::Silent),
            kind => return Ok(CodexOutcome::Unknown(format!("item_completed {kind}"))),
        }
        Ok(CodexOutcome::Added)
    }

    /// A command or a patch: the model's own call, which gets its exit code from here, or one of
    /// the calls of a program that the model has written.
    fn parse_command(
        &mut self,
        item: &Completed<'_>,
        tool: &str,
        turn_id: Option<&str>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let id = item.id.clone().unwrap_or_default();
        // Without code mode the item's id is the call's, and the item comes before the output: it
        // only adds what the output lacks.
        if let Some(open) = self.state.calls.get(&id) {
            // The call has returned while its command ran on, so this is the command's end.
            if open.more.running.is_some() {
                self.finish_command(item.tool_result(id), turn_id, at, builder);
                return Ok(CodexOutcome::Added);
            }
            open.more.exit_code = item.exit_code;
            open.more.duration_ms = item.duration.map(Duration::as_millis);
            open.more.is_declined = item.has_status("declined");
            return Ok(CodexOutcome::Silent);
        }
        // In code mode one `exec` cell runs many commands, each with an id `exec-<uuid>` that no
        // call has. Any other item without an open call repeats what its response items told.
        let program = self.state.running_program();
        let is_own = program.is_some() || id.starts_with(RUN_BY_PROGRAM) || !self.state.has_items;
        if !is_own {
            return Ok(CodexOutcome::Silent);
        }
        let input = Raw::from_value(&CommandInput {
            command: item.command,
            cwd: item.cwd,
            changes: item.changes,
        })?;
        let call =
            ToolCall { call_id: id.clone(), tool: tool.to_owned(), input, ..ToolCall::default() };
        let identity = self.state.identity(builder, "command");
        let draft = builder.add_call(identity, at, &call);
        draft.parent_id = program;
        // One that runs in the background may end long after its turn.
        let turn_id = turn_id.map(str::to_owned).or(draft.turn_id.take());
        draft.turn_id.clone_from(&turn_id);
        let call_event_id = draft.id;
        let (mut result, text) = item.tool_result(id);
        result.tool = Some(tool.to_owned());
        let identity = self.state.identity(builder, "command result");
        let draft = builder.add_event(identity, at, &result);
        draft.text = text;
        draft.parent_id = Some(call_event_id);
        draft.turn_id = turn_id;
        Ok(CodexOutcome::Added)
    }

    /// A command that had gone on behind its call has ended.
    pub(super) fn finish_command(
        &mut self,
        (result, text): (ToolResult, Option<String>),
        turn_id: Option<&str>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let Some(call) = self.state.calls.close(&result.call_id) else { return };
        let identity = self.state.identity(builder, "command over");
        let draft = builder.add_event(identity, at, &result);
        draft.text = text;
        draft.parent_id = Some(call.event_id);
        draft.turn_id = turn_id.map(str::to_owned).or(draft.turn_id.take());
        if let Some(running) = call.more.running {
            draft.amend(running);
        }
    }

    /// The screen was told of a compaction: the second record of one, unless there was no first.
    fn compaction_shown(
        &mut self,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> CodexOutcome {
        if self.state.compaction_seen() {
            return CodexOutcome::Silent;
        }
        let identity = self.state.identity(builder, "compaction");
        builder.compacted(identity, at, None, None);
        CodexOutcome::Added
    }

    /// Turns were taken back: what follows goes on from before them.
    fn rolled_back(&mut self, turns: u64, at: Option<Time>, builder: &mut EventBuilder<'_>) {
        let effective = self.state.take_back(turns);
        let identity = self.state.identity(builder, "rewind");
        builder.add_rewind(identity, at, effective);
    }

    fn thread_settings(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let Some(settings) = message.thread_settings else { return Ok(CodexOutcome::Silent) };
        let settings: TurnContext<'_> = serde_json::from_str(settings.get())?;
        self.state.mode = TokenUsage::mode_from_tier(settings.service_tier.as_deref());
        builder.settings(
            at,
            SessionSettings {
                model: settings.model,
                cwd: settings.cwd,
                permission_mode: settings.approval_policy.and_then(json::text),
                ..SessionSettings::default()
            },
        );
        Ok(CodexOutcome::Added)
    }

    fn add_error(&mut self, message: String, at: Option<Time>, builder: &mut EventBuilder<'_>) {
        let identity = self.state.identity(builder, "error");
        builder.add_error(identity, at, &ErrorRaised { message, ..ErrorRaised::default() });
    }

    fn add_retry(&mut self, error: String, at: Option<Time>, builder: &mut EventBuilder<'_>) {
        let identity = self.state.identity(builder, "retry");
        let text = error.clone();
        let retry = Retry { scope: "model".to_owned(), error, ..Retry::default() };
        builder.add_event(identity, at, &retry).text = Some(text);
    }

    fn add_note(
        &mut self,
        text: String,
        about: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = self.state.identity(builder, "note");
        builder.add_note(identity, at, about, text);
    }

    /// What a subagent does, seen from its parent.
    fn activity(
        &mut self,
        item: &Completed<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> CodexOutcome {
        let Some(session) = &item.agent_thread_id else { return CodexOutcome::Silent };
        let outcome = match item.activity.as_deref() {
            Some("started") => {
                let agent = item.agent_path.clone().unwrap_or_default();
                self.child_requested(session, agent, None, item.id.as_deref(), at, builder);
                return CodexOutcome::Added;
            }
            Some("completed") => Outcome::Ok,
            Some("interrupted" | "shutdown") => Outcome::Canceled,
            Some("failed" | "errored") => Outcome::Error,
            _ => return CodexOutcome::Silent,
        };
        builder.child_ended(at, session, &ToolResult { outcome, ..ToolResult::default() });
        CodexOutcome::Added
    }

    /// The older form: one item for each thing the parent does with its subagents.
    fn collaboration(
        &mut self,
        item: &Completed<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> CodexOutcome {
        let tool = item.tool.and_then(json::text).unwrap_or_default();
        // Only a spawned agent is a new session; waiting, writing and closing are not told.
        if !matches!(tool.as_str(), "spawnAgent" | "spawn_agent" | "spawn") {
            return CodexOutcome::Silent;
        }
        for session in &item.receiver_thread_ids {
            let (task, call_id) = (item.prompt.clone(), item.id.as_deref());
            self.child_requested(session, String::new(), task, call_id, at, builder);
        }
        CodexOutcome::Added
    }

    /// The oldest form: an event of its own.
    fn parse_spawn(
        &mut self,
        json: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        #[derive(Deserialize)]
        struct Spawned {
            call_id: Option<String>,
            new_thread_id: Option<String>,
            new_agent_nickname: Option<String>,
            prompt: Option<String>,
        }
        let spawned: Spawned = json::read(json)?;
        let Some(session) = spawned.new_thread_id else { return Ok(CodexOutcome::Silent) };
        let agent = spawned.new_agent_nickname.unwrap_or_default();
        let call_id = spawned.call_id.as_deref();
        self.child_requested(&session, agent, spawned.prompt, call_id, at, builder);
        Ok(CodexOutcome::Added)
    }

    fn child_requested(
        &mut self,
        session: &str,
        agent: String,
        task: Option<String>,
        call_id: Option<&str>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call = call_id.and_then(|call_id| self.state.calls.get(call_id));
        // Taken, not copied: it is needed once, and the state is small.
        let (event_id, asked) = call.map(|call| (call.event_id, call.task.take())).unzip();
        let task = task.or(asked.flatten()).unwrap_or_default();
        builder.child_requested(at, ChildCall { session, agent, task, call: event_id });
    }
}

/// What a command of a program was given.
#[derive(Serialize)]
struct CommandInput<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a RawValue>,
}

impl Completed<'_> {
    fn has_status(&self, word: &str) -> bool {
        self.status.and_then(json::text).as_deref() == Some(word)
    }

    /// How a command ended and what it printed, and how much of that is shown.
    fn tool_result(&self, call_id: String) -> (ToolResult, Option<String>) {
        // A declined command never ran and a patch has no exit code, so the status goes first.
        let outcome = match self.exit_code {
            _ if self.has_status("declined") => Outcome::Rejected,
            _ if self.has_status("failed") => Outcome::Error,
            Some(code) if code != 0 => Outcome::Error,
            _ => Outcome::Ok,
        };
        let output = self.aggregated_output.or(self.stdout);
        // No more is decoded than is shown: an output may be long.
        let text = output.and_then(|output| json::string_prefix(output.get(), SHOWN_CHARS_MAX + 1));
        let result = ToolResult {
            call_id,
            outcome,
            output: output.map(Raw::from),
            duration_ms: self.duration.map(Duration::as_millis),
            exit_code: self.exit_code,
            ..ToolResult::default()
        };
        (result, text.map(|text| preview_text(&text)))
    }
}

fn plain_text(raw: Option<&RawValue>) -> String {
    raw.and_then(json::text).unwrap_or_default()
}

fn join_lines(raw: Option<&RawValue>) -> String {
    let lines: Option<Vec<String>> = raw.and_then(|raw| json::read(raw.get()).ok());
    lines.unwrap_or_default().join("\n")
}

/// Why a turn failed, in words.
fn error_text(error: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Error {
        message: String,
    }
    // An object with a message, a plain text, or else the JSON as it is.
    let message = json::read::<Error>(error.get()).map(|error| error.message).ok();
    message.or_else(|| json::text(error)).unwrap_or_else(|| error.get().to_owned())
}
