//! What agents asked to be allowed: the `approval.*` events of sessions that were active lately,
//! put together.
//!
//! Whether a request still waits is what the status of its session says: an agent may go on without
//! a word about it, and may ask without one, where only its registry tells that it does.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use event::payload::{ApprovalCanceled, ApprovalRequested, ApprovalResolved};
use event::{Event, Kind, Raw};
use journal::{Journal, ReadError, Selection};
use projection::Risk;
use projection::status::Status;
use serde_json::value::RawValue;

use crate::statuses::SessionStatus;

/// Events of one session that are looked at, the newest first. What was asked before is in the log.
const EVENTS_MAX: usize = 200;

/// Which requests are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those that wait, the riskiest first, before them those of which nobody knows; then the
    /// oldest.
    Pending,
    /// All, the newest first.
    All,
}

/// What these sessions asked to be allowed.
pub fn approvals(
    journal: &Journal,
    statuses: &[SessionStatus],
    which: Which,
) -> Result<Vec<wire::Approval>, ReadError> {
    let mut asked = Vec::new();
    let may_wait = |status: &&SessionStatus| status.verdict.status == Status::WaitingApproval;
    // A session that waits for nothing is not read for what it asked before.
    for status in statuses.iter().filter(|status| which == Which::All || may_wait(status)) {
        asked.extend(asked_without_words(status).map(|approval| (None, approval)));
        asked.extend(asked_in(journal, status)?);
    }
    match which {
        Which::Pending => {
            asked.retain(|(_, approval)| approval.state == "pending");
            asked.sort_by_key(|(risk, approval)| (*risk, approval.requested_at));
        }
        Which::All => asked.sort_by_key(|(_, approval)| Reverse(approval.requested_at)),
    }
    Ok(asked.into_iter().map(|(_, approval)| approval).collect())
}

/// What a session waits for that has told nobody what it asks.
fn asked_without_words(status: &SessionStatus) -> Option<wire::Approval> {
    let SessionStatus { info, verdict, summary, .. } = status;
    let is_known = !verdict.pending_approvals.is_empty();
    let evidence = verdict
        .evidence
        .first()
        .filter(|evidence| evidence.says == Status::WaitingApproval && !is_known)?;
    Some(wire::Approval {
        id: format!("{}:{}@{}", evidence.source, info.id, evidence.at),
        session_id: info.id.clone(),
        provider: info.provider.clone(),
        action: Some(summary.current.clone()),
        tool: "unknown".to_owned(),
        input: None,
        cwd: info.cwd.clone(),
        risk: None,
        requested_at: evidence.at,
        expires_at: None,
        state: "pending",
        decision: None,
        delivered: "none",
        source: evidence.source.clone(),
        confidence: evidence.confidence.to_string(),
    })
}

/// The requests of one session, the newest first.
fn asked_in(
    journal: &Journal,
    status: &SessionStatus,
) -> Result<Vec<(Option<Risk>, wire::Approval)>, ReadError> {
    let kinds = [Kind::ApprovalRequested, Kind::ApprovalResolved, Kind::ApprovalCanceled];
    let selection = Selection::all().of_kinds(kinds).newest_first();
    let mut answers = BTreeMap::new();
    let mut approvals = Vec::new();
    for event in journal.events(&status.info.id, selection)?.take(EVENTS_MAX) {
        let event = event?;
        if let Some(resolved) = event.readable::<ApprovalResolved>() {
            let answer = ("resolved", Some(resolved.decision.to_string()));
            // The first answer counts, and comes last here.
            answers.insert(resolved.approval_id, answer);
        } else if let Some(canceled) = event.readable::<ApprovalCanceled>() {
            answers.insert(canceled.approval_id, ("canceled", None));
        } else if let Some(asked) = event.readable::<ApprovalRequested>() {
            let is_pending = status.verdict.pending_approvals.contains(&asked.approval_id);
            let unanswered = (if is_pending { "pending" } else { "over" }, None);
            let (state, decision) = answers.remove(&asked.approval_id).unwrap_or(unanswered);
            let risk = Risk::of(&asked.tool, asked.input.as_ref().unwrap_or(&Raw::null()));
            approvals.push((Some(risk), approval(event, asked, risk, status, state, decision)));
        }
    }
    Ok(approvals)
}

fn approval(
    event: Event,
    asked: ApprovalRequested,
    risk: Risk,
    status: &SessionStatus,
    state: &'static str,
    decision: Option<String>,
) -> wire::Approval {
    let Event { draft, .. } = event;
    let input = asked.input.map(|input| RawValue::from_string(input.get().to_owned()));
    wire::Approval {
        id: asked.approval_id,
        session_id: draft.session_id,
        provider: draft.provider,
        action: draft.text,
        tool: asked.tool,
        input: input.and_then(Result::ok),
        cwd: status.info.cwd.clone(),
        risk: Some(risk.as_str().to_owned()),
        requested_at: draft.created_at,
        expires_at: asked.expires_at,
        state,
        decision,
        delivered: "none",
        source: draft.source.to_string(),
        confidence: draft.confidence.to_string(),
    }
}
