//! The journal: one door to everything that is recorded.

use std::path::Path;
use std::sync::Arc;

use event::{Draft, Event, EventId, EventKey, SessionId, Time};

use crate::artifact::Artifacts;
use crate::batch::{Ancestry, Batch, Receipt};
use crate::catalogue::{self, SessionFilter, SessionInfo, SessionPage};
use crate::commit::{Copied, heirs};
use crate::corpus::StoreCorpus;
use crate::derived::Derived;
use crate::doctor::{self, Check};
use crate::event_search::{self, Query, SearchPage};
use crate::feed::Feed;
use crate::follow::{From, OnLag, Subscription};
use crate::indexer::Indexer;
use crate::intake::{Prepared, prepare, prepare_whole};
use crate::limit::{FOREIGN_POLL, FOREIGN_POLL_BESIDE};
use crate::lineage;
use crate::lock::{Claim, ClaimError};
use crate::options::{Access, Options, StoreKind};
use crate::originals::Originals;
use crate::read::{Events, Lineage, Selection};
use crate::store::files::FilesStore;
use crate::store::memory::MemoryStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{Capabilities, Direction, Finding, SeqRange, SessionRow, Store};
use crate::writer::{Ticket, Work, Writer};
use crate::{AppendError, LineageError, OpenError, ReadError, Recorded};

/// Batches of new events a search indexes before it looks. What is left then is read through.
const BATCHES_BEFORE_SEARCH: usize = 16;

/// A handle on a journal. Cheap to clone; all clones are the same journal.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    feed: Arc<Feed>,
    writer: Writer,
    artifacts: Artifacts,
    originals: Originals,
    /// The search index and saved views; none for a journal in memory.
    derived: Option<Arc<Derived>>,
    indexer: Indexer,
}

/// A state of a session to keep beside the log.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub session_id: &'a SessionId,
    /// The last event it covers.
    pub up_to_seq: u64,
    pub bytes: &'a [u8],
}

/// A second telling of a recorded event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    pub source: String,
    pub observed_at: Time,
    pub source_position: Option<String>,
    /// Whether it told something else than what is recorded.
    pub differs: bool,
}

impl Journal {
    /// A journal that lives in memory: neither durable nor shared.
    pub fn in_memory() -> Journal {
        let store = Arc::new(MemoryStore::default());
        let (artifacts, originals) = (Artifacts::in_memory(), Originals::nowhere());
        Journal::over(store, artifacts, originals, None, Access::ReadWrite)
    }

    /// Opens the journal in a folder. There has to be one.
    pub fn open(dir: &Path, options: &Options) -> Result<Journal, OpenError> {
        let kind =
            kind_at(dir).ok_or_else(|| OpenError::JournalNotFound { path: dir.to_owned() })?;
        Journal::open_as(dir, kind, options)
    }

    /// Opens the journal in a folder, and makes it if there is none.
    pub fn open_or_create(dir: &Path, options: &Options) -> Result<Journal, OpenError> {
        Journal::open_as(dir, kind_at(dir).unwrap_or(options.store), options)
    }

    fn open_as(dir: &Path, kind: StoreKind, options: &Options) -> Result<Journal, OpenError> {
        let store: Arc<dyn Store> = match kind {
            StoreKind::Sqlite => Arc::new(SqliteStore::open_or_create(dir, options.durability)?),
            StoreKind::Files => Arc::new(FilesStore::open_or_create(dir)?),
        };
        let artifacts = Artifacts::in_folder(dir.join("artifacts"));
        let derived = Arc::new(Derived::open(&dir.join("derived.db"))?);
        let originals = Originals::in_folder(dir.join("originals"));
        Ok(Journal::over(store, artifacts, originals, Some(derived), options.access))
    }

    fn over(
        store: Arc<dyn Store>,
        artifacts: Artifacts,
        originals: Originals,
        derived: Option<Arc<Derived>>,
        access: Access,
    ) -> Journal {
        let indexer = Indexer::default();
        let foreign_poll = match access {
            Access::ReadOnly => FOREIGN_POLL,
            Access::ReadWrite => FOREIGN_POLL_BESIDE,
        };
        let feed = Arc::new(Feed::new(foreign_poll));
        let writer = Writer::new(Arc::clone(&store), Arc::clone(&feed), access);
        let inner = Inner { store, feed, writer, artifacts, originals, derived, indexer };
        Journal { inner: Arc::new(inner) }
    }

    /// Whether both are the same journal.
    pub fn is_same(&self, other: &Journal) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || self.dir().is_some_and(|dir| {
                let real = |dir: &Path| dir.canonicalize().ok();
                other.dir().is_some_and(|other| real(dir).is_some() && real(dir) == real(other))
            })
    }

    /// Claims a task that only one process may do at a time, until the claim is dropped.
    pub fn claim(&self, task: &str) -> Result<Claim, ClaimError> {
        self.dir().map_or_else(|| Ok(Claim::free()), |dir| Claim::take(dir, task))
    }

    pub fn capabilities(&self) -> &'static Capabilities {
        self.inner.store.capabilities()
    }

    /// The folder, for a journal that has one.
    pub fn dir(&self) -> Option<&Path> {
        self.inner.store.dir()
    }

    /// Appends the batch and waits until it is durable.
    pub fn append(&self, batch: Batch) -> Result<Receipt, AppendError> {
        self.submit(batch)?.wait()
    }

    /// Hands the batch to the writer. It will be recorded or refused even if nobody waits.
    pub fn submit(&self, batch: Batch) -> Result<Ticket, AppendError> {
        let prepared = prepare(batch, &self.inner.artifacts)?;
        self.hand_over(prepared)
    }

    fn hand_over(&self, prepared: Prepared) -> Result<Ticket, AppendError> {
        let Inner { store, feed, writer, derived, indexer, .. } = &*self.inner;
        if let Some(derived) = derived {
            indexer.ensure(store, feed, derived);
        }
        writer.submit(Work::Append(prepared))
    }

    /// Appends a batch of any size in one transaction: for imports, which are whole or not at
    /// all.
    pub fn import(&self, batch: Batch) -> Result<Receipt, AppendError> {
        let mut prepared = prepare_whole(batch, &self.inner.artifacts)?;
        // Takes as long as writing it, and nobody else has to wait for this part.
        let drafts: Vec<&Draft> = prepared.drafts().map(|draft| &**draft).collect();
        prepared.packed = Some(self.inner.store.pack_all(&drafts));
        self.hand_over(prepared)?.wait()
    }

    /// Tells followers of something that is not recorded one by one.
    pub fn publish_live(&self, draft: Draft) {
        self.inner.feed.publish_live(draft);
    }

    /// The events of a session, lazily.
    pub fn events(&self, id: &SessionId, selection: Selection) -> Result<Events, ReadError> {
        let lineage = Lineage::load(&*self.inner.store.reader()?, id)?;
        Ok(Events::new(Arc::clone(&self.inner.store), lineage, selection))
    }

    /// The event a session shows under this id.
    pub fn event(&self, session_id: &SessionId, id: EventId) -> Result<Event, ReadError> {
        let not_found =
            || ReadError::EventNotFound { session_id: session_id.clone(), event_id: id };
        let seq = self.seq_of(session_id, id)?.ok_or_else(not_found)?;
        let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::default() }.strict();
        self.events(session_id, selection)?.next().ok_or_else(not_found)?
    }

    /// The `seq` of the event a session shows under this id.
    pub fn seq_of(&self, session_id: &SessionId, id: EventId) -> Result<Option<u64>, ReadError> {
        let reader = self.inner.store.reader()?;
        Ok(Lineage::load(&*reader, session_id)?.seq_of(&*reader, id)?)
    }

    /// Events of all sessions from a position on, oldest first, up to a page.
    pub fn recorded_from(&self, position: u64) -> Result<Vec<Recorded>, ReadError> {
        let reader = self.inner.store.reader()?;
        let range = SeqRange { from: position, to: u64::MAX >> 1, order: Direction::OldestFirst };
        let page = reader.positions(range)?;
        page.into_iter()
            .map(|stored| match stored.event {
                Ok(event) => Ok(Recorded { position: stored.position, event }),
                Err(broken) => Err(ReadError::Corrupt(Box::new(broken.damage))),
            })
            .collect()
    }

    /// The newest position.
    pub fn tail(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.tail()?)
    }

    /// Follows one session.
    pub fn follow_session(
        &self,
        id: &SessionId,
        from: From,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        if !self.exists(id)? {
            return Err(ReadError::SessionNotFound(id.clone()));
        }
        self.subscribe(Some(id.clone()), from, on_lag)
    }

    /// Follows one session that may still have to begin.
    pub fn follow_unborn(
        &self,
        id: &SessionId,
        from: From,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        self.subscribe(Some(id.clone()), from, on_lag)
    }

    /// Follows everything.
    pub fn follow(&self, from: From, on_lag: OnLag) -> Result<Subscription, ReadError> {
        self.subscribe(None, from, on_lag)
    }

    fn subscribe(
        &self,
        session: Option<SessionId>,
        from: From,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        let (feed, store) = (Arc::clone(&self.inner.feed), Arc::clone(&self.inner.store));
        Subscription::open(feed, store, session, from, on_lag)
    }

    /// How many subscriptions are open in this process.
    pub fn subscriber_count(&self) -> usize {
        self.inner.feed.state().subscribers()
    }

    pub fn exists(&self, id: &SessionId) -> Result<bool, ReadError> {
        Ok(self.inner.store.reader()?.session(id)?.is_some())
    }

    /// What the catalogue knows of a session.
    pub fn stat(&self, id: &SessionId) -> Result<SessionInfo, ReadError> {
        let row = self.inner.store.reader()?.session(id)?;
        row.map(SessionInfo::from).ok_or_else(|| ReadError::SessionNotFound(id.clone()))
    }

    pub fn session_count(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.session_count()?)
    }

    /// A page of sessions, newest activity first.
    pub fn sessions(
        &self,
        filter: &SessionFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, ReadError> {
        catalogue::sessions(&*self.inner.store.reader()?, filter, cursor, limit)
    }

    /// The one session a prefix of our id or the provider's stands for.
    pub fn resolve(&self, prefix: &str) -> Result<SessionInfo, ReadError> {
        catalogue::resolve(&*self.inner.store.reader()?, prefix)
    }

    /// The parent of a session; `None` for a root.
    pub fn parent(&self, id: &SessionId) -> Result<Option<Ancestry>, LineageError> {
        lineage::parent(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// The direct descendants of a session, by instant, then id.
    pub fn children(&self, id: &SessionId) -> Result<Vec<Ancestry>, LineageError> {
        lineage::children(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// The way from the root to the session, root first.
    pub fn lineage(&self, id: &SessionId) -> Result<Vec<Ancestry>, LineageError> {
        lineage::lineage(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// Records where sessions come from, all of it or none.
    pub fn import_ancestry(&self, ancestry: Vec<Ancestry>) -> Result<(), LineageError> {
        let ancestry = lineage::parents_first(ancestry)?;
        let batch = ancestry.into_iter().fold(Batch::observed(), Batch::with_ancestry);
        match self.append(batch) {
            Ok(_) => Ok(()),
            Err(AppendError::Ancestry(error)) => Err(*error),
            Err(error) => Err(error.into()),
        }
    }

    /// How far a source was read, together with the events read from it.
    pub fn source_position(&self, source_id: &str) -> Result<Option<String>, ReadError> {
        Ok(self.inner.store.reader()?.source(source_id)?)
    }

    /// All sources that were ever read, with how far.
    pub fn sources(&self) -> Result<Vec<(String, String)>, ReadError> {
        let mut sources = Vec::new();
        self.each_source(&mut |source, position| {
            sources.push((source.to_owned(), position.to_owned()));
        })?;
        Ok(sources)
    }

    /// Shows all sources that were ever read, with how far, and holds none of them.
    pub fn each_source(&self, show: &mut dyn FnMut(&str, &str)) -> Result<(), ReadError> {
        Ok(self.inner.store.reader()?.sources(show)?)
    }

    /// The session that an event of this id was recorded in, and where.
    pub fn locate(&self, id: EventId) -> Result<Option<(SessionId, u64)>, ReadError> {
        let reader = self.inner.store.reader()?;
        let Some((number, seq)) = reader.locate(&id)? else { return Ok(None) };
        Ok(reader.session_numbered(number)?.map(|session| (session.id, seq)))
    }

    /// Where a session shows the facts of these ids, whatever time they carry; inherited ones
    /// included.
    pub fn find_facts(
        &self,
        session_id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, ReadError> {
        let reader = self.inner.store.reader()?;
        let facts = Lineage::load(&*reader, session_id)?.facts(&*reader)?;
        Ok(ids.iter().map(|id| facts.get(&id.tail()).copied()).collect())
    }

    /// Other tellings of an event.
    pub fn sightings(&self, id: &SessionId, seq: u64) -> Result<Vec<Sighting>, ReadError> {
        let reader = self.inner.store.reader()?;
        let session = Lineage::load(&*reader, id)?.stored_in(seq);
        let sightings = reader.sightings(session, seq)?.into_iter().map(|row| Sighting {
            source: row.source,
            observed_at: row.observed_at,
            source_position: row.source_position,
            differs: row.differs,
        });
        Ok(sightings.collect())
    }

    /// How far a named consumer has got; 0 for one never heard of.
    pub fn consumer(&self, name: &str) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.consumer(name)?.unwrap_or(0))
    }

    /// Records how far a named consumer has got.
    pub fn advance_consumer(&self, name: &str, position: u64) -> Result<(), AppendError> {
        let work = Work::Advance { name: name.to_owned(), position };
        self.inner.writer.submit(work)?.wait().map(drop)
    }

    /// Removes a session for good; a second reading of its source does not bring it back.
    pub fn delete(&self, id: &SessionId, at: Time, forks: Forks) -> Result<(), LineageError> {
        loop {
            let copies = match forks {
                Forks::Refuse => Vec::new(),
                Forks::Copy => self.copies(id)?,
            };
            let work = Work::Delete { session_id: id.clone(), at, copies };
            match self.inner.writer.submit(work)?.wait() {
                Ok(_) => break,
                Err(AppendError::Ancestry(error)) => match *error {
                    // A fork came in between: it gets its copy with the others.
                    LineageError::HasForks { .. } if forks == Forks::Copy => {}
                    error => return Err(error),
                },
                Err(AppendError::SessionNotFound(id)) => {
                    return Err(ReadError::SessionNotFound(id).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(derived) = &self.inner.derived {
            // What cannot be forgotten now is forgotten by whoever feeds the index next.
            let _ = event_search::forget_deleted(&self.corpus(), derived);
        }
        Ok(())
    }

    /// What the forks of a session show of it, ready to be stored as their own.
    fn copies(&self, id: &SessionId) -> Result<Vec<Copied>, ReadError> {
        let heirs = heirs(&*self.inner.store.reader()?, id)?;
        let copy = |heir: SessionRow| {
            let inherited = Selection::all().up_to(heir.base_seq).strict();
            let inherited = self.events(&heir.id, inherited)?.map(|event| {
                let Event { seq, draft } = event?;
                Ok((Arc::new(draft), seq))
            });
            Ok(Copied { fork: heir.id, inherited: inherited.collect::<Result<_, ReadError>>()? })
        };
        heirs.into_iter().map(copy).collect()
    }

    /// How many sessions were deleted so far: who remembers sessions has to look when it moves.
    pub fn deletions(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.deletions()?)
    }

    /// When a session was deleted; `None` for one that was not.
    pub fn deleted_at(&self, id: &SessionId) -> Result<Option<Time>, ReadError> {
        Ok(self.inner.store.reader()?.tombstone(id)?)
    }

    /// Answers a query over everything that is committed.
    pub fn search(&self, query: &Query) -> Result<SearchPage, ReadError> {
        // What a few batches can index is quicker indexed than read through.
        for _ in 0..BATCHES_BEFORE_SEARCH {
            if self.index()?.is_none() {
                break;
            }
        }
        event_search::search(&self.corpus(), self.inner.derived.as_deref(), query)
    }

    /// Indexes the next events for search; tells up to which position, or `None` if nothing was
    /// left. Happens by itself while somebody appends. The index of a newer program is left to it.
    pub fn index(&self) -> Result<Option<u64>, ReadError> {
        let Some(derived) = &self.inner.derived else { return Ok(None) };
        match event_search::index_events(&self.corpus(), derived) {
            Err(error) if error.is_newer_format() => {
                // Nobody here takes what waits for it.
                self.inner.feed.state().backlog().clear();
                Ok(None)
            }
            progress => {
                progress.map(|progress| Some(progress.indexed).filter(|_| !progress.is_current))
            }
        }
    }

    /// Whether so much was appended of late that whoever appends in bulk had better call
    /// [`Journal::index`] now and then: what is not indexed soon has to be read again.
    pub fn is_index_behind(&self) -> bool {
        self.inner.feed.state().backlog().is_long()
    }

    /// The events of a session that carry a key, oldest first, inherited ones included.
    pub fn find(&self, id: &SessionId, key: &EventKey) -> Result<Vec<Event>, ReadError> {
        let corpus = self.corpus();
        let derived = self.inner.derived.as_deref();
        let found = match event_search::find_by_key(&corpus, derived, id, key) {
            Err(error) if error.is_newer_format() => {
                event_search::find_by_key(&corpus, None, id, key)
            }
            found => found,
        }?;
        let mut seqs: Vec<u64> = found.iter().map(|recorded| recorded.event.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        // Read again through the session: a fork shows inherited events as its own.
        let mut events = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::all() };
            events.extend(self.events(id, selection)?.next().transpose()?);
        }
        Ok(events)
    }

    /// Keeps a state beside the log, in place of an earlier one of this name. It may be gone
    /// later; a journal in memory keeps none.
    pub fn save_view(
        &self,
        id: &SessionId,
        name: &str,
        up_to_seq: u64,
        bytes: &[u8],
    ) -> Result<(), ReadError> {
        self.save_views(name, &[View { session_id: id, up_to_seq, bytes }])
    }

    /// The same for many sessions in one go. Those that were deleted meanwhile are left out.
    pub fn save_views(&self, name: &str, views: &[View<'_>]) -> Result<(), ReadError> {
        match &self.inner.derived {
            Some(derived) => derived.put_views(name, views, &|id| self.exists(id)),
            None => Ok(()),
        }
    }

    /// The states of all sessions kept under this name: the session, the last event covered and
    /// the bytes.
    pub fn saved_views(&self, name: &str) -> Result<Vec<(SessionId, u64, Vec<u8>)>, ReadError> {
        let Some(derived) = &self.inner.derived else { return Ok(Vec::new()) };
        let views = derived.views(name)?.into_iter();
        let known = views
            .filter_map(|(id, view)| Some((SessionId::new(id).ok()?, view.up_to_seq, view.bytes)));
        Ok(known.collect())
    }

    /// The state kept under this name, and the last event it covers.
    pub fn saved_view(
        &self,
        id: &SessionId,
        name: &str,
    ) -> Result<Option<(u64, Vec<u8>)>, ReadError> {
        let Some(derived) = &self.inner.derived else { return Ok(None) };
        Ok(derived.view(id, name)?.map(|view| (view.up_to_seq, view.bytes)))
    }

    fn corpus(&self) -> StoreCorpus<'_> {
        StoreCorpus { store: &*self.inner.store, feed: &self.inner.feed }
    }

    /// What opening found damaged and set right, in words for the person who opened it.
    pub fn found_on_opening(&self) -> Vec<Finding> {
        self.inner.store.found()
    }

    /// Looks at everything, and repairs it if told to.
    pub fn doctor(&self, repair: bool, now: Time) -> Result<Vec<Check>, ReadError> {
        let mut checks = doctor::check_store(&*self.inner.store, repair)?;
        let reader = self.inner.store.reader()?;
        checks.push(doctor::check_ancestry(&*reader)?);
        checks.push(doctor::check_artifacts(&*reader, &self.inner.artifacts, repair, now)?);
        drop(reader);
        if let Some(derived) = &self.inner.derived {
            checks.push(doctor::check_derived(&self.corpus(), derived, repair)?);
        }
        Ok(checks)
    }

    pub fn artifacts(&self) -> &Artifacts {
        &self.inner.artifacts
    }

    /// What sources said, byte for byte.
    pub fn originals(&self) -> &Originals {
        &self.inner.originals
    }

    /// Finishes what was accepted and refuses everything after. Closing twice is fine.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        let has_written = self.writer.close();
        self.feed.close();
        self.indexer.join();
        if has_written {
            // Only a quicker start for whoever opens it next; what was accepted is durable.
            let _ = self.store.checkpoint();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// What kind of journal a folder holds.
fn kind_at(dir: &Path) -> Option<StoreKind> {
    let sqlite = SqliteStore::is_at(dir).then_some(StoreKind::Sqlite);
    sqlite.or_else(|| FilesStore::is_at(dir).then_some(StoreKind::Files))
}

/// What happens to forks when the session they stand on is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forks {
    /// Nothing: the session stays.
    Refuse,
    /// Each gets its own copy of what it shows, in the same transaction.
    Copy,
}

#[cfg(test)]
mod tests;
