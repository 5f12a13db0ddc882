//! The journal as capture sees it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use capture::{Admission, Batch, Kept, KnownSource, Original, Sink, SinkError, UnknownRecord};
use event::payload::Unknown;
use event::{EventId, Kind, Raw, SessionId};
use journal::{Journal, Selection, SourceMove, Ticket};

use crate::admission::Gate;
use crate::facts::FreshFacts;
use crate::project::Projects;

/// Bytes on their way to the disk. With more, the oldest is waited for, so that reading is never
/// far ahead of recording.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Batches are gathered up to so many bytes before they are handed over. Many sources with a line
/// each would be as many waits for the disk otherwise; gathered, they are one or two.
const GATHERED_BYTES_MAX: usize = 512 * 1024;
const GATHERED_MAX: usize = 256;

/// Originals are synced at most this often: a sync for every source with a line would be as many
/// waits again. What a power cut takes of them, the agent's own file most likely still has.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// Records batches in the journal.
pub(crate) struct Recorder<'a> {
    journal: &'a Journal,
    gathered: Vec<(journal::Batch, usize)>,
    gathered_bytes: usize,
    /// What was handed over, and its bytes.
    waiting: VecDeque<(Ticket, usize)>,
    waiting_bytes: usize,
    synced_at: Instant,
    /// What the recorded events add up to, for whoever keeps it.
    facts: &'a RefCell<FreshFacts>,
    projects: Projects,
    gate: Gate,
    /// Events that were new.
    pub recorded: u64,
    /// Sessions that were told of, and whether they were known before.
    pub sessions: BTreeMap<SessionId, bool>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        journal: &'a Journal,
        gate: Gate,
        facts: &'a RefCell<FreshFacts>,
    ) -> Recorder<'a> {
        Recorder {
            journal,
            gathered: Vec::new(),
            gathered_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            synced_at: Instant::now(),
            facts,
            projects: Projects::new(),
            gate,
            recorded: 0,
            sessions: BTreeMap::new(),
        }
    }

    /// Hands over what was gathered.
    fn hand_over(&mut self) -> Result<(), SinkError> {
        self.gathered_bytes = 0;
        for (batch, bytes) in std::mem::take(&mut self.gathered) {
            self.waiting.push_back((self.journal.submit(batch).map_err(failed)?, bytes));
            self.waiting_bytes += bytes;
        }
        // What is recorded is not held longer than it has to be.
        while self.waiting_bytes > WAITING_BYTES_MAX
            || self.waiting.front().is_some_and(|(ticket, _)| ticket.is_answered())
        {
            self.wait_for_oldest()?;
        }
        if self.journal.is_index_behind() {
            // What cannot be indexed now is indexed by the next search: the log is what counts.
            let _ = self.journal.index();
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), SinkError> {
        if let Some((ticket, bytes)) = self.waiting.pop_front() {
            self.waiting_bytes -= bytes;
            let news = ticket.wait_for_news().map_err(failed)?;
            self.recorded += news.len() as u64;
            let mut facts = self.facts.borrow_mut();
            news.iter().for_each(|event| facts.apply(self.journal, event));
        }
        Ok(())
    }
}

impl Sink for Recorder<'_> {
    fn sources(&self) -> Result<Vec<KnownSource>, SinkError> {
        let sources = self.journal.sources().map_err(failed)?.into_iter();
        Ok(sources.map(|(key, position)| KnownSource { key, position }).collect())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        self.journal.source_position(key).map_err(failed)
    }

    fn admits(&mut self, session: &SessionId, cwd: Option<&str>) -> Admission {
        let Recorder { journal, gate, projects, .. } = self;
        gate.admits(journal, projects, session, cwd)
    }

    fn keep(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        let Original { source, generation, offset, bytes } = original;
        self.journal.originals().keep(source, generation, offset, bytes).map_err(failed)
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<Kept>, SinkError> {
        let originals = self.journal.originals();
        let begin = originals.begin(source, generation).map_err(failed)?;
        let kept = originals.read(source, generation).map_err(failed)?;
        Ok(begin.zip(kept).map(|(from, bytes)| Kept { from, bytes: Box::new(bytes) }))
    }

    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        let of_kind = Selection::all().of_kinds([Kind::Unknown]);
        let events = match self.journal.events(session, of_kind) {
            Err(journal::ReadError::SessionNotFound(_)) => return Ok(Vec::new()),
            events => events.map_err(failed)?,
        };
        let mut unknown = Vec::new();
        for event in events {
            let event = event.map_err(failed)?;
            let record = event.metadata.get("record").and_then(Raw::text);
            let told = event.readable::<Unknown>().and_then(|unknown| unknown.record_type);
            // What has no type was torn, which a parser cannot mend.
            if let Some((record, record_type)) = record.zip(told) {
                unknown.push(UnknownRecord { record, id: event.id, record_type });
            }
        }
        Ok(unknown)
    }

    fn put(&mut self, batch: Batch) -> Result<(), SinkError> {
        let Batch { source: source_id, from, to, mut drafts } = batch;
        for draft in &mut drafts {
            self.projects.name(draft);
            if !self.sessions.contains_key(&draft.session_id) {
                let is_known = self.journal.exists(&draft.session_id).map_err(failed)?;
                self.sessions.insert(draft.session_id.clone(), is_known);
            }
        }
        let bytes = drafts.iter().map(|draft| draft.data.get().len()).sum::<usize>();
        let read = SourceMove { source_id, from, to };
        let batch = journal::Batch::observed().with_all(drafts).from_source(read);
        self.gathered.push((batch, bytes));
        self.gathered_bytes += bytes;
        if self.gathered_bytes < GATHERED_BYTES_MAX && self.gathered.len() < GATHERED_MAX {
            return Ok(());
        }
        self.hand_over()
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        self.hand_over()?;
        while !self.waiting.is_empty() {
            self.wait_for_oldest()?;
        }
        if self.synced_at.elapsed() >= SYNC_EVERY {
            self.journal.originals().sync().map_err(failed)?;
            self.synced_at = Instant::now();
        }
        Ok(())
    }

    fn find(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        self.journal.locate(id).map_err(failed)
    }

    fn find_in(&self, session: &SessionId, ids: &[EventId]) -> Result<Vec<Option<u64>>, SinkError> {
        match self.journal.find_facts(session, ids) {
            // A parent nobody has seen has no facts.
            Err(journal::ReadError::SessionNotFound(_)) => Ok(vec![None; ids.len()]),
            found => found.map_err(failed),
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> SinkError {
    SinkError(Box::new(error))
}
