//! A run: from the prompt that starts it to its end.

use std::time::Duration;

use event::payload::{
    AssistantMessage, SessionExited, StopReason, TokenUsage, TurnCompleted, UserPrompt,
};
use event::{Cost, Event, Kind};

use super::words::compact;

/// The kinds of events that a run depends on.
pub(crate) const DECISIVE: [Kind; 4] =
    [Kind::UserPrompt, Kind::AssistantMessage, Kind::TurnCompleted, Kind::SessionExited];

/// Events up to this age are still published after a start: an absence as short as this is a restart.
pub(crate) const ABSENCE: Duration = Duration::from_secs(10 * 60);

/// The stop reason of an answer that ends the turn.
const ANSWERED: &str = "end_turn";

/// A run of a session's agent, open or not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AgentRun {
    is_open: bool,
    /// The last prompt was observed when it was typed, and not imported later.
    is_fresh: bool,
    /// The turn of the last prompt.
    turn_id: Option<String>,
    /// The last answer since that prompt.
    answer: Option<String>,
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
    pub outcome: RunOutcome,
    pub turn_id: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
    pub usage: Option<TokenUsage>,
    pub cost: Option<Cost>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunOutcome {
    Done,
    Interrupted,
    Replaced,
    Failed,
    Died,
}

impl RunOutcome {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Done => "done",
            RunOutcome::Interrupted => "interrupted",
            RunOutcome::Replaced => "replaced",
            RunOutcome::Failed => "failed",
            RunOutcome::Died => "died",
        }
    }
}

impl RunEnd {
    pub(super) fn name(&self) -> &'static str {
        match self.outcome {
            RunOutcome::Failed | RunOutcome::Died => "error",
            RunOutcome::Done | RunOutcome::Interrupted | RunOutcome::Replaced => "finish",
        }
    }
}

impl AgentRun {
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether its start was published, as far as its prompt shows.
    pub(crate) fn was_told(&self) -> bool {
        self.is_open && self.is_fresh
    }

    fn from_prompt(prompt: &Event) -> AgentRun {
        // Live capture observes a prompt within seconds; only an import is as late as this.
        let late = prompt.observed_at.nanos() - prompt.created_at.nanos();
        AgentRun {
            is_open: true,
            is_fresh: late < ABSENCE.as_nanos() as i128,
            turn_id: prompt.turn_id.clone(),
            answer: None,
        }
    }

    /// The run after these events of a session, which come newest first. Reads only as many as needed.
    pub(crate) fn from_newest(newest_first: impl Iterator<Item = Event>) -> AgentRun {
        let mut answer = None;
        for event in newest_first {
            match event.kind {
                // Inherited events ran in the session that was forked.
                // Compared before the kind: an inherited prompt would open a run that this session
                // never had.
                _ if event.fork_origin().is_some() => break,
                Kind::UserPrompt => return AgentRun { answer, ..AgentRun::from_prompt(&event) },
                Kind::TurnCompleted | Kind::SessionExited => break,
                Kind::AssistantMessage => {
                    let (text, is_last) = words_of(&event);
                    // A finished answer closed the run before any prompt further back.
                    if is_last {
                        break;
                    }
                    // Newest first, so the first text found is the last answer.
                    answer = answer.or(text);
                }
                _ => {}
            }
        }
        AgentRun::default()
    }

    /// Applies the next event of the session.
    pub(super) fn apply(&mut self, event: &Event) -> RunChange {
        match event.kind {
            Kind::UserPrompt => self.prompted(event),
            Kind::AssistantMessage => {
                let (text, is_last) = words_of(event);
                // An answer may come in several messages, the last of them perhaps without text.
                self.answer = text.or(self.answer.take());
                match is_last && self.is_open {
                    true => RunChange::ends(self.end(RunOutcome::Done)),
                    false => RunChange::other(),
                }
            }
            // A turn may end twice, by its last answer and by its own event; only the first end
            // counts.
            Kind::TurnCompleted if self.is_open => RunChange::ends(self.completed(event)),
            Kind::SessionExited if self.is_open => {
                // Agents that write no end of a turn answer and exit; an exit without an answer is
                // a failure.
                let closes = match self.answer.is_some() {
                    true => self.end(RunOutcome::Done),
                    false => self.died(event),
                };
                RunChange { closes: Some(closes), own: OwnMessage::Other }
            }
            _ => RunChange::other(),
        }
    }

    fn prompted(&mut self, event: &Event) -> RunChange {
        let prompt = event.readable::<UserPrompt>();
        let is_queued = prompt.as_ref().is_some_and(|prompt| prompt.queued);
        let begun = AgentRun::from_prompt(event);
        // The agent took the prompt up in the running turn, so no run ends and none starts.
        if is_queued && self.is_open {
            *self = begun;
            return RunChange::other();
        }
        let closes = self.is_open.then(|| {
            // An agent without an event for the end of a turn: its answer shows that it was done.
            let has_answer = self.answer.is_some();
            self.end(if has_answer { RunOutcome::Done } else { RunOutcome::Replaced })
        });
        *self = begun;
        let text = prompt.map(|prompt| prompt.content.joined_text()).or(event.text.clone());
        let prompt = compact(&text.unwrap_or_default());
        RunChange { closes, own: OwnMessage::Start { prompt } }
    }

    fn completed(&mut self, event: &Event) -> RunEnd {
        let completed = event.readable::<TurnCompleted>().unwrap_or_default();
        let TurnCompleted { stop_reason, error, usage, .. } = completed;
        let outcome = match stop_reason {
            // An error outweighs any stop reason beside it.
            _ if error.is_some() => RunOutcome::Failed,
            Some(StopReason::Interrupted) => RunOutcome::Interrupted,
            Some(StopReason::Died) => RunOutcome::Died,
            _ => RunOutcome::Done,
        };
        let error = error.map(|error| compact(&error));
        RunEnd { error, usage, cost: event.cost, ..self.end(outcome) }
    }

    fn died(&mut self, event: &Event) -> RunEnd {
        let reason = event.readable::<SessionExited>().and_then(|exited| exited.reason);
        let error = reason.map(|reason| compact(&reason));
        RunEnd { error, ..self.end(RunOutcome::Died) }
    }

    fn end(&mut self, outcome: RunOutcome) -> RunEnd {
        // Taken, so that a run ends once: what is left is a closed run.
        let AgentRun { turn_id, answer: result, .. } = std::mem::take(self);
        RunEnd { outcome, turn_id, result, error: None, usage: None, cost: None }
    }
}

impl RunChange {
    fn ends(end: RunEnd) -> RunChange {
        RunChange { closes: None, own: OwnMessage::End(Box::new(end)) }
    }

    fn other() -> RunChange {
        RunChange { closes: None, own: OwnMessage::Other }
    }
}

/// The text of an answer, and whether it is the last of its turn.
fn words_of(event: &Event) -> (Option<String>, bool) {
    let Some(message) = event.readable::<AssistantMessage>() else { return (None, false) };
    // A message of tool calls alone has no text to show.
    let text = message.content.has_substance().then(|| compact(&message.content.joined_text()));
    (text, message.stop_reason.as_deref() == Some(ANSWERED))
}
