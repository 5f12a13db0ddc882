//! Approvals, waits and questions: requested once, answered once.
//!
//! The log is the list of pending requests, so any process can answer, also after a restart. Of
//! several answers exactly one is recorded; the others are refused with the recorded decision.

use event::payload::{
    ApprovalCanceled, ApprovalResolved, Decision, ExternalInput, InputStatus, WaitResolved,
    WaitStarted,
};
use event::{Raw, Time};
use journal::{AppendError, EventReceipt};

use crate::recover::{Left, recover};
use crate::{ChildFate, RuleViolation, Session, SessionError};

/// A decision on a request, with its author and reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApprovalVerdict {
    pub reason: Option<String>,
    /// `rule`, `person` or `agent`.
    pub by: Option<String>,
    /// A rule decided without a look at this request.
    pub is_automated: bool,
}

impl Session {
    /// Answers a request.
    pub fn resolve_approval(
        &self,
        approval_id: &str,
        decision: Decision,
        verdict: ApprovalVerdict,
    ) -> Result<EventReceipt, SessionError> {
        self.record(&ApprovalResolved {
            approval_id: approval_id.to_owned(),
            decision,
            reason: verdict.reason,
            by: verdict.by,
            automated: verdict.is_automated,
        })
    }

    /// Takes a request back.
    pub fn cancel_approval(
        &self,
        approval_id: &str,
        reason: impl Into<String>,
    ) -> Result<EventReceipt, SessionError> {
        let tool =
            self.open_work().approvals().get(approval_id).map(|approval| approval.tool.clone());
        self.record(&ApprovalCanceled {
            approval_id: approval_id.to_owned(),
            tool,
            reason: reason.into(),
        })
    }

    /// Cancels the requests that expired without an answer and returns them.
    pub fn expire_approvals(&self, now: Time) -> Result<Vec<String>, SessionError> {
        self.refresh()?;
        let recovery = recover(&self.open_work(), now, |_| ChildFate::Running);
        let mut expired = Vec::new();
        for left in recovery.left_open() {
            let Left::Approval { approval_id, is_expired: true, .. } = &left.left else { continue };
            match self.append_batch(recovery.give_up_drafts(left, &self.reader())?) {
                Ok(_) => expired.push(approval_id.clone()),
                // Another caller answered or canceled it in the meantime.
                Err(SessionError::Refused(RuleViolation::AlreadyResolved { .. })) => {}
                Err(SessionError::Append(AppendError::DuplicateId { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Records that the session waits for an external event.
    pub fn start_wait(&self, wait: &WaitStarted) -> Result<EventReceipt, SessionError> {
        self.record(wait)
    }

    /// Records that the wait is over.
    pub fn resolve_wait(&self, wait: &WaitResolved) -> Result<EventReceipt, SessionError> {
        self.record(wait)
    }

    /// Asks the user a question. Only one question can be open at a time.
    pub fn ask_user(
        &self,
        request_id: &str,
        prompt: impl Into<String>,
    ) -> Result<EventReceipt, SessionError> {
        self.record(&ExternalInput {
            request_id: request_id.to_owned(),
            prompt: prompt.into(),
            status: InputStatus::Pending,
            input: None,
        })
    }

    /// Gives the answer to the open question.
    pub fn answer_user(&self, request_id: &str, input: Raw) -> Result<EventReceipt, SessionError> {
        self.close_question(request_id, InputStatus::Received, Some(input))
    }

    /// Gives the open question up.
    pub fn cancel_question(&self, request_id: &str) -> Result<EventReceipt, SessionError> {
        self.close_question(request_id, InputStatus::Canceled, None)
    }

    fn close_question(
        &self,
        request_id: &str,
        status: InputStatus,
        input: Option<Raw>,
    ) -> Result<EventReceipt, SessionError> {
        self.refresh()?;
        let open = self.open_work();
        let asked = open.question().filter(|question| question.request_id == request_id);
        // The payload needs a prompt before the rules can refuse an answer without a question.
        let prompt = asked.map_or_else(|| request_id.to_owned(), |asked| asked.prompt.clone());
        let request_id = request_id.to_owned();
        self.record(&ExternalInput { request_id, prompt, status, input })
    }
}
