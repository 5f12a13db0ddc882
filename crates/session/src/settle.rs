//! Updates the parent's log from a child's log, and waits for the end of a child.

use std::time::Duration;

use event::payload::{ChildStarted, Payload};
use event::{ChildStatus, Draft, Event, EventId, Kind, SessionId, Time};
use journal::{AppendError, Delivery, FollowError, FollowFrom, OnLag, ReadError, Selection};

use crate::children::ChildRef;
use crate::recover::{Left, recover};
use crate::spawn::{blocked_by_wait, left_behind};
use crate::{ChildFate, ChildRun, OpenChild, Session, SessionError};

impl Session {
    /// Brings the account of a child up to date with the child's own log: that it waits, that it
    /// goes on, or what it left behind and how it ended. Doing it again changes nothing.
    pub fn settle_child(&self, child_id: &str) -> Result<ChildRun, SessionError> {
        let mut refused: Option<ChildStatus> = None;
        loop {
            self.refresh()?;
            // The end is recorded already; there is nothing left to bring over.
            let Some(child) = self.open_child(child_id) else { return self.child(child_id) };
            let drafts = self.missing_drafts(&child)?;
            if drafts.is_empty() {
                return self.child(child_id);
            }
            match self.append_batch(drafts) {
                Ok(_) => return self.child(child_id),
                // Another caller recorded it first.
                Err(
                    SessionError::Refused(_)
                    | SessionError::Append(AppendError::DuplicateId { .. }),
                ) if refused.as_ref() != Some(&child.status) => refused = Some(child.status),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a child has ended or waits itself; `None` if it still runs when the patience is
    /// over, by the host's clock. A second call, here or in another process, gives the same answer.
    pub fn wait_child(
        &self,
        child_id: &str,
        patience: Duration,
    ) -> Result<Option<ChildRun>, SessionError> {
        // The stream is opened before the state is read, so that no event in between is missed.
        let mut news = self.journal().follow(FollowFrom::Now, OnLag::CatchUp)?;
        let began = self.host().now();
        let mut left = patience;
        loop {
            let child = self.settle_child(child_id)?;
            if !matches!(child.status, ChildStatus::Requested | ChildStatus::Running) {
                return Ok(Some(child));
            }
            if left.is_zero() {
                return Ok(None);
            }
            loop {
                let may_move = match news.next_within(left) {
                    // Most events of a busy journal are about other sessions; each settling reads
                    // the child's log.
                    Ok(Some(Delivery::Event(recorded))) => self.may_move(&child, &recorded.event),
                    Ok(Some(_)) => false,
                    Ok(None) => {
                        left = Duration::ZERO;
                        break;
                    }
                    Err(FollowError::Closed) => return Err(AppendError::Closed.into()),
                    Err(FollowError::Failed(error)) => return Err(error.into()),
                };
                // Counted from the beginning, because a busy journal delivers without end.
                let waited = began.millis_until(self.host().now());
                left = patience.saturating_sub(Duration::from_millis(waited));
                // The log is looked at once more at the end: its newest events may not have been
                // delivered yet.
                if may_move || left.is_zero() {
                    break;
                }
            }
        }
    }

    /// Whether an event can change how a child stands.
    fn may_move(&self, child: &ChildRun, event: &Event) -> bool {
        let of_child = event.session_id.as_str() == child.child_session_id;
        let is_turning_point = matches!(
            event.kind,
            Kind::TurnCompleted
                | Kind::SessionExited
                | Kind::ApprovalRequested
                | Kind::WaitStarted
                | Kind::ExternalInput
        );
        let about_child = event.session_id == *self.session_id()
            && ChildRef::from_draft(event).is_some_and(|named| named.child_id == child.child_id);
        (of_child && is_turning_point) || about_child
    }

    /// What the parent's log does not say yet about a child.
    fn missing_drafts(&self, child: &OpenChild) -> Result<Vec<Draft>, SessionError> {
        let Some(events) = self.child_log(child)? else { return Ok(Vec::new()) };
        let Some(last) = events.last() else { return Ok(Vec::new()) };
        // Taken as running: without a recorded end this must not declare a child lost. Recovery
        // does that.
        match ChildFate::from_log(&events, true) {
            ChildFate::Running => self.halt_or_go(child, last),
            fate => self.ending_drafts(child, fate, &events, last.created_at),
        }
    }

    fn halt_or_go(&self, child: &OpenChild, last: &Event) -> Result<Vec<Draft>, SessionError> {
        // The child's own state tells whether it waits for an answer.
        let own = Session::open(self.host(), last.session_id.clone())?.open_work();
        let mut news = Vec::new();
        match (blocked_by_wait(child, &own), &child.status) {
            (Some(_), ChildStatus::Blocked) => {}
            (Some(blocked), status) => {
                // A child cannot be blocked before it has started, and its start was never
                // recorded.
                if *status == ChildStatus::Requested {
                    news.push(self.draft_after(child, last, "started", &started_payload(child))?);
                }
                news.push(self.draft_after(child, last, "blocked", &blocked)?);
            }
            // It got its answer. A second start is the event that says that it runs again.
            (None, ChildStatus::Blocked) => {
                news.push(self.draft_after(child, last, "goes on", &started_payload(child))?);
            }
            (None, _) => {}
        }
        Ok(news)
    }

    fn ending_drafts(
        &self,
        child: &OpenChild,
        fate: ChildFate,
        events: &[Event],
        at: Time,
    ) -> Result<Vec<Draft>, SessionError> {
        let session_id = &events[0].session_id;
        // Artifacts come before the end, so that a reader of the end finds all of them.
        let left_behind = left_behind(&child.child_id, session_id, events);
        let fate = match fate {
            ChildFate::Completed { summary, usage, .. } => {
                let ids = left_behind.iter().map(|recorded| recorded.artifact.id.clone());
                ChildFate::Completed { summary, artifact_ids: ids.collect(), usage }
            }
            fate => fate,
        };
        let mut drafts = Vec::new();
        for (place, recorded) in left_behind.iter().enumerate() {
            let identity = format!("artifact {place} {}", recorded.artifact.id);
            drafts.push(self.draft_at(child, at, &identity, recorded)?);
        }
        let open = self.open_work();
        // The same events as after a crash, with the same ids: whichever of the two is first
        // counts.
        let recovery = recover(&open, at, |_| fate.clone());
        let ended = recovery.left_open().iter().filter(
            |left| matches!(&left.left, Left::Child { child: ended, .. } if ended == child),
        );
        for left in ended {
            drafts.extend(recovery.give_up_drafts(left, &self.reader())?);
        }
        for draft in &mut drafts {
            // The child's own time of the end, which recovery does not know.
            draft.created_at = at;
            draft.observed_at = self.host().now();
        }
        Ok(drafts)
    }

    /// A draft about a child, with an id that follows from what it tells.
    fn draft_after<P: Payload>(
        &self,
        child: &OpenChild,
        last: &Event,
        what: &str,
        payload: &P,
    ) -> Result<Draft, SessionError> {
        let identity = format!("{what} {}", last.id);
        self.draft_at(child, last.created_at, &identity, payload)
    }

    fn draft_at<P: Payload>(
        &self,
        child: &OpenChild,
        at: Time,
        identity: &str,
        payload: &P,
    ) -> Result<Draft, SessionError> {
        let identity = format!("child {} {identity}", child.child_id);
        let id = EventId::derived(at, "hansard", self.session_id().as_str(), identity.as_bytes());
        let mut draft = Draft::new(id, self.session_id().clone(), at, payload)?;
        draft.observed_at = self.host().now();
        Ok(draft)
    }

    /// What a child recorded itself; `None` if its session has not begun.
    pub(crate) fn child_log(&self, child: &OpenChild) -> Result<Option<Vec<Event>>, SessionError> {
        let Ok(id) = SessionId::new(&child.child_session_id) else { return Ok(None) };
        let inherited_seq = match self.journal().stat(&id) {
            Err(ReadError::SessionNotFound(_)) => return Ok(None),
            info => info?.inherited_seq,
        };
        let events = self.journal().events(&id, Selection::after(inherited_seq))?;
        Ok(Some(events.collect::<Result<_, ReadError>>()?))
    }

    fn open_child(&self, child_id: &str) -> Option<OpenChild> {
        let open = self.open_work();
        open.children().into_iter().find(|child| child.child_id == child_id).cloned()
    }
}

fn started_payload(child: &OpenChild) -> ChildStarted {
    ChildStarted {
        child_id: child.child_id.clone(),
        child_session_id: child.child_session_id.clone(),
        metadata: None,
        agent_id: child.agent_id.clone(),
    }
}
