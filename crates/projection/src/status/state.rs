//! What the events of a session say about its status.
//!
//! Whether a turn is open is the [`TurnMachine`]'s decision. A question to the user stands until a
//! later event closes it: the answer, the result of the call, the next prompt, the end of the turn,
//! an exit. The state is bounded and forgets the oldest first.

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, AssistantMessage, ErrorRaised,
    ExternalInput, InputStatus, ModelWords, Note, SessionMode, SessionStarted, SettingsChanged,
    StepCompleted, StopReason, ToolCall, ToolResult, TurnCompleted, UserPrompt,
};
use event::{Event, EventId, Kind, ProcessIdentity, Source, Time};
use serde::{Deserialize, Serialize};

use super::pending::{PendingCall, PendingQuestion};
use super::repetition::{Repetition, Repetitions};
use super::work::RecentWork;
use super::{Reason, Status};
use crate::agent_habits::{ApprovalHabit, TurnHabits, asks_in_mode, is_headless};
use crate::event_ref::EventRef;
use crate::id_hash::IdHash;
use crate::projection::Projection;
use crate::ring_buffer::RingBuffer;
use crate::tool::has_failed;
use crate::torn::{EventNovelty, TornRecords};
use crate::turn_machine::{TurnChange, TurnMachine, TurnState, TurnStep, opening_process};

/// Approvals and questions that are waited for. With more the oldest is given up; the session
/// waits all the same.
const PENDING_MAX: usize = 64;

/// Calls without a result, and background work. With more the oldest is forgotten.
const CALLS_MAX: usize = 256;
const BACKGROUND_MAX: usize = 64;

/// Calls with a result that are remembered, to recognise questions that arrive late.
const RETURNED_MAX: usize = 16;

/// Changes of status that are remembered.
const HISTORY_MAX: usize = 50;

/// What events say about the status, folded up to a `seq`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusState {
    version: u32,
    seq: u64,
    pub(super) turn: TurnMachine,
    pub(super) retry: Option<EventRef>,
    pub(super) compacting: Option<EventRef>,
    pub(super) approvals: RingBuffer<PendingQuestion, PENDING_MAX>,
    pub(super) questions: RingBuffer<PendingQuestion, PENDING_MAX>,
    pub(super) calls: RingBuffer<PendingCall, CALLS_MAX>,
    /// Calls with a result, and when it came.
    returned: RingBuffer<(PendingCall, Time), RETURNED_MAX>,
    /// Background work by the id of its call or child.
    background_work: RingBuffer<(IdHash, EventRef), BACKGROUND_MAX>,
    /// The end of the last turn, if it counted background work that goes on.
    background_count: Option<EventRef>,
    pub(super) exit: Option<EventRef>,
    /// The agent, as events name it.
    provider: String,
    permission_mode: Option<String>,
    /// Hooks have told an event since the session started last, so that they tell approvals, too.
    hears_hooks: bool,
    /// The process that has it open, as far as hooks named one.
    process: Option<ProcessIdentity>,
    /// The event that named a process which found an open turn of another one.
    pub(super) resumed: Option<EventRef>,
    /// A program runs the agent; no user sits at it.
    pub(super) is_headless: bool,
    /// It works for another session.
    pub(super) is_child: bool,
    /// When the user last said that they have seen what it did.
    pub(super) seen_at: Option<Time>,
    /// The last event that shows activity.
    pub(super) last: Option<EventRef>,
    pub(super) work: RecentWork,
    repetitions: Repetitions,
    history: RingBuffer<StatusChange, HISTORY_MAX>,
    torn: TornRecords,
}

/// A change of status that followed from an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StatusChange {
    pub at: Time,
    pub status: Status,
    pub reason: Reason,
    pub event_id: EventId,
}

/// The `about` of a note with which the user says that they have seen what a session did.
pub const SEEN: &str = "seen";

fn is_note_about(event: &Event, about: &str) -> bool {
    let note = event.readable::<Note>();
    note.and_then(|note| note.about?.text()).is_some_and(|told| told == about)
}

impl Default for StatusState {
    fn default() -> StatusState {
        StatusState {
            version: StatusState::VERSION,
            seq: 0,
            turn: TurnMachine::default(),
            retry: None,
            compacting: None,
            approvals: RingBuffer::default(),
            questions: RingBuffer::default(),
            calls: RingBuffer::default(),
            returned: RingBuffer::default(),
            background_work: RingBuffer::default(),
            background_count: None,
            exit: None,
            provider: String::new(),
            permission_mode: None,
            hears_hooks: false,
            process: None,
            resumed: None,
            is_headless: false,
            is_child: false,
            seen_at: None,
            last: None,
            work: RecentWork::default(),
            repetitions: Repetitions::default(),
            history: RingBuffer::default(),
            torn: TornRecords::default(),
        }
    }
}

impl Projection for StatusState {
    /// Saved states of all versions go by this name.
    const NAME: &'static str = "signs";
    const SAVE_AFTER: Option<u64> = Some(2_000);

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        self.apply_turn(event);
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(serde_json::to_vec(self).expect("names and numbers always encode"))
    }

    fn load(saved: &[u8]) -> Option<StatusState> {
        let state: StatusState = serde_json::from_slice(saved).ok()?;
        (state.version == StatusState::VERSION).then_some(state)
    }
}

impl StatusState {
    const VERSION: u32 = 9;

    /// Takes the next event and says what it did to the turns of the session. What a fork inherits,
    /// and an event that was applied before, does nothing.
    pub fn apply_turn(&mut self, event: &Event) -> TurnChange {
        if event.seq <= self.seq {
            return TurnChange::UNRELATED;
        }
        self.seq = event.seq;
        // Inherited events tell the life of another session and of another process.
        if event.fork_origin().is_some() {
            return TurnChange::UNRELATED;
        }
        if self.provider.is_empty() {
            self.provider.clone_from(&event.provider);
        }
        // The history holds what events changed. What only the clock changes is found when it is
        // asked for.
        let before = self.status();
        let change = match self.torn.inspect_event(event) {
            EventNovelty::Again => self.apply_amendment(event),
            EventNovelty::First | EventNovelty::Mended(_) => self.apply_news(event),
        };
        // After the event itself: a start forgets the hooks of the process before.
        self.hears_hooks |= event.source == Source::Hook;
        let (status, reason) = self.status();
        if before != (status, reason) {
            let change = StatusChange { at: event.created_at, status, reason, event_id: event.id };
            // Two changes at one instant are one.
            self.history.take(|last| last.at == change.at);
            self.history.push(change);
        }
        change
    }

    /// Whether a turn is open, and how the last one ended.
    pub fn turn(&self) -> &TurnMachine {
        &self.turn
    }

    /// The process that has it open, as far as hooks named one.
    pub fn process(&self) -> Option<ProcessIdentity> {
        self.process
    }

    /// When it was last active, as far as events show.
    pub fn last_at(&self) -> Option<Time> {
        self.last.as_ref().map(|last| last.at)
    }

    /// Whether it ended by its own word, or as a run without a user that has given its answer.
    pub fn has_ended(&self) -> bool {
        let is_run_over = self.is_headless && matches!(self.turn.state(), TurnState::Over(_));
        self.exit.is_some() || is_run_over
    }

    /// Whether it works for another session.
    pub fn is_child(&self) -> bool {
        self.is_child
    }

    /// Whether it asks to run a command, as far as events show.
    pub fn asks_to_run(&self) -> bool {
        let is_asked = self.approvals.iter().any(|asked| asked.command.is_some());
        is_asked || self.escalated_call().is_some_and(|call| call.command.is_some())
    }

    /// Whether a question or an approval waits for the user, as far as events show.
    pub fn is_asking(&self) -> bool {
        !self.approvals.is_empty() || !self.questions.is_empty()
    }

    /// The call that the user is probably asked about, if no event says for what: the one that says
    /// itself that it has to be allowed, else the riskiest.
    pub(super) fn likely_asked(&self) -> Option<&PendingCall> {
        let is_question = |call: &PendingCall| {
            self.questions.iter().any(|question| question.call == Some(call.id))
        };
        let calls = self.calls.iter().filter(|call| !is_question(call));
        // `Risk` has the worst first, and of equals the oldest call is asked about first.
        calls.min_by_key(|call| (!call.is_escalated, call.risk))
    }

    /// The event of the call that the user is probably asked about, if no event says for what.
    pub fn likely_request(&self) -> Option<EventId> {
        self.likely_asked().filter(|_| self.approvals.is_empty()).map(|call| call.event.event_id)
    }

    /// The first call that says itself that it has to be allowed, where neither a record nor a hook
    /// would tell that the user is asked.
    pub(super) fn escalated_call(&self) -> Option<&PendingCall> {
        let is_asked = !self.is_headless && !self.hears_hooks && self.hides_approvals();
        self.calls.iter().find(|call| is_asked && call.is_escalated)
    }

    /// Whether the only thing that the user can be asked for now is the answer to a question.
    pub(super) fn has_only_questions(&self) -> bool {
        !self.questions.is_empty() && self.approvals.is_empty() && self.likely_asked().is_none()
    }

    /// Whether the open turn may wait for the user, or be over, without anything that tells it.
    pub(super) fn may_wait_unseen(&self) -> bool {
        if self.is_headless || self.hears_hooks {
            return false;
        }
        let hides_ends = !TurnHabits::for_provider(&self.provider).tells_ends;
        hides_ends || !self.calls.is_empty() && self.hides_approvals()
    }

    /// Whether the agent may ask for an approval that its records do not have.
    fn hides_approvals(&self) -> bool {
        ApprovalHabit::for_provider(&self.provider) == ApprovalHabit::Hidden
            && asks_in_mode(self.permission_mode.as_deref())
    }

    /// The loop of equal failures that the agent is in, if it is in one.
    pub fn find_loop(&self) -> Option<&Repetition> {
        self.repetitions.find_loop().filter(|_| self.turn.is_open())
    }

    /// The changes of status that followed from events, the oldest first.
    pub fn history(&self) -> impl Iterator<Item = &StatusChange> {
        self.history.iter()
    }

    /// The status by events alone, at any time.
    pub fn status(&self) -> (Status, Reason) {
        // The order is that of `Status`: an exit ends everything, and a question goes before work.
        if self.exit.is_some() {
            return (Status::Exited, Reason::Shutdown);
        }
        // No user can answer a headless run, so it never waits. Its hooks ask all the same.
        if !self.is_headless && !self.approvals.is_empty() {
            return (Status::WaitingApproval, Reason::Permission);
        }
        if self.escalated_call().is_some() {
            return (Status::WaitingApproval, Reason::Permission);
        }
        if !self.is_headless && !self.questions.is_empty() {
            return (Status::Waiting, Reason::Question);
        }
        match self.turn.state() {
            // An open turn is better evidence than a compaction or background work.
            TurnState::Open => (Status::Running, self.running_reason()),
            _ if self.compacting.is_some() => (Status::Running, Reason::Compaction),
            _ if self.background().is_some() => (Status::Running, Reason::Background),
            // A run without a user ends with its answer: no further prompt can come.
            TurnState::Over(_) if self.is_headless || self.is_child => {
                (Status::Exited, Reason::RunOver)
            }
            TurnState::Over(_) => (Status::Waiting, Reason::Prompt),
            TurnState::ProbablyOver(_) => (Status::Unknown, Reason::Answered),
            TurnState::None if self.resumed.is_some() => (Status::Waiting, Reason::Resumed),
            TurnState::None => (Status::Unknown, Reason::Nothing),
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

    /// Whether work goes on although the turn is over, as far as events show.
    pub fn has_background(&self) -> bool {
        self.background().is_some()
    }

    /// The newest evidence of work that goes on although the turn is over.
    pub(super) fn background(&self) -> Option<&EventRef> {
        let work = self.background_work.iter().map(|(_, event)| event);
        work.chain(&self.background_count).max_by_key(|event| event.at)
    }

    /// Takes a fuller account of an earlier event. Only a result can say more: that the background
    /// work behind its call is over.
    fn apply_amendment(&mut self, event: &Event) -> TurnChange {
        // A command that outlived its turn first reports that it runs in the background. The
        // amendment has its true result.
        let result = event.readable::<ToolResult>();
        if let Some(result) = result.filter(|result| !result.background) {
            let id = IdHash::from_id(&result.call_id);
            if self.background_work.take(|(work, _)| *work == id).is_some() {
                self.note_activity(event);
            }
        }
        TurnChange::UNRELATED
    }

    fn apply_news(&mut self, event: &Event) -> TurnChange {
        // The turn machine goes first: what else an event means depends on its answer.
        let was_open = self.turn.is_open();
        let change = match self.is_answered_approval(event) {
            true => TurnStep::Late.into(),
            false => self.turn.apply(event),
        };
        match event.kind {
            // The frame of the session, and prompts.
            Kind::SessionStarted => self.apply_start(event, change),
            Kind::SessionExited => self.apply_exit(event),
            Kind::UserPrompt => self.apply_prompt(event, was_open),
            Kind::SettingsChanged => self.apply_settings(event, change),
            // The agent at work.
            Kind::TurnStarted | Kind::StepStarted | Kind::ToolStarted => {
                self.apply_work(event, change)
            }
            Kind::AssistantThinking => self.apply_work(event, change),
            Kind::AssistantMessage => self.apply_answer(event, change),
            Kind::ToolCall => self.apply_call(event, change),
            Kind::ToolResult => self.apply_result(event, change),
            Kind::ContextAdded => {
                self.note_activity(event);
                // Context that begins a turn is activity; any other may be told of one that ended.
                if change.step != TurnStep::Unrelated {
                    self.exit = None;
                }
            }
            // Questions to the user, and their answers.
            Kind::ApprovalRequested => self.apply_question(event, change),
            Kind::ApprovalResolved | Kind::ApprovalCanceled => self.apply_decision(event),
            Kind::ExternalInput => self.question(event),
            Kind::StepCompleted => {
                self.note_activity(event);
                if let Some(step) = event.readable::<StepCompleted>() {
                    self.repetitions.apply_step(&step);
                }
            }
            // What keeps a turn busy without a word of the model.
            Kind::Retry => {
                // `apply_work` clears the retry, so it is set afterwards.
                self.apply_work(event, change);
                self.retry = Some(EventRef::from_event(event));
            }
            Kind::CompactionStarted => {
                self.revive_session(event);
                self.compacting = Some(EventRef::from_event(event));
            }
            Kind::Compaction => {
                self.note_activity(event);
                self.compacting = None;
            }
            // A child that was only requested ends with its call.
            Kind::ChildStarted | Kind::ChildProgressed => self.apply_child(event, true),
            Kind::ChildCompleted | Kind::ChildFailed | Kind::ChildCanceled => {
                self.apply_child(event, false);
            }
            // The ends of turns.
            Kind::TurnCompleted => self.complete(event, change),
            Kind::Error => self.apply_error(event, was_open),
            // A note is about the session and not by it, so it is no activity.
            Kind::Note if is_note_about(event, SEEN) => self.seen_at = Some(event.created_at),
            Kind::Note if is_note_about(event, Note::COMPACTION_GIVEN_UP) => {
                self.compacting.take_if(|begun| begun.created_at <= event.created_at);
            }
            Kind::Note => {
                if let Some(ModelWords { recent: Some(recent), to_seq, .. }) =
                    ModelWords::from_event(event)
                {
                    self.work.apply_model_words(&recent, to_seq);
                }
            }
            // Hansard or a host writes these about a session. They are no activity of the agent.
            Kind::StatusChanged | Kind::EpochClosed | Kind::Snapshot => {}
            _ => self.note_activity(event),
        }
        change
    }

    /// Records activity of a session that may have exited: a session that acts has not.
    fn revive_session(&mut self, event: &Event) {
        self.exit = None;
        self.resumed = None;
        self.note_activity(event);
    }

    fn note_activity(&mut self, event: &Event) {
        // Sources arrive out of order: a transcript is read after a hook that happened later.
        let event = EventRef::from_event(event);
        if self.last.as_ref().is_none_or(|last| last.at <= event.at) {
            self.last = Some(event);
        }
    }

    /// It began, or began again: background work went down with the process before.
    fn apply_start(&mut self, event: &Event, change: TurnChange) {
        let started = event.readable::<SessionStarted>().unwrap_or_default();
        // The last start counts: a user may go on in a terminal with what `codex exec` began.
        if let Some(entry_point) = &started.entry_point {
            self.is_headless = is_headless(entry_point);
        }
        self.permission_mode = started.permission_mode.or(self.permission_mode.take());
        self.hears_hooks = false;
        self.is_child |= started.mode == Some(SessionMode::Child);
        self.forget_turn();
        self.clear_background();
        // A hook may tell the start after the process was seen, which ended the open turn already.
        let was_resumed = self.resumed.is_some();
        self.revive_session(event);
        self.resumed = (was_resumed || change.stop.is_some()).then(|| EventRef::from_event(event));
    }

    fn apply_exit(&mut self, event: &Event) {
        // `note_activity` and not `revive_session`: the exit itself is no newer activity.
        self.note_activity(event);
        self.forget_turn();
        self.clear_background();
        self.exit = Some(EventRef::from_event(event));
    }

    /// Takes changed settings. A process that has the session open ends what another one left open
    /// in it.
    fn apply_settings(&mut self, event: &Event, change: TurnChange) {
        self.note_activity(event);
        let changed = event.readable::<SettingsChanged>().unwrap_or_default();
        self.permission_mode = changed.permission_mode.or(self.permission_mode.take());
        let Some(process) = opening_process(event) else { return };
        self.process = Some(process);
        let is_older = |event: &EventRef| event.created_at < process.started_at;
        self.approvals.retain(|asked| !is_older(&asked.event));
        self.questions.retain(|asked| !is_older(&asked.event));
        self.calls.retain(|call| !is_older(&call.event));
        self.background_work.retain(|(_, work)| !is_older(work));
        for sign in
            [&mut self.retry, &mut self.compacting, &mut self.background_count, &mut self.exit]
        {
            sign.take_if(|sign| is_older(sign));
        }
        if change.stop.is_some() {
            self.work.turn_over(event.seq);
            self.resumed = Some(EventRef::from_event(event));
        }
    }

    fn clear_background(&mut self) {
        self.background_work.clear();
        self.background_count = None;
    }

    /// Forgets what a turn asked or called: nothing of it outlives the turn.
    fn forget_turn(&mut self) {
        self.approvals.clear();
        self.questions.clear();
        self.calls.clear();
        self.retry = None;
        self.compacting = None;
    }

    /// Forgets what was asked or called before a prompt. An agent may write its prompt behind the
    /// first records of the turn that answers it: what those ask stands.
    fn settle_before(&mut self, prompt: &Event) {
        let is_newer = |event: &EventRef| event.created_at > prompt.created_at;
        self.approvals.retain(|asked| is_newer(&asked.event));
        self.questions.retain(|asked| is_newer(&asked.event));
        self.calls.retain(|call| is_newer(&call.event));
        self.retry.take_if(|retry| !is_newer(retry));
        self.compacting.take_if(|compacting| !is_newer(compacting));
    }

    fn apply_prompt(&mut self, event: &Event, was_open: bool) {
        let prompt = event.readable::<UserPrompt>();
        let is_queued = prompt.as_ref().is_some_and(|prompt| prompt.queued);
        let text = prompt.map(|said| said.content.joined_text()).or(event.text.clone());
        // A queued prompt answers no question and ends no call of the open turn.
        if is_queued && was_open {
            return self.note_activity(event);
        }
        self.settle_before(event);
        self.repetitions.clear();
        self.revive_session(event);
        self.work.apply_prompt(&text.unwrap_or_default(), event.seq);
    }

    /// Takes a record of the agent's work, unless it only arrived late.
    fn apply_work(&mut self, event: &Event, change: TurnChange) {
        // A late record shows that the log grew, but revives no session and closes no question.
        if change.is_late() {
            return self.note_activity(event);
        }
        self.revive_session(event);
        self.retry = None;
        // With no call open, an agent that speaks later than it asked has its answer. A call or a
        // result says nothing of that: several calls run side by side.
        if !matches!(event.kind, Kind::ToolCall | Kind::ToolStarted | Kind::ToolResult)
            && self.calls.is_empty()
        {
            let is_older = |pending: &PendingQuestion| pending.event.created_at < event.created_at;
            self.approvals.retain(|pending| !is_older(pending));
            self.questions.retain(|pending| !is_older(pending));
        }
    }

    fn apply_answer(&mut self, event: &Event, change: TurnChange) {
        self.apply_work(event, change);
        let answer = event.readable::<AssistantMessage>();
        if let Some(answer) = answer.filter(|answer| answer.content.has_substance()) {
            self.work.apply_answer(&answer.content.joined_text());
        }
    }

    fn apply_call(&mut self, event: &Event, change: TurnChange) {
        self.apply_work(event, change);
        let call = event.readable::<ToolCall>().filter(|_| !change.is_late());
        let Some(call) = call else { return };
        let open = PendingCall::new(event, &call.call_id, &call.tool, &call.input);
        // A hook asks before the transcript has the call. Tie the approval to it now, so that the
        // result of another call cannot close it.
        if let Some(asked) = self.approvals.iter_mut().find(|asked| asked.is_for_call(&open)) {
            asked.call = Some(open.id);
        }
        // A hook and the transcript may both report one call.
        self.calls.take(|known| known.id == open.id);
        self.calls.push(open);
    }

    fn apply_result(&mut self, event: &Event, change: TurnChange) {
        self.apply_work(event, change);
        let Some(result) = event.readable::<ToolResult>() else { return };
        // A second result of one call replaces the first, also in what it says of the background.
        let id = IdHash::from_id(&result.call_id);
        self.background_work.take(|(work, _)| *work == id);
        if result.background {
            self.background_work.push((id, EventRef::from_event(event)));
        }
        let call = self.calls.take(|open| open.id == id);
        self.questions.retain(|asked| asked.call != Some(id));
        // An approval that names the call is closed exactly. Only if there was none may one without
        // a name be meant.
        let before = self.approvals.len();
        self.approvals.retain(|asked| asked.call != Some(id));
        let Some(call) = call else { return };
        if self.approvals.len() == before {
            self.answer_for(&call);
        }
        if call.doing.modifies() || call.edits_files {
            self.repetitions.clear();
        } else if call.doing.is_command() {
            self.repetitions.apply_result(&call, &result, event);
        }
        self.work.note_finished(call.doing.clone(), has_failed(&result));
        self.returned.push((call, event.created_at));
    }

    /// Closes the approval that did not name its call, if it can belong to no other call.
    fn answer_for(&mut self, call: &PendingCall) {
        // By the arguments first. By the tool alone only if no other open call uses it: a guess
        // could close the question of that call, and the user would not see it.
        if self.approvals.take(|asked| asked.is_for_call(call)).is_some() {
            return;
        }
        if !self.calls.iter().any(|open| open.is_same_tool(call)) {
            self.approvals.take(|asked| asked.may_be_for(call));
        }
    }

    fn apply_question(&mut self, event: &Event, change: TurnChange) {
        let Some(asked) = event.readable::<ApprovalRequested>() else { return };
        if change.is_late() {
            return self.note_activity(event);
        }
        self.revive_session(event);
        let mut pending = PendingQuestion::approval(event, &asked);
        // A hook and the transcript may report one approval.
        if self.approvals.iter().any(|known| known.id == pending.id) {
            return;
        }
        let is_bare = pending.is_bare();
        // Newest first: an agent asks for the call that it has just written.
        let mut calls = self.calls.iter().rev();
        if let Some(call) = calls.find(|call| is_bare || pending.is_for_call(call)) {
            pending.call.get_or_insert(call.id);
        }
        self.approvals.push(pending);
    }

    /// Whether an approval is requested for a call that has returned since: a hook may be read long
    /// after the records that go on from the answer.
    fn is_answered_approval(&self, event: &Event) -> bool {
        if event.kind != Kind::ApprovalRequested || self.returned.is_empty() {
            return false;
        }
        let Some(asked) = event.readable::<ApprovalRequested>() else { return false };
        let pending = PendingQuestion::approval(event, &asked);
        // A result from before the request belongs to an earlier call of the same kind.
        let mut since = self.returned.iter().filter(|(_, at)| *at >= event.created_at);
        since.any(|(call, _)| pending.is_for_call(call))
    }

    fn apply_decision(&mut self, event: &Event) {
        self.note_activity(event);
        let resolved = event.readable::<ApprovalResolved>().map(|told| told.approval_id);
        let canceled = || event.readable::<ApprovalCanceled>().map(|told| told.approval_id);
        let Some(id) = resolved.or_else(canceled) else { return };
        // A transcript may name the call where a hook could not.
        let call_id = IdHash::from_id(&id);
        let is_it = |asked: &PendingQuestion| asked.id == id || asked.call == Some(call_id);
        if self.approvals.take(is_it).is_some() {
            return;
        }
        // The decision names a call, and the approval named none. The call stays open: it may run
        // only now.
        if let Some(call) = self.calls.take(|open| open.id == call_id) {
            self.answer_for(&call);
            self.calls.push(call);
        }
    }

    fn question(&mut self, event: &Event) {
        let Some(asked) = event.readable::<ExternalInput>() else { return };
        if asked.status != InputStatus::Pending {
            self.note_activity(event);
            self.questions.retain(|open| open.id != asked.request_id);
            return;
        }
        self.revive_session(event);
        let pending = PendingQuestion::question(event, &asked);
        if !self.questions.iter().any(|known| known.id == pending.id) {
            self.questions.push(pending);
        }
    }

    fn apply_child(&mut self, event: &Event, is_working: bool) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ChildHead {
            child_id: String,
        }
        self.note_activity(event);
        let head: ChildHead = event.data.read().unwrap_or_default();
        let id = IdHash::from_id(&head.child_id);
        // The newest report of a child replaces the one before, so that its age is that of the last
        // sign.
        self.background_work.take(|(child, _)| *child == id);
        if is_working {
            self.exit = None;
            self.background_work.push((id, EventRef::from_event(event)));
        }
    }

    fn complete(&mut self, event: &Event, change: TurnChange) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct CompletedHead {
            /// How much background work the turn left, if the agent counts it.
            background: Option<u64>,
        }
        self.note_activity(event);
        // The end of an older turn must not settle the questions of the one that is open.
        if change.is_late() {
            return;
        }
        let told = event.readable::<TurnCompleted>().unwrap_or_default();
        let head: CompletedHead = event.data.read().unwrap_or_default();
        self.forget_turn();
        self.work.turn_over(event.seq);
        // An interruption and a death take background work with them. Else the agent's own count
        // decides, and without a count nothing changes.
        let is_cut = matches!(told.stop_reason, Some(StopReason::Interrupted | StopReason::Died));
        if is_cut || head.background == Some(0) {
            self.clear_background();
        } else if head.background.is_some() {
            self.background_count = Some(EventRef::from_event(event));
        }
        match told.error {
            Some(error) => self.work.note_failure(&error),
            None => self.work.failure = None,
        }
    }

    fn apply_error(&mut self, event: &Event, was_open: bool) {
        self.note_activity(event);
        // An error that the turn survives is no failure of it.
        if was_open && !self.turn.is_open() {
            let raised = event.readable::<ErrorRaised>().unwrap_or_default();
            self.work.note_failure(&raised.message);
        }
    }
}
