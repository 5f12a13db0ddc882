//! A run: from the prompt that starts it to its end.
//!
//! Whether a turn is open, and how it ended, is the decision of [`StatusState`], the same that the
//! status of the session stands on. An end that the agent records is reported at once. An end that
//! is only inferred from an answer waits for what the same record may still say, such as the tokens
//! of the answer: it is reported before the next event of another kind, or as soon as the status
//! service calls the session ready or exited.

use std::time::Duration;

use event::payload::{
    AssistantMessage, ErrorRaised, SessionExited, TokenUsage, TurnCompleted, UserPrompt,
};
use event::{Cost, Event, EventId, Kind, Time};
use projection::status::{Reason, Status, StatusState};
use projection::{
    Facts, PriceTable, Projection, Spent, TurnChange, TurnOutcome, TurnStep, TurnStop,
};

use super::words::compact;
use crate::status::AssessedStatus;

/// Events up to this age are still published after a start: an absence as short as this is a restart.
pub(crate) const ABSENCE: Duration = Duration::from_secs(10 * 60);

/// The run of a session's agent.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct AgentRun {
    state: StatusState,
    /// The run that has a start and no end yet.
    open: Option<OpenRun>,
    /// The status that was reported last, since the turn was opened.
    status: Option<String>,
    /// An event of it was published. What was only looked up is not followed.
    is_published: bool,
    /// When the last event was observed.
    observed_at: Option<Time>,
}

#[derive(Clone, PartialEq, Debug)]
struct OpenRun {
    /// The event that started it.
    id: EventId,
    /// Its start was published, and its end was not.
    is_told: bool,
    /// The prompt was observed when it was typed, and not imported later.
    is_fresh: bool,
    started_at: Time,
    /// The turn of the prompt.
    turn_id: Option<String>,
    /// The last answer since the prompt.
    answer: Option<String>,
    /// The end that an answer or an error implies, until it is reported.
    inferred: Option<InferredEnd>,
    /// Folded from the events of the run alone, for its tokens and its cost.
    facts: Facts,
}

#[derive(Clone, PartialEq, Debug)]
struct InferredEnd {
    outcome: TurnOutcome,
    error: Option<String>,
}

/// How an event changes a run.
pub(super) struct RunChange {
    /// The end of a run that has no event of its own.
    pub closes: Option<RunEnd>,
    pub own: OwnMessage,
}

/// The message of the event itself.
pub(super) enum OwnMessage {
    Start { prompt: String },
    End(Box<RunEnd>),
    Other,
}

pub(super) struct RunEnd {
    /// The event that started the run.
    pub run_id: Option<EventId>,
    pub outcome: TurnOutcome,
    pub turn_id: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
    pub usage: Option<TokenUsage>,
    pub cost: Option<Cost>,
}

/// What a change of status means for an open run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StatusEffect {
    /// The run goes on.
    GoesOn,
    /// The run is over, and its last event shows it.
    Over,
    /// The run is over without an event that shows it. The agent's last records may still be on
    /// their way.
    OverSoon,
}

impl RunEnd {
    /// The end of a run of which nothing is recorded any more.
    pub(super) fn unrecorded(why: &str) -> RunEnd {
        RunEnd {
            run_id: None,
            outcome: TurnOutcome::Died,
            turn_id: None,
            result: None,
            error: Some(why.to_owned()),
            usage: None,
            cost: None,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.outcome {
            TurnOutcome::Failed | TurnOutcome::Died => "error",
            TurnOutcome::Done | TurnOutcome::Interrupted | TurnOutcome::Replaced => "finish",
        }
    }
}

impl AgentRun {
    /// Whether its start is on the bus without an end.
    pub(crate) fn was_told(&self) -> bool {
        self.open.as_ref().is_some_and(|run| run.is_told)
    }

    /// Notes that the start of the open run was published.
    pub(super) fn note_start_told(&mut self) {
        if let Some(run) = &mut self.open {
            run.is_told = true;
        }
    }

    /// Takes over a run that was looked up in the journal. Where its start is not on the bus without
    /// an end, the status has ended it, or it was imported: it gets no end from the events that
    /// follow. A prompt that was read too late to be published was never told; the events of its run
    /// are shown as in a replay.
    pub(super) fn take_over(&mut self, is_on_bus: bool) {
        match &mut self.open {
            Some(run) if is_on_bus => run.is_told = true,
            Some(run) if run.is_fresh => self.open = None,
            _ => {}
        }
    }

    /// When the agent began to work, and the status that was reported of it last; `None` if it does
    /// not work, as far as was published.
    pub(super) fn work_since(&self) -> Option<(Time, &str)> {
        let prompted_at = self.open.as_ref().map(|run| run.started_at);
        let opened_at = || self.state.turn().opened_by().map(|event| event.at);
        let since = prompted_at.or_else(opened_at).filter(|_| self.is_followed())?;
        Some((since, self.status.as_deref().unwrap_or(Status::Running.as_str())))
    }

    /// Whether changes of its status are published: while a run is open, and while the agent works
    /// without one, by itself or in the background, until the status service says that it does not.
    pub(super) fn is_followed(&self) -> bool {
        let ready = [Status::Exited, Status::Idle, Status::Waiting, Status::Unknown];
        let is_ready = |status: &str| ready.iter().any(|ready| ready.as_str() == status);
        let is_ready = self.status.as_deref().is_some_and(is_ready);
        let is_at_work = self.state.turn().is_open() || self.state.has_background();
        self.was_told() || self.is_published && is_at_work && !is_ready
    }

    /// When the last event was observed.
    pub(super) fn observed_at(&self) -> Option<Time> {
        self.observed_at
    }

    /// Notes that an event of the session was published.
    pub(super) fn note_published(&mut self) {
        self.is_published = true;
    }

    /// The last event that was applied.
    pub(super) fn seq(&self) -> u64 {
        self.state.seq()
    }

    /// Applies the next event of the session.
    pub(super) fn apply(&mut self, event: &Event, prices: &PriceTable) -> RunChange {
        self.observed_at = Some(event.observed_at);
        let change = self.state.apply_turn(event);
        let mut closes = self.close_before(event, change, prices);
        if matches!(change.step, TurnStep::Opened { .. } | TurnStep::Resumed) {
            self.status = None;
        }
        if let Some(run) = &mut self.open {
            run.facts.apply(event);
            run.note_answer(event, change);
        }
        if self.is_start(event, change) {
            let prompt = event.readable::<UserPrompt>();
            let text = prompt.map(|prompt| prompt.content.joined_text()).or(event.text.clone());
            self.open = Some(OpenRun::from_prompt(event));
            self.status = Some(Status::Running.as_str().to_owned());
            let prompt = compact(&text.unwrap_or_default());
            return RunChange { closes, own: OwnMessage::Start { prompt } };
        }
        let mut own = OwnMessage::Other;
        if let Some(TurnStop::Over { outcome, is_told }) = change.stop {
            match event.kind {
                // Only the agent's own record of the end is the message of the end.
                Kind::TurnCompleted => {
                    own = self.complete(event, outcome, prices).map_or(own, OwnMessage::End);
                }
                // A process comes or goes: the run ends before that message.
                Kind::SessionExited | Kind::SessionStarted | Kind::SettingsChanged => {
                    let reason = event.readable::<SessionExited>().and_then(|it| it.reason);
                    let error = reason.map(|reason| compact(&reason));
                    closes = closes.or_else(|| self.end(outcome, error, prices));
                }
                _ if !is_told => self.infer_end(event, outcome),
                _ => {}
            }
        }
        // An end says nothing of what goes on in the background: the next status is news.
        if closes.is_some() || matches!(own, OwnMessage::End(_)) {
            self.status = None;
        }
        RunChange { closes, own }
    }

    /// The status of the session by its events alone.
    pub(super) fn event_status(&self) -> Status {
        self.state.status().0
    }

    /// Notes a status that is reported; returns whether it is another one than before.
    pub(super) fn note_status(&mut self, status: &str) -> bool {
        self.status.replace(status.to_owned()).as_deref() != Some(status)
    }

    /// What the status service's word means; `None` if it means nothing for what is published.
    pub(super) fn status_effect(&self, assessed: &AssessedStatus) -> Option<StatusEffect> {
        // A status from before the last event knows less than the run does.
        if !self.is_followed() || assessed.seq != self.seq() {
            return None;
        }
        let is_ready = match assessed.status {
            Status::Exited | Status::Idle => true,
            Status::Waiting => assessed.reason != Reason::Question,
            Status::Running | Status::WaitingApproval | Status::Unknown => false,
        };
        // A run whose start was not published gets no end without an event either.
        Some(match self.open.as_ref().filter(|run| run.is_told) {
            Some(run) if is_ready && run.inferred.is_some() => StatusEffect::Over,
            Some(_) if is_ready => StatusEffect::OverSoon,
            _ => StatusEffect::GoesOn,
        })
    }

    /// Ends the run because the status service says that it is over.
    pub(super) fn end_by_status(
        &mut self,
        assessed: &AssessedStatus,
        prices: &PriceTable,
    ) -> Option<RunEnd> {
        let is_exited = assessed.status == Status::Exited;
        let outcome = match self.state.turn().cut_outcome() {
            // The process lives and is ready again: the user stopped it.
            TurnOutcome::Died if !is_exited => TurnOutcome::Interrupted,
            outcome => outcome,
        };
        let error = (outcome == TurnOutcome::Died).then(|| compact(&assessed.what));
        self.end(outcome, error, prices)
    }

    /// Ends a told run of which no further status will come.
    pub(super) fn end_untracked(&mut self, why: &str, prices: &PriceTable) -> Option<RunEnd> {
        if !self.was_told() {
            return None;
        }
        let outcome = self.state.turn().cut_outcome();
        let error = (outcome == TurnOutcome::Died).then(|| why.to_owned());
        self.end(outcome, error, prices)
    }

    /// The end of the run that an event shows without being it.
    fn close_before(
        &mut self,
        event: &Event,
        change: TurnChange,
        prices: &PriceTable,
    ) -> Option<RunEnd> {
        let run = self.open.as_mut()?;
        match change.step {
            TurnStep::Opened { replaced } => {
                self.end(replaced.unwrap_or(TurnOutcome::Replaced), None, prices)
            }
            // The agent goes on after an answer that looked like its last.
            TurnStep::Resumed => {
                run.inferred = None;
                None
            }
            // The record of an answer may hold its tokens and the agent's own word of the end, too.
            _ if matches!(event.kind, Kind::StepCompleted | Kind::TurnCompleted) => None,
            _ => {
                let outcome = run.inferred.as_ref()?.outcome;
                self.end(outcome, None, prices)
            }
        }
    }

    /// Whether an event is the prompt that starts a run.
    fn is_start(&self, event: &Event, change: TurnChange) -> bool {
        // A queued prompt is taken up by the open run. An announcement of the turn may come before
        // its prompt, so the turn may be open without a run.
        let is_taken = !matches!(change.step, TurnStep::Unrelated | TurnStep::Late);
        event.kind == Kind::UserPrompt && is_taken && self.open.is_none()
    }

    fn infer_end(&mut self, event: &Event, outcome: TurnOutcome) {
        if let Some(run) = &mut self.open {
            let raised = event.readable::<ErrorRaised>().map(|raised| raised.message);
            let error = raised.filter(|_| event.kind == Kind::Error).map(|text| compact(&text));
            run.inferred = Some(InferredEnd { outcome, error });
        }
    }

    fn complete(
        &mut self,
        event: &Event,
        outcome: TurnOutcome,
        prices: &PriceTable,
    ) -> Option<Box<RunEnd>> {
        let TurnCompleted { error, usage, .. } = event.readable().unwrap_or_default();
        // The agent's own word replaces what its answer implied.
        self.open.as_mut()?.inferred = None;
        let end = self.end(outcome, error.map(|error| compact(&error)), prices)?;
        // What the agent itself adds up goes before our sum of its requests.
        let (usage, cost) = (usage.or(end.usage), event.cost.or(end.cost));
        Some(Box::new(RunEnd { usage, cost, ..end }))
    }

    /// Ends the run with what its last record implied, else with this outcome.
    fn end(
        &mut self,
        outcome: TurnOutcome,
        error: Option<String>,
        prices: &PriceTable,
    ) -> Option<RunEnd> {
        // Taken, so that a run ends once.
        let OpenRun { id, turn_id, answer, inferred, facts, .. } = self.open.take()?;
        let InferredEnd { outcome, error } = inferred.unwrap_or(InferredEnd { outcome, error });
        let spent = Spent::from_facts(&facts, prices);
        let has_requests = spent.tokens.requests > 0;
        Some(RunEnd {
            run_id: Some(id),
            outcome,
            turn_id,
            result: answer,
            error,
            usage: has_requests.then(|| spent.tokens.to_usage()),
            cost: spent.money.usd.filter(|_| has_requests),
        })
    }
}

impl OpenRun {
    fn from_prompt(prompt: &Event) -> OpenRun {
        // Live capture observes a prompt within seconds; only an import is as late as this.
        let late = prompt.observed_at.nanos() - prompt.created_at.nanos();
        OpenRun {
            id: prompt.id,
            is_told: false,
            is_fresh: late < ABSENCE.as_nanos() as i128,
            started_at: prompt.created_at,
            turn_id: prompt.turn_id.clone(),
            answer: None,
            inferred: None,
            facts: Facts::default(),
        }
    }

    fn note_answer(&mut self, event: &Event, change: TurnChange) {
        if event.kind != Kind::AssistantMessage || change.is_late() {
            return;
        }
        let message = event.readable::<AssistantMessage>();
        // An answer may come in several messages, the last of them perhaps without text.
        if let Some(message) = message.filter(|message| message.content.has_substance()) {
            self.answer = Some(compact(&message.content.joined_text()));
        }
    }
}
