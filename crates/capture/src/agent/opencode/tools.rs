//! Tool parts of OpenCode: pending, running, completed or failed, in one row.

use event::payload::{Outcome, ToolCall, ToolResult};
use event::{EventId, Raw, Time};

use super::OpenCodeParser;
use super::record::{OpenCodePart, OpenCodeState, parse_millis};
use crate::event_builder::{ChildCall, EventBuilder, argument, questions};
use crate::identity::EventIdentity;

const ASK: &str = "question";
/// What the agent writes when a person, or a rule, said no.
const REJECTED: &[&str] = &["rejected permission", "specified a rule which prevents"];
/// A no that ends the turn: without a reason, and from a person.
const BLOCKING: &[&str] = &["to use this specific tool call.", "dismissed this question"];
/// … and when the user stopped it.
const CANCELED: &[&str] = &["Tool execution aborted", "dismissed this question"];
const ABORTED_MARK: &str = "User aborted the command";

impl OpenCodeParser {
    pub(super) fn parse_tool(
        &mut self,
        part: &OpenCodePart,
        created: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        // First of all, because every part takes a place in its message.
        let block = self.memory.place_part(&part.message_id, &part.id);
        let Some(state) = &part.state else { return builder.count_silent() };
        // The model still writes the arguments.
        if state.status == "pending" {
            return builder.count_silent();
        }
        let is_first = self.memory.is_first_call(&part.id);
        // After kill -9 a call stays `running` forever: it never gets a result.
        let is_over = matches!(state.status.as_str(), "completed" | "error");
        if is_first {
            self.add_call(part, state, block, created, builder);
        }
        if let Some(session) = &state.metadata.session_id {
            let agent = argument(&state.input, "subagent_type").unwrap_or_default();
            let task = argument(&state.input, "prompt").unwrap_or_default();
            // The child's session is known a moment after the call.
            // Sessions are remembered among the calls: `ses_` and `prt_` ids never meet.
            if self.memory.is_first_call(session) {
                let call = call_event(part, state, created, builder);
                builder.child_requested(
                    parse_millis(state.time.start),
                    ChildCall { session, agent, task, call: Some(call) },
                );
            }
        }
        if is_over {
            self.add_result(part, state, created, builder);
        } else if !is_first {
            builder.count_silent();
        }
    }

    fn add_call(
        &mut self,
        part: &OpenCodePart,
        state: &OpenCodeState,
        block: u32,
        created: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = parse_millis(state.time.start);
        let call = ToolCall {
            call_id: part.call_id.clone(),
            tool: part.tool.clone(),
            input: state.input.clone(),
            message_id: part.message_id.clone(),
            block,
            ..ToolCall::default()
        };
        let event = builder.add_call(call_identity(part, created), at, &call).id;
        self.memory.last_event = Some(event);
        if part.tool == ASK {
            builder.open_question(at, &part.call_id, &questions(&state.input));
        }
    }

    fn add_result(
        &mut self,
        part: &OpenCodePart,
        state: &OpenCodeState,
        created: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = parse_millis(state.time.end);
        let result = tool_result(part, state, builder);
        let error = state.error.as_deref().unwrap_or_default();
        // At the end of the text only: with a reason behind it the agent goes on.
        let is_blocking = BLOCKING.iter().any(|mark| error.ends_with(mark));
        if let Some(message) = self.memory.find_message(&part.message_id) {
            message.is_blocked |= is_blocking;
        }
        let call = call_event(part, state, created, builder);
        let identity = EventIdentity::everywhere(&["result", created, &part.call_id]);
        let draft = builder.add_result(identity, at, &result);
        draft.parent_id = Some(call);
        self.memory.last_event = Some(draft.id);
        if part.tool == ASK {
            builder.close_question(at, &questions(&state.input), &result);
        }
        if let Some(session) = &state.metadata.session_id {
            builder.child_ended(at, session, &result);
        }
    }
}

fn call_identity(part: &OpenCodePart, created: &str) -> EventIdentity {
    EventIdentity::everywhere(&["call", created, &part.call_id])
}

/// The id of the call, whether it was told now or long ago.
fn call_event(
    part: &OpenCodePart,
    state: &OpenCodeState,
    created: &str,
    builder: &EventBuilder<'_>,
) -> EventId {
    // An event's id is made of its identity and its time, so it need not be remembered.
    let at = parse_millis(state.time.start).unwrap_or(Time::from_millis(0));
    builder.event_id(&call_identity(part, created), at)
}

fn tool_result(
    part: &OpenCodePart,
    state: &OpenCodeState,
    builder: &EventBuilder<'_>,
) -> ToolResult {
    let output = state.output.as_deref();
    // The row has only the beginning of a long output; a file has the whole.
    let whole = state.metadata.output_path.as_deref().and_then(|path| builder.read_beside(path));
    let duration = state.time.start.zip(state.time.end).map(|(start, end)| end - start);
    ToolResult {
        call_id: part.call_id.clone(),
        tool: Some(part.tool.clone()),
        outcome: tool_outcome(state),
        shown: whole.as_ref().and(output).map(str::to_owned),
        output: whole
            .as_deref()
            .or(output)
            .map(|text| Raw::from_value(text).expect("a text encodes")),
        error: state.error.clone(),
        duration_ms: duration.and_then(|millis| u64::try_from(millis).ok()),
        exit_code: state.metadata.exit,
        ..ToolResult::default()
    }
}

fn tool_outcome(state: &OpenCodeState) -> Outcome {
    let error = state.error.as_deref().unwrap_or_default();
    let says = |marks: &[&str]| marks.iter().any(|mark| error.contains(mark));
    // A command that the user stopped counts as completed and says so in its output.
    let was_aborted = state.output.as_deref().is_some_and(|output| output.contains(ABORTED_MARK));
    match state.status.as_str() {
        "error" if says(REJECTED) => Outcome::Rejected,
        "error" if says(CANCELED) => Outcome::Canceled,
        "error" => Outcome::Error,
        _ if was_aborted => Outcome::Canceled,
        _ if state.metadata.exit.is_some_and(|code| code != 0) => Outcome::Error,
        _ => Outcome::Ok,
    }
}
