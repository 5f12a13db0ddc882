//! Requests for approval: the `approval.*` events of recently active sessions, put together.
//!
//! The status of a session decides whether its request still waits: an agent may continue without
//! an event about it. An agent may also ask without an event, where only its registry shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use event::payload::{ApprovalCanceled, ApprovalRequested, ApprovalResolved, ToolCall};
use event::{Confidence, Event, Kind, Raw};
use journal::{Journal, ReadError, Selection};
use projection::Risk;
use projection::status::Status;
use serde_json::value::RawValue;

use super::tracker::SessionStatus;

/// Events read of one session, the newest first. Older requests are not listed.
const EVENTS_MAX: usize = 200;

/// The source of a request that no event tells: it is concluded from an open call.
pub const FROM_TRANSCRIPT: &str = "from the transcript";

/// Which requests for approval are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApprovalFilter {
    /// Those that wait: first those of unknown risk, then the riskiest, and of these the oldest.
    Pending,
    /// All, the newest first.
    All,
}

/// The requests for approval of these sessions.
pub fn approvals(
    journal: &Journal,
    statuses: &[SessionStatus],
    which: ApprovalFilter,
) -> Result<Vec<wire::Approval>, ReadError> {
    let mut asked = Vec::new();
    let may_wait = |status: &&SessionStatus| status.verdict.status == Status::WaitingApproval;
    // The events of a session that waits for nothing need not be read.
    for status in statuses.iter().filter(|status| which == ApprovalFilter::All || may_wait(status))
    {
        // Where no call is open there is none to rate: an unknown risk sorts before all known ones.
        asked.extend(request_without_event(journal, status)?);
        asked.extend(requests_in(journal, status)?);
    }
    match which {
        ApprovalFilter::Pending => {
            asked.retain(|(_, approval)| approval.state == "pending");
            // `None` is less than any `Some`, and `Risk` orders the riskiest first.
            asked.sort_by_key(|(risk, approval)| (*risk, approval.requested_at));
        }
        ApprovalFilter::All => asked.sort_by_key(|(_, approval)| Reverse(approval.requested_at)),
    }
    Ok(asked.into_iter().map(|(_, approval)| approval).collect())
}

/// The request of a session that waits for approval, but has no event that says for what. The open
/// call in its transcript is probably what it asks for.
fn request_without_event(
    journal: &Journal,
    status: &SessionStatus,
) -> Result<Option<(Option<Risk>, wire::Approval)>, ReadError> {
    let SessionStatus { info, verdict, summary, .. } = status;
    // An event says more than the registry; two entries for one request would confuse.
    let is_known = !verdict.pending_approvals.is_empty();
    let evidence = verdict
        .evidence
        .first()
        .filter(|evidence| evidence.says == Status::WaitingApproval && !is_known);
    let Some(evidence) = evidence else { return Ok(None) };
    let approval = wire::Approval {
        // The agent gives no id here. Source, session and time are the same at each look.
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
        state: "pending".into(),
        decision: None,
        delivered: "none".into(),
        source: evidence.source.clone(),
        confidence: evidence.confidence.to_string(),
    };
    let call = match status.state.likely_request() {
        Some(id) => journal.event(&info.id, id)?.readable::<ToolCall>(),
        None => None,
    };
    let Some(call) = call else { return Ok(Some((None, approval))) };
    let risk = Risk::from_call(&call.tool, &call.input);
    let approval = wire::Approval {
        tool: call.tool,
        input: RawValue::from_string(call.input.get().to_owned()).ok(),
        risk: Some(risk.as_str().to_owned()),
        source: FROM_TRANSCRIPT.to_owned(),
        // Several calls may be open, and which of them is asked about is not told.
        confidence: Confidence::Medium.to_string(),
        ..approval
    };
    Ok(Some((Some(risk), approval)))
}

/// The requests of one session, the newest first.
fn requests_in(
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
            // The first answer counts; newest first, it overwrites the later ones.
            answers.insert(resolved.approval_id, answer);
        } else if let Some(canceled) = event.readable::<ApprovalCanceled>() {
            answers.insert(canceled.approval_id, ("canceled", None));
        } else if let Some(asked) = event.readable::<ApprovalRequested>() {
            let is_pending = status.verdict.pending_approvals.contains(&asked.approval_id);
            // Without an answer the status decides: the agent may have gone on, or died, without
            // saying so.
            let unanswered = (if is_pending { "pending" } else { "over" }, None);
            let (state, decision) = answers.remove(&asked.approval_id).unwrap_or(unanswered);
            let risk = Risk::from_call(&asked.tool, asked.input.as_ref().unwrap_or(&Raw::null()));
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
    // The input goes out as the agent wrote it; parsing could change large numbers.
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
        state: state.into(),
        decision,
        delivered: "none".into(),
        source: draft.source.to_string(),
        confidence: draft.confidence.to_string(),
    }
}
