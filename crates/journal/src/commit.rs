//! The rules of a commit: what a batch becomes on top of what is recorded.
//!
//! Works out numbers, duplicates, source positions, ancestry and the catalogue, inside the right
//! to commit that a store gave. Stores then write the result whole. A refused batch leaves no
//! trace and does not harm its neighbours.

use std::collections::HashMap;
use std::sync::Arc;

use event::payload::{SessionMode, SessionParent, SessionStarted, SettingsChanged};
use event::{Cost, Draft, EventId, Kind, SessionId, Time};

use crate::batch::{Ancestry, Appended, Door, Receipt, Recording};
use crate::intake::{Item, NewEvent, Prepared};
use crate::known::{KnownIds, Tail, Tails};
use crate::limit::{GENERATIONS_MAX, KNOWN_SESSIONS_MAX};
use crate::read::Lineage;
use crate::store::{
    Changes, Direction, EventRow, Packed, ParentRow, Reader, SeqRange, SessionRow, SightingRow,
    SourceRow, Store, Stored,
};
use crate::{AppendError, LineageError, ReadError, StorageError};

/// What the writer remembers between commits. All of it can be read again from the store.
#[derive(Default)]
pub(crate) struct Memory {
    tail: u64,
    deletions: u64,
    sessions: HashMap<SessionId, SessionRow>,
    known: KnownIds,
}

impl Memory {
    /// Forgets what another process may have changed since the last commit here.
    pub(crate) fn catch_up(&mut self, reader: &dyn Reader) -> Result<(), AppendError> {
        let (tail, deletions) = (reader.tail()?, reader.deletions()?);
        if (tail, deletions) != (self.tail, self.deletions) {
            self.sessions.clear();
            (self.tail, self.deletions) = (tail, deletions);
        }
        Ok(())
    }

    /// Takes over what was just committed.
    pub(crate) fn committed(&mut self, changes: &Changes) {
        for row in &changes.events {
            self.known.add(row.session, &row.draft.id, row.seq);
            self.tail = self.tail.max(row.position);
        }
        if self.sessions.len() > KNOWN_SESSIONS_MAX {
            self.sessions.clear();
        }
        for row in &changes.sessions {
            self.sessions.insert(row.id.clone(), row.clone());
        }
        for (row, _) in &changes.deleted {
            self.sessions.remove(&row.id);
            self.known.forget(row.number);
            self.deletions += 1;
        }
    }

    /// Forgets everything: after a failed commit nothing here can be trusted.
    pub(crate) fn clear(&mut self) {
        (self.tail, self.deletions) = (0, 0);
        self.sessions.clear();
        self.known.clear();
    }
}

/// The changes a group of batches adds up to.
pub(crate) struct Plan<'a> {
    reader: &'a dyn Reader,
    memory: &'a mut Memory,
    /// Look every id up, because one of them is known to be taken by another session.
    check_ids: bool,
    /// All but the events.
    changes: Changes,
    events: Vec<Staged>,
    /// Places in `changes` and `events`, by key.
    sessions: HashMap<SessionId, usize>,
    fresh: HashMap<(u32, Tail), usize>,
    /// What forks stand on, by number; `None` where an ancestor is not committed yet.
    lineages: HashMap<u32, Option<Lineage>>,
    tail: u64,
    last_number: u32,
}

/// A new event at its place in the log, before its text is packed.
struct Staged {
    position: u64,
    session: u32,
    seq: u64,
    draft: Arc<Draft>,
}

/// What a fork shows of a session that is about to go.
pub(crate) struct Copied {
    pub fork: SessionId,
    pub inherited: Vec<(Arc<Draft>, u64)>,
}

/// The forks that show events of a session as their own.
pub(crate) fn heirs(
    reader: &dyn Reader,
    session_id: &SessionId,
) -> Result<Vec<SessionRow>, StorageError> {
    let mut children = reader.children(session_id)?;
    children.retain(|row| row.base_seq > 0);
    Ok(children)
}

/// An event that is recorded already.
struct Found {
    /// The number of the session that stores it.
    session: u32,
    seq: u64,
    position: u64,
    first: Draft,
}

impl Found {
    fn of(stored: Stored) -> Option<Found> {
        let Stored { session, seq, position, event } = stored;
        Some(Found { session, seq, position, first: event.ok()?.draft })
    }

    fn staged(staged: &Staged) -> Found {
        let Staged { session, seq, position, .. } = *staged;
        Found { session, seq, position, first: Draft::clone(&staged.draft) }
    }
}

/// One batch on trial: becomes part of the plan only if all of it passes.
#[derive(Default)]
struct Trial {
    sessions: HashMap<SessionId, SessionRow>,
    events: Vec<Staged>,
    fresh: HashMap<(u32, Tail), usize>,
    sightings: Vec<SightingRow>,
    sources: Vec<SourceRow>,
    last_number: u32,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        reader: &'a dyn Reader,
        memory: &'a mut Memory,
        check_ids: bool,
    ) -> Result<Plan<'a>, AppendError> {
        memory.catch_up(reader)?;
        let tail = memory.tail;
        let last_number = reader.last_number()?;
        Ok(Plan {
            reader,
            memory,
            check_ids,
            changes: Changes::default(),
            events: Vec::new(),
            sessions: HashMap::new(),
            fresh: HashMap::new(),
            lineages: HashMap::new(),
            tail,
            last_number,
        })
    }

    /// What is to be written. Texts are packed only now, because what turned out to be recorded
    /// already would take room beside what is new. `ahead` is what the events of the only batch
    /// were packed as before, and is of use if all of them are new.
    pub(crate) fn into_changes(self, store: &dyn Store, ahead: Option<&[Packed]>) -> Changes {
        let Plan { mut changes, events, .. } = self;
        let packed = match ahead.filter(|ahead| ahead.len() == events.len()) {
            Some(ahead) => ahead.to_vec(),
            None => {
                let drafts: Vec<&Draft> = events.iter().map(|staged| &*staged.draft).collect();
                store.pack_all(&drafts)
            }
        };
        assert_eq!(packed.len(), events.len(), "every event is packed");
        let rows = events.into_iter().zip(packed).map(|(staged, packed)| {
            let Staged { position, session, seq, draft } = staged;
            EventRow { position, session, seq, draft, packed }
        });
        changes.events = rows.collect();
        changes
    }

    /// Adds a batch, or refuses it and stays as it was.
    pub(crate) fn add(&mut self, batch: &Prepared) -> Result<Receipt, AppendError> {
        let mut trial = Trial { last_number: self.last_number, ..Trial::default() };
        for tail in &batch.expected {
            let row = self.session(&trial, &tail.session_id)?;
            let actual = row.as_ref().map_or(0, |row| row.tail_seq);
            let is_there = match (row, tail.event_id) {
                (Some(row), Some(id)) => self.stands_at(&row, id)? == Some(tail.seq),
                (None, Some(_)) => false,
                (_, None) => true,
            };
            if actual != tail.seq || !is_there {
                let (session_id, expected) = (tail.session_id.clone(), tail.seq);
                return Err(AppendError::Conflict { session_id, expected, actual });
            }
        }
        self.move_source(&mut trial, batch)?;
        self.look_ahead(&trial, batch)?;
        let mut events = Vec::with_capacity(batch.items.len());
        for item in &batch.items {
            match item {
                Item::Event(new) => events.push(self.add_event(&mut trial, batch, new)?),
                Item::Ancestry(ancestry) => self.import_ancestry(&mut trial, ancestry)?,
            }
        }
        self.check_parents(&trial, batch)?;
        self.accept(trial);
        Ok(Receipt { events })
    }

    /// Records how far a named consumer has got.
    pub(crate) fn advance(&mut self, name: &str, position: u64) {
        self.changes.consumers.push((name.to_owned(), position));
    }

    /// Removes a session and gives each fork that stands on it its own copy. A fork without a
    /// copy keeps the session: it came after the copies were made.
    pub(crate) fn delete(
        &mut self,
        session_id: &SessionId,
        at: Time,
        copies: &[Copied],
    ) -> Result<(), AppendError> {
        let row = self
            .session(&Trial::default(), session_id)?
            .ok_or_else(|| AppendError::SessionNotFound(session_id.clone()))?;
        let heirs = heirs(self.reader, session_id)?;
        let is_copied = |heir: &SessionRow| copies.iter().any(|copy| copy.fork == heir.id);
        if !heirs.iter().all(is_copied) {
            let forks = heirs.into_iter().map(|heir| heir.id).collect();
            return Err(lineage(LineageError::HasForks { session_id: row.id, forks }));
        }
        for heir in heirs {
            let inherited = copies.iter().filter(|copy| copy.fork == heir.id);
            self.detach(heir.clone(), inherited.flat_map(|copy| &copy.inherited));
        }
        self.changes.deleted.push((row, at));
        Ok(())
    }

    /// Makes what a fork inherits its own, under the ids it shows.
    fn detach<'c>(
        &mut self,
        mut fork: SessionRow,
        inherited: impl Iterator<Item = &'c (Arc<Draft>, u64)>,
    ) {
        for (draft, seq) in inherited {
            self.tail += 1;
            self.events.push(Staged {
                position: self.tail,
                session: fork.number,
                seq: *seq,
                draft: Arc::clone(draft),
            });
        }
        fork.base_seq = 0;
        self.put_session(fork);
    }

    fn session(
        &mut self,
        trial: &Trial,
        session_id: &SessionId,
    ) -> Result<Option<SessionRow>, AppendError> {
        if let Some(row) = trial.sessions.get(session_id) {
            return Ok(Some(row.clone()));
        }
        if let Some(place) = self.sessions.get(session_id) {
            return Ok(Some(self.changes.sessions[*place].clone()));
        }
        if let Some(row) = self.memory.sessions.get(session_id) {
            return Ok(Some(row.clone()));
        }
        let row = self.reader.session(session_id)?;
        if let Some(row) = &row {
            self.memory.sessions.insert(session_id.clone(), row.clone());
        }
        Ok(row)
    }

    fn put_session(&mut self, row: SessionRow) {
        match self.sessions.get(&row.id) {
            Some(place) => self.changes.sessions[*place] = row,
            None => {
                self.sessions.insert(row.id.clone(), self.changes.sessions.len());
                self.changes.sessions.push(row);
            }
        }
    }

    fn accept(&mut self, trial: Trial) {
        let offset = self.events.len();
        self.tail += trial.events.len() as u64;
        self.fresh.extend(trial.fresh.into_iter().map(|(key, place)| (key, place + offset)));
        self.events.extend(trial.events);
        self.changes.sightings.extend(trial.sightings);
        self.changes.sources.extend(trial.sources);
        for row in trial.sessions.into_values() {
            self.put_session(row);
        }
        self.last_number = trial.last_number;
    }

    /// Compare and set: two readers of one source record it once.
    fn move_source(&mut self, trial: &mut Trial, batch: &Prepared) -> Result<(), AppendError> {
        let Some(source) = &batch.source else { return Ok(()) };
        let staged =
            self.changes.sources.iter().rev().find(|row| row.source_id == source.source_id);
        let actual = match staged {
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
        trial
            .sources
            .push(SourceRow { source_id: source.source_id.clone(), position: source.to.clone() });
        Ok(())
    }

    /// Lets long sessions be looked through once for all events of a batch.
    fn look_ahead(&mut self, trial: &Trial, batch: &Prepared) -> Result<(), AppendError> {
        let is_at_hand = |session_id: &SessionId| {
            let row = self.memory.sessions.get(session_id);
            row.is_some_and(|row| self.memory.known.has(row.number))
        };
        let mut sessions: HashMap<&SessionId, Tails> = HashMap::new();
        for item in &batch.items {
            if let Item::Event(NewEvent { draft, .. }) = item
                && !is_at_hand(&draft.session_id)
            {
                sessions.entry(&draft.session_id).or_default().insert(draft.id.tail());
            }
        }
        for (session_id, tails) in sessions {
            self.session(trial, session_id)?;
            if let Some(SessionRow { number, tail_seq, .. }) = self.memory.sessions.get(session_id)
            {
                self.memory.known.look_for(self.reader, *number, *tail_seq, tails)?;
            }
        }
        Ok(())
    }

    fn add_event(
        &mut self,
        trial: &mut Trial,
        batch: &Prepared,
        new: &NewEvent,
    ) -> Result<Appended, AppendError> {
        let draft = &*new.draft;
        let parent = draft.readable::<SessionStarted>().and_then(|started| started.parent);
        let parent = parent.filter(|_| batch.door == Door::Hosted);
        if parent.as_ref().is_some_and(|parent| parent.session_id == draft.session_id) {
            return Err(AppendError::SameSession(draft.session_id.clone()));
        }
        // Taken out and put back: to copy it for each event would be to copy a dozen texts.
        let staged = trial.sessions.remove(&draft.session_id);
        let is_staged = staged.is_some();
        let known = match staged {
            Some(row) => Some(row),
            None => self.session(trial, &draft.session_id)?,
        };
        let mut row = match known {
            Some(row) => row,
            None => {
                if let Some(at) = self.reader.tombstone(&draft.session_id)? {
                    if batch.door == Door::Hosted {
                        return Err(AppendError::Deleted(draft.session_id.clone(), at));
                    }
                    let outcome = Recording::Ignored;
                    return Ok(Appended { id: draft.id, seq: 0, position: 0, outcome });
                }
                self.new_session(trial, batch.door, draft)?
            }
        };
        if let Some(appended) = self.recognise(trial, batch, new, &row)? {
            if is_staged {
                trial.sessions.insert(row.id.clone(), row);
            }
            return Ok(appended);
        }
        // Where a session comes from is said by its first event.
        if parent.is_some() && row.tail_seq > row.base_seq {
            return Err(AppendError::SessionExists(row.id));
        }
        let next = row.tail_seq + 1;
        if let Some(found) = new.seq.filter(|seq| *seq != next) {
            let session_id = draft.session_id.clone();
            return Err(AppendError::BadSeq { session_id, expected: next, found });
        }
        let position = self.tail + trial.events.len() as u64 + 1;
        row.take(draft, next, position, new.size);
        trial.fresh.insert((row.number, draft.id.tail()), trial.events.len());
        let (session, id) = (row.number, draft.id);
        trial.events.push(Staged { position, session, seq: next, draft: Arc::clone(&new.draft) });
        trial.sessions.insert(row.id.clone(), row);
        Ok(Appended { id, seq: next, position, outcome: Recording::Recorded })
    }

    /// Finds out whether the fact is recorded already, and what to make of the second telling.
    fn recognise(
        &mut self,
        trial: &mut Trial,
        batch: &Prepared,
        new: &NewEvent,
        row: &SessionRow,
    ) -> Result<Option<Appended>, AppendError> {
        let draft = &*new.draft;
        let Some(Found { session, seq, position, first }) = self.find(trial, draft, row)? else {
            return Ok(None);
        };
        let differs = !first.has_same_content(draft);
        // An event that brings its number belongs to a history: it cannot be another session's.
        let is_misplaced = new.seq.is_some() && first.session_id != draft.session_id;
        if (differs && batch.door == Door::Hosted) || is_misplaced {
            let session_id = first.session_id.clone();
            return Err(AppendError::DuplicateId { id: draft.id, session_id, seq });
        }
        let is_other_telling =
            differs || first.source != draft.source || first.observed_at != draft.observed_at;
        if batch.door == Door::Observed && is_other_telling {
            trial.sightings.push(SightingRow {
                session,
                seq,
                source: draft.source.as_str().to_owned(),
                observed_at: draft.observed_at,
                source_position: batch.source.as_ref().map(|source| source.to.clone()),
                differs,
            });
        }
        let outcome = Recording::AlreadyRecorded { differs };
        Ok(Some(Appended { id: first.id, seq, position, outcome }))
    }

    fn find(
        &mut self,
        trial: &Trial,
        draft: &Draft,
        row: &SessionRow,
    ) -> Result<Option<Found>, AppendError> {
        let key = (row.number, draft.id.tail());
        let staged = trial
            .fresh
            .get(&key)
            .map(|place| &trial.events[*place])
            .or_else(|| self.fresh.get(&key).map(|place| &self.events[*place]));
        if let Some(staged) = staged {
            return Ok(Some(Found::staged(staged)));
        }
        let stored_tail = self.memory.sessions.get(&row.id).map_or(0, |row| row.tail_seq);
        if stored_tail > row.base_seq {
            let found = self.memory.known.find(self.reader, row.number, stored_tail, &draft.id)?;
            if let Some(seq) = found
                && let Some(found) = self.read_one(row.number, seq)?
            {
                return Ok(Some(found));
            }
        }
        if let Some(found) = self.find_inherited(row, &draft.id)? {
            return Ok(Some(found));
        }
        if self.check_ids { self.find_elsewhere(trial, draft) } else { Ok(None) }
    }

    /// Where a session shows an event.
    fn stands_at(&mut self, row: &SessionRow, id: EventId) -> Result<Option<u64>, AppendError> {
        if let Some(place) = self.fresh.get(&(row.number, id.tail())) {
            return Ok(Some(self.events[*place].seq));
        }
        let stored_tail = self.memory.sessions.get(&row.id).map_or(0, |row| row.tail_seq);
        match self.memory.known.find(self.reader, row.number, stored_tail, &id)? {
            Some(seq) => Ok(Some(seq)),
            None => Ok(self.find_inherited(row, &id)?.map(|found| found.seq)),
        }
    }

    /// Looks for this id in all sessions, and in what comes before it in this commit.
    fn find_elsewhere(&self, trial: &Trial, draft: &Draft) -> Result<Option<Found>, AppendError> {
        let mut staged = self.events.iter().chain(&trial.events);
        if let Some(staged) = staged.find(|staged| staged.draft.id == draft.id) {
            return Ok(Some(Found::staged(staged)));
        }
        let Some((number, seq)) = self.reader.locate(&draft.id)? else { return Ok(None) };
        if let Some(found) = self.read_one(number, seq)? {
            return Ok(Some(found));
        }
        // What cannot be read cannot be compared, and its id stays taken.
        let owner = self.reader.session_numbered(number)?;
        let session_id = owner.map_or_else(|| draft.session_id.clone(), |row| row.id);
        Err(AppendError::DuplicateId { id: draft.id, session_id, seq })
    }

    fn read_one(&self, number: u32, seq: u64) -> Result<Option<Found>, AppendError> {
        let range = SeqRange { from: seq, to: seq, order: Direction::OldestFirst };
        Ok(self.reader.events(number, range)?.pop().and_then(Found::of))
    }

    /// Looks for an event that a fork shows under this id and never stores.
    fn find_inherited(
        &mut self,
        row: &SessionRow,
        id: &EventId,
    ) -> Result<Option<Found>, AppendError> {
        if row.base_seq == 0 {
            return Ok(None);
        }
        if !self.lineages.contains_key(&row.number) {
            let lineage = match Lineage::of(self.reader, row.clone()) {
                Ok(lineage) => Some(lineage),
                Err(ReadError::Storage(error)) => return Err(error.into()),
                // An ancestor that comes in the same commit has nothing stored to be met again.
                Err(_) => None,
            };
            self.lineages.insert(row.number, lineage);
        }
        let Some(lineage) = &self.lineages[&row.number] else { return Ok(None) };
        let seq = lineage.seq_of(self.reader, *id)?.filter(|seq| *seq <= row.base_seq);
        let Some(seq) = seq else { return Ok(None) };
        let range = SeqRange { from: seq, to: seq, order: Direction::OldestFirst };
        Ok(lineage.page(self.reader, range)?.pop().and_then(Found::of))
    }

    /// A session comes into being with its first event; a fork with the event that says so.
    fn new_session(
        &mut self,
        trial: &mut Trial,
        door: Door,
        draft: &Draft,
    ) -> Result<SessionRow, AppendError> {
        let started = draft.readable::<SessionStarted>().unwrap_or_default();
        let mut row = self.empty_session(trial, &draft.session_id, draft.created_at);
        let Some(parent) = started.parent else { return Ok(row) };
        let mode = started.mode.unwrap_or(SessionMode::Fork);
        let ancestry = Ancestry {
            session_id: draft.session_id.clone(),
            parent_session_id: Some(parent.session_id.clone()),
            mode: Some(mode),
            fork_point_seq: parent.seq,
            fork_point_event_id: parent.event_id,
            label: started.label,
            reason: started.reason,
            depth: 0,
            created_at: draft.created_at,
        };
        match self.link(trial, &mut row, &ancestry) {
            // What was seen is kept, even if it names a parent nobody knows.
            Err(AppendError::SessionNotFound(_) | AppendError::PointOutOfRange { .. })
                if door == Door::Observed => {}
            other => other?,
        }
        Ok(row)
    }

    fn empty_session(&self, trial: &mut Trial, id: &SessionId, at: Time) -> SessionRow {
        trial.last_number = trial.last_number.max(self.last_number) + 1;
        SessionRow::new(trial.last_number, id, at)
    }

    /// Makes `row` a descendant. A fork begins behind the point it shows of its parent.
    fn link(
        &mut self,
        trial: &Trial,
        row: &mut SessionRow,
        ancestry: &Ancestry,
    ) -> Result<(), AppendError> {
        let Some(parent_id) = &ancestry.parent_session_id else { return Ok(()) };
        let mode = ancestry.mode.clone().unwrap_or(SessionMode::Fork);
        row.parent = Some(ParentRow {
            session_id: parent_id.clone(),
            mode: mode.clone(),
            seq: ancestry.fork_point_seq,
            event_id: ancestry.fork_point_event_id,
            label: ancestry.label.clone(),
            reason: ancestry.reason.clone(),
            depth: 1,
        });
        if *parent_id == row.id {
            return Ok(());
        }
        let parent = self
            .session(trial, parent_id)?
            .ok_or_else(|| AppendError::SessionNotFound(parent_id.clone()))?;
        if ancestry.fork_point_seq > parent.tail_seq {
            return Err(AppendError::PointOutOfRange {
                session_id: parent_id.clone(),
                point: ancestry.fork_point_seq,
                tail: parent.tail_seq,
            });
        }
        let depth = parent.parent.as_ref().map_or(0, |link| link.depth) + 1;
        if depth > GENERATIONS_MAX {
            let what = "the chain of forks";
            let (size, max) = (depth as usize, GENERATIONS_MAX as usize);
            return Err(AppendError::TooLarge { what, size, max });
        }
        if let Some(link) = &mut row.parent {
            link.depth = depth;
        }
        if mode == SessionMode::Fork {
            row.base_seq = ancestry.fork_point_seq;
            row.tail_seq = ancestry.fork_point_seq;
            row.inherit(&parent);
        }
        Ok(())
    }

    fn import_ancestry(
        &mut self,
        trial: &mut Trial,
        ancestry: &Ancestry,
    ) -> Result<(), AppendError> {
        if let Some(row) = self.session(trial, &ancestry.session_id)? {
            let same = match (&row.parent, &ancestry.parent_session_id) {
                (None, None) => true,
                (Some(link), Some(parent)) => {
                    link.session_id == *parent
                        && Some(&link.mode) == ancestry.mode.as_ref().or(Some(&SessionMode::Fork))
                        && link.seq == ancestry.fork_point_seq
                        && link.event_id == ancestry.fork_point_event_id
                        && link.label == ancestry.label
                        && link.reason == ancestry.reason
                }
                _ => false,
            };
            if same {
                return Ok(());
            }
            return Err(lineage(LineageError::AncestryDiffers(ancestry.session_id.clone())));
        }
        // What was deleted does not come back by hearsay either.
        if self.reader.tombstone(&ancestry.session_id)?.is_some() {
            return Ok(());
        }
        let mut row = self.empty_session(trial, &ancestry.session_id, ancestry.created_at);
        match self.link(trial, &mut row, ancestry) {
            // The parent may come later in the same import (`check_parents` looks again), or
            // without its events: then there is nothing to inherit.
            Err(AppendError::SessionNotFound(_) | AppendError::PointOutOfRange { .. }) => {}
            other => other?,
        }
        trial.sessions.insert(row.id.clone(), row);
        Ok(())
    }

    /// Every imported ancestry must have its parent once the import is complete.
    fn check_parents(&mut self, trial: &Trial, batch: &Prepared) -> Result<(), AppendError> {
        for item in &batch.items {
            let Item::Ancestry(ancestry) = item else { continue };
            let Some(parent) = &ancestry.parent_session_id else { continue };
            if self.session(trial, parent)?.is_none() {
                return Err(lineage(LineageError::DanglingParent {
                    child: ancestry.session_id.clone(),
                    parent: parent.clone(),
                }));
            }
        }
        Ok(())
    }
}

fn lineage(error: LineageError) -> AppendError {
    AppendError::Ancestry(Box::new(error))
}

impl SessionRow {
    /// A session before its first event.
    pub(crate) fn new(number: u32, id: &SessionId, at: Time) -> SessionRow {
        SessionRow {
            number,
            id: id.clone(),
            parent: None,
            base_seq: 0,
            tail_seq: 0,
            last_position: 0,
            events: 0,
            bytes: 0,
            cost: Cost::ZERO,
            created_at: at,
            last_at: at,
            provider: String::new(),
            provider_session_id: None,
            agent: None,
            model: None,
            cwd: None,
            project: None,
            title: None,
        }
    }

    /// Takes one more event. What was made elsewhere, and is only shown or copied here, is
    /// counted where it was made.
    pub(crate) fn take(&mut self, draft: &Draft, seq: u64, position: u64, size: usize) {
        self.tail_seq = seq;
        if draft.fork_origin().is_none() {
            self.count(draft, position, size);
        }
        self.describe(draft);
    }

    fn count(&mut self, draft: &Draft, position: u64, size: usize) {
        self.last_position = position;
        if self.events == 0 {
            self.last_at = draft.created_at;
        }
        self.events += 1;
        self.bytes += size as u64;
        self.cost += draft.cost.unwrap_or(Cost::ZERO);
        self.last_at = self.last_at.max(draft.created_at);
        if self.provider.is_empty() {
            self.provider = draft.provider.clone();
        }
        if self.provider_session_id.is_none() {
            self.provider_session_id = draft.provider_session_id.clone();
        }
    }

    fn describe(&mut self, draft: &Draft) {
        match draft.kind {
            Kind::SessionStarted => {
                if let Some(started) = draft.readable::<SessionStarted>() {
                    let fill = |slot: &mut Option<String>, new: Option<String>| {
                        if new.is_some() {
                            *slot = new;
                        }
                    };
                    fill(&mut self.agent, started.agent);
                    fill(&mut self.model, started.model);
                    fill(&mut self.cwd, started.cwd);
                    fill(&mut self.project, started.project);
                    fill(&mut self.title, started.title);
                }
            }
            Kind::SettingsChanged => {
                if let Some(settings) = draft.readable::<SettingsChanged>() {
                    // A copy in a fork tells of the session it was copied from.
                    let parent = settings.parent.filter(|_| draft.fork_origin().is_none());
                    self.come_from(parent);
                    self.model = settings.model.or(self.model.take());
                    self.title = settings.title.or(self.title.take());
                    // Where it began is where it is listed.
                    self.cwd = self.cwd.take().or(settings.cwd);
                    self.project = self.project.take().or(settings.project);
                }
            }
            _ => {}
        }
    }

    /// Takes over whom it was forked from, if that was seen only after it had begun. It shows
    /// nothing of it: its own events are numbered already.
    fn come_from(&mut self, parent: Option<SessionParent>) {
        let parent = parent.filter(|parent| parent.session_id != self.id);
        if let Some(parent) = parent.filter(|_| self.parent.is_none()) {
            self.parent = Some(ParentRow {
                session_id: parent.session_id,
                mode: SessionMode::Fork,
                seq: 0,
                event_id: None,
                label: None,
                reason: None,
                depth: 1,
            });
        }
    }

    /// A fork works where its parent worked, until it says otherwise.
    fn inherit(&mut self, parent: &SessionRow) {
        self.agent = parent.agent.clone();
        self.model = parent.model.clone();
        self.cwd = parent.cwd.clone();
        self.project = parent.project.clone();
        self.title = parent.title.clone();
    }
}
