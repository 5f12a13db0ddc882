//! Lists the work that a crash left open, and the events that close it.
//!
//! [`recover`] only lists. Closing is a second step that the caller requests. The ids of closing
//! events are derived from what they close, so that closing twice, even by two processes, adds
//! nothing.
//!
//! A closing event is dated at the last recorded event, the best estimate of when the work ended.

use std::time::Duration;

use event::payload::{
    ApprovalCanceled, ChildCanceled, ChildCompleted, ChildFailed, ChildStarted, Effect, Payload,
    StepCompleted, TurnCompleted,
};
use event::{ChildStatus, Draft, EventId, SessionId, Time};
use journal::ReadError;

use crate::execution::{lost_result, partial_output};
use crate::{ChildFate, EventLookup, OpenCall, OpenChild, OpenWork, Opened};

/// The error of a turn or step that lost its process.
const INTERRUPTED: &str = "interrupted";
/// The error of a child that lost its process.
const LOST: &str = "lost";
const EXPIRED: &str = "expired";

/// The open work of a session, oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    session_id: SessionId,
    now: Time,
    /// The time of closing events.
    ended_at: Time,
    turn_id: Option<String>,
    left: Vec<LeftOpen>,
}

/// One open item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOpen {
    pub left: Left,
    /// The event that opened it.
    pub opened: Opened,
    pub age: Duration,
}

/// The kind of an open item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Left {
    Turn { turn_id: Option<String>, agent_id: String },
    Step { turn_id: Option<String>, agent_id: String },
    Call(OpenCall),
    Approval { approval_id: String, tool: String, is_expired: bool },
    Wait { wait_id: String },
    Question { request_id: String, prompt: String },
    Child { child: OpenChild, fate: ChildFate },
}

/// What the caller can do about an open item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// It has ended, but the log does not say so yet.
    Close,
    /// It has not started and may run.
    MayRun,
    /// It has started and may safely start again.
    RunAgain,
    /// It has started; only the host can find out what it did.
    AskHost,
    /// It is still running, or a person can still answer it.
    LeaveOpen,
}

/// Lists the open work. `fate` returns the state of a child.
pub fn recover(
    open: &OpenWork,
    now: Time,
    mut fate: impl FnMut(&OpenChild) -> ChildFate,
) -> Recovery {
    let mut left = Vec::new();
    let mut push = |opened: &Opened, what: Left| {
        let age = age_since(opened.at, now);
        left.push(LeftOpen { left: what, opened: opened.clone(), age });
    };
    if let Some(turn) = open.turn() {
        let (turn_id, agent_id) = (turn.turn_id.clone(), turn.agent_id.clone());
        push(&turn.opened, Left::Turn { turn_id, agent_id });
    }
    if let Some(step) = open.step() {
        let (turn_id, agent_id) = (step.turn_id.clone(), step.agent_id.clone());
        push(&step.opened, Left::Step { turn_id, agent_id });
    }
    for call in open.calls() {
        push(&call.opened, Left::Call(call.clone()));
    }
    for (approval_id, approval) in open.approvals() {
        let is_expired = approval.expires_at.is_some_and(|at| at <= now);
        let (approval_id, tool) = (approval_id.clone(), approval.tool.clone());
        push(&approval.opened, Left::Approval { approval_id, tool, is_expired });
    }
    for (wait_id, wait) in open.waits() {
        push(&wait.opened, Left::Wait { wait_id: wait_id.clone() });
    }
    if let Some(question) = open.question() {
        let (request_id, prompt) = (question.request_id.clone(), question.prompt.clone());
        push(&question.opened, Left::Question { request_id, prompt });
    }
    for child in open.children() {
        let fate = fate(child);
        push(&child.opened, Left::Child { child: child.clone(), fate });
    }
    // The groups above were gathered one family after the other.
    left.sort_by_key(|left| left.opened.seq);
    Recovery {
        session_id: open.session_id().clone(),
        now,
        // The crash came after the last recorded event; the restart may come days later.
        ended_at: open.last_at().unwrap_or(now),
        turn_id: open.turn().and_then(|turn| turn.turn_id.clone()),
        left,
    }
}

impl Recovery {
    /// Everything left open, oldest first.
    pub fn left_open(&self) -> &[LeftOpen] {
        &self.left
    }

    /// Returns the list without the items that `open` shows as closed.
    pub(crate) fn still_open(&self, open: &OpenWork) -> Recovery {
        let mut recovery = self.clone();
        // Between the listing and the closing, other processes may have ended a part of the work.
        recovery.left.retain(|left| left.is_still_open(open));
        recovery
    }

    /// Returns the events that close ended items. Calls that may run and requests that a person
    /// can still answer stay open.
    pub fn closing_drafts(&self, past: &dyn EventLookup) -> Result<Vec<Draft>, ReadError> {
        let mut ended: Vec<&LeftOpen> =
            self.left.iter().filter(|left| left.remedy() == Remedy::Close).collect();
        // Innermost first, as the log would have them without the crash.
        ended.sort_by_key(|left| match left.left {
            Left::Call(_) => 0,
            Left::Turn { .. } => 3,
            Left::Step { .. } => 2,
            _ => 1,
        });
        let mut drafts = Vec::new();
        for left in ended {
            drafts.extend(self.give_up_drafts(left, past)?);
        }
        Ok(drafts)
    }

    /// Returns the events that close one item in spite of its remedy; none for a wait or a
    /// question, which only its answer can end.
    pub fn give_up_drafts(
        &self,
        left: &LeftOpen,
        past: &dyn EventLookup,
    ) -> Result<Vec<Draft>, ReadError> {
        let opened = &left.opened;
        Ok(match &left.left {
            Left::Turn { agent_id, .. } => vec![self.make_draft(
                opened,
                &TurnCompleted {
                    agent_id: agent_id.clone(),
                    error: Some(INTERRUPTED.to_owned()),
                    ..TurnCompleted::default()
                },
            )],
            Left::Step { agent_id, .. } => vec![self.make_draft(
                opened,
                &StepCompleted {
                    agent_id: agent_id.clone(),
                    error: Some(INTERRUPTED.to_owned()),
                    ..StepCompleted::default()
                },
            )],
            Left::Call(call) => {
                let output = partial_output(past, &call.call_id)?;
                let key = call.idempotency_key.clone();
                vec![self.make_draft(
                    opened,
                    &lost_result(&call.call_id, &call.tool, key, output.as_deref()),
                )]
            }
            Left::Approval { approval_id, tool, is_expired } => {
                let reason = if *is_expired { EXPIRED } else { INTERRUPTED };
                vec![self.make_draft(
                    opened,
                    &ApprovalCanceled {
                        approval_id: approval_id.clone(),
                        tool: Some(tool.clone()),
                        reason: reason.to_owned(),
                    },
                )]
            }
            // The answer still comes from outside, whatever happened to this process.
            Left::Wait { .. } | Left::Question { .. } => Vec::new(),
            Left::Child { child, fate } => self.end_child(opened, child, fate),
        })
    }

    fn end_child(&self, opened: &Opened, child: &OpenChild, fate: &ChildFate) -> Vec<Draft> {
        let (child_id, child_session_id) = (child.child_id.clone(), child.child_session_id.clone());
        match fate.clone() {
            // The child writes its own end.
            ChildFate::Running => Vec::new(),
            ChildFate::Completed { summary, artifact_ids, usage } => {
                let mut drafts = Vec::new();
                // The start was not recorded, and the append rules refuse the completion of a
                // child that never started.
                if child.status == ChildStatus::Requested {
                    drafts.push(self.make_draft(
                        opened,
                        &ChildStarted {
                            child_id: child_id.clone(),
                            child_session_id: child_session_id.clone(),
                            metadata: None,
                            agent_id: child.agent_id.clone(),
                        },
                    ));
                }
                drafts.push(self.make_draft(
                    opened,
                    &ChildCompleted {
                        child_id,
                        child_session_id,
                        metadata: None,
                        summary,
                        artifact_ids,
                        episode_id: None,
                        usage,
                    },
                ));
                drafts
            }
            ChildFate::Failed { error } => {
                vec![self.make_draft(
                    opened,
                    &ChildFailed { child_id, child_session_id, metadata: None, error },
                )]
            }
            ChildFate::Lost => vec![self.make_draft(
                opened,
                &ChildFailed { child_id, child_session_id, metadata: None, error: LOST.to_owned() },
            )],
            ChildFate::Canceled { reason } => vec![self.make_draft(
                opened,
                &ChildCanceled { child_id, child_session_id, metadata: None, reason },
            )],
        }
    }

    fn make_draft<P: Payload>(&self, opened: &Opened, payload: &P) -> Draft {
        // Two processes that close the same item build the same id, and the journal keeps one of
        // them.
        let id = closing_id(&self.session_id, opened, P::KIND.as_str());
        let session_id = self.session_id.clone();
        let mut draft = Draft::new(id, session_id, self.ended_at, payload)
            .expect("the payloads of closing events always encode");
        // The work ended with the crash and was noticed only now.
        draft.observed_at = self.now;
        draft.turn_id = self.turn_id.clone();
        draft
    }
}

impl LeftOpen {
    /// Whether this item is still open. A later item with the same name does not count.
    fn is_still_open(&self, open: &OpenWork) -> bool {
        let opened = match &self.left {
            Left::Turn { .. } => open.turn().map(|turn| &turn.opened),
            Left::Step { .. } => open.step().map(|step| &step.opened),
            Left::Call(call) => {
                // Providers reuse call ids, so the opening event identifies a call.
                let same = |other: &&OpenCall| other.opened == call.opened;
                open.calls().iter().find(same).map(|call| &call.opened)
            }
            Left::Approval { approval_id, .. } => {
                open.approvals().get(approval_id).map(|approval| &approval.opened)
            }
            Left::Wait { wait_id } => open.waits().get(wait_id).map(|wait| &wait.opened),
            Left::Question { .. } => open.question().map(|question| &question.opened),
            Left::Child { child, .. } => {
                let children = open.children();
                let same = children.into_iter().find(|other| other.child_id == child.child_id);
                same.map(|child| &child.opened)
            }
        };
        opened == Some(&self.opened)
    }

    pub fn remedy(&self) -> Remedy {
        match &self.left {
            Left::Turn { .. } | Left::Step { .. } => Remedy::Close,
            Left::Call(call) => match call.started.as_ref().map(|started| &started.effect) {
                // The start is recorded before a tool runs, so a call without a start has had no
                // effect.
                None => Remedy::MayRun,
                Some(Effect::ReplaySafe) => Remedy::RunAgain,
                Some(Effect::Reconcile) => Remedy::AskHost,
                // An effect that this version does not know may be one that must not happen twice.
                Some(Effect::NeverReplay | Effect::Other(_)) => Remedy::Close,
            },
            Left::Approval { is_expired: true, .. } => Remedy::Close,
            Left::Approval { .. } | Left::Wait { .. } | Left::Question { .. } => Remedy::LeaveOpen,
            Left::Child { fate: ChildFate::Running, .. } => Remedy::LeaveOpen,
            Left::Child { .. } => Remedy::Close,
        }
    }
}

/// Derives the id of a closing event from the event that it closes. It depends neither on the
/// time nor on the process that closes.
fn closing_id(session_id: &SessionId, opened: &Opened, kind: &str) -> EventId {
    let identity = format!("recovered:{kind}:{}", opened.event_id);
    EventId::derived(opened.at, "hansard", session_id.as_str(), identity.as_bytes())
}

/// Returns the time since an event; zero if the clocks disagree.
fn age_since(since: Time, now: Time) -> Duration {
    let nanos = (now.nanos() - since.nanos()).clamp(0, i128::from(u64::MAX));
    Duration::from_nanos(nanos as u64)
}
