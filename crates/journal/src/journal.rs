//! The handle of a journal: open, append, read, follow, search.

use std::path::Path;
use std::sync::Arc;

use event::{Draft, Event, EventId, EventKey, Kind, SessionId, Time};

use crate::artifact::Artifacts;
use crate::batch::{Ancestry, Batch, Receipt};
use crate::catalogue::{self, SessionFilter, SessionInfo, SessionPage};
use crate::commit::{ForkCopy, dependent_forks};
use crate::corpus::StoreCorpus;
use crate::derived::Derived;
use crate::doctor::{self, Check};
use crate::event_search::{self, Query, SearchPage};
use crate::feed::Feed;
use crate::follow::{FollowFrom, OnLag, Subscription};
use crate::indexer::Indexer;
use crate::limit::{POLL_INTERVAL_READER, POLL_INTERVAL_WRITER};
use crate::lineage;
use crate::lock::{Claim, ClaimError};
use crate::options::{Access, Durability, Options, StoreKind};
use crate::originals::Originals;
use crate::prepare::{PreparedBatch, prepare, prepare_import};
use crate::read::{Events, Lineage, Selection};
use crate::recovery::Recovery;
use crate::store::files::FilesStore;
use crate::store::memory::MemoryStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{Capabilities, CheckFinding, Direction, SeqRange, SessionRow, Store};
use crate::writer::{PendingAppend, WriteRequest, Writer};
use crate::{AppendError, LineageError, OpenError, ReadError, Recorded};

/// Batches of new events that a search indexes first. It scans the events that are left then.
const BATCHES_BEFORE_SEARCH: usize = 16;

/// Events of a session that are read through for some kinds. A longer session asks the index.
const SCANNED_EVENTS_MAX: u64 = 2_000;

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

/// A saved state of a session, in `derived.db`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub session_id: &'a SessionId,
    /// The last event it covers.
    pub up_to_seq: u64,
    pub bytes: &'a [u8],
}

/// Another sighting of a recorded event, by a second source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    pub source: String,
    pub observed_at: Time,
    pub source_position: Option<String>,
    /// Whether its content differs from what is recorded.
    pub differs: bool,
}

impl Journal {
    /// Makes a journal in memory: neither durable nor shared.
    pub fn in_memory() -> Journal {
        let store = Arc::new(MemoryStore::default());
        let (artifacts, originals) = (Artifacts::in_memory(), Originals::disabled());
        Journal::over(store, artifacts, originals, None, Access::ReadWrite)
    }

    /// Opens the journal in a folder. Fails if there is none.
    pub fn open(dir: &Path, options: &Options) -> Result<Journal, OpenError> {
        if is_record_lost(dir)? {
            return Err(OpenError::RecordMissing { path: dir.to_owned() });
        }
        // The files in the folder decide, not the options: an existing journal keeps its store.
        let kind =
            kind_at(dir).ok_or_else(|| OpenError::JournalNotFound { path: dir.to_owned() })?;
        match Journal::open_as(dir, kind, options) {
            Err(OpenError::Storage(error))
                if options.access == Access::ReadOnly
                    && kind == StoreKind::Sqlite
                    && error.is_write_refused() =>
            {
                Journal::open_immutable(dir)
            }
            opened => opened,
        }
    }

    /// Opens a journal on a disk that cannot be written to. Without `derived.db`, search and views
    /// read the log.
    fn open_immutable(dir: &Path) -> Result<Journal, OpenError> {
        let store = Arc::new(SqliteStore::open_immutable(dir)?);
        let artifacts = Artifacts::in_folder(dir.join("artifacts"));
        Ok(Journal::over(store, artifacts, originals_at(dir), None, Access::ReadOnly))
    }

    /// Opens the journal in a folder, and creates it if there is none.
    pub fn open_or_create(dir: &Path, options: &Options) -> Result<Journal, OpenError> {
        // A new record beside the originals of a lost one would hide the loss.
        if is_record_lost(dir)? {
            return Err(OpenError::RecordMissing { path: dir.to_owned() });
        }
        Journal::open_as(dir, kind_at(dir).unwrap_or(options.store), options)
    }

    /// Opens the journal in a folder for a repair, also one that [`Journal::open`] refuses because it
    /// is damaged, or because nothing but originals is left of it.
    pub fn open_to_repair(dir: &Path, options: &Options) -> Result<Journal, OpenError> {
        let is_lost = is_record_lost(dir)?;
        let kind = match kind_at(dir) {
            None if !is_lost => return Err(OpenError::JournalNotFound { path: dir.to_owned() }),
            kind => kind.unwrap_or(options.store),
        };
        let store: Arc<dyn Store> = match kind {
            StoreKind::Sqlite => Arc::new(SqliteStore::open_to_repair(dir, options.durability)?),
            StoreKind::Files => open_files(dir, options)?,
        };
        Journal::around(store, dir, options.access)
    }

    fn open_as(dir: &Path, kind: StoreKind, options: &Options) -> Result<Journal, OpenError> {
        let store: Arc<dyn Store> = match kind {
            StoreKind::Sqlite => Arc::new(SqliteStore::open_or_create(dir, options.durability)?),
            StoreKind::Files => open_files(dir, options)?,
        };
        Journal::around(store, dir, options.access)
    }

    /// Adds what stands beside a store. The store comes first: it creates the folder and refuses one
    /// that other users can read, and the parts here rely on both.
    fn around(store: Arc<dyn Store>, dir: &Path, access: Access) -> Result<Journal, OpenError> {
        let artifacts = Artifacts::in_folder(dir.join("artifacts"));
        let derived = Arc::new(Derived::open(&dir.join("derived.db"))?);
        let originals = originals_at(dir);
        Ok(Journal::over(store, artifacts, originals, Some(derived), access))
    }

    fn over(
        store: Arc<dyn Store>,
        artifacts: Artifacts,
        originals: Originals,
        derived: Option<Arc<Derived>>,
        access: Access,
    ) -> Journal {
        let indexer = Indexer::default();
        let poll_interval = match access {
            Access::ReadOnly => POLL_INTERVAL_READER,
            Access::ReadWrite => POLL_INTERVAL_WRITER,
        };
        let feed = Arc::new(Feed::new(poll_interval));
        let writer = Writer::new(Arc::clone(&store), Arc::clone(&feed), access);
        let inner = Inner { store, feed, writer, artifacts, originals, derived, indexer };
        Journal { inner: Arc::new(inner) }
    }

    /// Whether both are the same journal.
    pub fn is_same(&self, other: &Journal) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || self.dir().is_some_and(|dir| {
                // Two handles may have been opened through different paths, for instance through a
                // link.
                let real = |dir: &Path| dir.canonicalize().ok();
                other.dir().is_some_and(|other| real(dir).is_some() && real(dir) == real(other))
            })
    }

    /// Claims a task that only one process may do at a time, until the claim is dropped.
    pub fn claim(&self, task: &str) -> Result<Claim, ClaimError> {
        self.dir().map_or_else(|| Ok(Claim::unshared()), |dir| Claim::take(dir, task))
    }

    pub fn capabilities(&self) -> &'static Capabilities {
        self.inner.store.capabilities()
    }

    /// The folder; `None` for a journal in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.inner.store.dir()
    }

    /// Appends the batch and waits until it is durable.
    pub fn append(&self, batch: Batch) -> Result<Receipt, AppendError> {
        self.submit(batch)?.wait()
    }

    /// Queues the batch for the writer. It is recorded or refused whether or not the caller waits.
    pub fn submit(&self, batch: Batch) -> Result<PendingAppend, AppendError> {
        let prepared = prepare(batch, &self.inner.artifacts)?;
        self.submit_prepared(prepared)
    }

    fn submit_prepared(&self, prepared: PreparedBatch) -> Result<PendingAppend, AppendError> {
        let Inner { store, feed, writer, derived, indexer, .. } = &*self.inner;
        if let Some(derived) = derived {
            // Here and not when the journal is opened: a process that only reads needs no indexer.
            indexer.start(store, feed, derived);
        }
        writer.submit(WriteRequest::Append(prepared))
    }

    /// Appends a batch of any size in one transaction and waits until it is durable.
    pub fn import(&self, batch: Batch) -> Result<Receipt, AppendError> {
        let mut prepared = prepare_import(batch, &self.inner.artifacts)?;
        // Packing takes as long as writing. Done here, it does not hold the writer up.
        let drafts: Vec<&Draft> = prepared.drafts().map(|draft| &**draft).collect();
        prepared.packed = Some(self.inner.store.pack_all(&drafts));
        self.submit_prepared(prepared)?.wait()
    }

    /// Publishes a transient event to subscribers without recording it.
    pub fn publish_live(&self, draft: Draft) {
        self.inner.feed.publish_live(draft);
    }

    /// Reads the events of a session, page by page.
    pub fn events(&self, id: &SessionId, selection: Selection) -> Result<Events, ReadError> {
        let lineage = Lineage::load(&*self.inner.store.reader()?, id)?;
        Ok(Events::new(Arc::clone(&self.inner.store), lineage, selection))
    }

    /// Returns the event that a session shows under this id.
    pub fn event(&self, session_id: &SessionId, id: EventId) -> Result<Event, ReadError> {
        let not_found =
            || ReadError::EventNotFound { session_id: session_id.clone(), event_id: id };
        let seq = self.seq_of(session_id, id)?.ok_or_else(not_found)?;
        let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::default() }.strict();
        self.events(session_id, selection)?.next().ok_or_else(not_found)?
    }

    /// Returns the `seq` of the event that a session shows under this id.
    pub fn seq_of(&self, session_id: &SessionId, id: EventId) -> Result<Option<u64>, ReadError> {
        let reader = self.inner.store.reader()?;
        Ok(Lineage::load(&*reader, session_id)?.seq_of(&*reader, id)?)
    }

    /// Reads a page of events of all sessions from a position on, oldest first.
    pub fn recorded_from(&self, position: u64) -> Result<Vec<Recorded>, ReadError> {
        let reader = self.inner.store.reader()?;
        // The largest position that SQLite can hold: its integers have a sign.
        let range = SeqRange { from: position, to: u64::MAX >> 1, order: Direction::OldestFirst };
        let page = reader.positions(range)?;
        page.into_iter()
            .map(|stored| match stored.event {
                Ok(event) => Ok(Recorded { position: stored.position, event }),
                Err(broken) => Err(ReadError::Corrupt(Box::new(broken.damage))),
            })
            .collect()
    }

    /// Returns the newest position.
    pub fn tail(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.tail()?)
    }

    /// Follows one session.
    pub fn follow_session(
        &self,
        id: &SessionId,
        from: FollowFrom,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        if !self.exists(id)? {
            return Err(ReadError::SessionNotFound(id.clone()));
        }
        self.subscribe(Some(id.clone()), from, on_lag)
    }

    /// Follows one session that may not have begun yet.
    pub fn follow_when_begun(
        &self,
        id: &SessionId,
        from: FollowFrom,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        self.subscribe(Some(id.clone()), from, on_lag)
    }

    /// Follows all sessions.
    pub fn follow(&self, from: FollowFrom, on_lag: OnLag) -> Result<Subscription, ReadError> {
        self.subscribe(None, from, on_lag)
    }

    fn subscribe(
        &self,
        session: Option<SessionId>,
        from: FollowFrom,
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

    /// Returns the catalogue's row of a session.
    pub fn stat(&self, id: &SessionId) -> Result<SessionInfo, ReadError> {
        let row = self.inner.store.reader()?.session(id)?;
        row.map(SessionInfo::from).ok_or_else(|| ReadError::SessionNotFound(id.clone()))
    }

    pub fn session_count(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.session_count()?)
    }

    /// Lists a page of sessions, newest activity first.
    pub fn sessions(
        &self,
        filter: &SessionFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage, ReadError> {
        catalogue::sessions(&*self.inner.store.reader()?, filter, cursor, limit)
    }

    /// Returns the one session with an id, its own or its provider's, that begins with `prefix`.
    pub fn resolve(&self, prefix: &str) -> Result<SessionInfo, ReadError> {
        catalogue::resolve(&*self.inner.store.reader()?, prefix)
    }

    /// Returns the shortest beginning, of 8 characters or more, that names this session and no other:
    /// of its provider's id, else of its own. [`Journal::resolve`] takes it.
    pub fn short_id(
        &self,
        id: &SessionId,
        provider_session_id: Option<&str>,
    ) -> Result<String, ReadError> {
        catalogue::short_id(&*self.inner.store.reader()?, id, provider_session_id)
    }

    /// Returns the parent of a session; `None` for a root.
    pub fn parent(&self, id: &SessionId) -> Result<Option<Ancestry>, LineageError> {
        lineage::parent(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// Lists the direct descendants of a session, by time, then id.
    pub fn children(&self, id: &SessionId) -> Result<Vec<Ancestry>, LineageError> {
        lineage::children(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// Returns the path from the root to the session, root first.
    pub fn lineage(&self, id: &SessionId) -> Result<Vec<Ancestry>, LineageError> {
        lineage::lineage(&*self.inner.store.reader().map_err(ReadError::from)?, id)
    }

    /// Records the ancestry of sessions, all of it or none.
    pub fn import_ancestry(&self, ancestry: Vec<Ancestry>) -> Result<(), LineageError> {
        let ancestry = lineage::parents_first(ancestry)?;
        let batch = ancestry.into_iter().fold(Batch::observed(), Batch::with_ancestry);
        match self.append(batch) {
            Ok(_) => Ok(()),
            Err(AppendError::Ancestry(error)) => Err(*error),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the checkpoint of a source, which was committed with the events read up to it.
    pub fn source_position(&self, source_id: &str) -> Result<Option<String>, ReadError> {
        Ok(self.inner.store.reader()?.source(source_id)?)
    }

    /// Lists all sources that were ever read, with their checkpoints.
    pub fn sources(&self) -> Result<Vec<(String, String)>, ReadError> {
        let mut sources = Vec::new();
        self.each_source(&mut |source, position| {
            sources.push((source.to_owned(), position.to_owned()));
        })?;
        Ok(sources)
    }

    /// Passes all sources with their checkpoints to `show`, without collecting them.
    pub fn each_source(&self, show: &mut dyn FnMut(&str, &str)) -> Result<(), ReadError> {
        Ok(self.inner.store.reader()?.sources(show)?)
    }

    /// Returns the session and the `seq` under which an event is stored.
    pub fn locate(&self, id: EventId) -> Result<Option<(SessionId, u64)>, ReadError> {
        let reader = self.inner.store.reader()?;
        let Some((number, seq)) = reader.locate(&id)? else { return Ok(None) };
        Ok(reader.session_numbered(number)?.map(|session| (session.id, seq)))
    }

    /// Returns the `seq` of each of these facts in a session, inherited ones included. The time in
    /// an id does not count.
    pub fn find_facts(
        &self,
        session_id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, ReadError> {
        let reader = self.inner.store.reader()?;
        // All ids at once: callers ask for the facts of a whole transcript, and a lookup for each
        // would walk the lineage each time.
        let facts = Lineage::load(&*reader, session_id)?.ids_by_suffix(&*reader)?;
        Ok(ids.iter().map(|id| facts.get(&id.tail()).copied()).collect())
    }

    /// Lists the other sightings of an event.
    pub fn sightings(&self, id: &SessionId, seq: u64) -> Result<Vec<Sighting>, ReadError> {
        let reader = self.inner.store.reader()?;
        // Sightings of an inherited event are kept with the session that recorded it.
        let session = Lineage::load(&*reader, id)?.stored_in(seq);
        let sightings = reader.sightings(session, seq)?.into_iter().map(|row| Sighting {
            source: row.source,
            observed_at: row.observed_at,
            source_position: row.source_position,
            differs: row.differs,
        });
        Ok(sightings.collect())
    }

    /// Returns how far a named consumer has read; 0 for an unknown one.
    pub fn consumer(&self, name: &str) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.consumer(name)?.unwrap_or(0))
    }

    /// Records how far a named consumer has read.
    pub fn advance_consumer(&self, name: &str, position: u64) -> Result<(), AppendError> {
        let request = WriteRequest::AdvanceConsumer { name: name.to_owned(), position };
        self.inner.writer.submit(request)?.wait().map(drop)
    }

    /// Deletes a session for good. Reading its source again does not bring it back.
    pub fn delete(&self, id: &SessionId, at: Time, forks: ForkPolicy) -> Result<(), LineageError> {
        loop {
            // Made outside the writer's transaction: reading what a fork inherits may take long,
            // and other appends go on meanwhile.
            let copies = match forks {
                ForkPolicy::Refuse => Vec::new(),
                ForkPolicy::Copy => self.copy_for_forks(id)?,
            };
            let request = WriteRequest::DeleteSession { session_id: id.clone(), at, copies };
            match self.inner.writer.submit(request)?.wait() {
                Ok(_) => break,
                Err(AppendError::Ancestry(error)) => match *error {
                    // A fork was recorded after the copies were made: make them again.
                    LineageError::HasForks { .. } if forks == ForkPolicy::Copy => {}
                    error => return Err(error),
                },
                Err(AppendError::SessionNotFound(id)) => {
                    return Err(ReadError::SessionNotFound(id).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(derived) = &self.inner.derived {
            // On an error the index forgets the session with its next update.
            let _ = event_search::forget_deleted(&self.corpus(), derived);
        }
        Ok(())
    }

    /// Copies what the forks of a session inherit from it.
    fn copy_for_forks(&self, id: &SessionId) -> Result<Vec<ForkCopy>, ReadError> {
        let forks = dependent_forks(&*self.inner.store.reader()?, id)?;
        let copy = |fork: SessionRow| {
            // Strict: a damaged event must not be copied as what is left of it while its original
            // is deleted.
            let inherited = Selection::all().up_to(fork.base_seq).strict();
            let inherited = self.events(&fork.id, inherited)?.map(|event| {
                let Event { seq, draft } = event?;
                Ok((Arc::new(draft), seq))
            });
            Ok(ForkCopy { fork: fork.id, inherited: inherited.collect::<Result<_, ReadError>>()? })
        };
        forks.into_iter().map(copy).collect()
    }

    /// Returns how many sessions were deleted so far. A cache of sessions is stale when it changes.
    pub fn deletions(&self) -> Result<u64, ReadError> {
        Ok(self.inner.store.reader()?.deletions()?)
    }

    /// Returns when a session was deleted; `None` if it was not.
    pub fn deleted_at(&self, id: &SessionId) -> Result<Option<Time>, ReadError> {
        Ok(self.inner.store.reader()?.tombstone(id)?)
    }

    /// Searches everything that is committed.
    pub fn search(&self, query: &Query) -> Result<SearchPage, ReadError> {
        // Indexing a few batches is quicker than scanning their events.
        for _ in 0..BATCHES_BEFORE_SEARCH {
            if self.index()?.is_none() {
                break;
            }
        }
        event_search::search(&self.corpus(), self.inner.derived.as_deref(), query)
    }

    /// Indexes the next events for search. Returns up to which position, or `None` if nothing was
    /// left.
    ///
    /// The indexer thread calls it while events are appended. An index of a newer program stays
    /// untouched.
    pub fn index(&self) -> Result<Option<u64>, ReadError> {
        let Some(derived) = &self.inner.derived else { return Ok(None) };
        match event_search::index_events(&self.corpus(), derived) {
            Err(error) if error.is_newer_format() => {
                // The backlog is never taken in this process.
                self.inner.feed.state().backlog().clear();
                Ok(None)
            }
            progress => {
                progress.map(|progress| Some(progress.indexed).filter(|_| !progress.is_current))
            }
        }
    }

    /// Whether the index lags so far that a bulk appender should call [`Journal::index`]: events
    /// that leave the backlog unindexed have to be read from the store again.
    pub fn is_index_behind(&self) -> bool {
        self.inner.feed.state().backlog().is_long()
    }

    /// Finds the events of a session that carry a key, oldest first, inherited ones included.
    pub fn find(&self, id: &SessionId, key: &EventKey) -> Result<Vec<Event>, ReadError> {
        let corpus = self.corpus();
        let derived = self.inner.derived.as_deref();
        let found = match event_search::find_by_key(&corpus, derived, id, key) {
            Err(error) if error.is_newer_format() => {
                // The index belongs to a newer program. Reading through the log is slow and still
                // right.
                event_search::find_by_key(&corpus, None, id, key)
            }
            found => found,
        }?;
        let mut seqs: Vec<u64> = found.iter().map(|recorded| recorded.event.seq).collect();
        // By `seq`, not by position: what was copied for a detached fork stands at the end of the
        // log.
        seqs.sort_unstable();
        seqs.dedup();
        // Read again through the session: the index has inherited events under their parent.
        let mut events = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::all() };
            events.extend(self.events(id, selection)?.next().transpose()?);
        }
        Ok(events)
    }

    /// Reads the events of these kinds that a session recorded itself, oldest first. In a long session
    /// the index finds them, so that few of them cost little.
    pub fn own_events(&self, id: &SessionId, kinds: &[Kind]) -> Result<Vec<Event>, ReadError> {
        let info = self.stat(id)?;
        let by_index = match self.inner.derived.as_deref() {
            Some(derived) if info.events > SCANNED_EVENTS_MAX => {
                match event_search::find_by_kind(&self.corpus(), derived, id, kinds) {
                    // The index belongs to a newer program.
                    Err(error) if error.is_newer_format() => None,
                    found => found?,
                }
            }
            _ => None,
        };
        let Some(found) = by_index else {
            let own = Selection::after(info.inherited_seq).of_kinds(kinds.iter().cloned());
            return self.events(id, own)?.collect();
        };
        let mut events: Vec<Event> = found.into_iter().map(|recorded| recorded.event).collect();
        // By `seq`, not by position: what was copied for a detached fork stands at the end of the
        // log.
        events.sort_unstable_by_key(|event| event.seq);
        Ok(events)
    }

    /// Saves a view of a session, replacing the one of this name. A saved view may be lost at any
    /// time; a journal in memory saves none.
    pub fn save_view(
        &self,
        id: &SessionId,
        name: &str,
        up_to_seq: u64,
        bytes: &[u8],
    ) -> Result<(), ReadError> {
        self.save_views(name, &[View { session_id: id, up_to_seq, bytes }])
    }

    /// Saves the views of many sessions in one transaction. Deleted sessions are left out.
    pub fn save_views(&self, name: &str, views: &[View<'_>]) -> Result<(), ReadError> {
        match &self.inner.derived {
            // The check runs inside the transaction: a view of a session that is deleted meanwhile
            // would stay for ever.
            Some(derived) => derived.put_views(name, views, &|id| self.exists(id)),
            None => Ok(()),
        }
    }

    /// Loads the views of all sessions under this name: session, last event covered, bytes.
    pub fn saved_views(&self, name: &str) -> Result<Vec<(SessionId, u64, Vec<u8>)>, ReadError> {
        let Some(derived) = &self.inner.derived else { return Ok(Vec::new()) };
        let views = derived.views(name)?.into_iter();
        let known = views
            .filter_map(|(id, view)| Some((SessionId::new(id).ok()?, view.up_to_seq, view.bytes)));
        Ok(known.collect())
    }

    /// Loads the view of a session under this name, and the last event it covers.
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

    /// Returns the damage that opening found and repaired, for the user.
    pub fn open_findings(&self) -> Vec<CheckFinding> {
        self.inner.store.open_findings()
    }

    /// Verifies everything, and repairs it if `repair` is set.
    pub fn doctor(&self, repair: bool, now: Time) -> Result<Vec<Check>, ReadError> {
        self.doctor_with(repair, now, None)
    }

    /// The same; events that are lost in the journal are taken from `recovery`.
    pub fn doctor_with(
        &self,
        repair: bool,
        now: Time,
        recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<Check>, ReadError> {
        let prepared = recovery.map(|told| PreparedRecovery { told, artifacts: self.artifacts() });
        let recovery = prepared.as_ref().map(|prepared| prepared as &dyn Recovery);
        let mut checks = doctor::check_store(&*self.inner.store, repair, recovery)?;
        let reader = self.inner.store.reader()?;
        checks.push(doctor::check_ancestry(&*reader)?);
        checks.extend(doctor::check_artifacts(&*reader, &self.inner.artifacts, repair, now)?);
        // The next check writes to the other file and may take long; an open read would keep the
        // write-ahead log from shrinking.
        drop(reader);
        if let Some(derived) = &self.inner.derived {
            checks.push(doctor::check_derived(&self.corpus(), derived, repair)?);
        }
        Ok(checks)
    }

    pub fn artifacts(&self) -> &Artifacts {
        &self.inner.artifacts
    }

    /// The original bytes of sources.
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
        // In this order: the writer publishes its last commits, then followers drain the feed and
        // see its end, and the indexer, which waits on the feed, stops.
        let has_written = self.writer.close();
        self.feed.close();
        self.indexer.join();
        if has_written {
            // Accepted batches are durable already. The checkpoint only makes the next opening
            // quicker, so its error is ignored.
            let _ = self.store.checkpoint();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens a store of files. Each of its commits is synced, so it refuses to promise less for more
/// speed.
fn open_files(dir: &Path, options: &Options) -> Result<Arc<dyn Store>, OpenError> {
    if options.durability == Durability::Relaxed {
        let capability = "relaxed durability";
        return Err(OpenError::Unsupported { store: "files", capability });
    }
    Ok(Arc::new(FilesStore::open_or_create(dir)?))
}

/// Whether nothing is left of the record in a folder, although events were recorded: originals are
/// there, which are stored with them.
fn is_record_lost(dir: &Path) -> Result<bool, OpenError> {
    let is_lost = SqliteStore::is_empty_at(dir) && !FilesStore::is_at(dir);
    Ok(is_lost && !originals_at(dir).is_empty()?)
}

fn originals_at(dir: &Path) -> Originals {
    Originals::in_folder(dir.join("originals"))
}

/// What a recovery tells, as it is recorded: within the limits, and large texts as artifacts.
struct PreparedRecovery<'a> {
    told: &'a dyn Recovery,
    artifacts: &'a Artifacts,
}

impl Recovery for PreparedRecovery<'_> {
    fn events_of(&self, session: &SessionId) -> Vec<Draft> {
        let told = self.told.events_of(session).into_iter();
        // One by one: an event that is refused must not cost the others.
        let prepared = told.filter_map(|draft| {
            let batch = Batch::observed().with_all([draft]);
            prepare_import(batch, self.artifacts)
                .ok()?
                .drafts()
                .next()
                .map(|draft| (**draft).clone())
        });
        prepared.collect()
    }
}

/// Returns the store of the journal in a folder.
fn kind_at(dir: &Path) -> Option<StoreKind> {
    let sqlite = SqliteStore::is_at(dir).then_some(StoreKind::Sqlite);
    sqlite.or_else(|| FilesStore::is_at(dir).then_some(StoreKind::Files))
}

/// What happens to the forks of a deleted session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForkPolicy {
    /// The deletion is refused while there are forks.
    Refuse,
    /// Each gets its own copy of what it inherits, in the same transaction.
    Copy,
}

#[cfg(test)]
mod tests;
