//! Folds a stream of events into a session that exists only in memory.
//!
//! No rules are checked and nothing is stored or published. The state is the same type that an
//! open session maintains, so a live and a replayed session are equal. A reducer can fold more
//! along, such as the effective view.

use std::collections::HashMap;

use event::{BadEvent, Cost, Draft, Event, EventHead, EventId, SessionId, Time};
use serde::Deserialize;

use crate::{LiveState, Reduced, Reducer};

/// A stream cannot be replayed. The state up to the event before is unchanged.
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

/// The state of a replay.
pub struct Replay<R: Reducer = ()> {
    target: Option<SessionId>,
    live: Option<LiveState>,
    reduced: Reduced<R>,
    counted: Counted,
}

impl Replay {
    /// Creates a replay that takes the session id of its first event.
    pub fn new() -> Replay {
        Replay::with_reducer((), None)
    }

    /// Creates a replay that accepts events of one session only.
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
    /// Creates a replay that also folds a state of the caller.
    pub fn with_reducer(reducer: R, target: Option<SessionId>) -> Replay<R> {
        let live = target.clone().map(LiveState::new);
        Replay { target, live, reduced: Reduced::new(reducer), counted: Counted::default() }
    }

    /// Applies all events of a stream and stops at the first error.
    pub fn run(&mut self, events: impl IntoIterator<Item = Event>) -> Result<(), ReplayError> {
        events.into_iter().try_for_each(|event| self.apply(event))
    }

    /// Applies the next event.
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
        // A gap would give a state that no session ever had.
        let expected = self.next_seq();
        if event.seq != expected {
            let found = event.seq;
            return Err(ReplayError::BadSeq { event_id: event.id, expected, found });
        }
        self.target.get_or_insert_with(|| event.session_id.clone());
        // There is no log to look into, so the replay remembers the costs itself.
        let instead_of = self.counted.apply(&event);
        let live = self.live.get_or_insert_with(|| LiveState::new(event.session_id.clone()));
        live.apply(&event, instead_of);
        self.reduced.apply(&event);
        Ok(())
    }

    /// Applies the next event of a stream without numbers; the order of the stream numbers them.
    pub fn apply_draft(&mut self, draft: Draft) -> Result<(), ReplayError> {
        let seq = self.next_seq();
        self.apply(draft.with_seq(seq))
    }

    /// Applies an event as a line of JSON. A missing session id means the target, a missing `seq`
    /// the next number.
    pub fn apply_line(&mut self, line: &str) -> Result<(), ReplayError> {
        let after_seq = self.next_seq() - 1;
        let (draft, seq) = self.decode(line).map_err(|error| match error {
            Undecoded::NoSession { event_id } => ReplayError::NoSession { event_id },
            Undecoded::Bad(source) => ReplayError::BadEvent { after_seq, source },
        })?;
        self.apply(draft.with_seq(seq.unwrap_or(after_seq + 1)))
    }

    /// Returns the state so far; `None` while the session id is unknown.
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
            // The full decoder has the better error.
            Err(_) => return Draft::decode(line).map_err(Undecoded::Bad),
        };
        // The line names its session; `apply` compares it with the target.
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

/// The cost of each event, so that an amendment replaces the cost instead of adding to it. The
/// memory grows with the stream by an id per event.
#[derive(Default)]
struct Counted {
    costs: HashMap<EventId, Cost>,
    /// The first event of the chain of amendments that each event belongs to.
    first: HashMap<EventId, EventId>,
}

impl Counted {
    /// Returns the cost that the event replaces.
    fn apply(&mut self, event: &Event) -> Option<Cost> {
        // One that names nothing that was told is a telling of its own.
        let first = event.amends().and_then(|named| self.first.get(&named).copied());
        let first = first.unwrap_or(event.id);
        self.first.insert(event.id, first);
        self.costs.insert(first, event.cost?)
    }
}
