//! The reasons why the append rules refuse a batch.

use event::payload::Decision;
use event::{BadPayload, ChildStatus, EventId, Kind, SessionId, Time};
use journal::ReadError;

/// The batch breaks a rule. Nothing of it is recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleViolation {
    #[error("event {event_id} is of session `{found}`, not of `{expected}`")]
    SessionMismatch { event_id: EventId, expected: SessionId, found: SessionId },
    #[error(transparent)]
    BadPayload(#[from] BadPayload),
    #[error("event {event_id}: `{argument}` is not {expected}")]
    BadArgument { event_id: EventId, argument: String, expected: &'static str },
    #[error("event {event_id}: {max} {what} are open already, and more cannot be")]
    TooMany { event_id: EventId, what: &'static str, max: usize },
    #[error("event {event_id}: `{kind}` is published while it happens, not stored")]
    LiveOnly { event_id: EventId, kind: Kind },
    #[error("the answer `{message_id}` is empty")]
    EmptyAnswer { event_id: EventId, message_id: String },
    #[error("event {event_id} speaks as `{role}`, a role that sessions cannot use")]
    PrivilegedRole { event_id: EventId, role: String },
    #[error("the result {event_id} has no open call `{call_id}`: {why}")]
    UnmatchedResult { event_id: EventId, call_id: String, why: Unmatched },
    #[error("the prompt {event_id} continues after {parent_id}, which is not in this session")]
    UnknownParent { event_id: EventId, parent_id: EventId },
    #[error("approval `{approval_id}` is open already, since event {open_seq}")]
    ApprovalExists { event_id: EventId, approval_id: String, open_seq: u64 },
    #[error("there is no approval `{approval_id}`")]
    ApprovalNotFound { event_id: EventId, approval_id: String },
    #[error("approval `{approval_id}` was {} at {at}", decision_name(decision))]
    AlreadyResolved {
        event_id: EventId,
        approval_id: String,
        /// `None` if it was canceled.
        decision: Option<Decision>,
        at: Time,
    },
    #[error("child `{child_id}` exists already")]
    ChildExists { event_id: EventId, child_id: String },
    #[error("{subject} `{id}` is {}; `{kind}` cannot follow", from.as_deref().unwrap_or("unknown"))]
    IllegalTransition {
        event_id: EventId,
        subject: Subject,
        id: String,
        /// Its present state; `None` if it is unknown.
        from: Option<String>,
        kind: Kind,
    },
    #[error("the cutoff {cutoff_seq} covers call `{call_id}` of event {call_seq}, which is open")]
    CutoffInOpenExchange { event_id: EventId, cutoff_seq: u64, call_id: String, call_seq: u64 },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a result finds no open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    NoCall,
    Answered,
    TalkMovedOn,
}

/// What goes through states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Child,
    Wait,
    Question,
    Call,
}

impl Unmatched {
    pub fn as_str(self) -> &'static str {
        match self {
            Unmatched::NoCall => "no_call",
            Unmatched::Answered => "answered",
            Unmatched::TalkMovedOn => "talk_moved_on",
        }
    }
}

impl std::fmt::Display for Unmatched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Subject::Child => "child",
            Subject::Wait => "wait",
            Subject::Question => "question",
            Subject::Call => "call",
        })
    }
}

impl RuleViolation {
    pub(crate) fn illegal_child(
        event_id: EventId,
        child_id: &str,
        from: Option<&ChildStatus>,
        kind: &Kind,
    ) -> RuleViolation {
        let from = from.map(|status| status.as_str());
        RuleViolation::illegal_step(event_id, Subject::Child, child_id, from, kind)
    }

    pub(crate) fn illegal_step(
        event_id: EventId,
        subject: Subject,
        id: &str,
        from: Option<&str>,
        kind: &Kind,
    ) -> RuleViolation {
        let from = from.map(str::to_owned);
        RuleViolation::IllegalTransition {
            event_id,
            subject,
            id: id.to_owned(),
            from,
            kind: kind.clone(),
        }
    }
}

fn decision_name(decision: &Option<Decision>) -> &str {
    match decision {
        Some(Decision::Allow) => "allowed",
        Some(Decision::Deny) => "denied",
        Some(Decision::Other(decision)) => decision,
        None => "canceled",
    }
}
