//! Child sessions: request, start, cancel, list.
//!
//! The parent's log records the request and the outcome, the child's own log records its work.
//! The host runs the child.
//!
//! Not here: updating the parent's log from the child's (`settle`).

use event::payload::{
    ChildCanceled, ChildMerged, ChildMode, ChildProgressed, ChildRequested, ChildStarted, Content,
    Payload, SessionMode, SessionParent, SessionStarted, UserPrompt,
};
use event::{Draft, Event, EventId, EventKey, KeyFamily, Kind, Metadata, Raw, SessionId};
use journal::{AppendError, EventReceipt, ReadError};

use crate::append::{NewSession, SessionTail};
use crate::children::{ChildRef, ChildStep, child_step, children};
use crate::spawn::first_prompt;
use crate::{ChildRun, EventLookup, Scope, Session, SessionError};

/// What a child is to do, and what it is given.
#[derive(Clone, Debug, Default)]
pub struct ChildSpec {
    pub agent_id: String,
    pub task: String,
    /// A new id if absent.
    pub child_id: Option<String>,
    /// The child's id if absent.
    pub session_id: Option<SessionId>,
    /// `handoff` if absent.
    pub mode: Option<ChildMode>,
    pub context: Option<Raw>,
    /// What it is told first, in place of what its mode would tell it.
    pub messages: Vec<Content>,
    /// It goes on when the parent is canceled.
    pub is_detached: bool,
    /// The event that made the parent ask.
    pub parent_event_id: Option<EventId>,
    pub shared_prefix_key: Option<String>,
    /// An object; stamped on everything the child writes.
    pub metadata: Option<Raw>,
}

/// A child that was asked for.
pub struct SpawnedChild {
    pub child_id: String,
    /// Its session, in the scope of its request.
    pub session: Session,
}

/// The member of a request's metadata that says that the child is not canceled with its parent.
const DETACHED: &str = "detached";

impl Session {
    /// Asks for a child and begins its session, both or neither.
    pub fn spawn_child(&self, spec: ChildSpec) -> Result<SpawnedChild, SessionError> {
        let now = self.host().now();
        let child_id =
            spec.child_id.clone().unwrap_or_else(|| self.host().new_event_id(now).to_string());
        let session_id = match spec.session_id.clone() {
            Some(session_id) => session_id,
            // A caller's child id may not be a valid session id; then the caller has to give one.
            None => SessionId::new(&child_id).map_err(ReadError::from)?,
        };
        // Both sessions stand in one batch, where every try would conflict with the request itself.
        if session_id == *self.session_id() {
            return Err(SessionError::SameSession(session_id));
        }
        let request = spec.request(child_id.clone(), &session_id)?;
        let requested = self.draft(&request)?;
        let scope = Scope::of_child(&request);
        // Called under the append lock, and again after each conflict: only then is it known behind
        // which event the child begins.
        let begin = |point: SessionTail| {
            let parent = match request.mode {
                // A fork begins before the request, which is no part of the history that it
                // inherits.
                Some(ChildMode::Fork) => (SessionMode::Fork, point.seq, point.event_id),
                // Any other child names the request, which is the next event of the parent.
                _ => (SessionMode::Child, point.seq + 1, Some(requested.id)),
            };
            let drafts = self.first_events(&request, &spec.messages, &session_id, parent)?;
            Ok(drafts.into_iter().map(|draft| scope.stamp(draft)).collect())
        };
        let beside = NewSession { session_id: session_id.clone(), first_events: &begin };
        match self.append_beside(std::slice::from_ref(&requested), Some(&beside)) {
            // Conflicts of the parent are tried again in `append_beside`. This one is about the
            // child.
            Err(SessionError::Append(AppendError::Conflict { session_id, .. })) => {
                return Err(SessionError::SessionExists(session_id));
            }
            appended => appended?,
        };
        let session = Session::open(self.host(), session_id)?.in_scope(&scope);
        Ok(SpawnedChild { child_id, session })
    }

    fn first_events(
        &self,
        request: &ChildRequested,
        messages: &[Content],
        session_id: &SessionId,
        (mode, seq, event_id): (SessionMode, u64, Option<EventId>),
    ) -> Result<Vec<Draft>, SessionError> {
        let started = SessionStarted {
            agent: Some(request.agent_id.clone()),
            parent: Some(SessionParent { session_id: self.session_id().clone(), seq, event_id }),
            mode: Some(mode),
            ..SessionStarted::default()
        };
        // What the caller says takes the place of the prompt that the mode would give.
        let own = first_prompt(request).map(Content::text).filter(|_| messages.is_empty());
        let prompts = messages.iter().cloned().chain(own);
        let mut drafts = vec![self.draft_for(session_id, &started)?];
        for content in prompts {
            drafts.push(self.draft_for(session_id, &UserPrompt::new(content))?);
        }
        Ok(drafts)
    }

    fn draft_for<P: Payload>(
        &self,
        session_id: &SessionId,
        payload: &P,
    ) -> Result<Draft, SessionError> {
        let at = self.host().now();
        Ok(Draft::new(self.host().new_event_id(at), session_id.clone(), at, payload)?)
    }

    /// Says that a child got to run.
    pub fn start_child(&self, child_id: &str) -> Result<EventReceipt, SessionError> {
        let ChildRef { child_id, child_session_id, agent_id } = self.named_child(child_id)?;
        self.record(&ChildStarted { child_id, child_session_id, metadata: None, agent_id })
    }

    /// Says how far a child has got.
    pub fn progress_child(
        &self,
        child_id: &str,
        status: Option<String>,
        message: Option<String>,
    ) -> Result<EventReceipt, SessionError> {
        let ChildRef { child_id, child_session_id, .. } = self.named_child(child_id)?;
        let metadata = None;
        self.record(&ChildProgressed { child_id, child_session_id, metadata, status, message })
    }

    /// Says that the parent has taken over what a completed child made.
    pub fn merge_child(
        &self,
        child_id: &str,
        artifact_ids: Vec<String>,
        note: Option<String>,
    ) -> Result<EventReceipt, SessionError> {
        let ChildRef { child_id, child_session_id, .. } = self.named_child(child_id)?;
        let metadata = None;
        self.record(&ChildMerged { child_id, child_session_id, metadata, artifact_ids, note })
    }

    /// Says that a child is not to go on; one that waits for its turn never begins.
    pub fn cancel_child(
        &self,
        child_id: &str,
        reason: Option<String>,
    ) -> Result<EventReceipt, SessionError> {
        let ChildRef { child_id, child_session_id, .. } = self.named_child(child_id)?;
        self.record(&ChildCanceled { child_id, child_session_id, metadata: None, reason })
    }

    /// Cancels every child that is not detached, as when the parent is canceled; tells which.
    pub fn cancel_attached(&self, reason: Option<String>) -> Result<Vec<String>, SessionError> {
        self.refresh()?;
        let mut canceled = Vec::new();
        for child in self.open_work().children() {
            if self.is_detached(&child.child_id)? {
                continue;
            }
            match self.cancel_child(&child.child_id, reason.clone()) {
                Ok(_) => canceled.push(child.child_id.clone()),
                // It came to its end just now.
                Err(SessionError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(canceled)
    }

    fn is_detached(&self, child_id: &str) -> Result<bool, SessionError> {
        let events = self.reader().find_by_key(&EventKey::new(KeyFamily::Child, child_id))?;
        // Only the request says it, and the open work does not keep it.
        let request = events.iter().find_map(|event| event.readable::<ChildRequested>());
        let members = request.and_then(|request| request.metadata?.members()).unwrap_or_default();
        Ok(members.iter().any(|(name, value)| name == DETACHED && value.get() == "true"))
    }

    /// The children this session asked for, by time of request, then id.
    pub fn children(&self) -> Result<Vec<ChildRun>, SessionError> {
        let kinds: Vec<Kind> =
            Kind::KNOWN.iter().filter(|kind| is_about_children(kind)).cloned().collect();
        match self.reader().own_events(&kinds) {
            // The session has no event yet, so the journal does not know it.
            Err(ReadError::SessionNotFound(_)) if self.seq() == 0 => Ok(Vec::new()),
            events => Ok(own_children(events?)),
        }
    }

    /// One child, as the log tells it.
    pub fn child(&self, child_id: &str) -> Result<ChildRun, SessionError> {
        let events = self.reader().find_by_key(&EventKey::new(KeyFamily::Child, child_id))?;
        own_children(events).pop().ok_or_else(|| self.no_child(child_id))
    }

    /// How the log names a child, also one that has ended.
    pub(crate) fn named_child(&self, child_id: &str) -> Result<ChildRef, SessionError> {
        let events = self.reader().find_by_key(&EventKey::new(KeyFamily::Child, child_id))?;
        // A fork shows children of its parent, which are not its own to start or cancel.
        let mut own = events.iter().filter(|event| event.fork_origin().is_none());
        own.find_map(|event| ChildRef::from_draft(event)).ok_or_else(|| self.no_child(child_id))
    }

    fn no_child(&self, child_id: &str) -> SessionError {
        SessionError::ChildNotFound {
            session_id: self.session_id().clone(),
            child_id: child_id.to_owned(),
        }
    }
}

impl ChildSpec {
    fn request(
        &self,
        child_id: String,
        session_id: &SessionId,
    ) -> Result<ChildRequested, SessionError> {
        Ok(ChildRequested {
            child_id,
            child_session_id: session_id.to_string(),
            metadata: self.request_metadata()?,
            agent_id: self.agent_id.clone(),
            mode: Some(self.mode.clone().unwrap_or(ChildMode::Handoff)),
            task: self.task.clone(),
            parent_event_id: self.parent_event_id,
            context: self.context.clone(),
            shared_prefix_key: self.shared_prefix_key.clone(),
        })
    }

    fn request_metadata(&self) -> Result<Option<Raw>, SessionError> {
        let Some(metadata) = &self.metadata else {
            let detached = || Raw::parse(format!("{{\"{DETACHED}\":true}}")).ok();
            return Ok(self.is_detached.then(detached).flatten());
        };
        let bad = || SessionError::BadArgument {
            argument: metadata.get().to_owned(),
            expected: "an object of metadata",
        };
        let mut members: Metadata = metadata.read().map_err(|_| bad())?;
        if self.is_detached {
            members.insert(DETACHED.to_owned(), Raw::from_value(&true).map_err(|_| bad())?);
        }
        Raw::from_value(&members).map(Some).map_err(|_| bad())
    }
}

/// The children events tell of. What a fork inherited was asked for by its parent.
fn own_children(events: Vec<Event>) -> Vec<ChildRun> {
    let own = events.into_iter().filter(|event| event.fork_origin().is_none());
    children(&own.collect::<Vec<Event>>())
}

fn is_about_children(kind: &Kind) -> bool {
    *kind == Kind::ArtifactRecorded || !matches!(child_step(None, kind), ChildStep::Nothing)
}
