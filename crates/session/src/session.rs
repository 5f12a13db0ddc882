//! A handle on one session and its folded state.
//!
//! A handle holds the effective view and the open work, not the log. Several handles and several
//! processes may append to one session. A handle shows its own appends at once and those of
//! others after [`Session::refresh`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Event, EventId, Kind, Lane, SessionId, Time};
use journal::{FollowFrom, Journal, OnLag, ReadError, Selection, Subscription};

use crate::append::AppendState;
use crate::folded::{FoldedState, Reduction};
use crate::reader::{SessionEvents, SessionReader};
use crate::view::{EffectiveStream, EffectiveView, View, ViewOptions};
use crate::{
    Host, LiveState, LogPoint, OpenWork, Reducer, Scope, SessionCost, SessionError,
    SessionSettings, Stamps, Waiting,
};

/// A session of a journal. Share it between threads by reference or in an `Arc`.
pub struct Session {
    host: Host,
    id: SessionId,
    /// The last event that a read-only handle on an earlier state shows.
    point: Option<u64>,
    /// What every event gets that is appended through this handle.
    scope: Scope,
    // Lock order: `append_state` before `state`. Shared with the handles of `in_scope`.
    append_state: Arc<Mutex<AppendState>>,
    state: Arc<Mutex<FoldedState>>,
}

impl Session {
    /// Creates a session; fails if it exists. Nothing is written before the first append.
    pub fn create(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        if host.journal().exists(&id)? {
            return Err(SessionError::SessionExists(id));
        }
        Ok(Session::empty(host, id, None))
    }

    /// Opens a session; fails if it does not exist.
    pub fn open(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        if !host.journal().exists(&id)? {
            return Err(ReadError::SessionNotFound(id).into());
        }
        Session::load(host, id, None)
    }

    /// Creates a session in a journal in memory, which lives as long as its handles.
    pub fn in_memory(id: SessionId, stamps: Arc<dyn Stamps>) -> Session {
        Session::empty(&Host::new(Journal::in_memory(), stamps), id, None)
    }

    /// Opens a session or creates it. Nothing is written before the first append.
    pub fn open_or_create(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        Session::load(host, id, None)
    }

    /// Opens the session read-only as it was after event `seq`.
    pub fn at_seq(host: &Host, id: SessionId, seq: u64) -> Result<Session, SessionError> {
        Session::at_point(host, id, LogPoint::Seq(seq))
    }

    /// Opens the session read-only as it was after this event.
    pub fn at_event(
        host: &Host,
        id: SessionId,
        event_id: EventId,
    ) -> Result<Session, SessionError> {
        Session::at_point(host, id, LogPoint::Event(event_id))
    }

    /// Opens the session read-only as it was at an instant: up to the last event created at or
    /// before it.
    pub fn at_time(host: &Host, id: SessionId, at: Time) -> Result<Session, SessionError> {
        Session::at_point(host, id, LogPoint::Time(at))
    }

    /// Opens the session read-only as it was at a point of its log.
    pub fn at_point(host: &Host, id: SessionId, point: LogPoint) -> Result<Session, SessionError> {
        let seq = point.resolve(host.journal(), &id)?;
        Session::load(host, id, Some(seq))
    }

    fn empty(host: &Host, id: SessionId, point: Option<u64>) -> Session {
        let state = FoldedState::new(id.clone());
        // Stale from the start: the first append loads the recorded state, and a handle that only
        // reads never does.
        let append_state = AppendState::new(state.live.open_work.clone(), true);
        Session {
            host: host.clone(),
            id,
            point,
            scope: Scope::default(),
            append_state: Arc::new(Mutex::new(append_state)),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns a handle whose appends, of any kind, carry the scope's metadata and turn, inside the
    /// scope of this handle. It costs nothing: both handles share their state.
    pub fn in_scope(&self, scope: &Scope) -> Session {
        Session {
            host: self.host.clone(),
            id: self.id.clone(),
            point: self.point,
            scope: self.scope.nest(scope),
            append_state: Arc::clone(&self.append_state),
            state: Arc::clone(&self.state),
        }
    }

    /// Returns what every event gets that is appended through this handle.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn load(host: &Host, id: SessionId, point: Option<u64>) -> Result<Session, SessionError> {
        let session = Session::empty(host, id, point);
        session.load_state()?;
        Ok(session)
    }

    /// Folds the recorded events, from the saved state on if there is one.
    fn load_state(&self) -> Result<(), SessionError> {
        self.state().load(&self.reader())?;
        self.refresh()
    }

    pub fn session_id(&self) -> &SessionId {
        &self.id
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn journal(&self) -> &Journal {
        self.host.journal()
    }

    /// Returns the last event that this handle has folded.
    pub fn seq(&self) -> u64 {
        self.state().live.up_to_seq()
    }

    /// Whether this is a read-only handle on an earlier state.
    pub fn is_past(&self) -> bool {
        self.point.is_some()
    }

    /// Folds the events that other handles and processes have appended.
    pub fn refresh(&self) -> Result<(), SessionError> {
        let reader = self.reader();
        let mut state = self.state();
        state.catch_up(&reader)?;
        // A state in the past must not replace the newer one that is saved.
        if !self.is_past() {
            state.save_if_due(&reader);
        }
        Ok(())
    }

    /// Iterates lazily over the events that this handle shows.
    pub fn events(&self) -> Result<SessionEvents, SessionError> {
        self.select(Selection::all())
    }

    pub fn events_rev(&self) -> Result<SessionEvents, SessionError> {
        self.select(Selection::all().newest_first())
    }

    pub fn events_after(&self, seq: u64) -> Result<SessionEvents, SessionError> {
        self.select(Selection::after(seq))
    }

    /// Iterates over events by `seq`, time and kind.
    pub fn select(&self, selection: Selection) -> Result<SessionEvents, SessionError> {
        match self.reader().events(selection) {
            // The session has no event yet, so the journal does not know it.
            Err(ReadError::SessionNotFound(_)) if self.seq() == 0 => Ok(SessionEvents::default()),
            other => Ok(other?),
        }
    }

    pub fn last_event(&self) -> Result<Option<Event>, SessionError> {
        let Some((seq, _)) = self.state_at_tail()?.live.latest.event() else { return Ok(None) };
        Ok(self.reader().event(seq)?)
    }

    /// Returns the events of the newest prompt, answer or result.
    pub fn last_message(&self) -> Result<Vec<Event>, SessionError> {
        let place = self.state_at_tail()?.live.latest.message().cloned();
        Ok(self.reader().message_events(place)?)
    }

    /// Returns the events of the newest answer that has content and no tool call.
    pub fn last_answer(&self) -> Result<Vec<Event>, SessionError> {
        let place = self.state_at_tail()?.live.latest.answer().cloned();
        Ok(self.reader().message_events(place)?)
    }

    /// Iterates over the talk in log order, without compaction and context.
    pub fn transcript(&self) -> Result<SessionEvents, SessionError> {
        let talk = Kind::KNOWN.iter().filter(|kind| kind.lane() == Lane::Talk);
        self.select(Selection::all().of_kinds(talk.cloned()))
    }

    /// Returns the effective history, which a model would see. A second call without new events
    /// costs nothing, and a copy is cheap to keep.
    pub fn effective(&self) -> Result<EffectiveView, SessionError> {
        Ok(self.state_at_tail()?.view.effective(&self.reader())?.clone())
    }

    /// Returns the effective history of a session, or the one it had at a point, to be read entry by
    /// entry. Neither the log nor the history is held.
    pub fn stream_effective(
        host: &Host,
        id: SessionId,
        point: Option<LogPoint>,
    ) -> Result<EffectiveStream<SessionReader>, SessionError> {
        let point = point.map(|point| point.resolve(host.journal(), &id)).transpose()?;
        let session = Session::empty(host, id, point);
        // Unloaded first: a view that holds entries would hold those of the events it catches up
        // with.
        session.state().view.unload();
        session.load_state()?;
        let mut state = session.state();
        let view = std::mem::replace(&mut state.view, View::new(ViewOptions::default()));
        Ok(view.into_stream(session.reader())?)
    }

    /// Returns what has begun and not ended.
    pub fn open_work(&self) -> OpenWork {
        self.state().live.open_work.clone()
    }

    /// Returns the open approvals, waits and question, oldest first.
    pub fn waiting_on(&self) -> Vec<Waiting> {
        self.state().live.open_work.waiting_on()
    }

    pub fn is_waiting(&self) -> bool {
        self.state().live.open_work.is_waiting()
    }

    pub fn cost(&self) -> SessionCost {
        self.state().live.cost
    }

    pub fn settings(&self) -> SessionSettings {
        self.state().live.settings.clone()
    }

    /// Returns a copy of the small state.
    pub fn live(&self) -> LiveState {
        self.state().live.clone()
    }

    /// Folds all existing events, then every new one, once and in order.
    ///
    /// The reducer runs while the session is locked: it must not call the session.
    pub fn reduce<R>(&self, reducer: R) -> Result<Reduction<R>, SessionError>
    where
        R: Reducer + Send + 'static,
        R::State: Send,
    {
        let mut state = self.state_at_tail()?;
        let up_to = state.live.up_to_seq();
        let events = match up_to {
            // The journal does not know a session without events and would fail.
            0 => SessionEvents::default(),
            _ => self.reader().events(Selection::all().up_to(up_to))?,
        };
        // The state stays locked from reading the events to adding the reducer, so that no event is
        // missed or seen twice.
        state.reduce(reducer, events)
    }

    /// Follows the session: history and new events as one stream. The session may still be empty.
    pub fn follow(&self, from: FollowFrom, on_lag: OnLag) -> Result<Subscription, SessionError> {
        match self.journal().follow_session(&self.id, from, on_lag) {
            // A session begins with its first append. One that had events and is not found was
            // deleted.
            Err(ReadError::SessionNotFound(_)) if self.seq() == 0 => {
                Ok(self.journal().follow_when_begun(&self.id, from, on_lag)?)
            }
            other => Ok(other?),
        }
    }

    /// Returns a reader by number, id and key.
    pub fn reader(&self) -> SessionReader {
        let reader = SessionReader::new(self.journal().clone(), self.id.clone());
        match self.point {
            Some(point) => reader.limited_to(point),
            None => reader,
        }
    }

    pub(crate) fn point(&self) -> Option<u64> {
        self.point
    }

    /// Locks the state after folding all events that are known to be recorded.
    pub(crate) fn state_at_tail(&self) -> Result<MutexGuard<'_, FoldedState>, SessionError> {
        let mut state = self.state();
        if state.is_behind() {
            state.catch_up(&self.reader())?;
        }
        Ok(state)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FoldedState> {
        // A panic of a caller's reducer must not make the session unusable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn append_state(&self) -> MutexGuard<'_, AppendState> {
        self.append_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
