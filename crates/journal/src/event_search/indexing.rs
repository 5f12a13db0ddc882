//! Events on their way into the full-text index.

use std::collections::HashMap;

use ::search::IndexWriter;
use event::{Draft, SessionId};

use super::Corpus;
use super::deletions::follow_deletions;
use super::keywords::{EventKeywords, day_of};
use super::sqlite_index::{IndexState, SqliteIndex};
use crate::backlog::UnindexedEvent;
use crate::derived::{Derived, DerivedError};
use crate::store::Direction;
use crate::{ReadError, Recorded};

/// Events that are indexed in one transaction, or the bytes their terms take in memory. The last
/// page may go beyond. Each transaction leaves a segment to be merged with others later, so few
/// large ones cost much less than many small ones.
const TRANSACTION_EVENTS: usize = 8_192;
const TRANSACTION_BYTES: usize = 4 << 20;

/// How far the index has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexProgress {
    /// Everything up to this position is indexed.
    pub(crate) indexed: u64,
    /// Nothing was left to index.
    pub(crate) is_current: bool,
}

/// Indexes the next events in one transaction. The log's lock is not needed.
///
/// Within a process one thread indexes at a time, so that nothing is read twice. Another process
/// that indexes into the same file does no harm.
pub(crate) fn index_events(
    corpus: &dyn Corpus,
    derived: &Derived,
) -> Result<IndexProgress, ReadError> {
    let _lock = derived.lock_indexing();
    // Asked with a read first: an index that is current must not wait for the write lock of another
    // process.
    let state = derived.read("read", |connection| SqliteIndex::new(connection).state())?;
    let tail = corpus.tail()?;
    if tail < state.indexed {
        // The log was put back from an older copy: the positions behind its end will be used
        // again, for other events than those that are indexed.
        derived.clear()?;
    } else if tail == state.indexed && corpus.deletions()? == state.deletions {
        // Another process has indexed the events that wait in memory here; let them go.
        corpus.fresh(tail + 1);
        return Ok(IndexProgress { indexed: tail, is_current: true });
    }
    derived.write("index events in", |tx| {
        let mut index = SqliteIndex::new(tx);
        // Read within the transaction: another process may have gone on meanwhile.
        let state = index.state()?;
        let mut indexer = EventIndexer::new(&mut index, corpus, state);
        while indexer.events < TRANSACTION_EVENTS
            && indexer.writer.buffered_bytes() < TRANSACTION_BYTES
            && indexer.add_some()?
        {}
        let (events, mut state) = indexer.finish()?;
        // Last, so that a session that was deleted while this transaction was open is followed too.
        follow_deletions(tx, corpus, &mut state)?;
        SqliteIndex::new(tx).save_state(state)?;
        Ok(IndexProgress { indexed: state.indexed, is_current: events == 0 })
    })
}

/// Adds events to the index within one transaction.
struct EventIndexer<'a, 'c> {
    writer: IndexWriter<'a, SqliteIndex<'c>>,
    corpus: &'a dyn Corpus,
    state: IndexState,
    /// The projects of the sessions met so far.
    projects: HashMap<SessionId, Option<String>>,
    keywords: EventKeywords,
    events: usize,
}

impl<'a, 'c> EventIndexer<'a, 'c> {
    fn new(
        index: &'a mut SqliteIndex<'c>,
        corpus: &'a dyn Corpus,
        state: IndexState,
    ) -> EventIndexer<'a, 'c> {
        EventIndexer {
            writer: IndexWriter::new(index),
            corpus,
            state,
            projects: HashMap::new(),
            keywords: EventKeywords::default(),
            events: 0,
        }
    }

    /// Indexes the next few events; whether there were any.
    fn add_some(&mut self) -> Result<bool, DerivedError> {
        let next = self.state.indexed + 1;
        // Events that are still in memory need not be read and unpacked.
        let fresh = self.corpus.fresh(next);
        for UnindexedEvent { position, draft } in &fresh {
            self.add_event(*position, draft)?;
        }
        if !fresh.is_empty() {
            return Ok(true);
        }
        let page = self.corpus.page(next..=u64::MAX, Direction::OldestFirst)?;
        for Recorded { position, event } in &page {
            self.add_event(*position, event)?;
        }
        Ok(!page.is_empty())
    }

    /// Writes the segment; returns how many events it has and how far the index is now.
    fn finish(self) -> Result<(usize, IndexState), DerivedError> {
        self.writer.finish()?;
        Ok((self.events, self.state))
    }

    fn add_event(&mut self, position: u64, draft: &Draft) -> Result<(), DerivedError> {
        self.events += 1;
        // Also for an event that has nothing to search: the index has dealt with it.
        self.state.indexed = position;
        self.add_document(position, draft)?;
        if let Some(first) = draft.amends()
            && let Some(first) = self.corpus.position(&draft.session_id, &first)?
        {
            self.writer.supersede(first)?;
        }
        Ok(())
    }

    /// Adds the words and keywords of an event, if it can be searched or looked up at all.
    fn add_document(&mut self, position: u64, draft: &Draft) -> Result<(), DerivedError> {
        let fields = draft.search_fields();
        // Many events, such as status changes, have neither. Every search asks for words, so such
        // an event can never be a hit.
        if fields.texts.is_empty() && fields.keys.is_empty() {
            return Ok(());
        }
        // A wrong clock in one event widens the range for good. That costs a filter some terms,
        // never a hit.
        let day = day_of(draft.created_at);
        self.state.first_day = self.state.first_day.min(day);
        self.state.last_day = self.state.last_day.max(day);
        // One transaction indexes thousands of events of few sessions.
        if !self.projects.contains_key(&draft.session_id) {
            let project = self.corpus.project(&draft.session_id)?;
            self.projects.insert(draft.session_id.clone(), project);
        }
        let project = self.projects[&draft.session_id].as_deref();
        let mut document = self.writer.start_document(position)?;
        fields.texts.iter().for_each(|text| document.add_text(text));
        self.keywords.visit(draft, &fields, project, |term| document.add_keyword(term));
        Ok(())
    }
}
