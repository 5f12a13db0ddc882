//! Messages of hooks, recorded.
//!
//! The transcript of the session is read to its end first; then the events that only the hook tells
//! are added behind it. A message that comes twice adds nothing.

use std::path::Path;

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, Decision, Effect, ExternalInput,
    InputStatus, ToolCall, ToolResult, ToolStarted,
};
use event::{Confidence, Draft, HookFact, HookMessage, Kind, Raw, SignalKind, Source as How};
use serde::Serialize;

use super::memory::{HookMemory, OpenQuestion, SessionMemory, StartedCall, input_hash};
use super::{HookMap, ToolReport, hook_map};
use crate::error::CaptureError;
use crate::event_builder::{EventBuilder, call_line, questions, session_id, shown_json};
use crate::identity::EventIdentity;
use crate::ingester::{IngestSummary, Ingester};
use crate::signal::SignalOutcome;
use crate::sink::Sink;
use crate::source::Source;

/// An event that only a hook tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookOnlyEvent {
    pub kind: Kind,
    pub data: Raw,
    pub text: Option<String>,
}

impl Ingester<'_> {
    /// Records the events that only this message tells, behind all that its transcript has so far.
    pub fn ingest_hook(
        &self,
        message: &HookMessage,
        memory: &mut HookMemory,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<SignalOutcome, CaptureError> {
        let agent = self.agents.iter().find(|agent| agent.provider() == message.provider);
        let Some(agent) = agent.copied() else { return Ok(SignalOutcome::UnknownSession) };
        // Without a map no event is told by hooks alone.
        let Some(map) = agent.hook_map() else { return Ok(SignalOutcome::Done) };
        let (all, session) = (memory, session_id(agent.provider(), &message.session));
        let memory = all.for_session(session.as_str());
        let is_process_new = memory.is_other_process(message.process);
        let may_tell = map.may_tell(message, memory);
        if !may_tell && !is_process_new {
            // A later message may refer to this one, so it is remembered all the same.
            map.new_events(message, memory);
            return Ok(SignalOutcome::Done);
        }
        let Some((key, mut checkpoint, recorded)) =
            self.read_to_end(agent, message, sink, summary)?
        else {
            // An agent calls its first hook before it writes anything.
            if may_tell {
                return Ok(SignalOutcome::UnknownSession);
            }
            // The process alone need not wait on disk: another call would name it, too. But a turn
            // without tools has none before it is over.
            all.keep_unwritten(message);
            return Ok(SignalOutcome::Done);
        };
        // A copy, which counts once its events are durable: a message that fails comes again, and
        // tells the same in the light of the same memory.
        let mut memory = memory.clone();
        memory.note_process(message.process);
        let events = map.new_events(message, &mut memory);
        let process = message.process.filter(|_| is_process_new);
        if events.is_empty() && process.is_none() {
            *all.for_session(session.as_str()) = memory;
            return Ok(SignalOutcome::Done);
        }
        let path = checkpoint.path.clone();
        let source = Source::known(agent.provider(), &key, &path);
        let nothing_beside = |_: &str| None;
        let generation = checkpoint.generation;
        let now = (self.clock)();
        let mut builder =
            EventBuilder::new(&source, generation, &mut checkpoint.threads, &nothing_beside, now);
        builder.switch_session(&message.session);
        // Before the events that it tells: what the process before left open is over by then.
        if let Some(process) = process {
            builder.process_named(process, message.at);
        }
        for (number, HookOnlyEvent { kind, data, text }) in events.into_iter().enumerate() {
            // The name of the message makes the id, so a message that comes twice gives the same
            // events.
            let identity = EventIdentity::in_session(&["hook", &message.name, &number.to_string()]);
            builder.add_raw_event(identity, Some(message.at), kind, data).text = text;
        }
        let mut drafts = builder.finish().drafts;
        if !drafts.is_empty() {
            drafts.iter_mut().for_each(|draft| set_origin(draft, message));
            self.put_from_hook(agent, (key, checkpoint, recorded), drafts, sink, summary)?;
        }
        *all.for_session(session.as_str()) = memory;
        Ok(SignalOutcome::Done)
    }

    /// Reads what is new in the transcript that a message named.
    pub fn read_transcript(
        &self,
        provider: &str,
        transcript: &Path,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let agent = self.agents.iter().find(|agent| agent.provider() == provider);
        match agent.and_then(|agent| self.transcript_source(*agent, transcript, summary)) {
            Some(path) => self.poll_source(&path, u64::MAX, sink, summary).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// The events that only this message tells, in the light of those before it.
pub fn hook_only_events(message: &HookMessage, memory: &mut HookMemory) -> Vec<HookOnlyEvent> {
    let Some(map) = hook_map(&message.provider) else { return Vec::new() };
    let session = session_id(&message.provider, &message.session);
    map.new_events(message, memory.for_session(session.as_str()))
}

impl HookMap {
    /// Whether a message could come to an event. For most it could not, and then the transcript
    /// need not be read for it.
    fn may_tell(&self, message: &HookMessage, memory: &SessionMemory) -> bool {
        // A signal or any fact may answer or cancel a question that is open.
        let may_end = message.signal.is_some() || !message.facts.is_empty();
        let is_telemetry = message.source == How::Telemetry && !message.facts.is_empty();
        is_telemetry
            || message.facts.iter().any(|fact| self.is_hook_only(&fact.kind))
            || may_end && memory.has_questions()
    }

    fn new_events(&self, message: &HookMessage, memory: &mut SessionMemory) -> Vec<HookOnlyEvent> {
        let mut events = Vec::new();
        if message.source == How::Telemetry {
            // Only facts that no transcript has are made from telemetry, so all of them count.
            let news = message.facts.iter().filter(|fact| {
                fact.kind != Kind::ApprovalResolved || is_first_decision(&fact.data, memory)
            });
            return news.map(HookOnlyEvent::from_fact).collect();
        }
        for fact in &message.facts {
            let HookFact { kind, data } = fact;
            match kind {
                Kind::ToolCall => call_tool(message, data, memory, &mut events),
                Kind::ApprovalRequested => ask_approval(message, data, memory, &mut events),
                Kind::ExternalInput => ask_question(message, data, memory, &mut events),
                Kind::ToolStarted => start_tool(data, memory, &mut events),
                Kind::ToolResult => finish_tool(data, memory, &mut events),
                Kind::ApprovalResolved if !is_first_decision(data, memory) => {}
                Kind::TurnCompleted => cancel_all(message, memory, "interrupted", &mut events),
                _ => events.push(HookOnlyEvent::from_fact(fact)),
            }
        }
        match message.signal {
            Some(SignalKind::TurnEnd) => cancel_all(message, memory, "the turn ended", &mut events),
            Some(SignalKind::Stop | SignalKind::Clear) => {
                cancel_all(message, memory, "exited", &mut events);
            }
            Some(SignalKind::Compact) | None => {}
        }
        // Only now: kinds that the transcript has were needed above to close questions in the
        // memory.
        events.retain(|event| match event.kind {
            // A transcript that has decisions has cancellations, too.
            Kind::ApprovalCanceled => self.hook_only.contains(&Kind::ApprovalResolved),
            _ => self.is_recorded(&event.kind),
        });
        events
    }
}

impl HookOnlyEvent {
    fn from_fact(fact: &HookFact) -> HookOnlyEvent {
        HookOnlyEvent { kind: fact.kind.clone(), data: fact.data.clone(), text: None }
    }

    fn new(kind: Kind, payload: &impl Serialize, text: Option<String>) -> HookOnlyEvent {
        let data = Raw::from_value(payload).expect("payloads always encode");
        HookOnlyEvent { kind, data, text }
    }
}

fn call_tool(
    message: &HookMessage,
    data: &Raw,
    memory: &mut SessionMemory,
    events: &mut Vec<HookOnlyEvent>,
) {
    let Ok(call) = data.read::<ToolCall>() else { return };
    let call_id = Some(call.call_id).filter(|id| !id.is_empty());
    let started = ToolStarted {
        call_id: call_id.clone().unwrap_or_else(|| made_up_id(message)),
        tool: call.tool.clone(),
        idempotency_key: String::new(),
        effect: Effect::NeverReplay,
    };
    let text = Some(call_line(&call.tool, &call.input));
    events.push(HookOnlyEvent::new(Kind::ToolStarted, &started, text));
    let input_hash = input_hash(&call.tool, &call.input);
    let asks = questions(&call.input);
    memory.add_call(StartedCall { call_id, tool: call.tool, input_hash, asks });
}

fn ask_approval(
    message: &HookMessage,
    data: &Raw,
    memory: &mut SessionMemory,
    events: &mut Vec<HookOnlyEvent>,
) {
    let Ok(mut request) = data.read::<ApprovalRequested>() else { return };
    let input = request.input.clone().unwrap_or_default();
    let mut input_hash = input_hash(&request.tool, &input);
    // Without the name of a tool the request is about the last call, whatever its input.
    let is_named = !request.tool.is_empty();
    if let Some(call) = memory.last_call(is_named.then_some(&input_hash)) {
        request.call_id = request.call_id.or_else(|| call.call_id.clone());
        if !is_named {
            request.tool.clone_from(&call.tool);
            input_hash.clone_from(&call.input_hash);
        }
    }
    if request.approval_id.is_empty() {
        // A transcript that tells the decision names the call: so both have the same id.
        request.approval_id = request.call_id.clone().unwrap_or_else(|| made_up_id(message));
    }
    let is_new = memory.add_question(OpenQuestion {
        approval_id: request.approval_id.clone(),
        call_id: request.call_id.clone(),
        tool: request.tool.clone(),
        input_hash,
        at: message.at,
        is_approval: true,
    });
    if is_new {
        let text = Some(call_line(&request.tool, &input));
        events.push(HookOnlyEvent::new(Kind::ApprovalRequested, &request, text));
    }
}

fn ask_question(
    message: &HookMessage,
    data: &Raw,
    memory: &mut SessionMemory,
    events: &mut Vec<HookOnlyEvent>,
) {
    let Ok(mut request) = data.read::<ExternalInput>() else { return };
    if request.request_id.is_empty() {
        request.request_id = made_up_id(message);
    }
    // The question comes from the call that started last, and the end of that call answers it.
    let (mut tool, mut input_hash) = (String::new(), String::new());
    if let Some(call) = memory.last_call(None).cloned() {
        (tool, input_hash) = (call.tool, call.input_hash);
        // The dialog may show only a title; the words stand in what the call was given.
        if request.prompt.is_empty() {
            request.prompt = call.asks;
        }
    }
    let is_new = memory.add_question(OpenQuestion {
        approval_id: request.request_id.clone(),
        call_id: None,
        tool,
        input_hash,
        at: message.at,
        is_approval: false,
    });
    if is_new {
        let text = Some(request.prompt.clone());
        events.push(HookOnlyEvent::new(Kind::ExternalInput, &request, text));
    }
}

/// A tool call starts: the agent would not start it without an approval, so it was approved.
fn start_tool(data: &Raw, memory: &mut SessionMemory, events: &mut Vec<HookOnlyEvent>) {
    let Ok(started) = data.read::<ToolReport>() else { return };
    // The fact of a start carries no id of the call, so the input connects the two.
    let question = memory.end_call(None, &input_hash(&started.tool, &started.input));
    events.extend(question.map(|question| answer_question(question, "it was begun", memory)));
}

fn finish_tool(data: &Raw, memory: &mut SessionMemory, events: &mut Vec<HookOnlyEvent>) {
    let Ok(report) = data.read::<ToolReport>() else { return };
    let input_hash = input_hash(&report.tool, &report.input);
    let call_id = Some(report.call_id.as_str()).filter(|id| !id.is_empty());
    let question = memory.end_call(call_id, &input_hash);
    events.extend(question.map(|question| answer_question(question, "it was done", memory)));
    let ToolReport { call_id, tool, outcome, output, .. } = report;
    let text = output.as_ref().map(shown_json);
    let tool = Some(tool);
    let result = ToolResult { call_id, tool, outcome, output, ..ToolResult::default() };
    events.push(HookOnlyEvent::new(Kind::ToolResult, &result, text));
}

/// The answer to a question, as the next step of the agent shows it.
fn answer_question(
    question: OpenQuestion,
    reason: &str,
    memory: &mut SessionMemory,
) -> HookOnlyEvent {
    if !question.is_approval {
        return close_question(question, InputStatus::Received);
    }
    // Telemetry may name the decision by either id.
    memory.add_decision(&question.approval_id);
    if let Some(call_id) = &question.call_id {
        memory.add_decision(call_id);
    }
    let resolved = ApprovalResolved {
        approval_id: question.approval_id,
        decision: Decision::Allow,
        reason: Some(reason.to_owned()),
        // That the call ran shows only that it was allowed; the user or a rule may have decided.
        by: None,
        automated: false,
    };
    HookOnlyEvent::new(Kind::ApprovalResolved, &resolved, None)
}

/// Whether a decision is told for the first time: an agent may tell one in several ways.
fn is_first_decision(data: &Raw, memory: &mut SessionMemory) -> bool {
    let Ok(ApprovalResolved { approval_id, .. }) = data.read() else { return true };
    memory.close_question(&approval_id);
    memory.add_decision(&approval_id)
}

/// Cancels every open question: the turn or the session that asked is over.
fn cancel_all(
    message: &HookMessage,
    memory: &mut SessionMemory,
    reason: &str,
    events: &mut Vec<HookOnlyEvent>,
) {
    events.extend(memory.end_all_calls(message.at).into_iter().map(|question| {
        if !question.is_approval {
            return close_question(question, InputStatus::Canceled);
        }
        let canceled = ApprovalCanceled {
            approval_id: question.approval_id,
            tool: Some(question.tool),
            reason: reason.to_owned(),
        };
        HookOnlyEvent::new(Kind::ApprovalCanceled, &canceled, None)
    }));
}

fn close_question(question: OpenQuestion, status: InputStatus) -> HookOnlyEvent {
    let request_id = question.approval_id;
    let closed = ExternalInput { request_id, prompt: String::new(), status, input: None };
    HookOnlyEvent::new(Kind::ExternalInput, &closed, None)
}

/// An id for a call or question that the agent gave none.
fn made_up_id(message: &HookMessage) -> String {
    format!("hook-{}", message.name)
}

/// Sets where an event comes from: a message, and no line of a transcript. Telemetry gets a lower
/// confidence.
fn set_origin(draft: &mut Draft, message: &HookMessage) {
    draft.source = message.source.clone();
    if draft.source == How::Telemetry {
        draft.confidence = Confidence::Medium;
    }
    draft.metadata.remove("record");
    let name = Raw::from_value(&message.name).expect("a text encodes");
    draft.metadata.insert(draft.source.as_str().to_owned(), name);
}
