//! The current answer and those of its calls that have no result yet.
//!
//! A prompt or another answer closes all of them; context and facts close none. A prompt that
//! goes back to an earlier event closes them as well, so what is open is always on the active
//! path.

use event::payload::{Effect, ToolCall, ToolDelta, ToolResult, ToolStarted};
use event::{Event, EventId, ForkOrigin, SessionId, Time};
use serde::{Deserialize, Serialize};

use super::Opened;
use crate::answer::AnswerPart;
use crate::execution::{idempotency_key, input_digest};

/// The open calls of one answer that are remembered. Only an observed log can have more; their
/// results will find no call.
const CALLS_MAX: usize = 4_096;

/// A call without a result. One id used twice in an answer is two of these.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenCall {
    pub call_id: String,
    pub tool: String,
    /// Where it was asked.
    pub opened: Opened,
    /// Its place among the calls of its answer, from 0.
    pub index: u32,
    /// SHA-256 of the raw input, hex.
    pub input_digest: String,
    /// The key as the call or its start recorded it.
    pub idempotency_key: Option<String>,
    /// Where it last got to run.
    pub started: Option<StartedCall>,
    /// When partial output was last stored.
    pub delta_at: Option<Time>,
}

/// A call that got to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartedCall {
    pub opened: Opened,
    pub effect: Effect,
}

impl OpenCall {
    /// The key under which this call is run: the recorded one, else derived from where its answer
    /// was first recorded.
    pub fn execution_key(&self, answer: &ForkOrigin) -> String {
        match &self.idempotency_key {
            Some(key) => key.clone(),
            None => idempotency_key(answer, &self.tool, self.index, &self.input_digest),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Exchange {
    answer: Option<OpenAnswer>,
    calls: Vec<OpenCall>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OpenAnswer {
    message_id: String,
    first: Opened,
    /// Where its first event came from, in a fork.
    origin: Option<ForkOrigin>,
    calls_count: u32,
    has_result: bool,
}

impl Exchange {
    pub(crate) fn calls(&self) -> &[OpenCall] {
        &self.calls
    }

    /// Where the current answer begins.
    pub(crate) fn first_seq(&self) -> Option<u64> {
        self.answer.as_ref().map(|answer| answer.first.seq)
    }

    /// Where the current answer was recorded, as far as this session can tell.
    pub(crate) fn answer_origin(&self, session_id: &SessionId) -> Option<ForkOrigin> {
        let answer = self.answer.as_ref()?;
        Some(answer.origin.clone().unwrap_or_else(|| ForkOrigin {
            session_id: session_id.clone(),
            event_id: answer.first.event_id,
        }))
    }

    /// The open call a start or result is for: the one with its key, else the first of its id.
    pub(crate) fn position(&self, call_id: &str, key: Option<&str>) -> Option<usize> {
        let fits = |call: &OpenCall| call.call_id == call_id;
        let by_key = key.and_then(|key| {
            self.calls
                .iter()
                .position(|call| fits(call) && call.idempotency_key.as_deref() == Some(key))
        });
        // Most observed results carry no key.
        by_key.or_else(|| self.calls.iter().position(fits))
    }

    pub(crate) fn close_answer(&mut self) {
        *self = Exchange::default();
    }

    pub(crate) fn apply_answer(&mut self, event: &Event, part: &AnswerPart) {
        let goes_on = self
            .answer
            .as_ref()
            .is_some_and(|answer| part.continues(&answer.message_id, answer.has_result));
        if !goes_on {
            // A new answer ends the exchange before it: calls without a result will not get one any
            // more.
            self.calls.clear();
            self.answer = Some(OpenAnswer {
                message_id: part.message_id.clone(),
                first: Opened::from_event(event),
                origin: event.fork_origin(),
                calls_count: 0,
                has_result: false,
            });
        }
        if let Some(call) = &part.call {
            self.apply_call(event, call);
        }
    }

    fn apply_call(&mut self, event: &Event, call: &ToolCall) {
        // `apply_answer` is the only caller and has opened the answer just before.
        let answer = self.answer.as_mut().expect("a call is part of an answer");
        let index = call.index.unwrap_or(answer.calls_count);
        // Counted before the checks below, so that the keys of later calls do not depend on what is
        // skipped.
        answer.calls_count += 1;
        if call.call_id.trim().is_empty() || self.calls.len() == CALLS_MAX {
            return;
        }
        self.calls.push(OpenCall {
            call_id: call.call_id.clone(),
            tool: call.tool.clone(),
            opened: Opened::from_event(event),
            index,
            input_digest: input_digest(&call.input),
            idempotency_key: call.idempotency_key.clone().filter(|key| !key.is_empty()),
            started: None,
            delta_at: None,
        });
    }

    pub(crate) fn apply_start(&mut self, event: &Event) {
        let Some(started) = event.readable::<ToolStarted>() else { return };
        let key = Some(started.idempotency_key).filter(|key| !key.is_empty());
        let Some(place) = self.start_position(&started.call_id, key.as_deref()) else { return };
        let call = &mut self.calls[place];
        // The start was decided with this key; the result will be looked up under it.
        call.idempotency_key = key.or(call.idempotency_key.take());
        call.started =
            Some(StartedCall { opened: Opened::from_event(event), effect: started.effect });
    }

    /// As [`Exchange::position`]; of two calls with one id the one that has not begun comes first.
    fn start_position(&self, call_id: &str, key: Option<&str>) -> Option<usize> {
        let place = self.position(call_id, key)?;
        let is_keyed = key.is_some() && self.calls[place].idempotency_key.as_deref() == key;
        if is_keyed {
            return Some(place);
        }
        // Of two calls with one id the first has begun already, so an unkeyed start means the
        // second.
        let waiting = |call: &OpenCall| call.call_id == call_id && call.started.is_none();
        self.calls.iter().position(waiting).or(Some(place))
    }

    pub(crate) fn apply_delta(&mut self, event: &Event) {
        let Some(delta) = event.readable::<ToolDelta>() else { return };
        if let Some(place) = self.position(&delta.call_id, None) {
            self.calls[place].delta_at = Some(event.created_at);
        }
    }

    pub(crate) fn apply_result(&mut self, event: &Event) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        if let Some(place) = self.position(&result.call_id, result.idempotency_key.as_deref()) {
            self.calls.remove(place);
        }
        if let Some(answer) = &mut self.answer {
            // Also for a result without a call: the agent has moved on from the answer either way.
            answer.has_result = true;
        }
    }

    /// Applies an amendment of a call that is still open.
    pub(crate) fn apply_amendment(&mut self, first: EventId, event: &Event) {
        let Some(call) = self.calls.iter_mut().find(|call| call.opened.event_id == first) else {
            return;
        };
        let Some(fuller) = event.readable::<ToolCall>() else { return };
        call.tool = fuller.tool;
        call.input_digest = input_digest(&fuller.input);
        // An amendment without a key keeps the recorded one: the tool may have started under it.
        call.idempotency_key = fuller.idempotency_key.or(call.idempotency_key.take());
    }

    /// The exchange as a fork shows it.
    pub(crate) fn inherit(
        &self,
        parent: &SessionId,
        fresh: &dyn Fn(EventId) -> EventId,
    ) -> Exchange {
        let mut exchange = self.clone();
        if let Some(answer) = &mut exchange.answer {
            answer.origin =
                Some(ForkOrigin { session_id: parent.clone(), event_id: answer.first.event_id });
            // The origin above keeps the parent's id, so the keys of the calls stay the same in the
            // fork.
            answer.first.event_id = fresh(answer.first.event_id);
        }
        for call in &mut exchange.calls {
            call.opened.event_id = fresh(call.opened.event_id);
            if let Some(started) = &mut call.started {
                started.opened.event_id = fresh(started.opened.event_id);
            }
        }
        exchange
    }
}
