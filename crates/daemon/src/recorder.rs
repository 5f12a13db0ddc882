//! The journal as capture sees it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use capture::{Batch, KnownSource, Original, Sink, SinkError};
use event::{EventId, SessionId};
use journal::{Journal, SourceMove, Ticket};

use crate::facts::FreshFacts;

/// Batches on their way to the disk. One more waits for the oldest, so that reading is never far
/// ahead of recording.
const WAITING_MAX: usize = 16;

/// Records batches in the journal.
pub(crate) struct Recorder<'a> {
    journal: &'a Journal,
    waiting: VecDeque<Ticket>,
    /// What the recorded events add up to, for whoever keeps it.
    facts: &'a RefCell<FreshFacts>,
    /// Events that were new.
    pub recorded: u64,
    /// Sessions that were told of, and whether they were known before.
    pub sessions: BTreeMap<SessionId, bool>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(journal: &'a Journal, facts: &'a RefCell<FreshFacts>) -> Recorder<'a> {
        let sessions = BTreeMap::new();
        Recorder { journal, waiting: VecDeque::new(), facts, recorded: 0, sessions }
    }

    fn wait_for_oldest(&mut self) -> Result<(), SinkError> {
        if let Some(ticket) = self.waiting.pop_front() {
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

    fn keep(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        let Original { source, generation, offset, bytes } = original;
        self.journal.originals().keep(source, generation, offset, bytes).map_err(failed)
    }

    fn put(&mut self, batch: Batch) -> Result<(), SinkError> {
        let Batch { source: source_id, from, to, drafts } = batch;
        for draft in &drafts {
            if !self.sessions.contains_key(&draft.session_id) {
                let is_known = self.journal.exists(&draft.session_id).map_err(failed)?;
                self.sessions.insert(draft.session_id.clone(), is_known);
            }
        }
        let batch = journal::Batch::observed().with_all(drafts).from_source(SourceMove {
            source_id,
            from,
            to,
        });
        self.waiting.push_back(self.journal.submit(batch).map_err(failed)?);
        // What is recorded is not held longer than it has to be.
        while self.waiting.len() > WAITING_MAX
            || self.waiting.front().is_some_and(Ticket::is_answered)
        {
            self.wait_for_oldest()?;
        }
        if self.journal.is_index_behind() {
            // What cannot be indexed now is indexed by the next search: the log is what counts.
            let _ = self.journal.index();
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        while !self.waiting.is_empty() {
            self.wait_for_oldest()?;
        }
        self.journal.originals().sync().map_err(failed)
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
