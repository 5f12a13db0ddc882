//! Decides what a turn is, when it is open and how it ended: the only place that does.
//!
//! ```text
//!               prompt, or the agent works           answer of an agent that
//!                                                    does not record ends
//!      None ─────────────────────────────▶ Open ──────────────────────▶ ProbablyOver
//!       ▲                                  │  ▲ ▲                            │
//!       └── session exits or starts again ─┤  │ └── the agent goes on ───────┘
//!                                          │  └── prompt, or the agent goes on ──┐
//!                                          └─ turn.completed, stop word, ───────▶ Over
//!                                             fatal error
//! ```
//!
//! An end is *told* if the agent recorded it (`turn.completed`, `session.exited`), else *inferred*
//! from an answer or an error. After an inferred end the next work of the agent resumes the same
//! turn; after a told end it opens another one. Records that arrive late, from a turn that is over,
//! open nothing. What single agents do differently is data (`agent_habits`).
//!
//! The machine takes a session's own events. Its caller leaves out what a fork inherits if that
//! should not count, and amendments: a fuller account of an event is no second event.
//!
//! Not here: questions to the user and whether a process lives (`status`), what was said and done
//! in a turn (`Turns`).

use event::payload::{
    ApprovalRequested, AssistantMessage, ContextAdded, ErrorRaised, ExternalInput, InputStatus,
    SessionMode, SessionStarted, SettingsChanged, StopReason, TurnCompleted,
};
use event::{Confidence, Draft, Event, Kind, ProcessIdentity, Source, Time};
use serde::{Deserialize, Serialize};

use crate::agent_habits::{AnswerMeaning, TurnHabits};
use crate::event_ref::EventRef;
use crate::id_hash::IdHash;
use crate::ring_buffer::RingBuffer;

/// Turns that are remembered as over. Background work of an older one would open a turn again.
const OVER_MAX: usize = 16;

/// Ids of turns that are remembered: an id that comes back is not the id of another turn.
const TURN_IDS_MAX: usize = 64;

/// Calls without a result. With more the oldest is forgotten, and an answer may end the turn
/// although that call still runs.
const CALLS_MAX: usize = 256;

/// Whether a turn is open, folded from the events of one session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TurnMachine {
    state: TurnState,
    /// The id of the turn that is open or was last, if the agent gives ids.
    turn_id: Option<String>,
    opened_by: Option<EventRef>,
    progress: Progress,
    /// The ids of all turns lately, whether they were opened or only mentioned.
    turn_ids: RingBuffer<IdHash, TURN_IDS_MAX>,
    /// Turns with a told end.
    over: RingBuffer<IdHash, OVER_MAX>,
    open_calls: RingBuffer<IdHash, CALLS_MAX>,
    /// Calls of turns that went down with their process. An agent closes them when it resumes.
    #[serde(default)]
    cut_calls: RingBuffer<IdHash, CALLS_MAX>,
    /// When the last prompt, start or end settled all questions before it.
    settled_at: Option<Time>,
    is_child: bool,
}

/// How far the last turn has got.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// There was no turn yet, or the session exited or started again in the middle of one.
    #[default]
    None,
    Open,
    /// Over, or only about to begin: no event so far says which. The event is the last one.
    ProbablyOver(EventRef),
    Over(TurnEnd),
}

/// How and by which event a turn ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnEnd {
    pub by: EventRef,
    pub outcome: TurnOutcome,
    /// Whether the agent recorded the end; else it is inferred from an answer or an error.
    pub is_told: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    Done,
    Failed,
    /// The user stopped it.
    Interrupted,
    /// The agent's process ended in the middle of it.
    Died,
    /// The next prompt came before there was an answer.
    Replaced,
}

/// What an event did to the turns of its session. One event can open a turn and end it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnChange {
    pub step: TurnStep,
    pub stop: Option<TurnStop>,
}

/// How an event relates to the turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnStep {
    /// It says nothing about turns.
    Unrelated,
    /// It opens a turn. `replaced` is how the turn before ended, if that one was still open or
    /// probably over and no [`TurnStop::Over`] was reported for it.
    Opened { replaced: Option<TurnOutcome> },
    /// It belongs to the open turn.
    WentOn,
    /// It belongs to the last turn, which was over or probably over, and opens it again.
    Resumed,
    /// It arrived late, from a turn that is over, and opens nothing.
    Late,
}

/// How a turn stops with an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnStop {
    ProbablyOver,
    /// It is over. Reported once for an inferred end and once more if the agent then records it.
    /// A log that begins in the middle of a turn has this without a [`TurnStep::Opened`].
    Over {
        outcome: TurnOutcome,
        is_told: bool,
    },
}

/// What the open turn consists of so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Progress {
    has_prompt: bool,
    /// The agent recorded that it began.
    is_announced: bool,
    /// There is an answer or a call.
    has_worked: bool,
    /// The last thing the agent did was to answer.
    is_answered: bool,
}

impl TurnOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            TurnOutcome::Done => "done",
            TurnOutcome::Failed => "failed",
            TurnOutcome::Interrupted => "interrupted",
            TurnOutcome::Died => "died",
            TurnOutcome::Replaced => "replaced",
        }
    }

    /// The outcome that the record of an end states.
    pub fn from_completed(completed: &TurnCompleted) -> TurnOutcome {
        // An agent may word an interruption as an error, too; the stop reason is more exact.
        match (&completed.stop_reason, &completed.error) {
            (Some(StopReason::Interrupted), _) => TurnOutcome::Interrupted,
            (Some(StopReason::Died), _) => TurnOutcome::Died,
            (_, Some(_)) => TurnOutcome::Failed,
            _ => TurnOutcome::Done,
        }
    }
}

impl TurnChange {
    /// What an event does that says nothing about turns.
    pub const UNRELATED: TurnChange = TurnChange { step: TurnStep::Unrelated, stop: None };

    pub fn is_late(&self) -> bool {
        self.step == TurnStep::Late
    }
}

impl From<TurnStep> for TurnChange {
    fn from(step: TurnStep) -> TurnChange {
        TurnChange { step, stop: None }
    }
}

/// Whether the agent records with this kind of event that its turn is over. For readers of a few
/// events, which cannot fold a whole log.
pub(crate) fn is_told_end(kind: &Kind) -> bool {
    matches!(kind, Kind::TurnCompleted | Kind::SessionExited)
}

/// Whether a prompt was typed while the agent was busy. Such a prompt belongs to the open turn.
pub(crate) fn is_queued(prompt: &Draft) -> bool {
    prompt.data.field("queued").is_some_and(|queued| queued.json == "true")
}

impl TurnMachine {
    pub fn state(&self) -> &TurnState {
        &self.state
    }

    pub fn is_open(&self) -> bool {
        self.state == TurnState::Open
    }

    /// The end of the last turn, if it is over.
    pub fn end(&self) -> Option<&TurnEnd> {
        match &self.state {
            TurnState::Over(end) => Some(end),
            _ => None,
        }
    }

    /// The id of the turn that is open or was last, if the agent gives ids.
    pub fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }

    /// The event that the open turn stands on.
    pub fn opened_by(&self) -> Option<&EventRef> {
        self.opened_by.as_ref()
    }

    /// Whether all questions before `at` are settled by a later prompt, start or end.
    pub(crate) fn is_settled(&self, at: Time) -> bool {
        self.settled_at.is_some_and(|settled_at| settled_at > at)
    }

    /// Whether an event carries the id of a turn that no event before it did.
    pub(crate) fn is_new_id(&self, event: &Event) -> bool {
        event.turn_id.as_deref().is_some_and(|id| !self.turn_ids.contains(&IdHash::from_id(id)))
    }

    /// Takes the next event and says what it did.
    pub fn apply(&mut self, event: &Event) -> TurnChange {
        // The id becomes known only after the event was judged: `next_step` asks whether it is new.
        let change = self.apply_kind(event);
        if let Some(turn_id) = event.turn_id.as_deref()
            && self.is_new_id(event)
        {
            self.turn_ids.push(IdHash::from_id(turn_id));
        }
        change
    }

    fn apply_kind(&mut self, event: &Event) -> TurnChange {
        match event.kind {
            // The frame of a session: a process comes or goes, and takes an open turn with it.
            Kind::SessionStarted => self.apply_start(event),
            Kind::SessionExited => self.apply_exit(event),
            Kind::SettingsChanged => match opening_process(event) {
                Some(process) => self.apply_process(process.started_at),
                None => TurnChange::UNRELATED,
            },
            // A user asks or the agent works: a turn is open, unless the record is late.
            Kind::UserPrompt => self.apply_prompt(event),
            Kind::TurnStarted | Kind::StepStarted | Kind::ToolStarted | Kind::Retry => {
                self.note_work(event).into()
            }
            Kind::AssistantThinking => {
                let step = self.note_work(event);
                // An agent that thinks again after its answer is not done. A late thought says
                // nothing of the open turn.
                self.progress.is_answered &= step == TurnStep::Late;
                step.into()
            }
            Kind::AssistantMessage => self.apply_answer(event),
            Kind::ToolCall => self.apply_call(event),
            Kind::ToolResult => self.apply_result(event),
            Kind::ContextAdded => self.apply_context(event),
            // A hook may report a question long after the records that go on from its answer.
            Kind::ApprovalRequested if self.is_settled(event.created_at) => TurnStep::Late.into(),
            Kind::ApprovalRequested => match event.readable::<ApprovalRequested>() {
                Some(_) => self.open_turn(event).into(),
                None => TurnChange::UNRELATED,
            },
            Kind::ExternalInput => {
                // Only an agent that asks is at work. An answer to it opens nothing.
                let asked = event.readable::<ExternalInput>();
                match asked.is_some_and(|asked| asked.status == InputStatus::Pending) {
                    true => self.open_turn(event).into(),
                    false => TurnChange::UNRELATED,
                }
            }
            // The ends that an agent records or an error implies.
            Kind::TurnCompleted => self.complete(event),
            Kind::Error => self.apply_error(event),
            _ => TurnChange::UNRELATED,
        }
    }

    /// The session began, or began again: an open turn went down with the process before.
    fn apply_start(&mut self, event: &Event) -> TurnChange {
        let started = event.readable::<SessionStarted>().unwrap_or_default();
        self.is_child |= started.mode == Some(SessionMode::Child);
        self.cut_open_calls();
        self.settle_open(event);
        if self.state != TurnState::Open {
            return TurnChange::UNRELATED;
        }
        // `None` and not `Over`: an inferred end would let the new process resume a turn that went
        // down with the old one.
        self.state = TurnState::None;
        let stop = TurnStop::Over { outcome: self.cut_outcome(), is_told: false };
        TurnChange { step: TurnStep::Unrelated, stop: Some(stop) }
    }

    /// A process has the session open. A turn belongs to the process that began it: one from before
    /// the start of this process went down with another.
    fn apply_process(&mut self, started_at: Time) -> TurnChange {
        let is_older = |event: &EventRef| event.created_at < started_at;
        let is_cut = match &self.state {
            TurnState::Open => self.opened_by.as_ref().is_some_and(is_older),
            TurnState::ProbablyOver(last) => is_older(last),
            TurnState::None | TurnState::Over(_) => false,
        };
        self.settled_at = self.settled_at.max(Some(started_at));
        if !is_cut {
            return TurnChange::UNRELATED;
        }
        self.cut_open_calls();
        // `None` and not `Over`, as in `apply_start`: the new process resumes nothing of the turn.
        self.state = TurnState::None;
        let stop = TurnStop::Over { outcome: self.cut_outcome(), is_told: false };
        TurnChange { step: TurnStep::Unrelated, stop: Some(stop) }
    }

    fn apply_exit(&mut self, event: &Event) -> TurnChange {
        self.settle_open(event);
        let outcome = match &self.state {
            TurnState::None => None,
            // An exit confirms an end that was only inferred. An end the agent recorded was already
            // reported as told, and is not reported twice.
            TurnState::Over(end) => Some(end.outcome).filter(|_| !end.is_told),
            TurnState::Open | TurnState::ProbablyOver(_) => Some(self.cut_outcome()),
        };
        let stop = outcome.map(|outcome| TurnStop::Over { outcome, is_told: true });
        // A finished turn keeps its end: the status and the list of turns still show how it went.
        if self.end().is_none() {
            self.state = TurnState::None;
        }
        TurnChange { step: TurnStep::Unrelated, stop }
    }

    /// The calls that are open went down with their process.
    fn cut_open_calls(&mut self) {
        let cut: Vec<IdHash> = self.open_calls.iter().copied().collect();
        cut.into_iter().for_each(|call_id| self.cut_calls.push(call_id));
        self.open_calls.clear();
    }

    /// How the open turn ended if its process ended without a record of the end.
    pub fn cut_outcome(&self) -> TurnOutcome {
        if self.progress.is_answered { TurnOutcome::Done } else { TurnOutcome::Died }
    }

    /// No call and no question outlives this event.
    fn settle_open(&mut self, event: &Event) {
        self.open_calls.clear();
        // Never back: a record with an older time may be read after a newer one.
        self.settled_at = self.settled_at.max(Some(event.created_at));
    }

    fn apply_prompt(&mut self, event: &Event) -> TurnChange {
        // A queued prompt settles nothing: the calls and questions of the open turn still stand.
        if self.is_open() && is_queued(event) {
            return TurnStep::WentOn.into();
        }
        self.settle_open(event);
        // Set after `open_turn`, which clears the progress where a new turn begins.
        let step = self.open_turn(event);
        self.progress.has_prompt = true;
        step.into()
    }

    /// The agent works, so its turn is open, unless the record only arrived late.
    fn note_work(&mut self, event: &Event) -> TurnStep {
        if self.is_late(event) {
            return TurnStep::Late;
        }
        let step = self.open_turn(event);
        self.progress.is_announced |= event.kind == Kind::TurnStarted;
        step
    }

    /// Opens a turn, or goes on with the last one.
    fn open_turn(&mut self, event: &Event) -> TurnStep {
        // The step must be decided first: the lines below overwrite the state that it compares
        // with.
        let step = self.next_step(event);
        let is_same = event.turn_id.is_some() && event.turn_id == self.turn_id;
        let stays = match self.state {
            // Records without an id belong to the open turn, except a prompt, which is the better
            // start.
            TurnState::Open => is_same || event.turn_id.is_none() && event.kind != Kind::UserPrompt,
            TurnState::ProbablyOver(_) | TurnState::Over(_) => is_same,
            TurnState::None => false,
        };
        // The status stands on the first event of an id, or else on the newest that (re)opens the
        // turn: a prompt is better evidence than the announcement before it.
        if !stays {
            self.turn_id.clone_from(&event.turn_id);
            self.opened_by = Some(EventRef::from_event(event));
        }
        if matches!(step, TurnStep::Opened { .. }) {
            self.progress = Progress::default();
        }
        // A turn that goes on after its end is not over: its next calls are not late.
        if let Some(turn_id) = &self.turn_id {
            let open = IdHash::from_id(turn_id);
            self.over.take(|over| *over == open);
        }
        self.state = TurnState::Open;
        step
    }

    /// Whether an event that is not late begins another turn.
    fn next_step(&self, event: &Event) -> TurnStep {
        let is_same = event.turn_id.is_some() && event.turn_id == self.turn_id;
        let Progress { has_prompt, is_announced, has_worked, .. } = self.progress;
        let is_another = match event.kind {
            // Queued while the agent was busy, and handed over after its answer.
            Kind::UserPrompt if is_queued(event) => false,
            // A prompt and an announcement without work between them are one turn, in any order.
            Kind::UserPrompt => has_prompt || has_worked,
            Kind::TurnStarted => (is_announced || has_worked) && !is_same,
            // An agent that goes on by itself shows it only by another id. A turn without an id
            // takes the first one that comes, and an older id is a straggler.
            _ => self.turn_id.is_some() && self.is_new_id(event),
        };
        let opened = |replaced| TurnStep::Opened { replaced };
        match &self.state {
            TurnState::None => opened(None),
            // The agent said that it was done, so what follows is new work, unless it has the same
            // id: then a hook of the user sent the agent back.
            TurnState::Over(end) if end.is_told && !is_same => opened(None),
            TurnState::Over(_) if is_another => opened(None),
            // No end was reported for the turn before, so this event has to report it.
            TurnState::Open | TurnState::ProbablyOver(_) if is_another => {
                let is_answered = self.progress.is_answered;
                opened(Some(if is_answered { TurnOutcome::Done } else { TurnOutcome::Replaced }))
            }
            TurnState::Open => TurnStep::WentOn,
            TurnState::ProbablyOver(_) | TurnState::Over(_) => TurnStep::Resumed,
        }
    }

    /// Whether an event belongs to a turn that is over.
    fn is_late(&self, event: &Event) -> bool {
        // A hook may report an end before the transcript has what came before it. An announcement
        // is never late: it is about the next turn.
        if let TurnState::Over(end) = &self.state
            && end.by.source == Source::Hook
            && event.kind != Kind::TurnStarted
            && event.created_at <= end.by.created_at
        {
            return true;
        }
        // Without an id an event cannot be tied to an older turn, so it counts as new.
        let Some(turn_id) = &event.turn_id else { return false };
        if !self.over.contains(&IdHash::from_id(turn_id)) {
            return false;
        }
        match (&self.state, &event.kind) {
            // Background work of a turn reports after its end.
            (_, Kind::ToolCall | Kind::ToolStarted | Kind::ToolResult) => true,
            // A hook of the user may send the agent back to work after a told end: then the agent
            // speaks later than the end.
            (TurnState::Over(end), _) => event.created_at <= end.by.created_at,
            // A straggler of an older turn must not take over the one that is open by now.
            (TurnState::Open, _) => event.turn_id != self.turn_id,
            _ => true,
        }
    }

    fn apply_answer(&mut self, event: &Event) -> TurnChange {
        let step = self.note_work(event);
        // A straggler of a turn that is over says nothing of the open one, whatever its stop word.
        if step == TurnStep::Late {
            return step.into();
        }
        self.progress.is_answered = true;
        let habits = TurnHabits::for_provider(&event.provider);
        // A stop word in the answer is more exact than the agent's habit.
        let word = event.data.field("stop_reason").and_then(|word| word.text());
        let meaning = match word.is_some_and(|word| habits.is_stop_word(&word)) {
            true => AnswerMeaning::Over,
            false => habits.answer,
        };
        // The text may be long, so it is read only where it decides.
        let ends = self.is_open() && self.open_calls.is_empty() && meaning != AnswerMeaning::GoesOn;
        if !ends && self.progress.has_worked {
            return step.into();
        }
        let answer = event.readable::<AssistantMessage>();
        // An empty answer comes before the calls of its record.
        if !answer.is_some_and(|answer| answer.content.has_substance()) {
            return step.into();
        }
        self.progress.has_worked = true;
        let stop = match meaning {
            _ if !ends => None,
            AnswerMeaning::GoesOn => None,
            AnswerMeaning::Over => Some(self.infer_end(event, TurnOutcome::Done)),
            // The agent writes a call down only when it is done, so one may run that no record
            // shows.
            AnswerMeaning::ProbablyOver => {
                self.state = TurnState::ProbablyOver(EventRef::from_event(event));
                Some(TurnStop::ProbablyOver)
            }
        };
        TurnChange { step, stop }
    }

    /// Ends the turn with an event that does not state the end.
    fn infer_end(&mut self, event: &Event, outcome: TurnOutcome) -> TurnStop {
        let by = EventRef::from_event(event).at_most_medium();
        self.state = TurnState::Over(TurnEnd { by, outcome, is_told: false });
        TurnStop::Over { outcome, is_told: false }
    }

    fn apply_call(&mut self, event: &Event) -> TurnChange {
        let step = self.note_work(event);
        // A late call belongs to another turn. Left open here, it would keep an answer from ending
        // this one.
        if step != TurnStep::Late
            && let Some(call_id) = call_id(event)
        {
            self.progress.has_worked = true;
            self.progress.is_answered = false;
            // A hook and the transcript may both report one call.
            self.open_calls.take(|open| *open == call_id);
            self.open_calls.push(call_id);
        }
        step.into()
    }

    fn apply_result(&mut self, event: &Event) -> TurnChange {
        // A new process closes the calls that the one before left open, and goes on with none.
        let is_cut = |call_id: IdHash| self.cut_calls.take(|cut| *cut == call_id).is_some();
        if call_id(event).is_some_and(is_cut) {
            return TurnStep::Late.into();
        }
        let step = self.note_work(event);
        // A log that begins in the middle of a turn may have a result without its call.
        self.progress.has_worked |= step != TurnStep::Late;
        // A late result closes its call, too.
        if let Some(call_id) = call_id(event) {
            self.open_calls.take(|open| *open == call_id);
        }
        step.into()
    }

    /// Context by itself opens no turn, with two exceptions: it is the task of a child, or it
    /// carries the id of a turn that has not begun.
    fn apply_context(&mut self, event: &Event) -> TurnChange {
        let Some(turn_id) = event.turn_id.as_deref().filter(|_| !self.is_open()) else {
            return TurnChange::UNRELATED;
        };
        // Context of a kind is what a harness adds to any request.
        if event.readable::<ContextAdded>().is_none_or(|added| added.kind.is_some()) {
            return TurnChange::UNRELATED;
        }
        // Before the first turn stands what a harness adds to any session. Only a child gets its
        // task there.
        if self.state == TurnState::None {
            return match self.is_child {
                true => self.open_turn(event).into(),
                false => TurnChange::UNRELATED,
            };
        }
        // More context for the turn that just ended is no news of another one.
        if self.turn_id() == Some(turn_id) || self.is_late(event) {
            return TurnChange::UNRELATED;
        }
        // The agent hears of what it left running, and may go on by itself.
        let replaced = match &self.state {
            TurnState::ProbablyOver(_) if self.progress.is_answered => Some(TurnOutcome::Done),
            TurnState::ProbablyOver(_) => Some(TurnOutcome::Replaced),
            _ => None,
        };
        // The turn is not open yet: an agent may take note and do nothing. `ProbablyOver` is left
        // by the first thing that it does.
        self.turn_id = Some(turn_id.to_owned());
        self.opened_by = Some(EventRef::from_event(event));
        self.progress = Progress::default();
        self.state = TurnState::ProbablyOver(EventRef::from_event(event));
        TurnChange { step: TurnStep::Opened { replaced }, stop: Some(TurnStop::ProbablyOver) }
    }

    fn complete(&mut self, event: &Event) -> TurnChange {
        let turn = event.turn_id.as_deref().map(IdHash::from_id);
        // A second report of an older turn's end must not end the turn that is open by now.
        let is_of_other = self.is_open() && event.turn_id != self.turn_id;
        if is_of_other && turn.is_some_and(|turn| self.over.contains(&turn)) {
            return TurnStep::Late.into();
        }
        self.settle_open(event);
        // An end without an id is that of the open turn, whose stragglers have the id.
        let turn = turn.or_else(|| {
            let open_id = self.turn_id.as_deref().filter(|_| self.is_open());
            open_id.map(IdHash::from_id)
        });
        if let Some(turn) = turn.filter(|turn| !self.over.contains(turn)) {
            self.over.push(turn);
        }
        // An unreadable payload is still an end: the kind of the event says so.
        let completed = event.readable::<TurnCompleted>().unwrap_or_default();
        let outcome = TurnOutcome::from_completed(&completed);
        // Read before the state is replaced: both a hook and the transcript may report one end.
        let was_told = self.end().is_some_and(|end| end.is_told);
        // A second report of one end is news only if it is surer than the first.
        if self.end().is_none_or(|end| end.by.confidence != Confidence::High) {
            let by = EventRef::from_event(event);
            self.state = TurnState::Over(TurnEnd { by, outcome, is_told: true });
        }
        match was_told {
            true => TurnChange::UNRELATED,
            false => {
                let stop = TurnStop::Over { outcome, is_told: true };
                TurnChange { step: TurnStep::WentOn, stop: Some(stop) }
            }
        }
    }

    /// A fatal error ends the turn. Any other may end it, where the agent records no ends.
    fn apply_error(&mut self, event: &Event) -> TurnChange {
        if !self.is_open() {
            return TurnChange::UNRELATED;
        }
        if self.is_late(event) {
            return TurnStep::Late.into();
        }
        let raised = event.readable::<ErrorRaised>().unwrap_or_default();
        let stop = if raised.recoverable == Some(false) {
            Some(self.infer_end(event, TurnOutcome::Failed))
        } else if TurnHabits::for_provider(&event.provider).tells_ends {
            // The agent records an end if this was one. Until then it may try again.
            None
        } else {
            self.state = TurnState::ProbablyOver(EventRef::from_event(event));
            Some(TurnStop::ProbablyOver)
        };
        TurnChange { step: TurnStep::WentOn, stop }
    }
}

/// The process that an event says has the session open.
pub(crate) fn opening_process(event: &Event) -> Option<ProcessIdentity> {
    let process = event.readable::<SettingsChanged>()?.process?;
    // It was there when it was named, whatever the clock says.
    Some(ProcessIdentity { started_at: process.started_at.min(event.created_at), ..process })
}

/// The id of the call an event is about.
fn call_id(event: &Event) -> Option<IdHash> {
    let call_id = event.data.field("call_id")?;
    call_id.text().map(|call_id| IdHash::from_id(&call_id))
}
