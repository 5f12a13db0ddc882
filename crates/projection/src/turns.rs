//! A session as people tell it: from a prompt to the end of its answer, one turn after another.
//!
//! A turn begins with a prompt, or with an answer nobody prompted. It ends where the agent says so,
//! with an interruption, with the next prompt or when the session exits; a second report of one
//! end changes nothing. Prompts that waited in a queue belong to the turn they were handed to.
//! Tasks of children, notes and summaries begin none.

use std::collections::BTreeMap;

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, AssistantMessage, Decision, ErrorRaised,
    ExternalInput, InputStatus, StepCompleted, StopReason, ToolCall, ToolResult, TurnCompleted,
    UserPrompt,
};
use event::{Event, EventId, Kind, Time};
use serde::{Deserialize, Serialize};

use crate::excerpt;
use crate::mark::Mark;
use crate::projection::{Projection, saved_version};
use crate::recent::Recent;
use crate::tool::{ToolUse, has_failed};
use crate::torn::{News, Torn};
use crate::turn::{Approval, Outcome, ToolCount, Turn};
use crate::usage::Used;

/// Characters of an answer that are kept: the session itself has the rest.
const ANSWER_CHARS_MAX: usize = 2_000;

/// Entries of each list of a turn: files, queued prompts, approvals, names of tools. What comes
/// beyond is counted where there is a count, and not named.
const LIST_MAX: usize = 1_000;

/// Calls, requests and questions that are waited for. When there are more the oldest is given up,
/// and what comes back to it is told without its name or its time.
const WAITING_MAX: usize = 256;

/// Ids of turns that are remembered: what a turn left running in the background comes late and
/// begins no new one.
const TURN_IDS_MAX: usize = 64;

/// Turns as they are saved.
#[derive(Serialize, Deserialize)]
struct Saved<T> {
    version: u32,
    turns: T,
}

/// Tells the turns of a log, event by event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Turns {
    seq: u64,
    done: Vec<Turn>,
    current: Option<Turn>,
    /// There was a turn before, so what comes late belongs to none.
    has_begun: bool,
    /// Somebody said that the current turn began.
    is_told: bool,
    /// The current turn has an id of its own.
    has_id: bool,
    turn_ids: Recent<Mark, TURN_IDS_MAX>,
    open_calls: Recent<OpenCall, WAITING_MAX>,
    open_questions: Recent<(Mark, Time), WAITING_MAX>,
    steps: Recent<Step, WAITING_MAX>,
    torn: Torn,
}

/// A call whose result is not there yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OpenCall {
    id: Mark,
    tool: String,
    /// Files it modifies, each with whether it is the first in its turn to do so.
    modifies: Vec<(String, bool)>,
}

/// A request to a model that was counted in the current turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Step {
    first: EventId,
    last: EventId,
    used: Used,
}

impl Projection for Turns {
    const NAME: &'static str = "turns";
    const VERSION: u32 = 1;

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        let news = self.torn.look_at(event);
        if news == News::Again && event.kind != Kind::StepCompleted {
            self.retell(event);
            return;
        }
        let is_late = self.current.is_none() && self.knows_id(event);
        self.follow_id(event);
        match event.kind {
            Kind::ToolCall | Kind::ToolResult if is_late => self.late(event),
            Kind::TurnStarted => self.start(event),
            Kind::UserPrompt => self.prompt(event),
            Kind::AssistantMessage => self.answer(event),
            Kind::AssistantThinking => self.with(event, |turn| turn.completed_at = None),
            Kind::ToolCall => self.call(event),
            Kind::ToolResult => self.result(event),
            Kind::StepCompleted => self.step(event),
            Kind::ApprovalRequested => self.ask(event),
            Kind::ApprovalResolved | Kind::ApprovalCanceled => self.decide(event),
            Kind::ExternalInput => self.question(event),
            Kind::Error => self.error(event),
            Kind::TurnCompleted => self.complete(event),
            Kind::SessionExited => self.exit(event),
            _ => {
                if let Some(turn) = &mut self.current {
                    turn.seq_to = event.seq;
                }
            }
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        let saved = Saved { version: Turns::VERSION, turns: self };
        Some(serde_json::to_vec(&saved).expect("names and numbers always encode"))
    }

    fn load(saved: &[u8]) -> Option<Turns> {
        if saved_version(saved)? != Turns::VERSION {
            return None;
        }
        serde_json::from_slice(saved).ok().map(|saved: Saved<Turns>| saved.turns)
    }
}

impl Turns {
    /// The turns of all events.
    pub fn of<E>(events: impl IntoIterator<Item = Result<Event, E>>) -> Result<Vec<Turn>, E> {
        let mut turns = Turns::default();
        for event in events {
            turns.apply(&event?);
        }
        Ok(turns.finish())
    }

    /// All turns so far, the last of them perhaps open.
    pub fn all(&self) -> impl Iterator<Item = &Turn> {
        self.done.iter().chain(&self.current)
    }

    /// All turns, the last of them perhaps open.
    pub fn finish(mut self) -> Vec<Turn> {
        self.done.extend(self.current.take());
        self.done
    }

    /// Whether it belongs to a turn that has begun.
    fn knows_id(&self, event: &Event) -> bool {
        event.turn_id.as_deref().is_some_and(|id| self.turn_ids.contains(&Mark::of(id)))
    }

    /// What a turn left running is told behind its end. It is counted there, and the turn stays
    /// over.
    fn late(&mut self, event: &Event) {
        let is_its = |turn: &Turn| Some(&turn.id) == event.turn_id.as_ref();
        let Some(number) = self.done.iter().rposition(is_its) else { return };
        let turn = self.done.remove(number);
        let (seq_to, completed_at) = (turn.seq_to, turn.completed_at);
        self.current = Some(turn);
        match event.kind {
            Kind::ToolCall => self.call(event),
            _ => self.result(event),
        }
        let turn = self.current.take().map(|turn| Turn { seq_to, completed_at, ..turn });
        self.done.splice(number..number, turn);
    }

    /// An agent that goes on by itself says so only by another turn id.
    fn follow_id(&mut self, event: &Event) {
        let Some(turn_id) = &event.turn_id else { return };
        if self.knows_id(event) {
            return;
        }
        self.turn_ids.push(Mark::of(turn_id));
        let is_next = self.has_begun && (self.has_id || self.current.is_none());
        match event.kind {
            Kind::ContextAdded
            | Kind::AssistantMessage
            | Kind::AssistantThinking
            | Kind::ToolCall
                if is_next =>
            {
                self.begin(event);
            }
            Kind::UserPrompt | Kind::TurnStarted => {}
            _ => self.take_id(turn_id),
        }
    }

    /// Takes the turn's own id, if it has none.
    fn take_id(&mut self, turn_id: &str) {
        if let Some(turn) = &mut self.current
            && !self.has_id
        {
            turn.id = turn_id.to_owned();
            self.has_id = true;
        }
    }

    /// A prompt stands just before the turn it is for.
    fn start(&mut self, event: &Event) {
        let is_for_it = |turn: &Turn| !turn.has_worked();
        if self.is_told || !self.current.as_ref().is_some_and(is_for_it) {
            self.begin(event);
        }
        self.is_told = true;
        self.with(event, |_| {});
        if let Some(turn_id) = &event.turn_id {
            self.has_id = false;
            self.take_id(turn_id);
        }
    }

    fn prompt(&mut self, event: &Event) {
        let prompt = event.readable::<UserPrompt>();
        let is_queued = prompt.as_ref().is_some_and(|prompt| prompt.queued);
        let text = prompt.map(|said| said.content.joined_text()).or(event.text.clone());
        if is_queued && self.current.is_some() {
            self.with(event, |turn| push_bounded(&mut turn.queued, text.unwrap_or_default()));
            return;
        }
        if self.current.as_ref().is_none_or(|turn| turn.prompt.is_some() || turn.has_worked()) {
            self.begin(event);
        }
        self.with(event, |turn| turn.prompt = text);
    }

    fn answer(&mut self, event: &Event) {
        let answer = event.readable::<AssistantMessage>();
        let answer = answer.filter(|answer| answer.content.has_substance());
        self.with(event, |turn| {
            if let Some(answer) = answer {
                turn.answer = Some(compact(&answer));
            }
            // An answer is the end of the turn until something else follows.
            turn.completed_at = Some(event.created_at);
        });
    }

    fn call(&mut self, event: &Event) {
        let Some(call) = event.readable::<ToolCall>() else { return };
        let used = ToolUse::of(&call.tool, &call.input);
        let mut modifies = Vec::new();
        self.with(event, |turn| {
            if let Some(count) = tool_count(&mut turn.tools, &used.tool) {
                count.calls += 1;
            }
            turn.completed_at = None;
            for (deed, path) in used.files() {
                let files = match deed.modifies() {
                    true => &mut turn.modified_files,
                    false => &mut turn.read_files,
                };
                let is_first = push_new(files, path);
                if deed.modifies() {
                    modifies.push((path.clone(), is_first));
                }
            }
        });
        self.open_calls.push(OpenCall { id: Mark::of(&call.call_id), tool: used.tool, modifies });
    }

    fn result(&mut self, event: &Event) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        let id = Mark::of(&result.call_id);
        let called = self.open_calls.take(|open| open.id == id);
        let (tool, modifies) = match called {
            Some(OpenCall { tool, modifies, .. }) => (Some(tool), modifies),
            None => (result.tool.clone(), Vec::new()),
        };
        self.with(event, |turn| {
            if !has_failed(&result) {
                for (path, _) in &modifies {
                    push_new(&mut turn.modified_files, path);
                    turn.failed_files.retain(|failed| failed != path);
                }
                return;
            }
            turn.errors += 1;
            if let Some(count) = tool.and_then(|tool| tool_count(&mut turn.tools, &tool)) {
                count.failures += 1;
            }
            for (path, _) in modifies.iter().filter(|(_, is_first)| *is_first) {
                turn.modified_files.retain(|modified| modified != path);
                push_new(&mut turn.failed_files, path);
            }
        });
    }

    fn step(&mut self, event: &Event) {
        if event.fork_origin().is_some() {
            return;
        }
        let step = event.readable::<StepCompleted>().unwrap_or_default();
        let Some(used) = Used::of(&step, event.cost) else { return };
        let amended = event.amends();
        let known = amended.and_then(|amended| {
            self.steps.iter_mut().rfind(|step| step.first == amended || step.last == amended)
        });
        let before = match known {
            Some(step) => {
                step.last = event.id;
                Some(std::mem::replace(&mut step.used, used))
            }
            // It amends a request of a turn that is over.
            None if amended.is_some() => return,
            None => {
                self.steps.push(Step { first: event.id, last: event.id, used });
                None
            }
        };
        // A request may be told behind the end of its turn.
        if let Some(turn) = self.current.as_mut().or(self.done.last_mut()) {
            turn.seq_to = event.seq;
            if let Some(before) = before {
                turn.used.remove(&before);
            }
            turn.used.add(&used);
        }
    }

    fn ask(&mut self, event: &Event) {
        let Some(asked) = event.readable::<ApprovalRequested>() else { return };
        self.open_questions.push((Mark::of(&asked.approval_id), event.created_at));
        self.with(event, |turn| {
            turn.approval_count += 1;
            let approval = Approval {
                approval_id: asked.approval_id,
                tool: asked.tool,
                requested_at: event.created_at,
                answered_at: None,
                is_allowed: None,
            };
            push_bounded(&mut turn.approvals, approval);
        });
    }

    fn decide(&mut self, event: &Event) {
        let resolved = event.readable::<ApprovalResolved>();
        let is_allowed = resolved.as_ref().map(|resolved| resolved.decision == Decision::Allow);
        let approval_id = match resolved {
            Some(resolved) => resolved.approval_id,
            None => match event.readable::<ApprovalCanceled>() {
                Some(canceled) => canceled.approval_id,
                None => return,
            },
        };
        self.stop_waiting(&approval_id, event);
        let Some(turn) = &mut self.current else { return };
        turn.seq_to = event.seq;
        let asked = turn.approvals.iter_mut().rfind(|asked| asked.approval_id == approval_id);
        if let Some(approval) = asked.filter(|asked| asked.answered_at.is_none()) {
            approval.answered_at = Some(event.created_at);
            approval.is_allowed = is_allowed;
        }
    }

    fn question(&mut self, event: &Event) {
        let Some(input) = event.readable::<ExternalInput>() else { return };
        if input.status == InputStatus::Pending {
            self.open_questions.push((Mark::of(&input.request_id), event.created_at));
        } else {
            self.stop_waiting(&input.request_id, event);
        }
        if let Some(turn) = &mut self.current {
            turn.seq_to = event.seq;
        }
    }

    fn stop_waiting(&mut self, id: &str, event: &Event) {
        let mark = Mark::of(id);
        let asked = self.open_questions.take(|(open, _)| *open == mark);
        let Some((_, since)) = asked else { return };
        let waited = (event.created_at.nanos() - since.nanos()) / 1_000_000;
        if let Some(turn) = &mut self.current {
            let waited = u64::try_from(waited).unwrap_or(0);
            turn.waited_ms = turn.waited_ms.saturating_add(waited);
        }
    }

    fn error(&mut self, event: &Event) {
        let raised = event.readable::<ErrorRaised>().unwrap_or_default();
        self.with(event, |turn| {
            turn.errors += 1;
            if raised.recoverable == Some(false) {
                turn.outcome = Some(Outcome::Failed);
            }
        });
    }

    fn complete(&mut self, event: &Event) {
        if self.current.is_none() && self.has_begun {
            return;
        }
        let told = event.readable::<TurnCompleted>().unwrap_or_default();
        let outcome = match (told.stop_reason, told.error) {
            (Some(StopReason::Interrupted), _) => Outcome::Interrupted,
            (Some(StopReason::Died), _) => Outcome::Died,
            (_, Some(_)) => Outcome::Failed,
            _ => Outcome::Done,
        };
        self.with(event, |turn| turn.outcome = Some(outcome));
        self.end(Some(event.created_at), outcome);
    }

    fn exit(&mut self, event: &Event) {
        let Some(turn) = &mut self.current else { return };
        turn.seq_to = event.seq;
        let outcome = if turn.completed_at.is_some() { Outcome::Done } else { Outcome::Died };
        self.end(Some(event.created_at), outcome);
    }

    /// A fuller account of something: it stands in for what was told before, and nothing happens
    /// a second time.
    fn retell(&mut self, event: &Event) {
        let Some(turn) = &mut self.current else { return };
        turn.seq_to = event.seq;
        match event.kind {
            Kind::UserPrompt => {
                let prompt = event.readable::<UserPrompt>().filter(|prompt| !prompt.queued);
                if let Some(prompt) = prompt {
                    turn.prompt = Some(prompt.content.joined_text());
                }
            }
            Kind::AssistantMessage => {
                let answer = event.readable::<AssistantMessage>();
                if let Some(answer) = answer.filter(|answer| answer.content.has_substance()) {
                    turn.answer = Some(compact(&answer));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, event: &Event) {
        if let Some(turn) = &self.current {
            let is_answered = turn.completed_at.is_some();
            self.end(None, if is_answered { Outcome::Done } else { Outcome::Replaced });
        }
        self.is_told = false;
        self.has_begun = true;
        self.steps.clear();
        self.has_id = event.turn_id.is_some();
        self.current = Some(Turn::begun_by(event));
    }

    /// Ends the current turn; what was said of its outcome before stands.
    fn end(&mut self, at: Option<Time>, outcome: Outcome) {
        self.is_told = false;
        let Some(mut turn) = self.current.take() else { return };
        turn.completed_at = at.or(turn.completed_at);
        turn.outcome.get_or_insert(outcome);
        self.open_questions.clear();
        self.done.push(turn);
    }

    /// Changes the turn an event belongs to. A log may begin in the middle of one, and an agent
    /// may go on by itself.
    fn with(&mut self, event: &Event, change: impl FnOnce(&mut Turn)) {
        if self.current.is_none() {
            self.begin(event);
        }
        if let Some(turn) = &mut self.current {
            turn.seq_to = event.seq;
            change(turn);
        }
    }
}

fn compact(answer: &AssistantMessage) -> String {
    excerpt::beginning(&answer.content.joined_text(), ANSWER_CHARS_MAX)
}

fn tool_count<'a>(
    tools: &'a mut BTreeMap<String, ToolCount>,
    tool: &str,
) -> Option<&'a mut ToolCount> {
    if tools.len() >= LIST_MAX && !tools.contains_key(tool) {
        return None;
    }
    Some(tools.entry(tool.to_owned()).or_default())
}

fn push_bounded<T>(list: &mut Vec<T>, element: T) {
    if list.len() < LIST_MAX {
        list.push(element);
    }
}

/// Adds a path that is not there; whether it was not.
fn push_new(paths: &mut Vec<String>, path: &str) -> bool {
    let is_new = !paths.iter().any(|known| known == path);
    if is_new {
        push_bounded(paths, path.to_owned());
    }
    is_new
}
