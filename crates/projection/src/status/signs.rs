//! What the events of a session say about its status.
//!
//! A turn is open from its prompt, or from the first thing an agent does by itself, until somebody
//! says that it is over. What a person is asked stands until any later sign closes it: the answer,
//! the result of the call, the next prompt, the end of the turn, an exit. What is told late about a
//! turn that is over opens nothing. The state is bounded and forgets the oldest first.

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, AssistantMessage, ContextAdded,
    ErrorRaised, ExternalInput, InputStatus, ModelWords, Note, SessionMode, SessionStarted,
    StopReason, ToolCall, ToolResult, TurnCompleted, UserPrompt,
};
use event::{Confidence, Event, EventId, Kind, Source, Time};
use serde::{Deserialize, Serialize};

use super::agents::{AnswerEnds, has_nobody};
use super::pending::{OpenCall, Pending};
use super::work::Work;
use super::{Reason, Status};
use crate::mark::Mark;
use crate::projection::{Projection, saved_version};
use crate::recent::Recent;
use crate::tool::has_failed;
use crate::torn::{News, Torn};

/// Approvals and questions that are waited for. With more the oldest is given up; the session
/// waits all the same.
const PENDING_MAX: usize = 64;

/// Calls without a result, work that goes on by itself, and turns that are over, each. With more
/// the oldest is forgotten.
const CALLS_MAX: usize = 256;
const BEGUN_MAX: usize = 64;
const OVER_MAX: usize = 16;

/// Calls that have come back and are remembered, for questions that are told late.
const MADE_MAX: usize = 16;

/// Changes of status that are remembered.
const HISTORY_MAX: usize = 50;

/// What a model says when it is done, and does not only wait for a tool.
const DONE_WORDS: &[&str] = &["end_turn", "stop", "stop_sequence"];

/// What events say, folded up to a `seq`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Signs {
    version: u32,
    seq: u64,
    pub(super) stage: Stage,
    /// The turn that is open, or was last.
    pub(super) turn_id: Option<String>,
    /// What began it.
    pub(super) turn_since: Option<Sign>,
    /// Turns that are over: what is told of them later opens nothing.
    over: Recent<Mark, OVER_MAX>,
    pub(super) retry: Option<Sign>,
    pub(super) compacting: Option<Sign>,
    pub(super) approvals: Recent<Pending, PENDING_MAX>,
    pub(super) questions: Recent<Pending, PENDING_MAX>,
    pub(super) calls: Recent<OpenCall, CALLS_MAX>,
    /// Calls that came back, and when.
    made: Recent<(OpenCall, Time), MADE_MAX>,
    /// When everything that was asked before was last over.
    nothing_asked_at: Option<Time>,
    /// What it began that goes on by itself: children, and commands behind their calls.
    begun: Recent<(Mark, Sign), BEGUN_MAX>,
    /// The last turn ended and left something running.
    background: Option<Sign>,
    pub(super) exit: Option<Sign>,
    /// No person sits before it.
    pub(super) has_nobody: bool,
    /// It works for another session.
    pub(super) is_child: bool,
    /// When somebody last said that they have seen what it did.
    pub(super) seen_at: Option<Time>,
    /// The last thing that happened.
    pub(super) last: Option<Sign>,
    pub(super) work: Work,
    history: Recent<Change, HISTORY_MAX>,
    torn: Torn,
}

/// How far the last turn has got.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    #[default]
    Nothing,
    Open,
    /// Perhaps over, perhaps only beginning: nothing told so far says which.
    Perhaps(Sign),
    Over(Sign),
}

/// An event that says something about the status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Sign {
    pub(super) event_id: EventId,
    /// When it happened, for ages: never later than we saw it, so that a clock that is ahead does
    /// not make it younger than it is.
    pub(super) at: Time,
    /// When it happened according to the provider.
    told_at: Time,
    pub(super) source: Source,
    pub(super) confidence: Confidence,
}

/// A change of status that events told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    pub at: Time,
    pub status: Status,
    pub reason: Reason,
    pub event_id: EventId,
}

/// What the note of somebody is about who has seen what a session did.
pub const SEEN: &str = "seen";

/// Whether a note says that somebody has seen what was done.
fn is_seen(event: &Event) -> bool {
    let note = event.readable::<Note>();
    note.and_then(|note| note.about?.text()).is_some_and(|about| about == SEEN)
}

impl Default for Signs {
    fn default() -> Signs {
        Signs {
            version: Signs::VERSION,
            seq: 0,
            stage: Stage::Nothing,
            turn_id: None,
            turn_since: None,
            over: Recent::default(),
            retry: None,
            compacting: None,
            approvals: Recent::default(),
            questions: Recent::default(),
            calls: Recent::default(),
            made: Recent::default(),
            nothing_asked_at: None,
            begun: Recent::default(),
            background: None,
            exit: None,
            has_nobody: false,
            is_child: false,
            seen_at: None,
            last: None,
            work: Work::default(),
            history: Recent::default(),
            torn: Torn::default(),
        }
    }
}

impl Sign {
    pub(super) fn of(event: &Event) -> Sign {
        Sign {
            event_id: event.id,
            at: event.created_at.min(event.observed_at),
            told_at: event.created_at,
            source: event.source.clone(),
            confidence: event.confidence.clone(),
        }
    }

    /// The same, not as sure.
    fn at_most_medium(self) -> Sign {
        let confidence = match self.confidence {
            Confidence::High => Confidence::Medium,
            lower => lower,
        };
        Sign { confidence, ..self }
    }
}

impl Projection for Signs {
    const NAME: &'static str = "signs";
    const VERSION: u32 = 3;

    fn seq(&self) -> u64 {
        self.seq
    }

    /// Takes the next event. Events that a fork inherits say nothing about its status.
    fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        if event.fork_origin().is_some() {
            return;
        }
        let before = self.told();
        match self.torn.look_at(event) {
            News::Again => self.take_again(event),
            News::First | News::Mended(_) => self.take(event),
        }
        let (status, reason) = self.told();
        if before != (status, reason) {
            let change = Change { at: event.created_at, status, reason, event_id: event.id };
            // What changes twice in one moment has changed once.
            self.history.take(|last| last.at == change.at);
            self.history.push(change);
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(serde_json::to_vec(self).expect("names and numbers always encode"))
    }

    fn load(saved: &[u8]) -> Option<Signs> {
        if saved_version(saved)? != Signs::VERSION {
            return None;
        }
        serde_json::from_slice(saved).ok()
    }
}

impl Signs {
    /// Whether it works for another session.
    pub fn is_child(&self) -> bool {
        self.is_child
    }

    /// Whether something was asked that nobody has answered, as far as events tell.
    pub fn is_asking(&self) -> bool {
        !self.approvals.is_empty() || !self.questions.is_empty()
    }

    /// The changes of status that events told, the oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Change> {
        self.history.iter()
    }

    /// What the events alone say, whatever the time.
    fn told(&self) -> (Status, Reason) {
        if self.exit.is_some() {
            return (Status::Exited, Reason::Shutdown);
        }
        if !self.has_nobody && !self.approvals.is_empty() {
            return (Status::WaitingApproval, Reason::Permission);
        }
        if !self.has_nobody && !self.questions.is_empty() {
            return (Status::Waiting, Reason::Question);
        }
        match &self.stage {
            Stage::Open => (Status::Running, self.running_reason()),
            _ if self.compacting.is_some() => (Status::Running, Reason::Compaction),
            _ if self.background().is_some() => (Status::Running, Reason::Background),
            Stage::Over(_) if self.has_nobody || self.is_child => (Status::Exited, Reason::RunOver),
            Stage::Over(_) => (Status::Waiting, Reason::Prompt),
            Stage::Perhaps(_) => (Status::Unknown, Reason::Answered),
            Stage::Nothing => (Status::Unknown, Reason::Nothing),
        }
    }

    /// What an open turn is at.
    pub(super) fn running_reason(&self) -> Reason {
        match (&self.retry, &self.compacting) {
            (Some(_), _) => Reason::Retry,
            (None, Some(_)) => Reason::Compaction,
            (None, None) => Reason::Turn,
        }
    }

    /// What goes on although the turn is over.
    pub(super) fn background(&self) -> Option<&Sign> {
        let begun = self.begun.iter().map(|(_, sign)| sign);
        begun.chain(&self.background).max_by_key(|sign| sign.at)
    }

    /// Takes a fuller account of something that was told: only a result may say more, namely that
    /// what went on behind its call is over.
    fn take_again(&mut self, event: &Event) {
        let result = event.readable::<ToolResult>();
        let Some(result) = result.filter(|result| !result.background) else { return };
        let id = Mark::of(&result.call_id);
        if self.begun.take(|(begun, _)| *begun == id).is_some() {
            self.touch(event);
        }
    }

    fn take(&mut self, event: &Event) {
        match event.kind {
            Kind::SessionStarted => self.start(event),
            Kind::SessionExited => self.exit(event),
            Kind::UserPrompt => self.prompt(event),
            Kind::TurnStarted | Kind::StepStarted | Kind::ToolStarted => self.go_on(event),
            Kind::AssistantThinking => self.go_on(event),
            Kind::AssistantMessage => self.answer(event),
            Kind::ToolCall => self.call(event),
            Kind::ToolResult => self.result(event),
            Kind::ContextAdded => self.context(event),
            Kind::ApprovalRequested => self.ask(event),
            Kind::ApprovalResolved | Kind::ApprovalCanceled => self.decide(event),
            Kind::ExternalInput => self.question(event),
            Kind::Retry => {
                self.go_on(event);
                self.retry = Some(Sign::of(event));
            }
            Kind::CompactionStarted => {
                self.happen(event);
                self.compacting = Some(Sign::of(event));
            }
            Kind::Compaction => {
                self.touch(event);
                self.compacting = None;
            }
            // One that was only asked for ends with its call.
            Kind::ChildStarted | Kind::ChildProgressed => self.child(event, true),
            Kind::ChildCompleted | Kind::ChildFailed | Kind::ChildCanceled => {
                self.child(event, false);
            }
            Kind::TurnCompleted => self.complete(event),
            Kind::Error => self.error(event),
            // Said about the session, not by it.
            Kind::Note if is_seen(event) => self.seen_at = Some(event.created_at),
            Kind::Note => {
                if let Some(ModelWords { recent: Some(recent), to_seq, .. }) =
                    ModelWords::from_event(event)
                {
                    self.work.tell(&recent, to_seq);
                }
            }
            Kind::StatusChanged | Kind::EpochClosed | Kind::Snapshot => {}
            _ => self.touch(event),
        }
    }

    /// Something happened, and what happens at all is not over.
    fn happen(&mut self, event: &Event) {
        self.exit = None;
        self.touch(event);
    }

    fn touch(&mut self, event: &Event) {
        let sign = Sign::of(event);
        if self.last.as_ref().is_none_or(|last| last.at <= sign.at) {
            self.last = Some(sign);
        }
    }

    /// It began, or began again: whatever was open went down with the process before.
    fn start(&mut self, event: &Event) {
        let started = event.readable::<SessionStarted>().unwrap_or_default();
        if let Some(entry_point) = &started.entry_point {
            self.has_nobody = has_nobody(entry_point);
        }
        self.is_child |= started.mode == Some(SessionMode::Child);
        self.forget_open(event);
        self.begun.clear();
        self.background = None;
        if self.stage == Stage::Open {
            self.stage = Stage::Nothing;
        }
        self.happen(event);
    }

    fn exit(&mut self, event: &Event) {
        self.touch(event);
        self.forget_open(event);
        self.begun.clear();
        self.background = None;
        if !matches!(self.stage, Stage::Over(_)) {
            self.stage = Stage::Nothing;
        }
        self.exit = Some(Sign::of(event));
    }

    /// Nothing that was asked or begun in a turn outlives it.
    fn forget_open(&mut self, event: &Event) {
        self.nothing_asked_at = self.nothing_asked_at.max(Some(event.created_at));
        self.approvals.clear();
        self.questions.clear();
        self.calls.clear();
        self.retry = None;
        self.compacting = None;
    }

    fn prompt(&mut self, event: &Event) {
        let prompt = event.readable::<UserPrompt>();
        let is_queued = prompt.as_ref().is_some_and(|prompt| prompt.queued);
        let text = prompt.map(|said| said.content.joined_text()).or(event.text.clone());
        if is_queued && self.stage == Stage::Open {
            return self.touch(event);
        }
        self.forget_open(event);
        self.open(event);
        self.work.prompt(&text.unwrap_or_default(), event.seq);
    }

    /// Opens a turn, or goes on with the one of the same id.
    fn open(&mut self, event: &Event) {
        self.happen(event);
        let is_same = event.turn_id.is_some() && event.turn_id == self.turn_id;
        let goes_on = match self.stage {
            Stage::Open => is_same || event.turn_id.is_none() && event.kind != Kind::UserPrompt,
            Stage::Perhaps(_) | Stage::Over(_) => is_same,
            Stage::Nothing => false,
        };
        if !goes_on {
            self.turn_id.clone_from(&event.turn_id);
            self.turn_since = Some(Sign::of(event));
        }
        self.stage = Stage::Open;
    }

    /// The agent does something, so its turn is open, unless this is only told late.
    fn go_on(&mut self, event: &Event) {
        if self.is_late(event) {
            return self.touch(event);
        }
        self.open(event);
        self.retry = None;
        if !matches!(event.kind, Kind::ToolCall | Kind::ToolStarted | Kind::ToolResult)
            && self.calls.is_empty()
        {
            // Nothing is left to be decided before this was said.
            let is_older = |pending: &Pending| pending.sign.told_at < event.created_at;
            self.approvals.retain(|pending| !is_older(pending));
            self.questions.retain(|pending| !is_older(pending));
        }
    }

    /// Whether it belongs to a turn that is over. A turn whose end was told may still go on, if a
    /// hook of the user sends the agent back to work: then something is said after the end. A hook
    /// may tell an end before a transcript tells what came before it.
    fn is_late(&self, event: &Event) -> bool {
        if let Stage::Over(end) = &self.stage
            && end.source == Source::Hook
            && event.kind != Kind::TurnStarted
            && event.created_at <= end.told_at
        {
            return true;
        }
        let Some(turn_id) = &event.turn_id else { return false };
        if !self.over.contains(&Mark::of(turn_id)) {
            return false;
        }
        match (&self.stage, &event.kind) {
            (_, Kind::ToolCall | Kind::ToolStarted | Kind::ToolResult) => true,
            (Stage::Over(end), _) => event.created_at <= end.told_at,
            (Stage::Open, _) => event.turn_id != self.turn_id,
            _ => true,
        }
    }

    fn answer(&mut self, event: &Event) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Head {
            stop_reason: Option<String>,
        }
        self.go_on(event);
        let answer = event.readable::<AssistantMessage>();
        let Some(answer) = answer.filter(|answer| answer.content.has_substance()) else { return };
        self.work.answer(&answer.content.joined_text());
        if self.stage != Stage::Open || !self.calls.is_empty() {
            return;
        }
        let head: Head = event.data.read().unwrap_or_default();
        let is_done = head.stop_reason.is_some_and(|word| DONE_WORDS.contains(&word.as_str()));
        self.stage = match AnswerEnds::of(&event.provider) {
            _ if is_done => Stage::Over(Sign::of(event).at_most_medium()),
            AnswerEnds::Turn => Stage::Over(Sign::of(event).at_most_medium()),
            AnswerEnds::Perhaps => Stage::Perhaps(Sign::of(event)),
            AnswerEnds::Nothing => Stage::Open,
        };
    }

    fn call(&mut self, event: &Event) {
        let is_late = self.is_late(event);
        self.go_on(event);
        let Some(call) = event.readable::<ToolCall>().filter(|_| !is_late) else { return };
        let open = OpenCall::new(event, &call.call_id, &call.tool, &call.input);
        if let Some(asked) = self.approvals.iter_mut().find(|asked| asked.is_for(&open)) {
            asked.call = Some(open.id);
        }
        // Told twice, it is still one call.
        self.calls.take(|known| known.id == open.id);
        self.calls.push(open);
    }

    fn result(&mut self, event: &Event) {
        self.go_on(event);
        let Some(result) = event.readable::<ToolResult>() else { return };
        let id = Mark::of(&result.call_id);
        self.begun.take(|(begun, _)| *begun == id);
        if result.background {
            self.begun.push((id, Sign::of(event)));
        }
        let call = self.calls.take(|open| open.id == id);
        self.questions.retain(|asked| asked.call != Some(id));
        let before = self.approvals.len();
        self.approvals.retain(|asked| asked.call != Some(id));
        let Some(call) = call else { return };
        if self.approvals.len() == before {
            self.answer_for(&call);
        }
        self.work.done(call.doing.clone(), has_failed(&result));
        self.made.push((call, event.created_at));
    }

    /// Closes the approval of a call that was never named, if it can be no other's.
    fn answer_for(&mut self, call: &OpenCall) {
        if self.approvals.take(|asked| asked.is_for(call)).is_some() {
            return;
        }
        if !self.calls.iter().any(|open| open.is_same_tool(call)) {
            self.approvals.take(|asked| asked.may_be_for(call));
        }
    }

    fn context(&mut self, event: &Event) {
        self.touch(event);
        let is_plain = event.readable::<ContextAdded>().is_some_and(|added| added.kind.is_none());
        if !is_plain || self.stage == Stage::Open || event.turn_id.is_none() {
            return;
        }
        let is_next = event.turn_id != self.turn_id && !self.is_late(event);
        if self.is_child && self.stage == Stage::Nothing {
            // The task of a child is its prompt.
            self.open(event);
        } else if is_next && self.stage != Stage::Nothing {
            // An agent that hears of what it left running goes on by itself, perhaps.
            self.exit = None;
            self.turn_id.clone_from(&event.turn_id);
            self.turn_since = Some(Sign::of(event));
            self.stage = Stage::Perhaps(Sign::of(event));
        }
    }

    fn ask(&mut self, event: &Event) {
        let Some(asked) = event.readable::<ApprovalRequested>() else { return };
        let mut pending = Pending::approval(event, &asked);
        if self.is_answered(event, &pending) {
            return self.touch(event);
        }
        self.open(event);
        if self.approvals.iter().any(|known| known.id == pending.id) {
            return;
        }
        let is_bare = pending.is_bare();
        let mut calls = self.calls.iter().rev();
        if let Some(call) = calls.find(|call| is_bare || pending.is_for(call)) {
            pending.call.get_or_insert(call.id);
        }
        self.approvals.push(pending);
    }

    /// Whether a question is told so late that its answer is known. A hook may be heard long after
    /// the records that go on from there.
    fn is_answered(&self, event: &Event, pending: &Pending) -> bool {
        let asked_at = event.created_at;
        let is_over = self.nothing_asked_at.is_some_and(|at| at > asked_at);
        is_over || self.made.iter().any(|(call, at)| *at >= asked_at && pending.is_for(call))
    }

    fn decide(&mut self, event: &Event) {
        self.touch(event);
        let resolved = event.readable::<ApprovalResolved>().map(|told| told.approval_id);
        let canceled = || event.readable::<ApprovalCanceled>().map(|told| told.approval_id);
        let Some(id) = resolved.or_else(canceled) else { return };
        // A transcript may name the call where a hook could not.
        let call_id = Mark::of(&id);
        let is_it = |asked: &Pending| asked.id == id || asked.call == Some(call_id);
        if self.approvals.take(is_it).is_some() {
            return;
        }
        if let Some(call) = self.calls.take(|open| open.id == call_id) {
            self.answer_for(&call);
            self.calls.push(call);
        }
    }

    fn question(&mut self, event: &Event) {
        let Some(asked) = event.readable::<ExternalInput>() else { return };
        if asked.status != InputStatus::Pending {
            self.touch(event);
            self.questions.retain(|open| open.id != asked.request_id);
            return;
        }
        self.open(event);
        let pending = Pending::question(event, &asked);
        if !self.questions.iter().any(|known| known.id == pending.id) {
            self.questions.push(pending);
        }
    }

    fn child(&mut self, event: &Event, is_working: bool) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Head {
            child_id: String,
        }
        self.touch(event);
        let head: Head = event.data.read().unwrap_or_default();
        let id = Mark::of(&head.child_id);
        self.begun.take(|(child, _)| *child == id);
        if is_working {
            self.exit = None;
            self.begun.push((id, Sign::of(event)));
        }
    }

    fn complete(&mut self, event: &Event) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Head {
            /// What the turn left running, if somebody counted.
            background: Option<u64>,
        }
        self.touch(event);
        let turn = event.turn_id.as_deref().map(Mark::of);
        let is_other = self.stage == Stage::Open && event.turn_id != self.turn_id;
        if is_other && turn.is_some_and(|turn| self.over.contains(&turn)) {
            return;
        }
        let told = event.readable::<TurnCompleted>().unwrap_or_default();
        let head: Head = event.data.read().unwrap_or_default();
        self.forget_open(event);
        self.work.turn_over(event.seq);
        let is_cut = matches!(told.stop_reason, Some(StopReason::Interrupted | StopReason::Died));
        if is_cut || head.background == Some(0) {
            self.begun.clear();
            self.background = None;
        } else if head.background.is_some() {
            self.background = Some(Sign::of(event));
        }
        match told.error {
            Some(error) => self.work.fail(&error),
            None => self.work.failure = None,
        }
        if let Some(turn) = turn.filter(|turn| !self.over.contains(turn)) {
            self.over.push(turn);
        }
        // A second report of one end changes nothing.
        let is_known =
            matches!(&self.stage, Stage::Over(end) if end.confidence == Confidence::High);
        if !is_known {
            self.stage = Stage::Over(Sign::of(event));
        }
    }

    fn error(&mut self, event: &Event) {
        self.touch(event);
        let raised = event.readable::<ErrorRaised>().unwrap_or_default();
        if self.stage != Stage::Open {
            return;
        }
        let is_fatal = raised.recoverable == Some(false);
        if is_fatal || AnswerEnds::of(&event.provider) != AnswerEnds::Nothing {
            self.work.fail(&raised.message);
        }
        self.stage = match AnswerEnds::of(&event.provider) {
            _ if is_fatal => Stage::Over(Sign::of(event).at_most_medium()),
            AnswerEnds::Nothing => Stage::Open,
            _ => Stage::Perhaps(Sign::of(event)),
        };
    }
}
