//! The rules of a commit: what a batch becomes on top of what is recorded.
//!
//! A [`CommitPlan`] works out numbers, duplicates, source positions, ancestry and the catalogue
//! while the store's write transaction is open. The store then writes the resulting
//! [`ChangeSet`] whole. A refused batch leaves no trace and does not harm the other batches of
//! its commit.

mod cache; // what the writer remembers between commits
mod duplicate; // is this fact recorded already
mod parent; // where a session comes from

use std::collections::HashMap;
use std::sync::Arc;

use event::payload::SessionStarted;
use event::{Draft, SessionId, Time};

use crate::batch::{AppendMode, AppendOutcome, EventReceipt, Receipt};
use crate::id_cache::{IdSuffix, IdSuffixes};
use crate::prepare::{NewEvent, PreparedBatch, PreparedItem};
use crate::read::Lineage;
use crate::store::{
    ChangeSet, EventRow, PackedEvent, SessionRow, SightingRow, SourceRow, Store, StoreReader,
};
use crate::{AppendError, LineageError, StorageError};

pub(crate) use cache::WriterCache;

/// The changes that a group of batches adds up to.
///
/// Batches are staged one after the other. Each sees the ones before it as if they were recorded.
pub(crate) struct CommitPlan<'a> {
    reader: &'a dyn StoreReader,
    cache: &'a mut WriterCache,
    /// Look every id up in all sessions. Set on the second try, after the store has found that an
    /// id of the group belongs to another session.
    check_ids: bool,
    /// All but the events.
    changes: ChangeSet,
    events: Vec<StagedEvent>,
    /// Indexes into `changes.sessions`.
    sessions: HashMap<SessionId, usize>,
    /// Indexes into `events`, by session number and id suffix.
    staged_ids: HashMap<(u32, IdSuffix), usize>,
    /// What forks inherit, by session number; `None` where an ancestor is not committed yet.
    lineages: HashMap<u32, Option<Lineage>>,
    tail: u64,
    last_number: u32,
}

/// A new event at its place in the log, before its text is packed.
struct StagedEvent {
    position: u64,
    session: u32,
    seq: u64,
    draft: Arc<Draft>,
}

/// The events that a fork shows of a session that is about to be deleted.
pub(crate) struct ForkCopy {
    pub fork: SessionId,
    pub inherited: Vec<(Arc<Draft>, u64)>,
}

/// Lists the forks that show events of a session as their own.
pub(crate) fn dependent_forks(
    reader: &dyn StoreReader,
    session_id: &SessionId,
) -> Result<Vec<SessionRow>, StorageError> {
    let mut children = reader.children(session_id)?;
    // A child run or a resumed session names a parent too, but shows none of its events: it
    // survives the deletion as it is.
    children.retain(|row| row.base_seq > 0);
    Ok(children)
}

/// One batch on trial. It becomes part of the plan only if every item passes, so that a refusal
/// in the middle needs no undo.
#[derive(Default)]
struct StagedBatch {
    sessions: HashMap<SessionId, SessionRow>,
    events: Vec<StagedEvent>,
    /// Indexes into `events`, by session number and id suffix.
    staged_ids: HashMap<(u32, IdSuffix), usize>,
    sightings: Vec<SightingRow>,
    sources: Vec<SourceRow>,
    last_number: u32,
}

impl<'a> CommitPlan<'a> {
    pub(crate) fn new(
        reader: &'a dyn StoreReader,
        cache: &'a mut WriterCache,
        check_ids: bool,
    ) -> Result<CommitPlan<'a>, AppendError> {
        // The write transaction is open, so no other process can commit between this check and the
        // commit itself: from here on the cache is what the store has.
        cache.catch_up(reader)?;
        let tail = cache.tail;
        let last_number = reader.last_number()?;
        Ok(CommitPlan {
            reader,
            cache,
            check_ids,
            changes: ChangeSet::default(),
            events: Vec::new(),
            sessions: HashMap::new(),
            staged_ids: HashMap::new(),
            lineages: HashMap::new(),
            tail,
            last_number,
        })
    }

    /// Returns what the store has to write.
    ///
    /// `packed_ahead` is what the events of the only batch were packed as before the commit began.
    /// It is used only if all of them turned out to be new.
    pub(crate) fn into_changes(
        self,
        store: &dyn Store,
        packed_ahead: Option<&[PackedEvent]>,
    ) -> ChangeSet {
        let CommitPlan { mut changes, events, .. } = self;
        // Fewer events are left if the batch repeated recorded ones, and then the events no longer
        // pair up with what was packed.
        let packed = match packed_ahead.filter(|ahead| ahead.len() == events.len()) {
            Some(ahead) => ahead.to_vec(),
            None => {
                // Packing waits until duplicates are known: an event that is recorded already
                // would take room in a block beside the new ones.
                let drafts: Vec<&Draft> = events.iter().map(|staged| &*staged.draft).collect();
                store.pack_all(&drafts)
            }
        };
        assert_eq!(packed.len(), events.len(), "every event is packed");
        let rows = events.into_iter().zip(packed).map(|(staged, packed)| {
            let StagedEvent { position, session, seq, draft } = staged;
            EventRow { position, session, seq, draft, packed }
        });
        changes.events = rows.collect();
        changes
    }

    /// Adds a batch to the plan, or refuses it and leaves the plan as it was.
    pub(crate) fn stage_batch(&mut self, batch: &PreparedBatch) -> Result<Receipt, AppendError> {
        let mut staged = StagedBatch { last_number: self.last_number, ..StagedBatch::default() };
        // The cheap refusals come first: a batch that has lost a race stops before any event is
        // compared.
        self.check_expected_tails(&staged, batch)?;
        self.move_source(&mut staged, batch)?;
        self.prefetch_ids(&staged, batch)?;
        let mut events = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            match item {
                PreparedItem::Event(new) => {
                    events.push(self.stage_event(&mut staged, batch, new)?);
                }
                PreparedItem::Ancestry(ancestry) => self.import_ancestry(&mut staged, ancestry)?,
            }
        }
        // Only now, because an import may name a parent that one of its later items brings.
        self.require_parents(&staged, batch)?;
        self.accept_batch(staged);
        Ok(Receipt { events })
    }

    /// Records how far a named consumer has read.
    pub(crate) fn advance_consumer(&mut self, name: &str, position: u64) {
        self.changes.consumers.push((name.to_owned(), position));
    }

    /// Removes a session and gives each fork that inherits from it its own copy.
    ///
    /// Refuses if a fork has no copy: it was recorded after the caller made the copies, and the
    /// caller has to make them again.
    pub(crate) fn delete_session(
        &mut self,
        session_id: &SessionId,
        at: Time,
        copies: &[ForkCopy],
    ) -> Result<(), AppendError> {
        // An empty batch stands for "nothing staged": the writer commits a deletion alone.
        let row = self
            .session_row(&StagedBatch::default(), session_id)?
            .ok_or_else(|| AppendError::SessionNotFound(session_id.clone()))?;
        let forks = dependent_forks(self.reader, session_id)?;
        let is_copied = |fork: &SessionRow| copies.iter().any(|copy| copy.fork == fork.id);
        if !forks.iter().all(is_copied) {
            let forks = forks.into_iter().map(|fork| fork.id).collect();
            return Err(lineage_error(LineageError::HasForks { session_id: row.id, forks }));
        }
        for fork in forks {
            let inherited = copies.iter().filter(|copy| copy.fork == fork.id);
            self.detach_fork(fork.clone(), inherited.flat_map(|copy| &copy.inherited));
        }
        self.changes.deleted.push((row, at));
        Ok(())
    }

    /// Stores what a fork inherits as its own events, under the ids the fork shows.
    fn detach_fork<'c>(
        &mut self,
        mut fork: SessionRow,
        inherited: impl Iterator<Item = &'c (Arc<Draft>, u64)>,
    ) {
        // New positions at the end of the log, old numbers within the fork: a follower of the fork
        // that has delivered these `seq` skips them.
        for (draft, seq) in inherited {
            self.tail += 1;
            self.events.push(StagedEvent {
                position: self.tail,
                session: fork.number,
                seq: *seq,
                draft: Arc::clone(draft),
            });
        }
        // Reading the fork no longer looks for its parent.
        fork.base_seq = 0;
        self.put_session_row(fork);
    }

    /// Returns a session as it is after everything staged so far.
    fn session_row(
        &mut self,
        staged: &StagedBatch,
        session_id: &SessionId,
    ) -> Result<Option<SessionRow>, AppendError> {
        // Newest state first: this batch, the batches before it in this commit, the cache, the
        // store.
        if let Some(row) = staged.sessions.get(session_id) {
            return Ok(Some(row.clone()));
        }
        if let Some(index) = self.sessions.get(session_id) {
            return Ok(Some(self.changes.sessions[*index].clone()));
        }
        if let Some(row) = self.cache.sessions.get(session_id) {
            return Ok(Some(row.clone()));
        }
        let row = self.reader.session(session_id)?;
        if let Some(row) = &row {
            self.cache.sessions.insert(session_id.clone(), row.clone());
        }
        Ok(row)
    }

    fn put_session_row(&mut self, row: SessionRow) {
        // One row per session and commit: the store writes each of them, and only the last is true.
        match self.sessions.get(&row.id) {
            Some(index) => self.changes.sessions[*index] = row,
            None => {
                self.sessions.insert(row.id.clone(), self.changes.sessions.len());
                self.changes.sessions.push(row);
            }
        }
    }

    /// Makes a batch that passed part of the plan.
    fn accept_batch(&mut self, staged: StagedBatch) {
        // Indexes of the batch count from its own first event.
        let offset = self.events.len();
        self.tail += staged.events.len() as u64;
        self.staged_ids
            .extend(staged.staged_ids.into_iter().map(|(key, index)| (key, index + offset)));
        self.events.extend(staged.events);
        self.changes.sightings.extend(staged.sightings);
        self.changes.sources.extend(staged.sources);
        for row in staged.sessions.into_values() {
            self.put_session_row(row);
        }
        self.last_number = staged.last_number;
    }

    /// Refuses the batch unless every session ends where the caller expects it to.
    fn check_expected_tails(
        &mut self,
        staged: &StagedBatch,
        batch: &PreparedBatch,
    ) -> Result<(), AppendError> {
        for tail in &batch.expected {
            let row = self.session_row(staged, &tail.session_id)?;
            let actual = row.as_ref().map_or(0, |row| row.tail_seq);
            // The number alone is not enough for a batch that was submitted before the one it
            // builds on was answered: another writer may have filled the same `seq` with another
            // event.
            let is_event_there = match (row, tail.event_id) {
                (Some(row), Some(id)) => self.seq_of_event(&row, id)? == Some(tail.seq),
                (None, Some(_)) => false,
                (_, None) => true,
            };
            if actual != tail.seq || !is_event_there {
                let (session_id, expected) = (tail.session_id.clone(), tail.seq);
                return Err(AppendError::Conflict { session_id, expected, actual });
            }
        }
        Ok(())
    }

    /// Moves the position of the batch's source: compare and set, so that of two processes that
    /// read one source only the first records what it read.
    fn move_source(
        &mut self,
        staged: &mut StagedBatch,
        batch: &PreparedBatch,
    ) -> Result<(), AppendError> {
        let Some(source) = &batch.source else { return Ok(()) };
        // An earlier batch of this commit may have moved the source; its last move counts.
        let moved = self.changes.sources.iter().rev().find(|row| row.source_id == source.source_id);
        let actual = match moved {
            Some(row) => Some(row.position.clone()),
            None => self.reader.source(&source.source_id)?,
        };
        if actual != source.from {
            return Err(AppendError::SourceMoved {
                source_id: source.source_id.clone(),
                expected: source.from.clone(),
                actual,
            });
        }
        staged
            .sources
            .push(SourceRow { source_id: source.source_id.clone(), position: source.to.clone() });
        Ok(())
    }

    /// Looks all ids of the batch up at once where not all ids of a session are cached: one pass
    /// over a long session instead of one lookup per event.
    fn prefetch_ids(
        &mut self,
        staged: &StagedBatch,
        batch: &PreparedBatch,
    ) -> Result<(), AppendError> {
        // A session without a cached row counts as not cached: the number that leads to its ids is
        // in the row.
        let is_cached = |session_id: &SessionId| {
            let row = self.cache.sessions.get(session_id);
            row.is_some_and(|row| self.cache.ids.has_all(row.number))
        };
        let mut sessions: HashMap<&SessionId, IdSuffixes> = HashMap::new();
        for item in &batch.items {
            if let PreparedItem::Event(NewEvent { draft, .. }) = item
                && !is_cached(&draft.session_id)
            {
                sessions.entry(&draft.session_id).or_default().insert(draft.id.tail());
            }
        }
        for (session_id, suffixes) in sessions {
            // Fills `cache.sessions` for a session that is stored.
            self.session_row(staged, session_id)?;
            if let Some(SessionRow { number, tail_seq, .. }) = self.cache.sessions.get(session_id) {
                self.cache.ids.prefetch(self.reader, *number, *tail_seq, suffixes)?;
            }
        }
        Ok(())
    }

    /// Gives a new event its numbers, or answers with those of the recorded event it repeats.
    fn stage_event(
        &mut self,
        staged: &mut StagedBatch,
        batch: &PreparedBatch,
        new: &NewEvent,
    ) -> Result<EventReceipt, AppendError> {
        let draft = &*new.draft;
        let parent = draft.readable::<SessionStarted>().and_then(|started| started.parent);
        // An observed event happened whatever it names as its parent, so these two refusals are for
        // hosts only.
        let parent = parent.filter(|_| batch.mode == AppendMode::Hosted);
        if parent.as_ref().is_some_and(|parent| parent.session_id == draft.session_id) {
            return Err(AppendError::SameSession(draft.session_id.clone()));
        }
        // The row is taken out of the map and put back: cloning it for each event would copy a
        // dozen strings.
        let taken = staged.sessions.remove(&draft.session_id);
        let was_staged = taken.is_some();
        let known = match taken {
            Some(row) => Some(row),
            None => self.session_row(staged, &draft.session_id)?,
        };
        let mut row = match known {
            Some(row) => row,
            None => {
                // Asked only for an unknown session: a deleted one has no row, and an existing one
                // was not deleted.
                if let Some(at) = self.reader.tombstone(&draft.session_id)? {
                    if batch.mode == AppendMode::Hosted {
                        return Err(AppendError::Deleted(draft.session_id.clone(), at));
                    }
                    // A source that is read again must not bring a deleted session back.
                    let outcome = AppendOutcome::Ignored;
                    return Ok(EventReceipt { id: draft.id, seq: 0, position: 0, outcome });
                }
                self.new_session_row(staged, batch.mode, draft)?
            }
        };
        if let Some(receipt) = self.find_duplicate(staged, batch, new, &row)? {
            // A row that this batch has not changed is left out: a duplicate changes no session.
            if was_staged {
                staged.sessions.insert(row.id.clone(), row);
            }
            return Ok(receipt);
        }
        // Only the first event of a session may name its parent: events behind it are numbered
        // already, and a fork numbers from the point it was forked at.
        if parent.is_some() && row.tail_seq > row.base_seq {
            return Err(AppendError::SessionExists(row.id));
        }
        let next = row.tail_seq + 1;
        // A gap or a repeat would make the numbers of an imported history mean other events than in
        // the journal it came from.
        if let Some(found) = new.seq.filter(|seq| *seq != next) {
            let session_id = draft.session_id.clone();
            return Err(AppendError::BadSeq { session_id, expected: next, found });
        }
        // `self.tail` counts accepted batches only.
        let position = self.tail + staged.events.len() as u64 + 1;
        row.apply_event(draft, next, position, new.size);
        staged.staged_ids.insert((row.number, draft.id.tail()), staged.events.len());
        let (session, id) = (row.number, draft.id);
        let draft = Arc::clone(&new.draft);
        staged.events.push(StagedEvent { position, session, seq: next, draft });
        staged.sessions.insert(row.id.clone(), row);
        Ok(EventReceipt { id, seq: next, position, outcome: AppendOutcome::Recorded })
    }
}

fn lineage_error(error: LineageError) -> AppendError {
    AppendError::Ancestry(Box::new(error))
}
