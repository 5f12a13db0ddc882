//! A session's log as views and rules reach into it: by number, by id, by key.

use event::{Cost, Event, EventId, EventKey, Kind, SessionId};
use journal::{Events, Journal, ReadError, Selection};

use crate::view::EventLog;
use crate::{EventLookup, MessagePlace};

/// Random access to one session of a journal, or to its beginning.
pub struct SessionReader {
    journal: Journal,
    id: SessionId,
    /// The last event that is shown.
    to_seq: u64,
}

/// The events of a session, page by page. None of a session that has not begun.
#[derive(Default)]
pub struct SessionEvents(Option<Events>);

impl SessionReader {
    /// The session as far as it is written.
    pub(crate) fn new(journal: Journal, id: SessionId) -> SessionReader {
        SessionReader { journal, id, to_seq: u64::MAX }
    }

    /// The same session as it was after the event `seq`.
    pub(crate) fn limited_to(self, seq: u64) -> SessionReader {
        SessionReader { to_seq: seq, ..self }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn session_id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn to_seq(&self) -> u64 {
        self.to_seq
    }

    /// Events by `seq`, time and kind.
    pub fn events(&self, selection: Selection) -> Result<SessionEvents, ReadError> {
        // A handle on an earlier state must not show later events, whatever the caller selects.
        let to_seq = selection.to_seq.min(self.to_seq);
        let events = self.journal.events(&self.id, selection.up_to(to_seq))?;
        Ok(SessionEvents(Some(events)))
    }

    /// The event with this number.
    pub fn event(&self, seq: u64) -> Result<Option<Event>, ReadError> {
        if seq == 0 {
            return Ok(None);
        }
        self.events(Selection { from_seq: seq, to_seq: seq, ..Selection::all() })?
            .next()
            .transpose()
    }

    /// The events of these kinds that the session recorded itself, oldest first.
    pub(crate) fn own_events(&self, kinds: &[Kind]) -> Result<Vec<Event>, ReadError> {
        let mut events = self.journal.own_events(&self.id, kinds)?;
        events.retain(|event| event.seq <= self.to_seq);
        Ok(events)
    }

    /// The events of a message: those between its ends that share its message id.
    pub(crate) fn message_events(
        &self,
        place: Option<MessagePlace>,
    ) -> Result<Vec<Event>, ReadError> {
        let Some(place) = place else { return Ok(Vec::new()) };
        let selection =
            Selection { from_seq: place.first_seq, to_seq: place.last_seq, ..Selection::all() };
        let mut events = Vec::new();
        for event in self.events(selection)? {
            let event = event?;
            // Between the ends of an answer lie other events, such as starts and results of its
            // tools.
            if event.seq == place.first_seq || place.includes(&event) {
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Returns the cost that was counted for an event before `seq`: its own, or that of its newest
    /// amendment.
    pub(crate) fn cost_before(&self, named: EventId, seq: u64) -> Result<Option<Cost>, ReadError> {
        let Some(first) = self.first_account(named, seq)? else { return Ok(None) };
        // An amendment may name the first event or a later amendment of it.
        let mut accounts = vec![first.id];
        let mut cost = first.cost;
        for event in self.events(Selection::after(first.seq).up_to(seq - 1))? {
            let event = event?;
            if event.amends().is_some_and(|amended| accounts.contains(&amended)) {
                accounts.push(event.id);
                // An amendment without a cost keeps the one that was told before.
                cost = event.cost.or(cost);
            }
        }
        Ok(cost)
    }

    /// Follows a chain of amendments before `seq` back to the first event.
    fn first_account(&self, named: EventId, seq: u64) -> Result<Option<Event>, ReadError> {
        let mut named = named;
        let mut before = seq;
        let mut first = None;
        loop {
            // Strictly earlier with every step, so that a chain that names itself ends.
            let place = EventLookup::seq_of(self, named)?.filter(|place| *place < before);
            let Some(event) = place.map(|place| self.event(place)).transpose()?.flatten() else {
                return Ok(first);
            };
            before = event.seq;
            let amended = event.amends();
            first = Some(event);
            match amended {
                Some(amended) => named = amended,
                None => return Ok(first),
            }
        }
    }
}

impl EventLookup for SessionReader {
    fn find_by_key(&self, key: &EventKey) -> Result<Vec<Event>, ReadError> {
        let mut found = match self.journal.find(&self.id, key) {
            // Asked before the first event: nothing carries the key.
            Err(ReadError::SessionNotFound(_)) => Vec::new(),
            other => other?,
        };
        // The index of keys knows the whole session.
        found.retain(|event| event.seq <= self.to_seq);
        Ok(found)
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        match self.journal.seq_of(&self.id, id) {
            Err(ReadError::SessionNotFound(_)) => Ok(None),
            other => Ok(other?.filter(|seq| *seq <= self.to_seq)),
        }
    }
}

impl EventLog for SessionReader {
    fn read(
        &self,
        from_seq: u64,
        to_seq: u64,
        each: &mut dyn FnMut(&Event),
    ) -> Result<(), ReadError> {
        for event in self.events(Selection { from_seq, to_seq, ..Selection::all() })? {
            each(&event?);
        }
        Ok(())
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        EventLookup::seq_of(self, id)
    }
}

impl Iterator for SessionEvents {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Result<Event, ReadError>> {
        self.0.as_mut()?.next()
    }
}
