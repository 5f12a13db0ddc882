//! Facts of hooks, recorded: the source of the session is read to its end first, then what only the
//! hook tells is added. A call that comes twice says nothing new.

use std::path::Path;

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, Decision, Effect, ExternalInput,
    InputStatus, ToolCall, ToolResult, ToolStarted,
};
use event::{Confidence, Draft, Kind, Raw, Source as How, Time};

use super::memory::{Asked, Called, HookMemory, Remembered, given};
use super::{HookMap, Made};
use crate::admission::admit;
use crate::agent::AGENTS;
use crate::error::CaptureError;
use crate::event_builder::{EventBuilder, brief, session_id, shown_json};
use crate::identity::EventIdentity;
use crate::ingester::{IngestSummary, Ingester};
use crate::signal::{SessionRef, SignalKind, SignalOutcome};
use crate::sink::{Batch, Sink};
use crate::source::Source;

/// One call of a hook, as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Its own name. What comes of a call is known by it.
    pub name: &'a str,
    pub provider: &'a str,
    /// The provider's id of the session.
    pub session: &'a str,
    /// Where the session is written, if that was said. It is believed within the agent's folders.
    pub transcript: Option<&'a Path>,
    pub at: Time,
    /// Who says so: a hook, or the agent's telemetry.
    pub source: &'a How,
    pub sign: Option<SignalKind>,
    pub facts: &'a [(Kind, Raw)],
}

/// An event that only a hook tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookOnlyEvent {
    pub kind: Kind,
    pub data: Raw,
    pub text: Option<String>,
}

impl Ingester<'_> {
    /// Records what only the hook tells, behind everything its session has told so far.
    pub fn ingest_hook(
        &self,
        heard: &Heard<'_>,
        memory: &mut HookMemory,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<SignalOutcome, CaptureError> {
        let agent = self.agents.iter().find(|agent| agent.provider() == heard.provider);
        let Some((agent, map)) = agent.and_then(|agent| Some((*agent, agent.hooks()?))) else {
            return Ok(SignalOutcome::UnknownSession);
        };
        let remembered = memory.of(session_id(agent.provider(), heard.session).as_str());
        if !map.may_tell(heard, remembered) {
            map.untold_of(heard, remembered);
            return Ok(SignalOutcome::Done);
        }
        let Some((key, mut checkpoint, recorded)) =
            self.read_to_end(agent, &SessionRef::of(heard), sink, summary)?
        else {
            return Ok(SignalOutcome::UnknownSession);
        };
        let untold = map.untold_of(heard, remembered);
        if untold.is_empty() {
            return Ok(SignalOutcome::Done);
        }
        let path = checkpoint.path.clone();
        let source = Source::known(agent.provider(), &key, &path);
        let nothing_beside = |_: &str| None;
        let generation = checkpoint.generation;
        let now = (self.clock)();
        let mut builder =
            EventBuilder::new(&source, generation, &mut checkpoint.threads, &nothing_beside, now);
        builder.session(heard.session);
        for (number, HookOnlyEvent { kind, data, text }) in untold.into_iter().enumerate() {
            let identity = EventIdentity::in_session(&["hook", heard.name, &number.to_string()]);
            builder.data(identity, Some(heard.at), kind, data).text = text;
        }
        let mut drafts = builder.finish().drafts;
        drafts.iter_mut().for_each(|draft| mark(draft, heard));
        admit(agent.provider(), &checkpoint.threads, &mut drafts, sink);
        summary.count_events(agent.provider(), &drafts);
        self.open_epochs.may_be_in(key.clone());
        let batch = Batch { source: key, from: Some(recorded), to: checkpoint.encode(), drafts };
        sink.put(batch).map_err(|source| CaptureError::Sink { path, source })?;
        sink.settle().map_err(CaptureError::Unrecorded)?;
        Ok(SignalOutcome::Done)
    }

    /// Reads what is new in the file that a hook named.
    pub fn look_at(
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

/// What only this call tells, in the light of those before it.
pub fn hook_only_events(heard: &Heard<'_>, memory: &mut HookMemory) -> Vec<HookOnlyEvent> {
    let agent = AGENTS.iter().find(|agent| agent.provider() == heard.provider);
    let Some(map) = agent.and_then(|agent| agent.hooks()) else { return Vec::new() };
    let session = session_id(heard.provider, heard.session);
    map.untold_of(heard, memory.of(session.as_str()))
}

impl HookMap {
    /// Whether anything could come of a call. For most the answer is no, and costs nothing.
    fn may_tell(&self, heard: &Heard<'_>, remembered: &Remembered) -> bool {
        let tells = |kind: &Kind| match kind {
            Kind::ToolCall => self.untold.contains(&Kind::ToolStarted),
            kind => self.untold.contains(kind),
        };
        let may_end = heard.sign.is_some() || !heard.facts.is_empty();
        let tells_all = *heard.source == How::Telemetry && !heard.facts.is_empty();
        tells_all
            || heard.facts.iter().any(|(kind, _)| tells(kind))
            || may_end && remembered.is_asking()
    }

    fn untold_of(&self, heard: &Heard<'_>, remembered: &mut Remembered) -> Vec<HookOnlyEvent> {
        let mut untold = Vec::new();
        if *heard.source == How::Telemetry {
            // It was asked for nothing else.
            let news = heard.facts.iter().filter(|(kind, data)| {
                *kind != Kind::ApprovalResolved || is_decided_now(heard, data, remembered)
            });
            let fact = |(kind, data): &(Kind, Raw)| HookOnlyEvent {
                kind: kind.clone(),
                data: data.clone(),
                text: None,
            };
            return news.map(fact).collect();
        }
        for (kind, data) in heard.facts {
            match kind {
                Kind::ToolCall => self.call(heard, data, remembered, &mut untold),
                Kind::ApprovalRequested => self.ask(heard, data, remembered, &mut untold),
                Kind::ExternalInput => inquire(heard, data, remembered, &mut untold),
                Kind::ToolStarted => begun(heard, data, remembered, &mut untold),
                Kind::ToolResult => made(heard, data, remembered, &mut untold),
                Kind::ApprovalResolved if !is_decided_now(heard, data, remembered) => {}
                Kind::TurnCompleted => cancel(remembered, "interrupted", &mut untold),
                _ => untold.push(HookOnlyEvent {
                    kind: kind.clone(),
                    data: data.clone(),
                    text: None,
                }),
            }
        }
        match heard.sign {
            Some(SignalKind::TurnEnd) => cancel(remembered, "the turn ended", &mut untold),
            Some(SignalKind::Stop | SignalKind::Clear) => cancel(remembered, "exited", &mut untold),
            Some(SignalKind::Compact) | None => {}
        }
        untold.retain(|untold| match untold.kind {
            // Whose records tell decisions, tell these, too.
            Kind::ApprovalCanceled => self.untold.contains(&Kind::ApprovalResolved),
            _ => self.untold.contains(&untold.kind),
        });
        untold
    }

    fn call(
        &self,
        heard: &Heard<'_>,
        data: &Raw,
        remembered: &mut Remembered,
        untold: &mut Vec<HookOnlyEvent>,
    ) {
        let Ok(call) = data.read::<ToolCall>() else { return };
        let call_id = Some(call.call_id).filter(|id| !id.is_empty());
        let started = ToolStarted {
            call_id: call_id.clone().unwrap_or_else(|| made_up(heard)),
            tool: call.tool.clone(),
            idempotency_key: String::new(),
            effect: Effect::NeverReplay,
        };
        untold.push(HookOnlyEvent {
            kind: Kind::ToolStarted,
            data: Raw::from_value(&started).expect("payloads always encode"),
            text: Some(brief(&call.tool, &call.input)),
        });
        let given = given(&call.tool, &call.input);
        remembered.call(Called { call_id, tool: call.tool, given });
    }

    fn ask(
        &self,
        heard: &Heard<'_>,
        data: &Raw,
        remembered: &mut Remembered,
        untold: &mut Vec<HookOnlyEvent>,
    ) {
        let Ok(mut asked) = data.read::<ApprovalRequested>() else { return };
        let input = asked.input.clone().unwrap_or_default();
        let mut mark = given(&asked.tool, &input);
        let is_named = !asked.tool.is_empty();
        if let Some(called) = remembered.called(is_named.then_some(&mark)) {
            asked.call_id = asked.call_id.or_else(|| called.call_id.clone());
            if !is_named {
                asked.tool.clone_from(&called.tool);
                mark.clone_from(&called.given);
            }
        }
        if asked.approval_id.is_empty() {
            // Where records tell a decision, they name the call.
            asked.approval_id = asked.call_id.clone().unwrap_or_else(|| made_up(heard));
        }
        let is_new = remembered.ask(Asked {
            name: heard.name.to_owned(),
            approval_id: asked.approval_id.clone(),
            call_id: asked.call_id.clone(),
            tool: asked.tool.clone(),
            given: mark,
            at: heard.at,
            is_question: false,
        });
        if is_new {
            untold.push(HookOnlyEvent {
                kind: Kind::ApprovalRequested,
                data: Raw::from_value(&asked).expect("payloads always encode"),
                text: Some(brief(&asked.tool, &input)),
            });
        }
    }
}

/// The user is asked something.
fn inquire(
    heard: &Heard<'_>,
    data: &Raw,
    remembered: &mut Remembered,
    untold: &mut Vec<HookOnlyEvent>,
) {
    let Ok(mut asked) = data.read::<ExternalInput>() else { return };
    if asked.request_id.is_empty() {
        asked.request_id = made_up(heard);
    }
    let call = remembered.called(None).cloned();
    let (tool, given) = call.map(|call| (call.tool, call.given)).unwrap_or_default();
    let is_new = remembered.ask(Asked {
        name: heard.name.to_owned(),
        approval_id: asked.request_id.clone(),
        call_id: None,
        tool,
        given,
        at: heard.at,
        is_question: true,
    });
    if is_new {
        let data = Raw::from_value(&asked).expect("payloads always encode");
        untold.push(HookOnlyEvent { kind: Kind::ExternalInput, data, text: Some(asked.prompt) });
    }
}

/// A call begins that would not if somebody had not allowed it.
fn begun(
    heard: &Heard<'_>,
    data: &Raw,
    remembered: &mut Remembered,
    untold: &mut Vec<HookOnlyEvent>,
) {
    let Ok(begun) = data.read::<Made>() else { return };
    let asked = remembered.made(None, &given(&begun.tool, &begun.input));
    untold.extend(asked.map(|asked| answered(heard, asked, "it was begun", remembered)));
}

fn made(
    heard: &Heard<'_>,
    data: &Raw,
    remembered: &mut Remembered,
    untold: &mut Vec<HookOnlyEvent>,
) {
    let Ok(made) = data.read::<Made>() else { return };
    let given = given(&made.tool, &made.input);
    let call_id = Some(made.call_id.as_str()).filter(|id| !id.is_empty());
    let asked = remembered.made(call_id, &given);
    untold.extend(asked.map(|asked| answered(heard, asked, "it was done", remembered)));
    let Made { call_id, tool, outcome, output, .. } = made;
    let text = output.as_ref().map(shown_json);
    let tool = Some(tool);
    let result = ToolResult { call_id, tool, outcome, output, ..ToolResult::default() };
    let data = Raw::from_value(&result).expect("payloads always encode");
    untold.push(HookOnlyEvent { kind: Kind::ToolResult, data, text });
}

/// What was asked is answered, as what happens next shows.
fn answered(
    heard: &Heard<'_>,
    asked: Asked,
    reason: &str,
    remembered: &mut Remembered,
) -> HookOnlyEvent {
    if asked.is_question {
        return replied(asked, InputStatus::Received);
    }
    remembered.resolved(&asked.approval_id, heard.name);
    if let Some(call_id) = &asked.call_id {
        remembered.resolved(call_id, heard.name);
    }
    let resolved = ApprovalResolved {
        approval_id: asked.approval_id,
        decision: Decision::Allow,
        reason: Some(reason.to_owned()),
        by: None,
        automated: false,
    };
    let data = Raw::from_value(&resolved).expect("payloads always encode");
    HookOnlyEvent { kind: Kind::ApprovalResolved, data, text: None }
}

/// Whether a decision is told for the first time: an agent may tell one in several ways.
fn is_decided_now(heard: &Heard<'_>, data: &Raw, remembered: &mut Remembered) -> bool {
    let Ok(ApprovalResolved { approval_id, .. }) = data.read() else { return true };
    remembered.decided(&approval_id);
    remembered.resolved(&approval_id, heard.name)
}

/// Nobody will answer what was asked.
fn cancel(remembered: &mut Remembered, reason: &str, untold: &mut Vec<HookOnlyEvent>) {
    untold.extend(remembered.ended().into_iter().map(|asked| {
        if asked.is_question {
            return replied(asked, InputStatus::Canceled);
        }
        let canceled = ApprovalCanceled {
            approval_id: asked.approval_id,
            tool: Some(asked.tool),
            reason: reason.to_owned(),
        };
        let data = Raw::from_value(&canceled).expect("payloads always encode");
        HookOnlyEvent { kind: Kind::ApprovalCanceled, data, text: None }
    }));
}

fn replied(asked: Asked, status: InputStatus) -> HookOnlyEvent {
    let request_id = asked.approval_id;
    let replied = ExternalInput { request_id, prompt: String::new(), status, input: None };
    let data = Raw::from_value(&replied).expect("payloads always encode");
    HookOnlyEvent { kind: Kind::ExternalInput, data, text: None }
}

/// An id for what the agent gave none.
fn made_up(heard: &Heard<'_>) -> String {
    format!("hook-{}", heard.name)
}

/// Says of an event where it comes from, and that it stands in no record. Telemetry is believed a
/// little less.
fn mark(draft: &mut Draft, heard: &Heard<'_>) {
    draft.source = heard.source.clone();
    if draft.source == How::Telemetry {
        draft.confidence = Confidence::Medium;
    }
    draft.metadata.remove("record");
    let name = Raw::from_value(heard.name).expect("a text encodes");
    draft.metadata.insert(draft.source.as_str().to_owned(), name);
}
