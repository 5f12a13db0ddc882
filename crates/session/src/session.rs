//! One session: its log, and what follows from it, kept state.
//!
//! A handle holds the effective view and the open work, not the log. Several handles and several
//! processes may append to one session; a handle shows what it appended itself at once, and what
//! others did after [`Session::refresh`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{Event, EventId, Kind, Lane, SessionId, Time};
use journal::{From, Journal, OnLag, ReadError, Selection, Subscription};

use crate::append::AppendState;
use crate::folded::{FoldedState, Reduction};
use crate::reader::{SessionEvents, SessionReader};
use crate::view::EffectiveView;
use crate::{
    Host, LiveState, OpenWork, Reducer, SessionCost, SessionError, SessionSettings, Stamps, Waiting,
};

/// A session of a journal. Share it between threads by reference or in an `Arc`.
pub struct Session {
    host: Host,
    id: SessionId,
    /// The last event that is shown, for a session as it was; such a one cannot be appended to.
    point: Option<u64>,
    // Locked in this order where both are needed.
    append_state: Mutex<AppendState>,
    state: Mutex<FoldedState>,
}

impl Session {
    /// A session that does not exist yet.
    pub fn create(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        if host.journal().exists(&id)? {
            return Err(SessionError::SessionExists(id));
        }
        Ok(Session::empty(host, id, None))
    }

    /// A session that exists.
    pub fn open(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        if !host.journal().exists(&id)? {
            return Err(ReadError::SessionNotFound(id).into());
        }
        Session::load(host, id, None)
    }

    /// A session that nobody else sees and that ends with its handles.
    pub fn in_memory(id: SessionId, stamps: Arc<dyn Stamps>) -> Session {
        Session::empty(&Host::new(Journal::in_memory(), stamps), id, None)
    }

    /// The one or the other; nothing is written before the first append.
    pub fn open_or_create(host: &Host, id: SessionId) -> Result<Session, SessionError> {
        Session::load(host, id, None)
    }

    /// The session as it was after the event `seq`. Read-only.
    pub fn at_seq(host: &Host, id: SessionId, seq: u64) -> Result<Session, SessionError> {
        let tail = host.journal().stat(&id)?.tail_seq;
        if seq > tail {
            return Err(SessionError::PointOutOfRange { session_id: id, point: seq, tail });
        }
        Session::load(host, id, Some(seq))
    }

    /// The session as it was after this event. Read-only.
    pub fn at_event(
        host: &Host,
        id: SessionId,
        event_id: EventId,
    ) -> Result<Session, SessionError> {
        let seq = host.journal().seq_of(&id, event_id)?;
        let seq =
            seq.ok_or_else(|| ReadError::EventNotFound { session_id: id.clone(), event_id })?;
        Session::load(host, id, Some(seq))
    }

    /// The session as it was at an instant: up to the last event created at or before it.
    /// Read-only.
    pub fn at_time(host: &Host, id: SessionId, at: Time) -> Result<Session, SessionError> {
        let selection = Selection { until: Some(at), ..Selection::all() }.newest_first();
        let last = host.journal().events(&id, selection)?.next().transpose()?;
        Session::load(host, id, Some(last.map_or(0, |event| event.seq)))
    }

    fn empty(host: &Host, id: SessionId, point: Option<u64>) -> Session {
        let state = FoldedState::new(id.clone());
        let append_state = AppendState::new(state.live.open_work.clone(), true);
        Session {
            host: host.clone(),
            id,
            point,
            append_state: Mutex::new(append_state),
            state: Mutex::new(state),
        }
    }

    fn load(host: &Host, id: SessionId, point: Option<u64>) -> Result<Session, SessionError> {
        let session = Session::empty(host, id, point);
        {
            let reader = session.reader();
            let mut state = session.state();
            state.load(&reader)?;
            state.catch_up(&reader)?;
            if point.is_none() {
                state.save_if_due(&reader);
            }
        }
        Ok(session)
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

    /// The last event this handle knows of.
    pub fn seq(&self) -> u64 {
        self.state().live.up_to_seq()
    }

    /// Whether this is a session as it was, which cannot be appended to.
    pub fn is_past(&self) -> bool {
        self.point.is_some()
    }

    /// Reads what others have appended since.
    pub fn refresh(&self) -> Result<(), SessionError> {
        let reader = self.reader();
        let mut state = self.state();
        state.catch_up(&reader)?;
        if !self.is_past() {
            state.save_if_due(&reader);
        }
        Ok(())
    }

    /// The events, lazily, as far as this handle shows them.
    pub fn events(&self) -> Result<SessionEvents, SessionError> {
        self.select(Selection::all())
    }

    pub fn events_rev(&self) -> Result<SessionEvents, SessionError> {
        self.select(Selection::all().newest_first())
    }

    pub fn events_after(&self, seq: u64) -> Result<SessionEvents, SessionError> {
        self.select(Selection::after(seq))
    }

    /// Events by `seq`, time and kind.
    pub fn select(&self, selection: Selection) -> Result<SessionEvents, SessionError> {
        match self.reader().events(selection) {
            // Not a single event yet.
            Err(ReadError::SessionNotFound(_)) if self.seq() == 0 => Ok(SessionEvents::default()),
            other => Ok(other?),
        }
    }

    pub fn last_event(&self) -> Result<Option<Event>, SessionError> {
        let Some((seq, _)) = self.state_at_tail()?.live.latest.event() else { return Ok(None) };
        Ok(self.reader().event(seq)?)
    }

    /// The events of the newest prompt, answer or result; none if nothing was said.
    pub fn last_message(&self) -> Result<Vec<Event>, SessionError> {
        let place = self.state_at_tail()?.live.latest.message().cloned();
        Ok(self.reader().message(place)?)
    }

    /// The events of the newest answer that said something and asked for no tool.
    pub fn last_answer(&self) -> Result<Vec<Event>, SessionError> {
        let place = self.state_at_tail()?.live.latest.answer().cloned();
        Ok(self.reader().message(place)?)
    }

    /// The talk in log order: no compaction, no context.
    pub fn transcript(&self) -> Result<SessionEvents, SessionError> {
        let talk = Kind::KNOWN.iter().filter(|kind| kind.lane() == Lane::Talk);
        self.select(Selection::all().of_kinds(talk.cloned()))
    }

    /// What a model would see. Cheap to ask for again, and to keep.
    pub fn effective(&self) -> Result<EffectiveView, SessionError> {
        Ok(self.state_at_tail()?.view.effective(&self.reader())?.clone())
    }

    /// What has been begun and not ended.
    pub fn open_work(&self) -> OpenWork {
        self.state().live.open_work.clone()
    }

    /// Approvals, waits and the question nobody has answered, oldest first.
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

    /// The small state, as it is now.
    pub fn live(&self) -> LiveState {
        self.state().live.clone()
    }

    /// Folds all existing events, then every new one, once and in order.
    ///
    /// The reducer runs while the session is locked: it must not ask it anything.
    pub fn reduce<R>(&self, reducer: R) -> Result<Reduction<R>, SessionError>
    where
        R: Reducer + Send + 'static,
        R::State: Send,
    {
        let mut state = self.state_at_tail()?;
        let up_to = state.live.up_to_seq();
        let events = match up_to {
            0 => SessionEvents::default(),
            _ => self.reader().events(Selection::all().up_to(up_to))?,
        };
        state.reduce(reducer, events)
    }

    /// Follows the session: history and news as one stream. It need not have begun yet.
    pub fn follow(&self, from: From, on_lag: OnLag) -> Result<Subscription, SessionError> {
        match self.journal().follow_session(&self.id, from, on_lag) {
            Err(ReadError::SessionNotFound(_)) if self.seq() == 0 => {
                Ok(self.journal().follow_unborn(&self.id, from, on_lag)?)
            }
            other => Ok(other?),
        }
    }

    /// KeyIndex lookups into this session, and reading by number.
    pub fn reader(&self) -> SessionReader {
        let reader = SessionReader::new(self.journal().clone(), self.id.clone());
        match self.point {
            Some(point) => reader.up_to(point),
            None => reader,
        }
    }

    pub(crate) fn point(&self) -> Option<u64> {
        self.point
    }

    /// The state with everything this side knows to be recorded.
    pub(crate) fn state_at_tail(&self) -> Result<MutexGuard<'_, FoldedState>, SessionError> {
        let mut state = self.state();
        if state.is_behind() {
            state.catch_up(&self.reader())?;
        }
        Ok(state)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FoldedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn append_state(&self) -> MutexGuard<'_, AppendState> {
        self.append_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
