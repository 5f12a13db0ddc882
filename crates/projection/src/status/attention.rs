//! What a session wants of a person, and how urgent that is.
//!
//! A list of what several want is sorted by [`Attention::urgency`]: the most urgent first, and of
//! equally urgent ones the one that has waited longest.

use event::{Confidence, Time};

use super::process_evidence::ProcessEvidence;
use super::state::StatusState;
use super::verdict::{STUCK_SECS, secs_between};
use super::{Reason, Status, Verdict};

/// What is wanted, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AttentionKind {
    /// An approval of a call that cannot be undone, or that others see.
    RiskyApproval,
    Approval,
    /// An answer.
    Question,
    /// A look at why the last turn failed.
    Failed,
    /// A look at why it does the same again and again.
    Looping,
    /// A look at whether it still makes progress.
    Stuck,
    /// Its answer to be read.
    Finished,
}

/// What a session wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attention {
    pub want: AttentionKind,
    pub since: Time,
    pub confidence: Confidence,
}

impl AttentionKind {
    pub const ALL: [AttentionKind; 7] = [
        AttentionKind::RiskyApproval,
        AttentionKind::Approval,
        AttentionKind::Question,
        AttentionKind::Failed,
        AttentionKind::Looping,
        AttentionKind::Stuck,
        AttentionKind::Finished,
    ];

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<AttentionKind> {
        AttentionKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            AttentionKind::RiskyApproval => "risky_approval",
            AttentionKind::Approval => "approval",
            AttentionKind::Question => "question",
            AttentionKind::Failed => "failed",
            AttentionKind::Looping => "looping",
            AttentionKind::Stuck => "stuck",
            AttentionKind::Finished => "finished",
        }
    }
}

impl Attention {
    /// What sorts the most urgent first.
    pub fn urgency(&self) -> (AttentionKind, Time) {
        (self.want, self.since)
    }
}

/// What a session wants at `now`, if anything.
pub fn attention(
    state: &StatusState,
    observed: &ProcessEvidence,
    verdict: &Verdict,
    now: Time,
) -> Option<Attention> {
    let told = |want, since| Attention { want, since, confidence: verdict.confidence.clone() };
    match (verdict.status, verdict.reason) {
        // One risky approval among several makes the whole wait risky.
        (Status::WaitingApproval, _) => {
            let is_risky = match state.approvals.is_empty() {
                true => state.likely_asked().is_some_and(|call| call.is_risky()),
                false => state.approvals.iter().any(|asked| asked.is_risky()),
            };
            let want =
                if is_risky { AttentionKind::RiskyApproval } else { AttentionKind::Approval };
            Some(told(want, verdict.since))
        }
        (Status::Waiting, Reason::Question) => Some(told(AttentionKind::Question, verdict.since)),
        (Status::Running, _) if let Some(repeated) = state.find_loop() => {
            let (want, since) = (AttentionKind::Looping, repeated.since());
            Some(Attention { want, since, confidence: Confidence::Medium })
        }
        (Status::Running, Reason::Turn) => {
            let told_at = state.last.as_ref().map(|last| last.at);
            let registered_at = observed.registry.as_ref().map(|registry| registry.updated_at);
            let last_at = told_at.max(observed.grown_at).max(registered_at)?;
            // A tool may take as long as it likes.
            let is_stuck = state.calls.is_empty() && secs_between(last_at, now) >= STUCK_SECS;
            let confidence = match verdict.pid {
                Some(_) => Confidence::Medium,
                None => Confidence::Low,
            };
            is_stuck.then_some(Attention { want: AttentionKind::Stuck, since: last_at, confidence })
        }
        // `seen_at` is compared with the end, so that the next end wants a look again.
        (Status::Waiting | Status::Idle, _) => {
            let end = &state.turn.end()?.by;
            if state.is_headless || state.is_child || state.seen_at >= Some(end.at) {
                return None;
            }
            let is_failed = state.work.failure.is_some();
            Some(told(
                if is_failed { AttentionKind::Failed } else { AttentionKind::Finished },
                end.at,
            ))
        }
        _ => None,
    }
}
