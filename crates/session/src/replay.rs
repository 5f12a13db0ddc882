//! A stream of events folded into a session that exists only in memory.
//!
//! No rules, nothing stored, nobody told. The state is the one an open session keeps, so live and
//! replayed sessions are equal. What else should be folded along, the effective view for one, is
//! the reducer.

use std::collections::HashMap;

use event::{BadEvent, Cost, Draft, Event, EventHead, EventId, SessionId, Time};
use serde::Deserialize;

use crate::{LiveState, Reduced, Reducer};

/// Why a stream cannot be replayed. What came before the event stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("event {event_id} is of session `{found}`, not of `{expected}`")]
    SessionMismatch { event_id: EventId, expected: SessionId, found: SessionId },
    #[error("event {event_id} names no session, and neither does the replay")]
    NoSession { event_id: String },
    #[error("event {event_id} has seq {found} where {expected} must follow")]
    BadSeq { event_id: EventId, expected: u64, found: u64 },
    #[error("the event after {after_seq} cannot be read")]
    BadEvent { after_seq: u64, source: BadEvent },
}

/// A replay under way.
pub struct Replay<R: Reducer = ()> {
    target: Option<SessionId>,
    live: Option<LiveState>,
    reduced: Reduced<R>,
    counted: Counted,
}

impl Replay {
    /// A replay that takes the id of its first event.
    pub fn new() -> Replay {
        Replay::with_reducer((), None)
    }

    /// A replay that only takes events of one session.
    pub fn for_session(session_id: SessionId) -> Replay {
        Replay::with_reducer((), Some(session_id))
    }
}

impl Default for Replay {
    fn default() -> Replay {
        Replay::new()
    }
}

impl<R: Reducer> Replay<R> {
    /// A replay that also folds a state of the caller's own.
    pub fn with_reducer(reducer: R, target: Option<SessionId>) -> Replay<R> {
        let live = target.clone().map(LiveState::new);
        Replay { target, live, reduced: Reduced::new(reducer), counted: Counted::default() }
    }

    /// Takes in all events of a stream; the first that does not fit stops it.
    pub fn run(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), ReplayError> {
        events.into_iter().try_for_each(|event| self.apply(event))
    }

    /// Takes in the next event.
    pub fn apply(&mut self, event: Event) -> Result<(), ReplayError> {
        if let Some(target) = &self.target
            && event.session_id != *target
        {
            return Err(ReplayError::SessionMismatch {
                event_id: event.id,
                expected: target.clone(),
                found: event.session_id.clone(),
            });
        }
        let expected = self.next_seq();
        if event.seq != expected {
            let found = event.seq;
            return Err(ReplayError::BadSeq { event_id: event.id, expected, found });
        }
        self.target.get_or_insert_with(|| event.session_id.clone());
        let instead_of = self.counted.apply(&event);
        let live = self.live.get_or_insert_with(|| LiveState::new(event.session_id.clone()));
        live.apply(&event, instead_of);
        self.reduced.apply(&event);
        Ok(())
    }

    /// Takes in the next event of a stream that does not number its events: its order counts.
    pub fn apply_draft(&mut self, draft: Draft) -> Result<(), ReplayError> {
        let seq = self.next_seq();
        self.apply(draft.with_seq(seq))
    }

    /// Takes in an event as a line of JSON. It may lack the session, then it is the target's, and
    /// the `seq`, then it is the next.
    pub fn apply_line(&mut self, line: &str) -> Result<(), ReplayError> {
        let after_seq = self.next_seq() - 1;
        let (draft, seq) = self.decode(line).map_err(|error| match error {
            Undecoded::NoSession { event_id } => ReplayError::NoSession { event_id },
            Undecoded::Bad(source) => ReplayError::BadEvent { after_seq, source },
        })?;
        self.apply(draft.with_seq(seq.unwrap_or(after_seq + 1)))
    }

    /// The session as far as it has been replayed; `None` as long as it has no id.
    pub fn session(&self) -> Option<&LiveState> {
        self.live.as_ref()
    }

    pub fn state(&self) -> &R::State {
        self.reduced.state()
    }

    pub fn into_state(self) -> R::State {
        self.reduced.into_state()
    }

    fn next_seq(&self) -> u64 {
        self.live.as_ref().map_or(0, LiveState::up_to_seq) + 1
    }

    fn decode(&self, line: &str) -> Result<(Draft, Option<u64>), Undecoded> {
        #[derive(Deserialize)]
        struct KnownFields {
            #[serde(default)]
            id: String,
            #[serde(default)]
            session_id: Option<String>,
            seq: Option<u64>,
            created_at: Option<Time>,
            observed_at: Option<Time>,
        }
        let known: KnownFields = match serde_json::from_str(line) {
            Ok(known) => known,
            // The full reader says better what is wrong.
            Err(_) => return Draft::decode(line).map_err(Undecoded::Bad),
        };
        if known.session_id.is_some_and(|id| !id.trim().is_empty()) {
            return Draft::decode(line).map_err(Undecoded::Bad);
        }
        let Some(session_id) = self.target.clone() else {
            return Err(Undecoded::NoSession { event_id: known.id });
        };
        let missing = |field| Undecoded::Bad(BadEvent::Missing(field));
        let id = known.id.parse().map_err(|error| Undecoded::Bad(BadEvent::Id(error)))?;
        let created_at = known.created_at.ok_or(missing("created_at"))?;
        let observed_at = known.observed_at.unwrap_or(created_at);
        let head = EventHead { id, session_id, created_at, observed_at };
        let draft = Draft::decode_rest(head, line).map_err(Undecoded::Bad)?;
        Ok((draft, known.seq))
    }
}

enum Undecoded {
    NoSession { event_id: String },
    Bad(BadEvent),
}

/// What has been counted for each event that had a cost, so that a fuller account can stand in for
/// it. Grows with the stream, by an id per event.
#[derive(Default)]
struct Counted {
    costs: HashMap<EventId, Cost>,
    /// Every event, and the first telling it leads back to.
    first: HashMap<EventId, EventId>,
}

impl Counted {
    /// What the event stands in for.
    fn apply(&mut self, event: &Event) -> Option<Cost> {
        // One that names nothing that was told is a telling of its own.
        let first = event.amends().and_then(|named| self.first.get(&named).copied());
        let first = first.unwrap_or(event.id);
        self.first.insert(event.id, first);
        self.costs.insert(first, event.cost?)
    }
}
