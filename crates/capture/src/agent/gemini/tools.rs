//! Tool calls of Gemini, which are written when they are over, and what the model got of them.

use event::payload::{Outcome, ToolCall, ToolResult};
use event::{Raw, Time};

use super::record::{GeminiCall, Response};
use super::{GeminiParser, parse_time};
use crate::event_builder::{ChildCall, EventBuilder, argument, questions};
use crate::identity::EventIdentity;
use crate::source::short_hash;

const RESULTS_MAX: usize = 64;

const SHELL: &str = "run_shell_command";
const ASK: &str = "ask_user";
const DENIED: &str = "User denied execution";
/// How an output that was cut names the file with the whole.
const WHOLE_OUTPUT_MARK: &str = "For full output see: ";

impl GeminiParser {
    /// A call that is over: it is not written before.
    pub(super) fn parse_call(
        &mut self,
        id: &str,
        call: &GeminiCall,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let GeminiCall { id: call_id, name, args, .. } = call;
        let tool_call = ToolCall {
            call_id: call_id.clone(),
            tool: name.clone(),
            input: args.clone(),
            // Of the answer, not of the message: cancelled calls come in a message of their own.
            message_id: self.state.answer.id.clone(),
            block: self.state.answer.next_block(),
            ..ToolCall::default()
        };
        let call_event =
            builder.add_call(EventIdentity::in_session(&["call", id, call_id]), at, &tool_call).id;
        let asks = (name == ASK).then(|| questions(args));
        if let Some(question) = &asks {
            builder.open_question(at, call_id, question);
        }
        if let Some(session) = &call.agent_id {
            let agent = argument(args, "agent_name").unwrap_or_default();
            let task = argument(args, "prompt").unwrap_or_default();
            builder.child_requested(at, ChildCall { session, agent, task, call: Some(call_event) });
        }
        // The time of a call is that of its end; the answer's is when it was asked for.
        let at = parse_time(call.timestamp.as_deref()).or(at);
        let response = call.result.0.iter().find_map(|part| part.function_response.as_ref());
        let mut result = tool_result(builder, call_id, name, response);
        result.outcome = tool_outcome(&call.status, &result);
        let draft =
            builder.add_result(EventIdentity::in_session(&["result", id, call_id]), at, &result);
        draft.parent_id = Some(call_event);
        self.state.last_event = Some(draft.id);
        // The next user message repeats the result, as the model gets it.
        self.remember_result(call_id);
        if let Some(question) = &asks {
            builder.close_question(at, question, &result);
        }
        // A call is written when it is over, so its subagent is over, too.
        if let Some(session) = &call.agent_id {
            builder.child_ended(at, session, &result);
        }
    }

    /// What the model got; told if the call itself has not told it.
    pub(super) fn response(
        &mut self,
        response: &Response,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // The call was written with its result before.
        if self.state.results.contains(&short_hash(&[&response.id])) {
            return;
        }
        let answer = self.state.answer.id.clone();
        let result = tool_result(builder, &response.id, &response.name, Some(response));
        let identity = EventIdentity::in_session(&["result", &answer, &response.id]);
        self.state.last_event = Some(builder.add_result(identity, at, &result).id);
        self.remember_result(&response.id);
    }

    fn remember_result(&mut self, call_id: &str) {
        if self.state.results.len() == RESULTS_MAX {
            self.state.results.pop_front();
        }
        self.state.results.push_back(short_hash(&[call_id]));
    }
}

fn tool_result(
    builder: &EventBuilder<'_>,
    call_id: &str,
    tool: &str,
    response: Option<&Response>,
) -> ToolResult {
    let mut result = ToolResult {
        call_id: call_id.to_owned(),
        tool: Some(tool.to_owned()).filter(|tool| !tool.is_empty()),
        ..ToolResult::default()
    };
    let Some(response) = response else { return result };
    result.output = response.response.output.clone();
    result.error = response.response.error.as_ref().and_then(Raw::text);
    if result.error.is_some() {
        result.outcome = Outcome::Error;
    }
    let text = result.output_text().unwrap_or_default();
    // The exit code is only in the text: an exit with 3 is a success for Gemini (0.61).
    if tool == SHELL {
        result.exit_code = exit_code(&text);
    }
    if let Some(whole) = whole_output(builder, &text) {
        result.output = Some(Raw::from_value(&whole).expect("a text encodes"));
        result.shown = Some(text);
    }
    result
}

/// A failing command counts as a success for the agent; only its text says otherwise.
fn tool_outcome(status: &str, result: &ToolResult) -> Outcome {
    match status {
        // Esc and a denial are both `cancelled`; only the words of the error differ.
        "cancelled" if result.error.as_deref().is_some_and(|error| error.contains(DENIED)) => {
            Outcome::Rejected
        }
        "cancelled" => Outcome::Canceled,
        "error" => Outcome::Error,
        _ if result.exit_code.is_some_and(|code| code != 0) => Outcome::Error,
        _ => result.outcome.clone(),
    }
}

/// What a command ended with, as the last lines of its output say.
pub(in crate::agent) fn exit_code(output: &str) -> Option<i64> {
    // From the end, because the command may print such a line itself.
    let code = output.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "))?;
    code.trim().parse().ok()
}

/// The whole of an output that was moved to a file.
fn whole_output(builder: &EventBuilder<'_>, text: &str) -> Option<String> {
    let (_, rest) = text.split_once(WHOLE_OUTPUT_MARK)?;
    builder.read_beside(rest.lines().next()?.trim())
}
