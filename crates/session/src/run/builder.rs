//! The log read into a run, event by event.

use std::collections::HashMap;

use event::payload::{
    Content, ContextAdded, Payload, Placement, Retry, SessionStarted, StepCompleted, StepStarted,
    ToolResult, TurnCompleted, TurnStarted, UserPrompt,
};
use event::{BadPayload, Cost, Event, FORK_ORIGIN, Kind, Metadata, SessionId, Time};

use super::step::StepBuilder;
use super::{Run, RunInput, RunTurn, Skipped};
use crate::amend::AmendedEvent;
use crate::answer::AnswerPart;
use crate::children::Children;

/// Scope of a retry that happened while tools ran, not while the model was asked.
const TOOL_SCOPE: &str = "tool";

pub(super) struct Builder {
    run: Run,
    session_agent: Option<String>,
    children: Children,
    turns: Vec<TurnBuilder>,
    /// The turn the next answer belongs to.
    turn: OpenTurn,
    /// Where each answer and each call stands: turn and step.
    answers: HashMap<String, (usize, usize)>,
    calls: HashMap<String, (usize, usize)>,
    gathered: Vec<RunInput>,
    /// A step that has begun and has no answer yet.
    begun_at: Option<Time>,
    retries: u64,
}

struct TurnBuilder {
    turn: RunTurn,
    steps: Vec<StepBuilder>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenTurn {
    None,
    /// Its start is recorded, so its end will be recorded too.
    Recorded,
    /// It began with a prompt and ends with the next.
    Implied,
}

impl Builder {
    pub(super) fn new(session_id: SessionId) -> Builder {
        Builder {
            run: Run {
                session_id,
                agent_id: None,
                started_at: None,
                ended_at: None,
                last_seq: 0,
                turns: Vec::new(),
                children: Vec::new(),
                pending_input: Vec::new(),
                skipped: Vec::new(),
                total_cost: Cost::ZERO,
                tree_cost: Cost::ZERO,
                metadata: Metadata::new(),
            },
            session_agent: None,
            children: Children::default(),
            turns: Vec::new(),
            turn: OpenTurn::None,
            answers: HashMap::new(),
            calls: HashMap::new(),
            gathered: Vec::new(),
            begun_at: None,
            retries: 0,
        }
    }

    pub(super) fn apply(&mut self, told: &AmendedEvent<'_>) {
        let event = told.event;
        let cost = told.cost.unwrap_or_default();
        let at = event.created_at;
        // Events are in the order of the log, which need not be that of their times.
        self.run.started_at = Some(self.run.started_at.map_or(at, |first| first.min(at)));
        self.run.ended_at = self.run.ended_at.max(Some(at));
        self.run.total_cost += cost;
        // Children have no place in a step; they are listed beside the turns.
        self.children.apply(event);
        let read = match event.kind {
            Kind::SessionStarted => {
                with_payload(event, |started| self.session_started(event, started))
            }
            Kind::TurnStarted => with_payload(event, |started| self.turn_started(event, started)),
            Kind::TurnCompleted => {
                with_payload(event, |completed| self.turn_completed(event, completed))
            }
            Kind::StepStarted => with_payload(event, |started| self.step_started(event, started)),
            Kind::StepCompleted => {
                with_payload(event, |completed| self.step_completed(event, completed))
            }
            Kind::Retry => with_payload(event, |retry| self.add_retry(retry)),
            Kind::UserPrompt => with_payload(event, |prompt| self.add_prompt(event, prompt)),
            Kind::ContextAdded => with_payload(event, |context| self.add_context(event, context)),
            Kind::ToolResult => with_payload(event, |result| self.add_result(event, result, cost)),
            Kind::AssistantMessage | Kind::AssistantThinking | Kind::ToolCall => {
                match AnswerPart::from_draft(event) {
                    Some(part) => {
                        self.add_answer(event, part, cost);
                        Ok(())
                    }
                    None => Err("it cannot be read".to_owned()),
                }
            }
            Kind::Unknown => Err("this version does not understand it".to_owned()),
            _ => Ok(()),
        };
        if let Err(why) = read {
            self.skip_event(event, why);
        }
    }

    pub(super) fn finish(mut self, last_seq: u64) -> Run {
        let steps = |steps: Vec<StepBuilder>| steps.into_iter().map(StepBuilder::finish).collect();
        self.run.turns = self
            .turns
            .into_iter()
            .map(|turn| RunTurn { steps: steps(turn.steps), ..turn.turn })
            .collect();
        self.run.pending_input = prefix_first(self.gathered);
        self.run.children = self.children.finish();
        self.run.last_seq = last_seq;
        self.run.tree_cost = self.run.total_cost;
        self.run.agent_id = self.run.agent_id.or(self.session_agent);
        self.run
    }

    fn session_started(&mut self, event: &Event, started: SessionStarted) {
        if self.session_agent.is_none() {
            self.session_agent = started.agent;
        }
        let metadata = event.metadata.clone().into_iter();
        self.run.metadata.extend(metadata.filter(|(key, _)| key != FORK_ORIGIN));
    }

    fn turn_started(&mut self, event: &Event, started: TurnStarted) {
        self.set_agent(started.agent_id);
        self.open_turn(event, OpenTurn::Recorded);
    }

    fn turn_completed(&mut self, event: &Event, completed: TurnCompleted) {
        self.set_agent(completed.agent_id);
        let same = |turn: &TurnBuilder| {
            event.turn_id.is_none()
                // Many agents write no turn ids; a missing one fits every turn.
                || turn.turn.turn_id.is_none()
                || turn.turn.turn_id == event.turn_id
        };
        // A turn that failed before anything else was recorded is one all the same.
        if self.turn == OpenTurn::None || !self.turns.last().is_some_and(same) {
            self.open_turn(event, OpenTurn::Recorded);
        }
        let turn = &mut self.turns.last_mut().expect("one was just opened or is open").turn;
        turn.usage = completed.usage;
        turn.stop_reason = completed.stop_reason;
        turn.error = completed.error;
        self.turn = OpenTurn::None;
        // A step that was open at the end of its turn gets no answer any more.
        self.begun_at = None;
    }

    fn step_started(&mut self, event: &Event, started: StepStarted) {
        self.set_agent(started.agent_id);
        self.begun_at = Some(event.created_at);
    }

    fn step_completed(&mut self, event: &Event, completed: StepCompleted) {
        self.set_agent(completed.agent_id);
        // One that ended without an answer is no step of the run.
        if self.begun_at.take().is_some() {
            return;
        }
        let Some(step) = self.turns.last_mut().and_then(|turn| turn.steps.last_mut()) else {
            return;
        };
        let begun_at = step.begun_at.take();
        let metrics = step.metrics();
        metrics.usage = completed.usage;
        metrics.duration_ms = begun_at.map(|begun_at| begun_at.millis_until(event.created_at));
    }

    fn add_retry(&mut self, retry: Retry) {
        let current = self.turns.last_mut().and_then(|turn| turn.steps.last_mut());
        match current {
            // Tools run after the answer, so their retries belong to the step that is there.
            Some(step) if retry.scope == TOOL_SCOPE => step.metrics().retries += 1,
            // Retries of a request come before its answer. The step that the answer opens takes
            // them.
            _ => self.retries += 1,
        }
    }

    fn add_prompt(&mut self, event: &Event, prompt: UserPrompt) {
        // A turn with a recorded start goes on: users send prompts in the middle of it.
        if self.turn == OpenTurn::Implied {
            self.turn = OpenTurn::None;
        }
        self.close_answer();
        self.gathered.push(RunInput::from_event(event, "user", prompt.content));
    }

    fn add_context(&mut self, event: &Event, context: ContextAdded) {
        let mut input = RunInput::from_event(event, "user", Content::default());
        input.context_kind = Some(context.kind());
        input.placement = Some(context.placement());
        input.content = context.content;
        self.gathered.push(input);
    }

    fn add_answer(&mut self, event: &Event, part: AnswerPart, cost: Cost) {
        let named = (!part.message_id.is_empty()).then(|| self.answers.get(&part.message_id));
        let current = self.turns.len().checked_sub(1).and_then(|turn| {
            let step = self.turns[turn].steps.len().checked_sub(1)?;
            let last = &self.turns[turn].steps[step];
            part.continues(&last.message_id, last.is_closed).then_some((turn, step))
        });
        // By id first: a late part goes to its own answer and not to the newest one.
        let place = match named.flatten().copied().or(current) {
            Some(place) => place,
            None => self.open_step(event, &part),
        };
        let step = &mut self.turns[place.0].steps[place.1];
        step.add_part(event, cost);
        if let Some(call) = part.call {
            self.calls.insert(call.call_id, place);
        }
    }

    fn open_step(&mut self, event: &Event, part: &AnswerPart) -> (usize, usize) {
        let is_other = |turn: &TurnBuilder| {
            turn.turn.turn_id.is_some()
                && event.turn_id.is_some()
                && turn.turn.turn_id != event.turn_id
        };
        if self.turn == OpenTurn::None || self.turns.last().is_some_and(is_other) {
            // Agents that record no turns still have them, from prompt to prompt.
            self.open_turn(event, OpenTurn::Implied);
        }
        let input = prefix_first(std::mem::take(&mut self.gathered));
        let mut step = StepBuilder::new(event, part.message_id.clone(), input);
        step.begun_at = self.begun_at.take();
        step.metrics().retries = std::mem::take(&mut self.retries);
        let turn = self.turns.len() - 1;
        let steps = &mut self.turns[turn].steps;
        steps.push(step);
        let place = (turn, steps.len() - 1);
        if !part.message_id.is_empty() {
            self.answers.insert(part.message_id.clone(), place);
        }
        place
    }

    fn add_result(&mut self, event: &Event, result: ToolResult, cost: Cost) {
        let last = self.turns.iter().rposition(|turn| !turn.steps.is_empty());
        let last = last.map(|turn| (turn, self.turns[turn].steps.len() - 1));
        // A result of an unknown call is most likely about the last answer; without any it has no
        // place.
        let Some((turn, step)) = self.calls.get(&result.call_id).copied().or(last) else {
            self.skip_event(event, "it stands before any answer".to_owned());
            return;
        };
        self.close_answer();
        let mut input = RunInput::from_event(event, "tool", shown_content(&result));
        input.call_id = Some(result.call_id.clone());
        // The result is an input of the next step and a result of this one.
        self.gathered.push(input);
        self.turns[turn].steps[step].add_result(event, result, cost);
    }

    fn open_turn(&mut self, event: &Event, open: OpenTurn) {
        let turn = RunTurn { turn_id: event.turn_id.clone(), ..RunTurn::default() };
        self.turns.push(TurnBuilder { turn, steps: Vec::new() });
        self.turn = open;
    }

    fn close_answer(&mut self) {
        if let Some(step) = self.turns.last_mut().and_then(|turn| turn.steps.last_mut()) {
            step.is_closed = true;
        }
    }

    fn set_agent(&mut self, agent_id: String) {
        if self.run.agent_id.is_none() {
            self.run.agent_id = Some(agent_id).filter(|agent_id| !agent_id.trim().is_empty());
        }
    }

    fn skip_event(&mut self, event: &Event, why: String) {
        let (event_id, seq, kind) = (event.id, event.seq, event.kind.clone());
        self.run.skipped.push(Skipped { event_id, seq, kind, why });
    }
}

impl RunInput {
    fn from_event(event: &Event, role: &'static str, content: Content) -> RunInput {
        RunInput {
            event_id: event.id,
            seq: event.seq,
            kind: event.kind.clone(),
            role,
            context_kind: None,
            placement: None,
            call_id: None,
            content,
        }
    }
}

/// Prefix context first, the rest as it came.
fn prefix_first(mut input: Vec<RunInput>) -> Vec<RunInput> {
    // The sort is stable, and `false` comes first.
    input.sort_by_key(|input| input.placement != Some(Placement::Prefix));
    input
}

/// What the model got of a result.
fn shown_content(result: &ToolResult) -> Content {
    let text = result.shown.clone().or_else(|| result.output_text()).or(result.error.clone());
    let mut parts = text.map(|text| Content::text(text).0).unwrap_or_default();
    parts.extend(result.parts.iter().cloned());
    Content(parts)
}

fn with_payload<P: Payload>(event: &Event, take: impl FnOnce(P)) -> Result<(), String> {
    match event.payload::<P>() {
        Ok(payload) => {
            payload.map(take);
            Ok(())
        }
        Err(BadPayload { path, why, .. }) => Err(format!("`{path}` cannot be read: {why}")),
    }
}
