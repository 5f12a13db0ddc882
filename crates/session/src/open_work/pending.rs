//! What the session waits for: approvals, waits and the one question, each by its id.

use std::collections::BTreeMap;

use event::payload::{
    ApprovalCanceled, ApprovalRequested, ApprovalResolved, ExternalInput, InputStatus,
    WaitResolved, WaitStarted,
};
use event::{Event, KeyFamily, Time};
use serde::{Deserialize, Serialize};

use super::{Oddity, Opened, give_up_oldest};

/// A request without an answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenApproval {
    pub opened: Opened,
    pub tool: String,
    pub call_id: Option<String>,
    pub expires_at: Option<Time>,
}

/// A wait for an external event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenWait {
    pub opened: Opened,
    pub reason: Option<String>,
    pub external_id: Option<String>,
}

/// A question to the user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub request_id: String,
    pub opened: Opened,
    pub prompt: String,
}

/// One thing the session waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// `Approval`, `Wait` or `Question`.
    pub family: KeyFamily,
    pub id: String,
    pub since: Opened,
    pub expires_at: Option<Time>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) approvals: BTreeMap<String, OpenApproval>,
    pub(crate) waits: BTreeMap<String, OpenWait>,
    pub(crate) question: Option<OpenQuestion>,
}

impl Pending {
    /// Everything waited for, oldest first.
    pub(crate) fn list_waiting(&self) -> Vec<Waiting> {
        let entry = |family, id: &String, since: &Opened, expires_at| Waiting {
            family,
            id: id.clone(),
            since: since.clone(),
            expires_at,
        };
        let approvals = self.approvals.iter().map(|(id, approval)| {
            entry(KeyFamily::Approval, id, &approval.opened, approval.expires_at)
        });
        let waits =
            self.waits.iter().map(|(id, wait)| entry(KeyFamily::Wait, id, &wait.opened, None));
        let question = self.question.iter().map(|question| {
            entry(KeyFamily::Question, &question.request_id, &question.opened, None)
        });
        let mut list: Vec<Waiting> = approvals.chain(waits).chain(question).collect();
        // The maps are ordered by id, and users answer what has waited longest.
        list.sort_by_key(|waiting| waiting.since.seq);
        list
    }

    pub(crate) fn requested(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(request) = event.readable::<ApprovalRequested>() else { return Ok(()) };
        if self.approvals.contains_key(&request.approval_id) {
            return Err(make_oddity(event, "approval", &request.approval_id, "is already open"));
        }
        let approval = OpenApproval {
            opened: Opened::from_event(event),
            tool: request.tool,
            call_id: request.call_id,
            expires_at: request.expires_at,
        };
        insert_bounded(&mut self.approvals, event, request.approval_id, approval, |open| {
            open.opened.seq
        })
    }

    pub(crate) fn resolved(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(answer) = event.readable::<ApprovalResolved>() else { return Ok(()) };
        self.end_approval(event, &answer.approval_id)
    }

    pub(crate) fn canceled(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(cancel) = event.readable::<ApprovalCanceled>() else { return Ok(()) };
        self.end_approval(event, &cancel.approval_id)
    }

    fn end_approval(&mut self, event: &Event, id: &str) -> Result<(), Oddity> {
        match self.approvals.remove(id) {
            Some(_) => Ok(()),
            None => Err(make_oddity(event, "approval", id, "is not open")),
        }
    }

    pub(crate) fn wait_started(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(wait) = event.readable::<WaitStarted>() else { return Ok(()) };
        if self.waits.contains_key(&wait.wait_id) {
            return Err(make_oddity(event, "wait", &wait.wait_id, "is already open"));
        }
        let open = OpenWait {
            opened: Opened::from_event(event),
            reason: wait.reason,
            external_id: wait.external_id,
        };
        insert_bounded(&mut self.waits, event, wait.wait_id, open, |open| open.opened.seq)
    }

    pub(crate) fn wait_resolved(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(wait) = event.readable::<WaitResolved>() else { return Ok(()) };
        match self.waits.remove(&wait.wait_id) {
            Some(_) => Ok(()),
            None => Err(make_oddity(event, "wait", &wait.wait_id, "is not open")),
        }
    }

    pub(crate) fn apply_input(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(input) = event.readable::<ExternalInput>() else { return Ok(()) };
        match input.status {
            InputStatus::Pending => self.open_question(event, input),
            InputStatus::Received | InputStatus::Canceled => {
                let taken = self.question.take_if(|open| open.request_id == input.request_id);
                match taken {
                    Some(_) => Ok(()),
                    // A late answer must not be taken for the question that is open now.
                    None => Err(make_oddity(event, "question", &input.request_id, "is not open")),
                }
            }
            // A status of a newer version says nothing about whether the question is over.
            InputStatus::Other(_) => Ok(()),
        }
    }

    /// Only one question is open at a time, so a second one means that the first was given up.
    fn open_question(&mut self, event: &Event, input: ExternalInput) -> Result<(), Oddity> {
        let question = OpenQuestion {
            request_id: input.request_id,
            opened: Opened::from_event(event),
            prompt: input.prompt,
        };
        match self.question.replace(question) {
            Some(old) => Err(make_oddity(event, "question", &old.request_id, "was never answered")),
            None => Ok(()),
        }
    }
}

/// Adds an open request, giving up the oldest where there are too many.
fn insert_bounded<T>(
    open: &mut BTreeMap<String, T>,
    event: &Event,
    id: String,
    request: T,
    seq: impl Fn(&T) -> u64,
) -> Result<(), Oddity> {
    // The new request has the highest number, so it is never the one that is given up.
    open.insert(id, request);
    match give_up_oldest(open, seq) {
        Some(oldest) => {
            Err(make_oddity(event, "request", &oldest, "is given up: too many are open"))
        }
        None => Ok(()),
    }
}

fn make_oddity(event: &Event, what: &str, id: &str, why: &str) -> Oddity {
    Oddity::new(event, format!("{what} `{id}` {why}"))
}
