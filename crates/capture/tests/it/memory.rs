//! A sink in memory that numbers events and knows facts again, as the journal does.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Cursor;

use capture::{Batch, KnownSource, Original, Sink, SinkError, StoredOriginal, UnknownRecord};
use event::{Event, EventId, Kind, SessionId};

#[derive(Default)]
pub(crate) struct Memory {
    pub sessions: BTreeMap<SessionId, Vec<Event>>,
    pub positions: BTreeMap<String, String>,
    /// What was kept of each source and generation.
    pub originals: BTreeMap<(String, u32), Vec<u8>>,
    /// How often all sources were asked for.
    pub asked_for_all: Cell<usize>,
    /// Events that were told again.
    pub sightings: u64,
    /// Where each session has which fact.
    facts: HashMap<(SessionId, [u8; 10]), u64>,
    /// Who told an event first.
    tellers: HashMap<EventId, (SessionId, u64)>,
    /// What was put since the last time that everything was durable: it cannot be found.
    unsettled: HashSet<(SessionId, u64)>,
}

impl Memory {
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.sessions.values().flatten()
    }

    /// The length of the longest state a parser asked to keep.
    pub(crate) fn state_len(&self) -> usize {
        let positions = self.positions.values();
        let states = positions.map(|position| {
            let position: serde_json::Value = serde_json::from_str(position).unwrap();
            position["state"].as_str().map_or(0, str::len)
        });
        states.max().unwrap_or(0)
    }

    fn seq_of(&self, session: &SessionId, id: &EventId) -> Option<u64> {
        self.facts.get(&(session.clone(), id.tail())).copied()
    }
}

impl Sink for Memory {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.asked_for_all.set(self.asked_for_all.get() + 1);
        self.positions
            .iter()
            .for_each(|(key, position)| show(KnownSource { key, checkpoint: position }));
        Ok(())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        Ok(self.positions.get(key).cloned())
    }

    fn keep_original(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        let key = (original.source.to_owned(), original.generation);
        let kept = self.originals.entry(key).or_default();
        kept.truncate(original.offset as usize);
        kept.resize(original.offset as usize, 0);
        kept.extend(original.bytes);
        Ok(())
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        let kept = self.originals.get(&(source.to_owned(), generation)).cloned();
        // What a session repeats of another is not kept with it.
        let begin = |kept: &[u8]| kept.iter().take_while(|byte| **byte == 0).count();
        Ok(kept.map(|kept| {
            let begin = begin(&kept);
            let bytes = Box::new(Cursor::new(kept[begin..].to_vec()));
            StoredOriginal { from: begin as u64, bytes }
        }))
    }

    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        let events = self.sessions.get(session).into_iter().flatten();
        let unknown = events.filter(|event| event.kind == Kind::Unknown).filter_map(|event| {
            let record = event.metadata.get("record")?.text()?;
            let data: serde_json::Value = serde_json::from_str(event.data.get()).ok()?;
            let record_type = data["record_type"].as_str()?.to_owned();
            Some(UnknownRecord { record, id: event.id, record_type })
        });
        Ok(unknown.collect())
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        assert_eq!(self.positions.get(&batch.source), batch.from.as_ref(), "{}", batch.source);
        for draft in batch.drafts {
            if self.seq_of(&draft.session_id, &draft.id).is_some() {
                self.sightings += 1;
                continue;
            }
            let session = draft.session_id.clone();
            let events = self.sessions.entry(session.clone()).or_default();
            let seq = events.len() as u64 + 1;
            self.facts.insert((session.clone(), draft.id.tail()), seq);
            self.unsettled.insert((session.clone(), seq));
            self.tellers.entry(draft.id).or_insert((session, seq));
            events.push(draft.with_seq(seq));
        }
        self.positions.insert(batch.source, batch.to);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        self.unsettled.clear();
        Ok(())
    }

    fn find_event(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        Ok(self.tellers.get(&id).filter(|place| !self.unsettled.contains(place)).cloned())
    }

    fn find_events(
        &self,
        session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        let is_settled = |seq: &u64| !self.unsettled.contains(&(session.clone(), *seq));
        Ok(ids.iter().map(|id| self.seq_of(session, id).filter(is_settled)).collect())
    }
}
