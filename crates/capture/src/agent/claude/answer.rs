//! What the model says: an answer is several records with one `message.id`, a block each.

use event::payload::{
    AssistantMessage, AssistantThinking, ChildRequested, Content, ErrorRaised, ExternalInput,
    InputStatus, StopReason, ToolCall,
};
use event::{EventId, Raw};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{ClaudeBlock, ClaudeLine, ClaudeMessage, parse_blocks};
use super::meaning::{Meaning, remembered};
use super::{ClaudeState, ClaudeTranscript, identity};
use crate::agent::SourceRole;
use crate::agent::calls::{Calls, Nothing};
use crate::event_builder::{EventBuilder, questions};
use crate::record::{RecordText, SourceRecord};
use crate::thread_state::SessionSettings;

/// The model name of answers that no model gave.
const NO_MODEL: &str = "<synthetic>";

/// What the agent writes behind a turn that a crash cut off, so that its history is whole.
const NO_ANSWER: &str = "No response requested.";

impl ClaudeTranscript {
    pub(super) fn assistant(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        let message: ClaudeMessage<'_> =
            serde_json::from_str(line.message.map_or("{}", RawValue::get))?;
        let blocks = message.content.map(parse_blocks).transpose()?.unwrap_or_default();
        let model = message.model.as_deref().unwrap_or_default();
        // The model goes on, so an announced compaction gets no summary any more.
        self.close_boundary(None, builder);
        self.surroundings(line, builder);
        // `<synthetic>` stands on errors that are shown as answers, and on the repair after a
        // crash.
        if line.is_api_error_message || model == NO_MODEL {
            self.state.requests.tell_held(builder);
            self.parse_synthetic(line, &blocks, builder);
            return Ok(());
        }
        // A side chain in the parent's file is a subagent's, which may use another model.
        let is_of_session = !line.is_sidechain || self.role != SourceRole::Main;
        if is_of_session
            && !model.is_empty()
            && builder.known_settings().model.as_deref() != Some(model)
        {
            let model = Some(model.to_owned());
            builder.settings(
                line.parse_time(),
                SessionSettings { model, ..SessionSettings::default() },
            );
        }
        let ClaudeState { requests, calls, .. } = &mut self.state;
        // A record without a message id is an answer of its own.
        let uuid = line.uuid.as_deref().unwrap_or_default();
        let message_id = message.id.as_deref().unwrap_or(uuid);
        let request = requests.open(message_id, line.request_id.as_deref(), builder);
        // Blocks are counted over the whole answer: Claude writes one block per record, all with
        // the same `message.id`.
        for (number, block) in blocks.iter().enumerate() {
            let part = ClaudePart { line, message: &message, message_id, number, block };
            if part.add_events(request.blocks, calls, builder) {
                request.blocks = request.blocks.saturating_add(1);
            } else {
                builder.add_unknown(record, &format!("assistant {}", &*block.kind), None);
            }
        }
        // With a stop reason the usage is final; until then a later record of the answer may have a
        // larger one.
        let is_last = message.stop_reason.is_some();
        request.add_usage(record, line, &message)?;
        if is_last {
            request.flush_usage(builder);
        }
        // A headless run writes no `turn_duration`: that the model ended the turn is all there is.
        if message.stop_reason.as_deref() == Some("end_turn") && is_of_session {
            builder.turn_answered();
        }
        Ok(())
    }

    /// An answer that no model gave: what went wrong, in the agent's words.
    fn parse_synthetic(
        &mut self,
        line: &ClaudeLine<'_>,
        blocks: &[ClaudeBlock<'_>],
        builder: &mut EventBuilder<'_>,
    ) {
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
        let message = texts.join("\n");
        let identity = identity(line, "made up", builder);
        // After kill -9 the next resume adds this answer. No request was made, so it is no error.
        if message == NO_ANSWER {
            builder.add_note(identity, line.parse_time(), "repair", message);
            return;
        }
        let error = ErrorRaised {
            message: message.clone(),
            code: line.api_error_status.map(Raw::from),
            scope: Some("model".to_owned()),
            recoverable: None,
        };
        builder.add_error(identity, line.parse_time(), &error);
        // The agent has given up, so the turn is over. A subagent's error is not the end of its
        // parent's turn, and in a side chain it stands in the parent's file.
        if line.is_api_error_message && !self.is_subagent(line) {
            self.turn_over(line, StopReason::Completed, Some(message), builder);
        }
    }
}

/// One block of an answer.
struct ClaudePart<'a> {
    line: &'a ClaudeLine<'a>,
    message: &'a ClaudeMessage<'a>,
    message_id: &'a str,
    /// Its place in the record.
    number: usize,
    block: &'a ClaudeBlock<'a>,
}

impl ClaudePart<'_> {
    /// Tells it as number `block` of the answer; says whether it is understood.
    fn add_events(
        &self,
        block: u32,
        calls: &mut Calls<Nothing>,
        builder: &mut EventBuilder<'_>,
    ) -> bool {
        let ClaudePart { line, message_id, block: said, .. } = self;
        let message_id = (*message_id).to_owned();
        let identity = identity(line, &format!("block {}", self.number), builder);
        match &*said.kind {
            "text" => {
                let message = AssistantMessage {
                    message_id,
                    block,
                    content: Content::text(said.text.as_deref().unwrap_or_default()),
                    name: None,
                    stop_reason: self.message.stop_reason.as_deref().map(str::to_owned),
                };
                builder.add_message(identity, line.parse_time(), &message);
            }
            "thinking" | "redacted_thinking" => {
                let owned = |text: &Option<RecordText<'_>>| text.as_deref().map(str::to_owned);
                let thinking = AssistantThinking {
                    message_id,
                    block,
                    thinking: owned(&said.thinking).unwrap_or_default(),
                    signature: owned(&said.signature),
                    redacted: owned(&said.data),
                };
                builder.thinking(identity, line.parse_time(), &thinking);
            }
            // The last two are calls that the provider's side runs itself.
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.add_tool_call(message_id, block, calls, builder);
            }
            _ => return false,
        }
        true
    }

    fn add_tool_call(
        &self,
        message_id: String,
        block: u32,
        calls: &mut Calls<Nothing>,
        builder: &mut EventBuilder<'_>,
    ) {
        let ClaudePart { line, block: said, .. } = self;
        let call = ToolCall {
            call_id: said.id.as_deref().unwrap_or_default().to_owned(),
            tool: said.name.as_deref().unwrap_or_default().to_owned(),
            input: said.input.map(Raw::from).unwrap_or_default(),
            message_id,
            block,
            index: None,
            idempotency_key: None,
        };
        let of_call = identity(line, &format!("block {}", self.number), builder);
        // Told first, because what else the call means points at it.
        let event = builder.add_call(of_call.clone(), line.parse_time(), &call).id;
        calls.open(remembered(&call.call_id, &call.tool, event));
        match Meaning::from_tool(&call.tool) {
            Meaning::Nothing => {}
            Meaning::Child => {
                let requested = requested(&call, event);
                builder
                    .add_event(of_call.with_part("child"), line.parse_time(), &requested)
                    .parent_id = Some(event);
            }
            Meaning::Question => {
                let question = ExternalInput {
                    request_id: call.call_id.clone(),
                    prompt: questions(&call.input),
                    status: InputStatus::Pending,
                    input: Some(call.input),
                };
                let draft =
                    builder.add_event(of_call.with_part("question"), line.parse_time(), &question);
                draft.parent_id = Some(event);
                draft.text = Some(question.prompt);
            }
        }
    }
}

/// The subagent a call asks for.
fn requested(call: &ToolCall, event: EventId) -> ChildRequested {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Task {
        prompt: String,
        subagent_type: String,
    }
    // A call with an input that does not fit still starts a subagent; only its task is missing.
    let task: Task = call.input.read().unwrap_or_default();
    ChildRequested {
        child_id: call.call_id.clone(),
        // The result of the call names the session, which does not exist yet.
        child_session_id: String::new(),
        metadata: None,
        agent_id: task.subagent_type,
        mode: None,
        task: task.prompt,
        parent_event_id: Some(event),
        context: None,
        shared_prefix_key: None,
    }
}
