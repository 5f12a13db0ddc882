//! Keyed lookups into the log of a session.

use std::cell::RefCell;
use std::collections::HashMap;

use event::{Event, EventId, EventKey};
use journal::ReadError;

/// Looks up events of one session, written or queued, by key and id.
///
/// The inherited events of a fork are found too.
pub trait EventLookup {
    /// Returns the events that have the key, oldest first.
    fn find_by_key(&self, key: &EventKey) -> Result<Vec<Event>, ReadError>;

    /// Returns the number of an event, if the session has it.
    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError>;
}

/// A lookup with queued events on top of the written ones.
pub(crate) struct QueuedLookup<'a> {
    past: &'a dyn EventLookup,
    events: Vec<Event>,
    places: HashMap<EventId, u64>,
    keyed: RefCell<KeyIndex>,
}

/// The queued events by key. It is built at the first lookup, because most batches need none.
#[derive(Default)]
struct KeyIndex {
    up_to: usize,
    events: HashMap<EventKey, Vec<usize>>,
}

impl<'a> QueuedLookup<'a> {
    pub(crate) fn new(past: &'a dyn EventLookup) -> QueuedLookup<'a> {
        let (events, places) = (Vec::new(), HashMap::new());
        QueuedLookup { past, events, places, keyed: RefCell::default() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.places.insert(event.id, event.seq);
        self.events.push(event);
    }

    /// Returns the pushed events in order.
    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }
}

impl EventLookup for QueuedLookup<'_> {
    fn find_by_key(&self, key: &EventKey) -> Result<Vec<Event>, ReadError> {
        let mut found = self.past.find_by_key(key)?;
        let mut keyed = self.keyed.borrow_mut();
        // Events are only ever added, so the index continues where it stopped.
        for place in keyed.up_to..self.events.len() {
            for key in self.events[place].keys() {
                keyed.events.entry(key).or_default().push(place);
            }
        }
        keyed.up_to = self.events.len();
        for place in keyed.events.get(key).into_iter().flatten() {
            let event = &self.events[*place];
            // The event may have been written since it was queued.
            if !found.iter().any(|written| written.id == event.id) {
                found.push(event.clone());
            }
        }
        Ok(found)
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        match self.places.get(&id) {
            Some(seq) => Ok(Some(*seq)),
            None => self.past.seq_of(id),
        }
    }
}
