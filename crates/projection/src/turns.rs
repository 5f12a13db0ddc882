//! A session as its turns: from a prompt to the end of its answer, one after another.
//!
//! Where a turn begins and ends is the [`TurnMachine`]'s decision; here is what was said and done
//! in it. A turn is closed by a told end or by the next turn. An inferred end leaves it the current
//! one, with the time of its answer, because the agent may go on. Records that arrive late are
//! counted in the turn they belong to, which stays over.

use std::collections::BTreeMap;

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, AssistantMessage, Decision, ErrorRaised,
    ExternalInput, InputStatus, StepCompleted, ToolCall, ToolResult, UserPrompt,
};
use event::{Event, EventId, Kind, Time};
use serde::{Deserialize, Serialize};

use crate::excerpt;
use crate::id_hash::IdHash;
use crate::projection::Projection;
use crate::ring_buffer::RingBuffer;
use crate::tool::{ToolUse, has_failed};
use crate::torn::{EventNovelty, TornRecords};
use crate::turn::{Approval, ToolCount, Turn};
use crate::turn_machine::{TurnMachine, TurnOutcome, TurnStep, TurnStop};
use crate::turn_stream::TurnStream;
use crate::usage::UsageTotals;

/// Characters of an answer that are kept: the session itself has the rest.
const ANSWER_CHARS_MAX: usize = 2_000;

/// Entries of each list of a turn: files, queued prompts, approvals, names of tools. What comes
/// beyond is counted where there is a count, and not named.
const LIST_MAX: usize = 1_000;

/// Calls, requests and questions that are waited for. When there are more the oldest is given up,
/// and what comes back to it is told without its name or its time.
const WAITING_MAX: usize = 256;

/// Turns behind the current one that a late event may belong to. An event that is later than this
/// is not counted, so that older turns can be handed on while the log is read.
const LATE_TURNS_MAX: usize = 64;

/// Events that take about as long to fold as one turn takes to save: a turn has up to 4 kB of text.
const SAVED_TURN_EVENTS: u64 = 4;

/// The saved form of [`Turns`].
#[derive(Serialize, Deserialize)]
struct SavedTurns<T> {
    version: u32,
    turns: T,
}

/// The turns of a session, folded event by event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Turns {
    seq: u64,
    done: Vec<Turn>,
    current: Option<Turn>,
    machine: TurnMachine,
    /// The current turn has an id that the agent gave.
    has_id: bool,
    open_calls: RingBuffer<OpenToolCall, WAITING_MAX>,
    open_questions: RingBuffer<(IdHash, Time), WAITING_MAX>,
    steps: RingBuffer<TurnRequest, WAITING_MAX>,
    torn: TornRecords,
}

/// A call without a result so far.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OpenToolCall {
    id: IdHash,
    tool: String,
    /// Files it modifies, each with whether it is the first in its turn to do so.
    modifies: Vec<(String, bool)>,
}

/// A request to a model that was counted in the current turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TurnRequest {
    first: EventId,
    last: EventId,
    used: UsageTotals,
}

impl Projection for Turns {
    const NAME: &'static str = "turns";
    const SAVE_AFTER: Option<u64> = Some(2_000);

    fn save_after(&self) -> Option<u64> {
        let turns = self.done.len() as u64 * SAVED_TURN_EVENTS;
        Self::SAVE_AFTER.map(|events| events.max(turns))
    }

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        let news = self.torn.inspect_event(event);
        // A request is amended while the agent writes it, and its numbers are replaced; see
        // `apply_step`.
        if news == EventNovelty::Again && event.kind != Kind::StepCompleted {
            self.apply_amendment(event);
            return;
        }
        // Asked before the machine takes the event: afterwards no id is new.
        let is_new_id = self.machine.is_new_id(event);
        let had_current = self.current.is_some();
        let change = self.machine.apply(event);
        match change.step {
            TurnStep::Late => return self.apply_late(event),
            // Context has a rule of its own, so it stands before the arm of turns that open.
            _ if event.kind == Kind::ContextAdded => {
                if is_new_id {
                    self.open_with_context(event);
                }
            }
            TurnStep::Opened { replaced } => self.open_turn(event, replaced),
            TurnStep::Unrelated | TurnStep::WentOn | TurnStep::Resumed => {}
        }
        // After the turn is open: the id belongs to the turn that the event is in.
        if is_new_id {
            self.adopt_id(event);
        }
        match event.kind {
            Kind::UserPrompt => {
                let is_opened = matches!(change.step, TurnStep::Opened { .. });
                self.apply_prompt(event, had_current && !is_opened);
            }
            Kind::AssistantMessage => self.apply_answer(event),
            // An agent that thinks on has not ended with the answer before.
            Kind::AssistantThinking => self.change_turn(event, |turn| turn.completed_at = None),
            Kind::ToolCall => self.apply_call(event),
            Kind::ToolResult => self.apply_result(event),
            Kind::StepCompleted => self.apply_step(event),
            Kind::ApprovalRequested => self.apply_question(event),
            Kind::ApprovalResolved | Kind::ApprovalCanceled => self.apply_decision(event),
            Kind::ExternalInput => self.question(event),
            Kind::Error => self.apply_error(event),
            Kind::TurnStarted => self.change_turn(event, |_| {}),
            // All other events lie in the range of the current turn, but begin none.
            _ => {
                if let Some(turn) = &mut self.current {
                    turn.seq_to = event.seq;
                }
            }
        }
        // Last, so that the event still counts in the turn it ends. An inferred end keeps the turn
        // current: the agent may go on with it.
        if let Some(TurnStop::Over { outcome, is_told: true }) = change.stop {
            self.complete(event, outcome);
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        let saved = SavedTurns { version: Turns::VERSION, turns: self };
        Some(serde_json::to_vec(&saved).expect("names and numbers always encode"))
    }

    fn load(saved: &[u8]) -> Option<Turns> {
        let saved: SavedTurns<Turns> = serde_json::from_slice(saved).ok()?;
        (saved.version == Turns::VERSION).then_some(saved.turns)
    }
}

impl Turns {
    const VERSION: u32 = 3;

    /// The turns of all events, one after the other.
    pub fn stream<I: IntoIterator>(events: I) -> TurnStream<I::IntoIter> {
        TurnStream::new(events.into_iter())
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

    /// Takes out the turns that no later event can change, oldest first.
    pub(crate) fn take_settled(&mut self) -> impl Iterator<Item = Turn> {
        let settled = self.done.len().saturating_sub(LATE_TURNS_MAX);
        self.done.drain(..settled)
    }

    /// Counts an event that arrived late in its own turn, which stays as long as it was.
    fn apply_late(&mut self, event: &Event) {
        let is_its = |turn: &Turn| Some(&turn.id) == event.turn_id.as_ref();
        // Without an id it belongs to the last turn: the end of that one overtook it.
        let place = match event.turn_id {
            Some(_) => {
                let first = self.done.len().saturating_sub(LATE_TURNS_MAX);
                self.done[first..].iter().rposition(is_its).map(|place| first + place)
            }
            None => self.done.len().checked_sub(1),
        };
        // The turn is put into the place of the current one for a moment, so that the same
        // functions count the event, and then back to where it was:
        //
        //     done     [ A  B  C ]      [ A  _  C ]      [ A  B' C ]
        //     current      D        ->       B       ->       D
        let Some(place) = place else { return };
        let turn = self.done.remove(place);
        let (seq_to, completed_at) = (turn.seq_to, turn.completed_at);
        let current = self.current.replace(turn);
        match event.kind {
            Kind::ToolCall => self.apply_call(event),
            Kind::ToolResult => self.apply_result(event),
            Kind::AssistantMessage => self.apply_answer(event),
            Kind::ApprovalRequested => self.apply_question(event),
            _ => {}
        }
        let turn = std::mem::replace(&mut self.current, current);
        // The counting moved the end of the turn up to the late event; its real end stands.
        let turn = turn.map(|turn| Turn { seq_to, completed_at, ..turn });
        self.done.splice(place..place, turn);
    }

    /// Opens a turn, unless context with its id has opened it already.
    fn open_turn(&mut self, event: &Event, replaced: Option<TurnOutcome>) {
        let is_its = |turn: &Turn| {
            turn.prompt.is_none() && !turn.has_worked() && Some(&turn.id) == event.turn_id.as_ref()
        };
        // Else the range of the turn would begin behind its own context.
        if !self.current.as_ref().is_some_and(is_its) {
            self.begin_turn(event, replaced.unwrap_or(TurnOutcome::Done));
        }
    }

    /// Context of a turn comes before its prompt, so the turn's range begins with it. The first
    /// turn of a session begins with its prompt or answer: before it stands what a harness adds to
    /// any session, and the task of a child.
    fn open_with_context(&mut self, event: &Event) {
        let is_first = self.current.is_none() && self.done.is_empty();
        // Where the current turn has no id yet, the context may be its own and brings the id.
        if !is_first && (self.has_id || self.current.is_none()) {
            let is_answered = self.current.as_ref().is_some_and(|turn| turn.completed_at.is_some());
            self.begin_turn(
                event,
                if is_answered { TurnOutcome::Done } else { TurnOutcome::Replaced },
            );
        }
    }

    /// Gives the current turn the agent's id, if it has none. The announcement of a turn has the
    /// last word.
    fn adopt_id(&mut self, event: &Event) {
        if let (Some(turn), Some(turn_id)) = (&mut self.current, &event.turn_id)
            && match event.kind {
                // A prompt may be written before the agent knows the turn's id.
                Kind::UserPrompt => false,
                Kind::TurnStarted => true,
                _ => !self.has_id,
            }
        {
            turn.id.clone_from(turn_id);
            self.has_id = true;
        }
    }

    fn apply_prompt(&mut self, event: &Event, goes_on: bool) {
        let prompt = event.readable::<UserPrompt>();
        let is_queued = prompt.as_ref().is_some_and(|prompt| prompt.queued);
        let text = prompt.map(|said| said.content.joined_text()).or(event.text.clone());
        self.change_turn(event, |turn| match is_queued && goes_on {
            true => push_bounded(&mut turn.queued, text.unwrap_or_default()),
            // A queued prompt behind the end of a turn opens one of its own, and is its prompt.
            false => turn.prompt = text,
        });
    }

    fn apply_answer(&mut self, event: &Event) {
        let answer = event.readable::<AssistantMessage>();
        let answer = answer.filter(|answer| answer.content.has_substance());
        self.change_turn(event, |turn| {
            // An answer without text stands before its calls; the words of the one before are kept.
            if let Some(answer) = answer {
                turn.answer = Some(compact_text(&answer));
            }
            // An answer is the end of the turn until the agent goes on.
            turn.completed_at = Some(event.created_at);
        });
    }

    fn apply_call(&mut self, event: &Event) {
        let Some(call) = event.readable::<ToolCall>() else { return };
        let used = ToolUse::from_call(&call.tool, &call.input);
        // Files count as modified from the call on, and a failure takes them back: a call without a
        // result may have written.
        let mut modifies = Vec::new();
        self.change_turn(event, |turn| {
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
        self.open_calls.push(OpenToolCall {
            id: IdHash::from_id(&call.call_id),
            tool: used.tool,
            modifies,
        });
    }

    fn apply_result(&mut self, event: &Event) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        let id = IdHash::from_id(&result.call_id);
        // A log that begins in the middle of a turn has results without calls. Some name their
        // tool.
        let called = self.open_calls.take(|open| open.id == id);
        let (tool, modifies) = match called {
            Some(OpenToolCall { tool, modifies, .. }) => (Some(tool), modifies),
            None => (result.tool.clone(), Vec::new()),
        };
        self.change_turn(event, |turn| {
            if !has_failed(&result) {
                // An earlier call may have failed on the same file; this one wrote it.
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
            // A file that an earlier call of the turn modified stays so when a second try fails.
            for (path, _) in modifies.iter().filter(|(_, is_first)| *is_first) {
                turn.modified_files.retain(|modified| modified != path);
                push_new(&mut turn.failed_files, path);
            }
        });
    }

    fn apply_step(&mut self, event: &Event) {
        // The session that a fork comes from paid for it.
        if event.fork_origin().is_some() {
            return;
        }
        let step = event.readable::<StepCompleted>().unwrap_or_default();
        let Some(used) = UsageTotals::from_step(&step, event.cost) else { return };
        let amended = event.amends();
        // An amendment may name the first account or the one before it.
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
                self.steps.push(TurnRequest { first: event.id, last: event.id, used });
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

    fn apply_question(&mut self, event: &Event) {
        let Some(asked) = event.readable::<ApprovalRequested>() else { return };
        self.open_questions.push((IdHash::from_id(&asked.approval_id), event.created_at));
        self.change_turn(event, |turn| {
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

    fn apply_decision(&mut self, event: &Event) {
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
        // Not `change_turn`: an answer of the user alone begins no turn.
        let Some(turn) = &mut self.current else { return };
        turn.seq_to = event.seq;
        // A hook and the transcript may both report the decision; the first has the time of it.
        let asked = turn.approvals.iter_mut().rfind(|asked| asked.approval_id == approval_id);
        if let Some(approval) = asked.filter(|asked| asked.answered_at.is_none()) {
            approval.answered_at = Some(event.created_at);
            approval.is_allowed = is_allowed;
        }
    }

    fn question(&mut self, event: &Event) {
        let Some(input) = event.readable::<ExternalInput>() else { return };
        if input.status == InputStatus::Pending {
            self.open_questions.push((IdHash::from_id(&input.request_id), event.created_at));
        } else {
            self.stop_waiting(&input.request_id, event);
        }
        if let Some(turn) = &mut self.current {
            turn.seq_to = event.seq;
        }
    }

    fn stop_waiting(&mut self, id: &str, event: &Event) {
        let mark = IdHash::from_id(id);
        let asked = self.open_questions.take(|(open, _)| *open == mark);
        let Some((_, since)) = asked else { return };
        // Milliseconds. Negative if two clocks disagree, which counts as no wait at all.
        let waited = (event.created_at.nanos() - since.nanos()) / 1_000_000;
        if let Some(turn) = &mut self.current {
            let waited = u64::try_from(waited).unwrap_or(0);
            turn.waited_ms = turn.waited_ms.saturating_add(waited);
        }
    }

    fn apply_error(&mut self, event: &Event) {
        let raised = event.readable::<ErrorRaised>().unwrap_or_default();
        self.change_turn(event, |turn| {
            turn.errors += 1;
            // The turn stays current until its end or the next prompt, which keeps this outcome.
            if raised.recoverable == Some(false) {
                turn.outcome = Some(TurnOutcome::Failed);
            }
        });
    }

    fn complete(&mut self, event: &Event, outcome: TurnOutcome) {
        // A log may begin in the middle of a turn. Behind a turn that is over, an end is the second
        // report of it.
        if self.current.is_none() && !self.done.is_empty() {
            return;
        }
        self.change_turn(event, |turn| {
            // The agent's word on the outcome goes before what was inferred from an error. An exit
            // says nothing of the turn.
            if event.kind == Kind::TurnCompleted {
                turn.outcome = Some(outcome);
            }
        });
        self.end_turn(Some(event.created_at), outcome);
    }

    /// Takes an amendment: it replaces the text of an earlier event, and nothing is counted again.
    fn apply_amendment(&mut self, event: &Event) {
        // An amendment of an older turn is not looked for: what is missing is a part of a text.
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
                    turn.answer = Some(compact_text(&answer));
                }
            }
            _ => {}
        }
    }

    /// Begins a turn; the one before ends with the outcome, if it has none.
    fn begin_turn(&mut self, event: &Event, before: TurnOutcome) {
        self.end_turn(None, before);
        // Amendments count for requests of the current turn only: those before are summed up.
        self.steps.clear();
        self.has_id = event.turn_id.is_some();
        self.current = Some(Turn::begun_by(event));
    }

    /// Ends the current turn; an outcome that it has already stands.
    fn end_turn(&mut self, at: Option<Time>, outcome: TurnOutcome) {
        let Some(mut turn) = self.current.take() else { return };
        turn.completed_at = at.or(turn.completed_at);
        turn.outcome.get_or_insert(outcome);
        // An answer that comes behind the end must not add its wait to the next turn.
        self.open_questions.clear();
        self.done.push(turn);
    }

    /// Changes the turn an event belongs to, and begins one if none is current: a log may begin in
    /// the middle of a turn.
    fn change_turn(&mut self, event: &Event, change: impl FnOnce(&mut Turn)) {
        if self.current.is_none() {
            self.begin_turn(event, TurnOutcome::Done);
        }
        if let Some(turn) = &mut self.current {
            turn.seq_to = event.seq;
            change(turn);
        }
    }
}

fn compact_text(answer: &AssistantMessage) -> String {
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
