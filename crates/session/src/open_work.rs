//! What a session has begun and not ended, folded from its events one by one.
//!
//! It is small at any length of the log, because every list in it is bounded. Folding in any
//! split, live or from the log, gives the same value; events that were folded before are skipped.
//! An impossible event leaves the state unchanged and is listed as an [`Oddity`].
//!
//! A fork inherits open calls and the row of denials. Turns, approvals, waits, questions and
//! children stay the parent's: events with a fork origin open and end none of these.
//!
//! Not here: what may be appended (`rules`), what to do after a crash (`recover`), what a model is
//! shown (the view).

mod exchange; // the current answer and its open calls
mod pending; // approvals, waits, the question
mod children; // children that have not ended
mod oddity; // what cannot have happened so

use std::collections::BTreeMap;

use event::payload::{StepStarted, TurnStarted};
use event::{ChildStatus, Event, EventId, ForkOrigin, Kind, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::answer::AnswerPart;
use crate::breaker::Denials;
use children::OpenChildren;
use exchange::Exchange;
use oddity::Oddities;
use pending::Pending;

pub use children::OpenChild;
pub use exchange::{OpenCall, StartedCall};
pub use oddity::Oddity;
pub use pending::{OpenApproval, OpenQuestion, OpenWait, Waiting};

/// Requests of one family, or children, that can be open at once. The hosted door refuses more; in
/// an observed log the oldest is given up, since no user answers that many.
pub(crate) const OPEN_MAX: usize = 1_024;

/// The event that opened an item.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opened {
    pub event_id: EventId,
    pub seq: u64,
    pub at: Time,
}

/// A turn that was not completed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenTurn {
    pub opened: Opened,
    pub turn_id: Option<String>,
    pub agent_id: String,
}

/// A step that was not completed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenStep {
    pub opened: Opened,
    pub turn_id: Option<String>,
    pub agent_id: String,
}

/// What a session has begun and not ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenWork {
    session_id: SessionId,
    up_to_seq: u64,
    last_at: Option<Time>,
    turn: Option<OpenTurn>,
    step: Option<OpenStep>,
    exchange: Exchange,
    pending: Pending,
    children: OpenChildren,
    denials: Denials,
    oddities: Oddities,
}

impl OpenWork {
    /// Of a session in which nothing has happened yet.
    pub fn new(session_id: SessionId) -> OpenWork {
        OpenWork {
            session_id,
            up_to_seq: 0,
            last_at: None,
            turn: None,
            step: None,
            exchange: Exchange::default(),
            pending: Pending::default(),
            children: OpenChildren::default(),
            denials: Denials::default(),
            oddities: Oddities::default(),
        }
    }

    /// Takes in the next event. One that was taken in before changes nothing.
    pub fn apply(&mut self, event: &Event) {
        self.apply_with_part(event, AnswerPart::from_draft(event).as_ref());
    }

    /// As [`OpenWork::apply`], for callers that have read the event's part of an answer already.
    pub(crate) fn apply_with_part(&mut self, event: &Event, part: Option<&AnswerPart>) {
        if event.seq <= self.up_to_seq {
            return;
        }
        self.up_to_seq = event.seq;
        // Clocks of agents and of the host differ, and late records come with old times.
        self.last_at = self.last_at.max(Some(event.created_at));
        if let Some(first) = event.amends() {
            // An amendment tells an old event better. It must not open or end the work a second
            // time.
            self.exchange.apply_amendment(first, event);
            return;
        }
        if let Some(part) = part {
            // Before the kinds below: a call is part of an answer, and the answer has to be open to
            // hold it.
            self.exchange.apply_answer(event, part);
        }
        match event.kind {
            Kind::UserPrompt => self.exchange.close_answer(),
            Kind::ToolStarted => self.exchange.apply_start(event),
            Kind::ToolDelta => self.exchange.apply_delta(event),
            Kind::ToolResult => self.exchange.apply_result(event),
            // The row of denials is inherited by a fork, unlike the request itself in `apply_own`.
            Kind::ApprovalResolved => self.denials.apply(event),
            _ => {}
        }
        // A fork shows the beginning of its parent. Turns and requests in there are the parent's.
        if event.fork_origin().is_none()
            && let Err(oddity) = self.apply_own(event)
        {
            self.oddities.push(oddity);
        }
    }

    /// What only concerns the session in which it happened.
    fn apply_own(&mut self, event: &Event) -> Result<(), Oddity> {
        match event.kind {
            Kind::TurnStarted => self.turn_started(event),
            Kind::TurnCompleted => {
                // The end of a turn also ends its step, recorded or not.
                self.step = None;
                self.turn = None;
                Ok(())
            }
            Kind::StepStarted => self.step_started(event),
            Kind::StepCompleted => {
                self.step = None;
                Ok(())
            }
            Kind::ApprovalRequested => self.pending.requested(event),
            Kind::ApprovalResolved => self.pending.resolved(event),
            Kind::ApprovalCanceled => self.pending.canceled(event),
            Kind::WaitStarted => self.pending.wait_started(event),
            Kind::WaitResolved => self.pending.wait_resolved(event),
            Kind::ExternalInput => self.pending.apply_input(event),
            _ => self.children.apply(event),
        }
    }

    fn turn_started(&mut self, event: &Event) -> Result<(), Oddity> {
        let started = event.readable::<TurnStarted>().unwrap_or_default();
        // A new turn leaves no room for a step of the old one, whether its end was recorded or not.
        self.step = None;
        let turn = OpenTurn {
            opened: Opened::from_event(event),
            turn_id: event.turn_id.clone(),
            agent_id: started.agent_id,
        };
        never_ended(event, "turn", self.turn.replace(turn).map(|turn| turn.opened))
    }

    fn step_started(&mut self, event: &Event) -> Result<(), Oddity> {
        let started = event.readable::<StepStarted>().unwrap_or_default();
        let step = OpenStep {
            opened: Opened::from_event(event),
            turn_id: event.turn_id.clone(),
            agent_id: started.agent_id,
        };
        never_ended(event, "step", self.step.replace(step).map(|step| step.opened))
    }

    /// The open work of a fork that begins here: `fresh` gives the ids under which the fork shows
    /// this session's events.
    pub fn inherit(&self, fork: SessionId, fresh: &dyn Fn(EventId) -> EventId) -> OpenWork {
        OpenWork {
            up_to_seq: self.up_to_seq,
            last_at: self.last_at,
            exchange: self.exchange.inherit(&self.session_id, fresh),
            denials: self.denials.clone(),
            ..OpenWork::new(fork)
        }
    }

    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// The last event taken in; 0 for none.
    pub fn up_to_seq(&self) -> u64 {
        self.up_to_seq
    }

    /// The last sign of life: the latest instant any event names.
    pub fn last_at(&self) -> Option<Time> {
        self.last_at
    }

    pub fn turn(&self) -> Option<&OpenTurn> {
        self.turn.as_ref()
    }

    pub fn step(&self) -> Option<&OpenStep> {
        self.step.as_ref()
    }

    /// The calls of the current answer that have no result, in call order.
    pub fn calls(&self) -> &[OpenCall] {
        self.exchange.calls()
    }

    /// The first event of the answer with open calls; a cutoff has to stop before it.
    pub fn open_answer_seq(&self) -> Option<u64> {
        self.exchange.first_seq().filter(|_| !self.calls().is_empty())
    }

    /// Where the current answer was recorded, for the keys of its calls.
    ///
    /// In a fork this is the place in the session it was forked from; if that is a fork too, the
    /// caller follows the lineage to the first one, so that every generation has the same keys.
    pub fn answer_origin(&self) -> Option<ForkOrigin> {
        self.exchange.answer_origin(&self.session_id)
    }

    /// The open call a start, result or delta belongs to.
    pub fn find_call(&self, call_id: &str, key: Option<&str>) -> Option<&OpenCall> {
        self.exchange.position(call_id, key).map(|place| &self.calls()[place])
    }

    /// The open approvals by id.
    pub fn approvals(&self) -> &BTreeMap<String, OpenApproval> {
        &self.pending.approvals
    }

    /// The open waits by id.
    pub fn waits(&self) -> &BTreeMap<String, OpenWait> {
        &self.pending.waits
    }

    pub fn question(&self) -> Option<&OpenQuestion> {
        self.pending.question.as_ref()
    }

    /// Returns the open approvals, waits and question, oldest first.
    pub fn waiting_on(&self) -> Vec<Waiting> {
        self.pending.list_waiting()
    }

    pub fn is_waiting(&self) -> bool {
        let pending = &self.pending;
        !pending.approvals.is_empty() || !pending.waits.is_empty() || pending.question.is_some()
    }

    /// The children that have not come to an end, by time of request, then id.
    pub fn children(&self) -> Vec<&OpenChild> {
        self.children.open()
    }

    pub(crate) fn children_count(&self) -> usize {
        self.children.len()
    }

    /// How far a child has got, as long as it is remembered.
    pub(crate) fn child_status(&self, child_id: &str) -> Option<&ChildStatus> {
        self.children.status(child_id)
    }

    /// The row of automated denials, for the breaker.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }

    /// The newest events that cannot have happened so, oldest first.
    pub fn oddities(&self) -> impl Iterator<Item = &Oddity> {
        self.oddities.newest()
    }

    /// How many such events there were.
    pub fn oddity_count(&self) -> u64 {
        self.oddities.count()
    }
}

impl Opened {
    pub(crate) fn from_event(event: &Event) -> Opened {
        Opened { event_id: event.id, seq: event.seq, at: event.created_at }
    }
}

fn never_ended(event: &Event, what: &str, earlier: Option<Opened>) -> Result<(), Oddity> {
    match earlier {
        Some(earlier) => {
            Err(Oddity::new(event, format!("the {what} begun at {} never ended", earlier.seq)))
        }
        None => Ok(()),
    }
}

/// Removes the oldest where there are too many, and names it.
fn give_up_oldest<T>(open: &mut BTreeMap<String, T>, seq: impl Fn(&T) -> u64) -> Option<String> {
    if open.len() <= OPEN_MAX {
        return None;
    }
    // The maps are ordered by id. This scan happens only above the limit, once for each event.
    let oldest = open.iter().min_by_key(|(_, request)| seq(request)).map(|(id, _)| id.clone())?;
    open.remove(&oldest);
    Some(oldest)
}
