//! What a session left open, and the events that would close it.
//!
//! [`recover`] only lists. Closing is a second step the caller asks for: its events have ids
//! derived from what they close, so that closing twice adds nothing.
//!
//! A closing event is dated at the last sign of life: nobody knows more about when things ended.

use std::time::Duration;

use event::payload::{
    ApprovalCanceled, ChildCanceled, ChildCompleted, ChildFailed, ChildStarted, Effect, Payload,
    StepCompleted, TurnCompleted,
};
use event::{ChildStatus, Draft, EventId, SessionId, Time};
use journal::ReadError;

use crate::execution::{lost, partial_output};
use crate::{ChildFate, EventLookup, OpenCall, OpenChild, OpenWork, Opened};

/// What closes a turn or step nobody is in any more.
const INTERRUPTED: &str = "interrupted";
/// What closes a child nobody runs any more.
const LOST: &str = "lost";
const EXPIRED: &str = "expired";

/// Everything a session left open, oldest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    session_id: SessionId,
    now: Time,
    /// When closing events say it ended.
    ended_at: Time,
    turn_id: Option<String>,
    left: Vec<LeftOpen>,
}

/// One thing left open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOpen {
    pub left: Left,
    /// Where it began.
    pub opened: Opened,
    pub age: Duration,
}

/// What kind of thing it is.
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

/// What can be done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// It has ended; the log only does not say so yet.
    Close,
    /// Nothing has happened yet.
    MayRun,
    /// It was begun and may be begun again.
    RunAgain,
    /// It was begun; only the host can find out what it did.
    AskHost,
    /// It goes on, or somebody can still answer it.
    LeaveOpen,
}

/// Lists what is open. `fate` tells what has become of a child.
pub fn recover(
    open: &OpenWork,
    now: Time,
    mut fate: impl FnMut(&OpenChild) -> ChildFate,
) -> Recovery {
    let mut left = Vec::new();
    let mut push = |opened: &Opened, what: Left| {
        let age = age(opened.at, now);
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
    left.sort_by_key(|left| left.opened.seq);
    Recovery {
        session_id: open.session_id().clone(),
        now,
        ended_at: open.last_at().unwrap_or(now),
        turn_id: open.turn().and_then(|turn| turn.turn_id.clone()),
        left,
    }
}

impl Recovery {
    /// Everything left open, oldest first.
    pub fn left(&self) -> &[LeftOpen] {
        &self.left
    }

    /// The same list without what has been closed since, as `open` tells.
    pub(crate) fn still_open(&self, open: &OpenWork) -> Recovery {
        let mut recovery = self.clone();
        recovery.left.retain(|left| left.is_open(open));
        recovery
    }

    /// The events that close what has ended, innermost first. Calls that may be run, and whatever
    /// somebody can still answer, are not among it.
    pub fn closing(&self, past: &dyn EventLookup) -> Result<Vec<Draft>, ReadError> {
        let mut ended: Vec<&LeftOpen> =
            self.left.iter().filter(|left| left.remedy() == Remedy::Close).collect();
        ended.sort_by_key(|left| match left.left {
            Left::Call(_) => 0,
            Left::Turn { .. } => 3,
            Left::Step { .. } => 2,
            _ => 1,
        });
        let mut drafts = Vec::new();
        for left in ended {
            drafts.extend(self.give_up(left, past)?);
        }
        Ok(drafts)
    }

    /// The events that close one thing, whatever its remedy says; none for what only others can
    /// end.
    pub fn give_up(
        &self,
        left: &LeftOpen,
        past: &dyn EventLookup,
    ) -> Result<Vec<Draft>, ReadError> {
        let opened = &left.opened;
        Ok(match &left.left {
            Left::Turn { agent_id, .. } => vec![self.draft(
                opened,
                &TurnCompleted {
                    agent_id: agent_id.clone(),
                    error: Some(INTERRUPTED.to_owned()),
                    ..TurnCompleted::default()
                },
            )],
            Left::Step { agent_id, .. } => vec![self.draft(
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
                vec![self.draft(opened, &lost(&call.call_id, &call.tool, key, output.as_deref()))]
            }
            Left::Approval { approval_id, tool, is_expired } => {
                let reason = if *is_expired { EXPIRED } else { INTERRUPTED };
                vec![self.draft(
                    opened,
                    &ApprovalCanceled {
                        approval_id: approval_id.clone(),
                        tool: Some(tool.clone()),
                        reason: reason.to_owned(),
                    },
                )]
            }
            Left::Wait { .. } | Left::Question { .. } => Vec::new(),
            Left::Child { child, fate } => self.end_child(opened, child, fate),
        })
    }

    fn end_child(&self, opened: &Opened, child: &OpenChild, fate: &ChildFate) -> Vec<Draft> {
        let (child_id, child_session_id) = (child.child_id.clone(), child.child_session_id.clone());
        match fate.clone() {
            ChildFate::Running => Vec::new(),
            ChildFate::Completed { summary, artifact_ids, usage } => {
                let mut drafts = Vec::new();
                // Its start went unrecorded, and nothing completes that never ran.
                if child.status == ChildStatus::Requested {
                    drafts.push(self.draft(
                        opened,
                        &ChildStarted {
                            child_id: child_id.clone(),
                            child_session_id: child_session_id.clone(),
                            metadata: None,
                            agent_id: child.agent_id.clone(),
                        },
                    ));
                }
                drafts.push(self.draft(
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
                vec![self.draft(
                    opened,
                    &ChildFailed { child_id, child_session_id, metadata: None, error },
                )]
            }
            ChildFate::Lost => vec![self.draft(
                opened,
                &ChildFailed { child_id, child_session_id, metadata: None, error: LOST.to_owned() },
            )],
            ChildFate::Canceled { reason } => vec![self.draft(
                opened,
                &ChildCanceled { child_id, child_session_id, metadata: None, reason },
            )],
        }
    }

    fn draft<P: Payload>(&self, opened: &Opened, payload: &P) -> Draft {
        let id = closing_id(&self.session_id, opened, P::KIND.as_str());
        let session_id = self.session_id.clone();
        let mut draft = Draft::new(id, session_id, self.ended_at, payload)
            .expect("the payloads of closing events always encode");
        draft.observed_at = self.now;
        draft.turn_id = self.turn_id.clone();
        draft
    }
}

impl LeftOpen {
    /// Whether it is open still: the same thing, not another one of its name.
    fn is_open(&self, open: &OpenWork) -> bool {
        let opened = match &self.left {
            Left::Turn { .. } => open.turn().map(|turn| &turn.opened),
            Left::Step { .. } => open.step().map(|step| &step.opened),
            Left::Call(call) => {
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
                None => Remedy::MayRun,
                Some(Effect::ReplaySafe) => Remedy::RunAgain,
                Some(Effect::Reconcile) => Remedy::AskHost,
                Some(Effect::NeverReplay | Effect::Other(_)) => Remedy::Close,
            },
            Left::Approval { is_expired: true, .. } => Remedy::Close,
            Left::Approval { .. } | Left::Wait { .. } | Left::Question { .. } => Remedy::LeaveOpen,
            Left::Child { fate: ChildFate::Running, .. } => Remedy::LeaveOpen,
            Left::Child { .. } => Remedy::Close,
        }
    }
}

/// The id of the event that closes another: the same whenever and by whomever it is closed.
fn closing_id(session_id: &SessionId, opened: &Opened, kind: &str) -> EventId {
    let identity = format!("recovered:{kind}:{}", opened.event_id);
    EventId::derived(opened.at, "hansard", session_id.as_str(), identity.as_bytes())
}

/// The time that has passed; none where the clocks disagree.
fn age(since: Time, now: Time) -> Duration {
    let nanos = (now.nanos() - since.nanos()).clamp(0, i128::from(u64::MAX));
    Duration::from_nanos(nanos as u64)
}
