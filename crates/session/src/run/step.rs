//! One answer while its events come in, in any order.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContentPart, ToolCall, ToolResult,
};
use event::{Cost, Event, Time};

use super::{RunCall, RunInput, RunMetrics, RunResult, RunStep};

pub(super) struct StepBuilder {
    step: RunStep,
    pub(super) message_id: String,
    /// A prompt or result came after the answer.
    pub(super) is_closed: bool,
    /// When the request for it went out, as long as no end of the step is known.
    pub(super) begun_at: Option<Time>,
    messages: Vec<(u32, Vec<ContentPart>)>,
    thinking: Vec<(u32, AssistantThinking)>,
    calls: Vec<(u32, RunCall)>,
}

impl StepBuilder {
    pub(super) fn new(event: &Event, message_id: String, input: Vec<RunInput>) -> StepBuilder {
        StepBuilder {
            step: RunStep {
                step_id: event.id,
                at: event.created_at,
                input,
                output: Content::default(),
                thinking: Vec::new(),
                calls: Vec::new(),
                results: Vec::new(),
                cost: Cost::ZERO,
                metrics: RunMetrics::default(),
            },
            message_id,
            is_closed: false,
            begun_at: None,
            messages: Vec::new(),
            thinking: Vec::new(),
            calls: Vec::new(),
        }
    }

    pub(super) fn add_part(&mut self, event: &Event, cost: Cost) {
        self.step.cost += cost;
        if let Some(message) = event.readable::<AssistantMessage>() {
            self.messages.push((message.block, message.content.0));
        } else if let Some(thinking) = event.readable::<AssistantThinking>() {
            self.thinking.push((thinking.block, thinking));
        } else if let Some(call) = event.readable::<ToolCall>() {
            let called = RunCall {
                event_id: event.id,
                seq: event.seq,
                call_id: call.call_id,
                tool: call.tool,
                input: call.input,
            };
            self.calls.push((call.block, called));
        }
    }

    pub(super) fn add_result(&mut self, event: &Event, result: ToolResult, cost: Cost) {
        self.step.cost += cost;
        self.step.results.push(RunResult { event_id: event.id, seq: event.seq, result });
    }

    pub(super) fn metrics(&mut self) -> &mut RunMetrics {
        &mut self.step.metrics
    }

    pub(super) fn finish(mut self) -> RunStep {
        // Parts may be recorded in another order than the model said them; the block number tells.
        self.messages.sort_by_key(|(block, _)| *block);
        self.thinking.sort_by_key(|(block, _)| *block);
        self.calls.sort_by_key(|(block, _)| *block);
        let parts = self.messages.into_iter().flat_map(|(_, parts)| parts);
        self.step.output = Content(parts.collect());
        self.step.thinking = self.thinking.into_iter().map(|(_, thinking)| thinking).collect();
        self.step.calls = self.calls.into_iter().map(|(_, call)| call).collect();
        self.step
    }
}
