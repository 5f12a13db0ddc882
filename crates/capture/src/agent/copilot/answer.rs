//! What the model says, step by step, and what each step used.

use event::Time;
use event::payload::{
    AssistantMessage, AssistantThinking, Content, StepCompleted, StepStarted, StopReason,
    TokenUsage, ToolCall,
};

use super::log::{CopilotAnswer, CopilotLine, CopilotUsage, UsageRecord};
use super::{CopilotLog, CopilotOutcome, Parsed};
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;

impl CopilotLog {
    /// One record is one answer: thoughts, words and calls, in this order.
    pub(super) fn parse_answer(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let CopilotAnswer { message_id, content, reasoning_text, tool_requests } =
            line.parse_data()?;
        let at = line.parse_time();
        let mut block = 0;
        if let Some(thinking) = reasoning_text.filter(|thinking| !thinking.is_empty()) {
            let message_id = message_id.clone();
            let thinking =
                AssistantThinking { message_id, block, thinking, ..AssistantThinking::default() };
            builder.thinking(line.identity("thinking"), at, &thinking);
            block += 1;
        }
        if !content.is_empty() {
            let (message_id, content) = (message_id.clone(), Content::text(content));
            let message =
                AssistantMessage { message_id, block, content, ..AssistantMessage::default() };
            builder.add_message(line.identity("message"), at, &message);
            block += 1;
        }
        // By this the end of the request decides whether the turn is over.
        let requests = tool_requests.unwrap_or_default();
        self.state.open_thread(line.agent_id()).wants_tools = Some(!requests.is_empty());
        for request in requests {
            let call = ToolCall {
                call_id: request.tool_call_id,
                tool: request.name,
                input: request.arguments,
                message_id: message_id.clone(),
                block,
                ..ToolCall::default()
            };
            self.open_call(line, call, builder);
            block += 1;
        }
        Ok(())
    }

    /// What the agent calls a turn is one request to the model.
    pub(super) fn step_started(&mut self, line: &CopilotLine<'_>, builder: &mut EventBuilder<'_>) {
        self.state.open_thread(line.agent_id()).wants_tools = None;
        let model = builder.known_settings().model.clone();
        let started = StepStarted { model, ..StepStarted::default() };
        builder.add_event(line.identity(""), line.parse_time(), &started);
    }

    /// An answer that wants no tools is the last of its turn.
    pub(super) fn step_ended(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> CopilotOutcome {
        let talk = self.state.open_thread(line.agent_id());
        // Without an answer (`None`) the request failed or was cut off, and an abort has closed the
        // turn itself.
        if talk.wants_tools != Some(false) || !talk.is_turn_open {
            return CopilotOutcome::Silent;
        }
        self.turn_ended(line, builder, StopReason::Completed, None);
        CopilotOutcome::Added
    }

    pub(super) fn parse_usage(
        &mut self,
        line: &CopilotLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Parsed {
        let UsageRecord { usage } = line.parse_data()?;
        // A fork copies the usage as well: its id is the same in every copy (1.0.102).
        let identity = match &usage.accounting {
            Some(accounting) => EventIdentity::everywhere(&[
                "usage",
                &accounting.source_session_id,
                &accounting.usage_id,
            ]),
            None => line.identity("usage"),
        };
        self.step_completed(identity, line.parse_time(), &usage, builder);
        Ok(())
    }

    pub(super) fn step_completed(
        &self,
        identity: EventIdentity,
        at: Option<Time>,
        used: &CopilotUsage,
        builder: &mut EventBuilder<'_>,
    ) {
        // What was cached is part of the input, but for servers that count it beside.
        let cached = used.cache_read_tokens.saturating_add(used.cache_write_tokens);
        let input = used.input_tokens.checked_sub(cached).unwrap_or(used.input_tokens);
        let usage = TokenUsage {
            input_tokens: Some(input),
            output_tokens: Some(used.output_tokens),
            cache_read_tokens: Some(used.cache_read_tokens),
            cache_creation_tokens: Some(used.cache_write_tokens),
            reasoning_tokens: Some(used.reasoning_tokens),
            ..TokenUsage::default()
        };
        let step = StepCompleted {
            model: used.model.clone().or_else(|| builder.known_settings().model.clone()),
            response_id: used.api_call_id.clone(),
            usage: Some(usage),
            ..StepCompleted::default()
        };
        builder.add_event(identity, at, &step);
    }
}
