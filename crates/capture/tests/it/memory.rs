//! A sink in memory that numbers events and knows facts again, as the journal does.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use capture::{
    Batch, KnownSource, Original, OriginalChunk, Sink, SinkError, StoredOriginal, UnknownRecord,
};
use event::{Event, EventId, Kind, SessionId};

#[derive(Default)]
pub(crate) struct Memory {
    pub sessions: BTreeMap<SessionId, Vec<Event>>,
    pub positions: BTreeMap<String, String>,
    /// What was kept of each source and generation.
    pub originals: BTreeMap<(String, u32), Vec<OriginalChunk>>,
    pub labels: BTreeMap<(String, u32), String>,
    /// How often all sources were asked for.
    pub asked_for_all: Cell<usize>,
    /// Events that were told again.
    pub sightings: u64,
    /// Where each session has which fact.
    facts: HashMap<(SessionId, [u8; 10]), u64>,
    /// The source that told an event first.
    tellers: HashMap<EventId, (SessionId, u64)>,
    /// What was put since the last time that everything was durable: it cannot be found.
    unsettled: HashSet<(SessionId, u64)>,
}

impl Memory {
    /// The bytes that were kept of each source and generation.
    pub(crate) fn kept(&self) -> Vec<Vec<u8>> {
        let bytes = |chunks: &Vec<OriginalChunk>| {
            chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect()
        };
        self.originals.values().map(bytes).collect()
    }

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
        let Original { source, generation, offset, bytes, label, begin, note } = original;
        let key = (source.to_owned(), generation);
        self.labels.insert(key.clone(), label.to_owned());
        let kept = self.originals.entry(key).or_default();
        kept.retain(|chunk| chunk.offset < offset);
        if let Some(last) = kept.last_mut() {
            last.bytes.truncate((offset - last.offset) as usize);
        }
        let begin = if kept.is_empty() { begin.to_owned() } else { String::new() };
        let (bytes, note) = (bytes.to_vec(), note.to_owned());
        kept.push(OriginalChunk { offset, bytes, begin, note });
        Ok(())
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        let kept = self.originals.get(&(source.to_owned(), generation)).cloned();
        Ok(kept.map(|kept| Box::new(kept.into_iter()) as StoredOriginal))
    }

    fn originals(&self) -> Result<BTreeSet<(String, u32)>, SinkError> {
        Ok(self.originals.keys().cloned().collect())
    }

    fn original_label(&self, source: &str, generation: u32) -> Result<String, SinkError> {
        Ok(self.labels.get(&(source.to_owned(), generation)).cloned().unwrap_or_default())
    }

    fn id_at(&self, session: &SessionId, seq: u64) -> Result<Option<EventId>, SinkError> {
        let events = self.sessions.get(session).into_iter().flatten();
        Ok(events.into_iter().find(|event| event.seq == seq).map(|event| event.id))
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
