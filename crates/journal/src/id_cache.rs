//! The ids that the writer has in memory, to recognise a fact that is recorded already.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use event::EventId;

use crate::StorageError;
use crate::limit::CACHED_IDS_MAX;
use crate::store::StoreReader;

/// Id suffixes per session, with the `seq` of their events.
///
/// Two events are the same fact if their ids agree in everything but the time. The suffixes of a
/// session are read once and kept up to date from then on: an index over them on disk would
/// scatter every append over all of its pages. The first batch for a long session only looks up
/// its own suffixes, because a process that appends once has no use for the others.
#[derive(Default)]
pub(crate) struct IdCache {
    sessions: HashMap<u32, SessionIds>,
    /// Suffixes over all sessions.
    count: usize,
    /// Counts uses, to find the session that was used longest ago.
    clock: u64,
}

/// The part of an id behind the time. All ten bytes: ids made in one burst differ only in their
/// last bits.
pub(crate) type IdSuffix = [u8; 10];

pub(crate) type IdSuffixes = HashSet<IdSuffix, BuildHasherDefault<SuffixHasher>>;

struct SessionIds {
    seqs: HashMap<IdSuffix, u64, BuildHasherDefault<SuffixHasher>>,
    /// Of the events up to `up_to` only these suffixes were looked up; `None` if all are in `seqs`.
    prefetched: Option<IdSuffixes>,
    /// The last `seq` that is covered.
    up_to: u64,
    used_at: u64,
}

/// How many times longer than the batch a session has to be for a prefetch. Reading all its ids
/// into the cache costs a few times as much as looking some of them up.
const PREFETCH_RATIO: u64 = 4;

impl IdCache {
    /// Whether any id of a session is cached.
    pub(crate) fn has_session(&self, number: u32) -> bool {
        self.sessions.contains_key(&number)
    }

    /// Looks the suffixes of a batch up in the session `number`, which ends at `tail`. Does nothing
    /// if the session is cached already or is not much longer than the batch.
    pub(crate) fn prefetch(
        &mut self,
        reader: &dyn StoreReader,
        number: u32,
        tail: u64,
        suffixes: IdSuffixes,
    ) -> Result<(), StorageError> {
        if self.has_session(number) || suffixes.len() as u64 * PREFETCH_RATIO > tail {
            return Ok(());
        }
        let found = reader.ids_with_suffix(number, &suffixes)?;
        let seqs: HashMap<_, _, _> = found.into_iter().map(|(id, seq)| (id.tail(), seq)).collect();
        self.count += seqs.len();
        let ids = SessionIds { seqs, prefetched: Some(suffixes), up_to: tail, used_at: self.clock };
        self.sessions.insert(number, ids);
        Ok(())
    }

    /// Returns the `seq` of the fact with this id in the session `number`, which ends at `tail`.
    pub(crate) fn find(
        &mut self,
        reader: &dyn StoreReader,
        number: u32,
        tail: u64,
        id: &EventId,
    ) -> Result<Option<u64>, StorageError> {
        self.clock += 1;
        let clock = self.clock;
        let cached = self.sessions.entry(number).or_insert_with(|| SessionIds {
            seqs: HashMap::default(),
            prefetched: None,
            up_to: 0,
            used_at: clock,
        });
        cached.used_at = clock;
        // A second batch came with other ids: from now on the session pays for all of them.
        if cached.prefetched.as_ref().is_some_and(|suffixes| !suffixes.contains(&id.tail())) {
            // `seqs` keeps what it has; reading from 0 adds the rest and finds the same numbers
            // again.
            cached.prefetched = None;
            cached.up_to = 0;
        }
        // Also covers what another process has appended meanwhile.
        if cached.up_to < tail {
            let ids = reader.ids(number, cached.up_to)?;
            cached.seqs.reserve(ids.len());
            for (id, seq) in ids {
                self.count += usize::from(cached.seqs.insert(id.tail(), seq).is_none());
            }
            cached.up_to = tail;
        }
        let found = cached.seqs.get(&id.tail()).copied();
        self.evict_oldest(number);
        Ok(found)
    }

    /// Adds an event that was just committed at the end of its session.
    pub(crate) fn insert(&mut self, number: u32, id: &EventId, seq: u64) {
        if let Some(cached) = self.sessions.get_mut(&number) {
            self.count += usize::from(cached.seqs.insert(id.tail(), seq).is_none());
            // A copy for a detached fork has an old `seq`; the cache must not fall back behind it.
            cached.up_to = cached.up_to.max(seq);
        }
    }

    pub(crate) fn forget_session(&mut self, number: u32) {
        if let Some(cached) = self.sessions.remove(&number) {
            self.count -= cached.seqs.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = IdCache::default();
    }

    /// Forgets sessions, longest unused first, until the limit holds. `keep` stays.
    fn evict_oldest(&mut self, keep: u32) {
        while self.count > CACHED_IDS_MAX && self.sessions.len() > 1 {
            let others = self.sessions.iter().filter(|(number, _)| **number != keep);
            let Some((&oldest, _)) = others.min_by_key(|(_, cached)| cached.used_at) else {
                return;
            };
            self.forget_session(oldest);
        }
    }
}

/// A cheap hash. Suffixes are random or hashes already; only the last bits of those made in one
/// burst have to be spread.
#[derive(Default)]
pub(crate) struct SuffixHasher(u64);

impl Hasher for SuffixHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    // All suffixes have the same length, so it says nothing.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        // Fibonacci hashing: 2^64 divided by the golden ratio. The high half is the better mixed
        // one, and the map looks at the low bits.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let spread = self.0.wrapping_mul(SPREAD);
        spread ^ spread >> 32
    }
}
