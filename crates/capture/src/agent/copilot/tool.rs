//! Tools: their calls and results, and the decisions about them.

use event::json;
use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, Decision, Effect, Outcome, ToolCall,
    ToolResult, ToolStarted,
};

use super::log::{
    CopilotCallText, CopilotLine, Permission, PermissionCompleted, PermissionRequested,
    ToolCompleted, ToolRequest,
};
use super::state::Asking;
use super::{CopilotLog, Parsed};
use crate::agent::calls::Call;
use crate::event_builder::{EventBuilder, preview_text};
use crate::identity::EventIdentity;
use crate::limit::SHOWN_CHARS_MAX;

/// The tool that asks a person.
const ASKING: &str = "ask_user";

/// The tool that hands work to a subagent.
const TASK: &str = "task";

/// The model of a result that was made up after a crash.
const MADE_UP: &str = "resumed";

impl CopilotLog {
    pub(super) fn open_call(
        &mut self,
        line: &CopilotLine<'_>,
        call: ToolCall,
        builder: &mut EventBuilder<'_>,
    ) {
        // The same whether the answer tells of it or, without one, its beginning.
        let turn = self.state.open_thread(line.agent_id()).turn.clone().unwrap_or_default();
        let identity = EventIdentity::everywhere(&["call", &turn, &call.call_id]);
        let event_id = builder.add_call(identity, line.parse_time(), &call).id;
        let ToolCall { call_id, tool, input, .. } = call;
        let (mut task, asks) = (None, tool == ASKING);
        if asks || tool == TASK {
            let words: CopilotCallText = input.read().unwrap_or_default();
            task = words.prompt;
            if asks {
                builder.open_question(
                    line.parse_time(),
                    &call_id,
                    &words.question.unwrap_or_default(),
                );
            }
        }
        self.state.calls.open(Call { call_id, event_id, tool, task, more: Asking { asks } });
    }

    pub(super) fn tool_started(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let request: ToolRequest = line.parse_data()?;
        let (call_id, tool) = (request.tool_call_id, request.name);
        // A call that the user asked for directly stands in no answer.
        if self.state.calls.get(&call_id).is_none() {
            let (call_id, tool, input) = (call_id.clone(), tool.clone(), request.arguments);
            self.open_call(line, ToolCall { call_id, tool, input, ..ToolCall::default() }, builder);
        }
        // The log does not say whether the tool changes anything.
        let effect = Effect::from("unknown");
        let started = ToolStarted { call_id, tool, idempotency_key: String::new(), effect };
        let identity = line.identity("");
        builder.add_event(identity, line.parse_time(), &started).text = Some(started.tool.clone());
        Ok(())
    }

    pub(super) fn tool_completed(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let completed: ToolCompleted = line.parse_data()?;
        let call = self.state.calls.close(&completed.tool_call_id);
        let exit_code = completed.shell_execution.and_then(|shell| shell.exit_code);
        let code = completed.error.as_ref().and_then(|error| error.code.clone());
        // An exit with 3 is a success for Copilot; the code is beside the result.
        let outcome = match (completed.success, code.as_deref()) {
            (false, Some("rejected" | "denied")) => Outcome::Rejected,
            (false, Some("aborted" | "cancelled")) => Outcome::Canceled,
            (false, _) => Outcome::Error,
            (true, _) if exit_code.is_some_and(|code| code != 0) => Outcome::Error,
            (true, _) => Outcome::Ok,
        };
        let result = ToolResult {
            call_id: completed.tool_call_id,
            tool: call.as_ref().map(|call| call.tool.clone()),
            outcome,
            output: completed.result.and_then(|result| result.content),
            error: completed.error.and_then(|error| error.message),
            exit_code,
            // After kill -9 the resume writes such a result for every call that was cut off.
            repair: completed.model.as_deref() == Some(MADE_UP),
            ..ToolResult::default()
        };
        // No more is decoded than is shown: an output may be long.
        let said = result.output.as_ref();
        let said = said.and_then(|said| json::string_prefix(said.get(), SHOWN_CHARS_MAX + 1));
        let draft = builder.add_event(line.identity(""), line.parse_time(), &result);
        draft.text = said.or_else(|| result.error.clone()).map(|said| preview_text(&said));
        draft.parent_id = call.as_ref().map(|call| call.event_id);
        if call.is_some_and(|call| call.more.asks) {
            builder.close_question(line.parse_time(), "", &result);
        }
        Ok(())
    }

    pub(super) fn approval_requested(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let requested: PermissionRequested = line.parse_data()?;
        let permission: Permission = json::read(requested.permission_request.get())?;
        let call = permission.tool_call_id.as_deref().and_then(|id| self.state.calls.get(id));
        let tool = call.map(|call| call.tool.clone());
        let request = ApprovalRequested {
            approval_id: requested.request_id,
            tool: tool.or_else(|| permission.kind.clone()).unwrap_or_default(),
            input: Some(requested.permission_request),
            call_id: permission.tool_call_id,
            category: permission.kind,
            operation: permission.intention,
            resource: permission.full_command_text,
            ..ApprovalRequested::default()
        };
        let text = request.resource.clone().unwrap_or_else(|| request.tool.clone());
        builder.add_event(line.identity(""), line.parse_time(), &request).text =
            Some(preview_text(&text));
        Ok(())
    }

    pub(super) fn approval_resolved(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let PermissionCompleted { request_id, result, decision_source } = line.parse_data()?;
        let (identity, at) = (line.identity(""), line.parse_time());
        let reason = result.feedback.or(result.reason);
        // Esc while the dialog was open: nothing was decided.
        if result.kind == "cancelled" {
            let reason = reason.unwrap_or_else(|| result.kind.clone());
            let canceled = ApprovalCanceled { approval_id: request_id, tool: None, reason };
            builder.add_event(identity, at, &canceled).text = Some(result.kind);
            return Ok(());
        }
        let decision = match result.kind.starts_with("approved") {
            true => Decision::Allow,
            false => Decision::Deny,
        };
        let is_person = match decision_source.as_deref() {
            // Without a terminal `unattended_fallback` denies: a rule, not a person.
            Some(source) => source == "human_response",
            // Versions that name no source record only what they asked a person, and the denials of
            // rules, whose kind says so.
            None => decision == Decision::Allow || result.kind.contains("by-user"),
        };
        let resolved = ApprovalResolved {
            approval_id: request_id,
            decision,
            reason: reason.or_else(|| Some(result.kind.clone())),
            by: Some(if is_person { "person" } else { "rule" }.to_owned()),
            automated: !is_person,
        };
        builder.add_event(identity, at, &resolved).text = Some(result.kind);
        Ok(())
    }
}
