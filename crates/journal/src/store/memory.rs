//! A journal in memory, for tests, replays and sessions that are not kept.
//!
//! Not here: durability, other processes, an index. It says so in its capabilities.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use event::{Draft, EventId, SessionId, Time, USER_RECORDS};

use super::{
    Capabilities, ChangeSet, CheckFinding, CommitError, Direction, PackedEvent, SeqRange,
    SessionCursor, SessionRow, SightingRow, Store, StoreReader, StoreWriter, StoredEvent,
};
use crate::id_cache::{IdSuffixes, StoredIds, SuffixMatches, id_end};
use crate::limit::{PAGE_BYTES_MAX, PAGE_EVENTS_MAX};
use crate::recovery::Recovery;
use crate::{AppendError, StorageError};

const CAPABILITIES: Capabilities =
    Capabilities { name: "memory", durable: false, shared: false, indexed: false };

#[derive(Default)]
pub(crate) struct MemoryStore {
    state: RwLock<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    /// By session number and `seq`.
    events: BTreeMap<(u32, u64), (u64, Arc<Draft>)>,
    positions: BTreeMap<u64, (u32, u64)>,
    ids: HashMap<EventId, (u32, u64)>,
    sessions: BTreeMap<u32, SessionRow>,
    numbers: HashMap<SessionId, u32>,
    sources: BTreeMap<String, String>,
    consumers: BTreeMap<String, u64>,
    sightings: Vec<SightingRow>,
    tombstones: HashMap<SessionId, Time>,
    tail: u64,
    last_number: u32,
}

impl Store for MemoryStore {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    /// Packs nothing: the draft itself is kept.
    fn pack(&self, _draft: &Draft) -> PackedEvent {
        PackedEvent { rest: Vec::new(), payload: None }
    }

    fn reader(&self) -> Result<Box<dyn StoreReader + '_>, StorageError> {
        Ok(Box::new(MemoryReader(self.state.read().unwrap_or_else(PoisonError::into_inner))))
    }

    fn begin(&self) -> Result<Box<dyn StoreWriter + '_>, AppendError> {
        Ok(Box::new(MemoryWriter(self.state.write().unwrap_or_else(PoisonError::into_inner))))
    }

    fn tail(&self) -> Result<u64, StorageError> {
        Ok(self.state.read().unwrap_or_else(PoisonError::into_inner).tail)
    }

    fn check(
        &self,
        _repair: bool,
        _recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError> {
        Ok(Vec::new())
    }

    fn open_findings(&self) -> Vec<CheckFinding> {
        Vec::new()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn dir(&self) -> Option<&Path> {
        None
    }
}

struct MemoryReader<'a>(RwLockReadGuard<'a, MemoryState>);

struct MemoryWriter<'a>(RwLockWriteGuard<'a, MemoryState>);

impl StoreWriter for MemoryWriter<'_> {
    fn apply(mut self: Box<Self>, changes: &ChangeSet) -> Result<(), CommitError> {
        let state = &mut *self.0;
        let mut ids = HashSet::new();
        // All ids are checked before the first change, so a refused commit leaves no trace. Two
        // events of one batch may also share an id.
        let is_taken = |id: EventId| state.ids.contains_key(&id) || !ids.insert(id);
        if changes.events.iter().map(|row| row.draft.id).any(is_taken) {
            return Err(CommitError::IdTaken);
        }
        for row in &changes.events {
            let place = (row.session, row.seq);
            state.events.insert(place, (row.position, Arc::clone(&row.draft)));
            state.positions.insert(row.position, place);
            state.ids.insert(row.draft.id, place);
            state.tail = state.tail.max(row.position);
        }
        for row in &changes.sessions {
            state.numbers.insert(row.id.clone(), row.number);
            // Kept beside the sessions: a number must not be given again after its session is
            // deleted.
            state.last_number = state.last_number.max(row.number);
            state.sessions.insert(row.number, row.clone());
        }
        for row in &changes.sources {
            state.sources.insert(row.source_id.clone(), row.position.clone());
        }
        state.consumers.extend(changes.consumers.iter().cloned());
        state.sightings.extend(changes.sightings.iter().cloned());
        // Last, as in the other stores: a commit may record copies in a fork and delete the parent
        // they come from.
        for (row, at) in &changes.deleted {
            state.remove(row);
            state.tombstones.insert(row.id.clone(), *at);
        }
        Ok(())
    }
}

impl MemoryState {
    fn remove(&mut self, row: &SessionRow) {
        // Collected first, because the map cannot be changed while it is walked.
        let places: Vec<_> = self
            .events
            .range((row.number, 0)..=(row.number, u64::MAX))
            .map(|(at, _)| *at)
            .collect();
        for place in places {
            if let Some((position, draft)) = self.events.remove(&place) {
                self.positions.remove(&position);
                self.ids.remove(&draft.id);
            }
        }
        self.sightings.retain(|sighting| sighting.session != row.number);
        self.sessions.remove(&row.number);
        self.numbers.remove(&row.id);
    }

    fn stored(&self, place: (u32, u64)) -> Option<StoredEvent> {
        let (position, draft) = self.events.get(&place)?;
        let (session, seq) = place;
        let event = Ok(Draft::clone(draft).with_seq(seq));
        Some(StoredEvent { position: *position, session, seq, event })
    }

    fn page(&self, places: impl Iterator<Item = (u32, u64)>) -> Vec<StoredEvent> {
        let mut bytes = 0;
        let mut page = Vec::new();
        for stored in places.filter_map(|place| self.stored(place)) {
            bytes += stored.event.as_ref().map_or(0, |event| event.data.get().len());
            // At least one event is returned, however large: an empty page would mean the end.
            page.push(stored);
            if page.len() == PAGE_EVENTS_MAX || bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        page
    }
}

/// The read guard and the write guard read the same way.
macro_rules! impl_store_reader {
    ($guard:ident) => {
        impl StoredIds for $guard<'_> {
            fn ids(&self, session: u32, after: u64) -> Result<Vec<(EventId, u64)>, StorageError> {
                let rows = self.0.events.range((session, after + 1)..=(session, u64::MAX));
                Ok(rows.map(|((_, seq), (_, draft))| (draft.id, *seq)).collect())
            }

            fn ids_with_suffix(
                &self,
                session: u32,
                suffixes: &IdSuffixes,
            ) -> Result<SuffixMatches, StorageError> {
                let mut ids = self.ids(session, 0)?;
                let ends = ids.iter().map(|(id, _)| id_end(&id.tail())).collect();
                ids.retain(|(id, _)| suffixes.contains(&id.tail()));
                Ok(SuffixMatches { ids, ends })
            }
        }

        impl StoreReader for $guard<'_> {
            fn tail(&self) -> Result<u64, StorageError> {
                Ok(self.0.tail)
            }

            fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StorageError> {
                let number = self.0.numbers.get(id);
                Ok(number.and_then(|number| self.0.sessions.get(number)).cloned())
            }

            fn session_numbered(&self, number: u32) -> Result<Option<SessionRow>, StorageError> {
                Ok(self.0.sessions.get(&number).cloned())
            }

            fn deletions(&self) -> Result<u64, StorageError> {
                Ok(self.0.tombstones.len() as u64)
            }

            fn last_number(&self) -> Result<u32, StorageError> {
                Ok(self.0.last_number)
            }

            fn session_count(&self) -> Result<u64, StorageError> {
                let is_listed = |row: &&SessionRow| row.provider != USER_RECORDS;
                Ok(self.0.sessions.values().filter(is_listed).count() as u64)
            }

            fn sessions(
                &self,
                after: Option<SessionCursor>,
                limit: usize,
            ) -> Result<Vec<SessionRow>, StorageError> {
                let mut rows: Vec<&SessionRow> = self.0.sessions.values().collect();
                // The number breaks ties, so that a cursor names exactly one place in the listing.
                rows.sort_by_key(|row| std::cmp::Reverse((row.last_at, row.number)));
                let behind = |row: &&&SessionRow| {
                    after.is_none_or(|cursor| {
                        (row.last_at, row.number) < (cursor.last_at, cursor.number)
                    })
                };
                Ok(rows.iter().filter(behind).take(limit).map(|row| (*row).clone()).collect())
            }

            fn sessions_with_prefix(
                &self,
                prefix: &str,
                limit: usize,
            ) -> Result<Vec<SessionRow>, StorageError> {
                let fits = |row: &&SessionRow| {
                    let provider_id = row.provider_session_id.as_deref();
                    row.id.as_str().starts_with(prefix)
                        || provider_id.is_some_and(|id| id.starts_with(prefix))
                };
                let mut rows: Vec<SessionRow> =
                    self.0.sessions.values().filter(fits).cloned().collect();
                rows.sort_by_key(|row| row.provider_session_id.as_deref() != Some(prefix));
                rows.truncate(limit);
                Ok(rows)
            }

            fn children(&self, parent: &SessionId) -> Result<Vec<SessionRow>, StorageError> {
                let is_child = |row: &&SessionRow| {
                    row.parent.as_ref().is_some_and(|link| link.session_id == *parent)
                };
                Ok(self.0.sessions.values().filter(is_child).cloned().collect())
            }

            fn events(
                &self,
                session: u32,
                range: SeqRange,
            ) -> Result<Vec<StoredEvent>, StorageError> {
                // `BTreeMap::range` panics on a range that ends before it begins.
                if range.from > range.to {
                    return Ok(Vec::new());
                }
                let rows = self.0.events.range((session, range.from)..=(session, range.to));
                let places = rows.map(|(place, _)| *place);
                Ok(match range.order {
                    Direction::OldestFirst => self.0.page(places),
                    Direction::NewestFirst => self.0.page(places.rev()),
                })
            }

            fn positions(&self, range: SeqRange) -> Result<Vec<StoredEvent>, StorageError> {
                if range.from > range.to {
                    return Ok(Vec::new());
                }
                let rows = self.0.positions.range(range.from..=range.to);
                let places = rows.map(|(_, place)| *place);
                Ok(match range.order {
                    Direction::OldestFirst => self.0.page(places),
                    Direction::NewestFirst => self.0.page(places.rev()),
                })
            }

            fn locate(&self, id: &EventId) -> Result<Option<(u32, u64)>, StorageError> {
                Ok(self.0.ids.get(id).copied())
            }

            fn source(&self, source_id: &str) -> Result<Option<String>, StorageError> {
                Ok(self.0.sources.get(source_id).cloned())
            }

            fn sources(&self, show: &mut dyn FnMut(&str, &str)) -> Result<(), StorageError> {
                self.0.sources.iter().for_each(|(source, position)| show(source, position));
                Ok(())
            }

            fn consumer(&self, name: &str) -> Result<Option<u64>, StorageError> {
                Ok(self.0.consumers.get(name).copied())
            }

            fn sightings(&self, session: u32, seq: u64) -> Result<Vec<SightingRow>, StorageError> {
                let fits = |row: &&SightingRow| row.session == session && row.seq == seq;
                Ok(self.0.sightings.iter().filter(fits).cloned().collect())
            }

            fn tombstone(&self, id: &SessionId) -> Result<Option<Time>, StorageError> {
                Ok(self.0.tombstones.get(id).copied())
            }

            fn tombstones(&self) -> Result<Vec<SessionId>, StorageError> {
                Ok(self.0.tombstones.keys().cloned().collect())
            }
        }
    };
}

impl_store_reader!(MemoryReader);
impl_store_reader!(MemoryWriter);
