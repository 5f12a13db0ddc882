//! The append rules of a hosted session.
//!
//! They are pure: the caller passes the state, and older events are looked up by key. An event
//! with an id that the session already has is a retry. It is skipped here, and the journal checks
//! that its content is the same.
//!
//! Not here: the expected tail and the commit (`Session`), the shape of payloads (`event`).

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, Compaction, ContextAdded, ExternalInput,
    InputStatus, Snapshot, ToolCall, ToolDelta, ToolResult, ToolStarted, WaitResolved, WaitStarted,
};
use event::{ChildStatus, Draft, Event, EventId, EventKey, KeyFamily, Kind, Raw};

use crate::children::{ChildRef, ChildStep, child_step};
use crate::lookup::QueuedLookup;
use crate::open_work::OPEN_MAX;
use crate::shape::check_drafts;
use crate::{EventLookup, OpenWork, RuleViolation, Subject, Unmatched};

/// The minimum time between two stored pieces of partial output of one call: short enough that a
/// crash loses little, long enough that output does not flood the log. Pieces in between are only
/// published live.
const DELTA_INTERVAL_NANOS: i128 = 30_000_000_000;

/// Checks a batch against the state it would be appended to, and returns the state after it.
///
/// `past` must know all events that `state` has applied.
pub fn check_batch(
    state: &OpenWork,
    batch: &[Draft],
    past: &dyn EventLookup,
) -> Result<OpenWork, RuleViolation> {
    check_new(state, batch, past).map(|checked| checked.state)
}

/// A batch that passed the rules.
pub(crate) struct CheckedBatch {
    /// The state after the batch.
    pub(crate) state: OpenWork,
    /// The events of the batch that the session does not have yet.
    pub(crate) new: Vec<Event>,
}

/// Checks as [`check_batch`] does and also returns the new events.
pub(crate) fn check_new(
    state: &OpenWork,
    batch: &[Draft],
    past: &dyn EventLookup,
) -> Result<CheckedBatch, RuleViolation> {
    // The cheap checks come first: they need neither the state nor a lookup in the log.
    check_drafts(batch)?;
    // A refused batch must leave no trace, so the rules work on a copy.
    let mut state = state.clone();
    let mut past = QueuedLookup::new(past);
    for draft in batch {
        if draft.session_id != *state.session_id() {
            return Err(RuleViolation::SessionMismatch {
                event_id: draft.id,
                expected: state.session_id().clone(),
                found: draft.session_id.clone(),
            });
        }
        // A retry after a lost reply brings an event that is recorded already. Its call or request
        // may be closed by now, and the rules would refuse it.
        if past.seq_of(draft.id)?.is_some() {
            continue;
        }
        BatchRules { state: &state, past: &past, draft }.check_all()?;
        let event = draft.clone().with_seq(state.up_to_seq() + 1);
        // Later drafts of the batch are checked behind this one: a call and its result may come
        // together.
        state.apply(&event);
        past.push(event);
    }
    Ok(CheckedBatch { state, new: past.into_events() })
}

/// The rules for one draft, with the state that it would be appended to.
struct BatchRules<'a> {
    state: &'a OpenWork,
    past: &'a dyn EventLookup,
    draft: &'a Draft,
}

impl BatchRules<'_> {
    fn check_all(&self) -> Result<(), RuleViolation> {
        match self.draft.kind {
            Kind::UserPrompt => self.check_parent(),
            Kind::ToolStarted => self.check_started(),
            Kind::ToolDelta => self.check_delta(),
            Kind::ToolResult => self.check_result(),
            Kind::ApprovalRequested => self.check_request(),
            Kind::ApprovalResolved | Kind::ApprovalCanceled => self.check_decision(),
            Kind::WaitStarted | Kind::WaitResolved => self.check_wait(),
            Kind::ExternalInput => self.check_question(),
            Kind::Compaction | Kind::Snapshot => self.check_cutoff(),
            Kind::ContextAdded => self.check_covers(),
            // Kinds that are not about a child pass there unchecked.
            _ => self.check_child(),
        }
    }

    fn check_parent(&self) -> Result<(), RuleViolation> {
        let Some(parent_id) = self.draft.parent_id else { return Ok(()) };
        match self.past.seq_of(parent_id)? {
            Some(_) => Ok(()),
            None => Err(RuleViolation::UnknownParent { event_id: self.draft.id, parent_id }),
        }
    }

    fn check_result(&self) -> Result<(), RuleViolation> {
        let Some(result) = self.draft.readable::<ToolResult>() else { return Ok(()) };
        // The open calls are in the state. Only a refusal pays for the lookups that explain it.
        if self.state.find_call(&result.call_id, result.idempotency_key.as_deref()).is_some() {
            return Ok(());
        }
        let why = self.why_unmatched(&result.call_id)?;
        Err(RuleViolation::UnmatchedResult {
            event_id: self.draft.id,
            call_id: result.call_id,
            why,
        })
    }

    fn why_unmatched(&self, call_id: &str) -> Result<Unmatched, RuleViolation> {
        if call_id.trim().is_empty() {
            return Ok(Unmatched::NoCall);
        }
        let events = self.past.find_by_key(&EventKey::new(KeyFamily::Call, call_id))?;
        let call = |event: &Event| event.readable::<ToolCall>();
        let Some(newest) = events.iter().rev().find_map(call) else {
            return Ok(Unmatched::NoCall);
        };
        // An answer may use one call id twice; then it needs two results.
        let same_answer =
            |event: &Event| call(event).is_some_and(|call| call.message_id == newest.message_id);
        let first = events.iter().position(same_answer).expect("the newest call is one");
        let calls = events.iter().filter(|event| same_answer(event)).count();
        let results = events[first..].iter().filter(|event| event.kind == Kind::ToolResult).count();
        Ok(if results >= calls { Unmatched::Answered } else { Unmatched::TalkMovedOn })
    }

    /// Refuses the start of a tool if its result could not be recorded later.
    fn check_started(&self) -> Result<(), RuleViolation> {
        let Some(started) = self.draft.readable::<ToolStarted>() else { return Ok(()) };
        match self.state.find_call(&started.call_id, Some(&started.idempotency_key)) {
            Some(_) => Ok(()),
            None => Err(self.illegal_transition(Subject::Call, &started.call_id, None)),
        }
    }

    fn check_delta(&self) -> Result<(), RuleViolation> {
        let Some(delta) = self.draft.readable::<ToolDelta>() else { return Ok(()) };
        let Some(call) = self.state.find_call(&delta.call_id, None) else {
            return Err(self.illegal_transition(Subject::Call, &delta.call_id, None));
        };
        // The rules are pure and have no clock, so the times of the events count. A clock that goes
        // back makes the difference negative, which counts as too soon.
        let too_soon = call.delta_at.is_some_and(|last| {
            self.draft.created_at.nanos() - last.nanos() < DELTA_INTERVAL_NANOS
        });
        match too_soon {
            true => Err(RuleViolation::LiveOnly {
                event_id: self.draft.id,
                kind: self.draft.kind.clone(),
            }),
            false => Ok(()),
        }
    }

    fn check_request(&self) -> Result<(), RuleViolation> {
        let Some(request) = self.draft.readable::<ApprovalRequested>() else { return Ok(()) };
        let open = self.state.approvals();
        match open.get(&request.approval_id) {
            Some(approval) => Err(RuleViolation::ApprovalExists {
                event_id: self.draft.id,
                approval_id: request.approval_id,
                open_seq: approval.opened.seq,
            }),
            None => self.check_room("approvals", open.len()),
        }
    }

    fn check_decision(&self) -> Result<(), RuleViolation> {
        let resolved = self.draft.readable::<ApprovalResolved>().map(|answer| answer.approval_id);
        let canceled = self.draft.readable::<ApprovalCanceled>().map(|cancel| cancel.approval_id);
        let Some(approval_id) = resolved.or(canceled) else { return Ok(()) };
        if self.state.approvals().contains_key(&approval_id) {
            return Ok(());
        }
        let event_id = self.draft.id;
        // The request is not open: it was either answered, and the caller is told the recorded
        // decision, or it never existed. Ids can be used again, so the newest decision counts.
        for event in self.own_events(KeyFamily::Approval, &approval_id)?.iter().rev() {
            if let Some(earlier) = event.readable::<ApprovalResolved>() {
                let decision = Some(earlier.decision);
                let at = event.created_at;
                return Err(RuleViolation::AlreadyResolved { event_id, approval_id, decision, at });
            }
            if event.kind == Kind::ApprovalCanceled {
                let at = event.created_at;
                return Err(RuleViolation::AlreadyResolved {
                    event_id,
                    approval_id,
                    decision: None,
                    at,
                });
            }
        }
        Err(RuleViolation::ApprovalNotFound { event_id, approval_id })
    }

    fn check_wait(&self) -> Result<(), RuleViolation> {
        let open = self.state.waits();
        if let Some(wait) = self.draft.readable::<WaitStarted>() {
            if open.contains_key(&wait.wait_id) {
                return Err(self.illegal_transition(Subject::Wait, &wait.wait_id, Some("open")));
            }
            return self.check_room("waits", open.len());
        }
        let Some(wait) = self.draft.readable::<WaitResolved>() else { return Ok(()) };
        if open.contains_key(&wait.wait_id) {
            return Ok(());
        }
        // The caller learns whether it came late or named a wait that never was.
        let is_known = !self.own_events(KeyFamily::Wait, &wait.wait_id)?.is_empty();
        Err(self.illegal_transition(Subject::Wait, &wait.wait_id, is_known.then_some("resolved")))
    }

    fn check_question(&self) -> Result<(), RuleViolation> {
        let Some(input) = self.draft.readable::<ExternalInput>() else { return Ok(()) };
        match (self.state.question(), input.status) {
            (None, InputStatus::Pending) => Ok(()),
            // Only one question can be open at a time. The caller has to close the first one.
            (Some(open), InputStatus::Pending) => {
                Err(self.illegal_transition(Subject::Question, &open.request_id, Some("open")))
            }
            // An answer must name the open question. A late answer to an earlier one is refused.
            (Some(open), _) if open.request_id == input.request_id => Ok(()),
            _ => {
                let is_known = !self.own_events(KeyFamily::Question, &input.request_id)?.is_empty();
                let from = is_known.then_some("closed");
                Err(self.illegal_transition(Subject::Question, &input.request_id, from))
            }
        }
    }

    fn check_cutoff(&self) -> Result<(), RuleViolation> {
        let compaction = self
            .draft
            .readable::<Compaction>()
            .map(|compaction| (compaction.cutoff_seq, compaction.cutoff_event_id));
        let snapshot = self
            .draft
            .readable::<Snapshot>()
            .map(|snapshot| (snapshot.cutoff_seq, snapshot.cutoff_event_id));
        let Some((cutoff_seq, cutoff_event_id)) = compaction.or(snapshot) else { return Ok(()) };
        let event_id = self.draft.id;
        // Events behind the state do not exist yet: nothing can have been summarized of them.
        if cutoff_seq > self.state.up_to_seq() {
            let argument = cutoff_seq.to_string();
            let expected = "a cutoff within the session";
            return Err(RuleViolation::BadArgument { event_id, argument, expected });
        }
        if let Some(named) = cutoff_event_id
            // Number and id are two names of one event. A caller that counted wrong is caught here.
            && self.past.seq_of(named)? != Some(cutoff_seq)
        {
            let argument = named.to_string();
            let expected = "the event at the cutoff";
            return Err(RuleViolation::BadArgument { event_id, argument, expected });
        }
        // A cutoff inside an open exchange would hide calls that still wait for results.
        match (self.state.open_answer_seq(), self.state.calls().first()) {
            (Some(answer_seq), Some(call)) if cutoff_seq >= answer_seq => {
                Err(RuleViolation::CutoffInOpenExchange {
                    event_id,
                    cutoff_seq,
                    call_id: call.call_id.clone(),
                    call_seq: call.opened.seq,
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a summary of an abandoned path names events of this session, in order.
    fn check_covers(&self) -> Result<(), RuleViolation> {
        let Some(context) = self.draft.readable::<ContextAdded>() else { return Ok(()) };
        let Some(covers) = context.covers else { return Ok(()) };
        let (from, to) = (self.resolve_seq(&covers.from)?, self.resolve_seq(&covers.to)?);
        if from <= to {
            return Ok(());
        }
        Err(RuleViolation::BadArgument {
            event_id: self.draft.id,
            argument: format!("{}..{}", covers.from.get(), covers.to.get()),
            expected: "a path: its first event, then its last",
        })
    }

    /// Resolves a reference by `seq` or by id to the `seq`.
    fn resolve_seq(&self, named: &Raw) -> Result<u64, RuleViolation> {
        let place = match named.read::<EventId>() {
            // The id is tried first: a JSON string can only be an id, and a JSON number never
            // parses as one.
            Ok(id) => self.past.seq_of(id)?,
            Err(_) => named.read::<u64>().ok(),
        };
        let is_there = |seq: &u64| (1..=self.state.up_to_seq()).contains(seq);
        place.filter(is_there).ok_or_else(|| RuleViolation::BadArgument {
            event_id: self.draft.id,
            argument: named.get().to_owned(),
            expected: "an event of this session",
        })
    }

    fn check_child(&self) -> Result<(), RuleViolation> {
        let Some(named) = ChildRef::from_draft(self.draft) else { return Ok(()) };
        let (event_id, kind) = (self.draft.id, &self.draft.kind);
        if *kind == Kind::ChildRequested {
            // Also one the parent of a fork had: its session has that name.
            let known = self.past.find_by_key(&EventKey::new(KeyFamily::Child, &named.child_id))?;
            if known.iter().any(|event| ChildRef::from_draft(event).is_some()) {
                return Err(RuleViolation::ChildExists { event_id, child_id: named.child_id });
            }
            return self.check_room("children", self.state.children_count());
        }
        let from = match self.state.child_status(&named.child_id) {
            Some(status) => Some(status.clone()),
            // The state forgets children that ended long ago. The log does not.
            None => self.recorded_status(&named.child_id)?,
        };
        match ChildStatus::after(from.as_ref(), kind) {
            Some(_) => Ok(()),
            None => {
                Err(RuleViolation::illegal_child(event_id, &named.child_id, from.as_ref(), kind))
            }
        }
    }

    /// Returns the status of a child that the bounded state no longer holds.
    fn recorded_status(&self, child_id: &str) -> Result<Option<ChildStatus>, RuleViolation> {
        let events = self.own_events(KeyFamily::Child, child_id)?;
        Ok(events.iter().fold(None, |status, event| {
            match child_step(status.as_ref(), &event.kind) {
                ChildStep::To(next) => Some(next),
                ChildStep::Illegal { .. } | ChildStep::Nothing => status,
            }
        }))
    }

    /// Returns the events of this session itself. Inherited requests of a fork belong to its
    /// parent.
    fn own_events(&self, family: KeyFamily, id: &str) -> Result<Vec<Event>, RuleViolation> {
        let mut events = self.past.find_by_key(&EventKey::new(family, id))?;
        events.retain(|event| event.fork_origin().is_none());
        Ok(events)
    }

    fn check_room(&self, what: &'static str, open: usize) -> Result<(), RuleViolation> {
        match open < OPEN_MAX {
            true => Ok(()),
            false => Err(RuleViolation::TooMany { event_id: self.draft.id, what, max: OPEN_MAX }),
        }
    }

    fn illegal_transition(&self, subject: Subject, id: &str, from: Option<&str>) -> RuleViolation {
        RuleViolation::illegal_step(self.draft.id, subject, id, from, &self.draft.kind)
    }
}
