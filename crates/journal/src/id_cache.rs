//! The ids that the writer has in memory, to recognise a fact that is recorded already.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use event::EventId;

use crate::StorageError;
use crate::limit::CACHED_IDS_MAX;

/// Id suffixes per session, with the `seq` of their events.
///
/// Two events are the same fact if their ids agree in everything but the time. An index over the
/// suffixes on disk would scatter every append over all of its pages, so the writer keeps them in
/// memory. All suffixes of a short session are read at once. Of a long session the first batch
/// looks up its own suffixes and keeps the ends of all ids: they rule out nearly every new id of
/// the batches that follow, and only the others are looked up again.
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

/// What a store knows of the ids of a session's own events.
pub(crate) trait StoredIds {
    /// Ids of the events with a `seq` above `after`, in their order.
    fn ids(&self, session: u32, after: u64) -> Result<Vec<(EventId, u64)>, StorageError>;

    /// Ids that have one of these suffixes.
    fn ids_with_suffix(
        &self,
        session: u32,
        suffixes: &IdSuffixes,
    ) -> Result<SuffixMatches, StorageError>;
}

/// The answer of a store that looked through a session for suffixes.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct SuffixMatches {
    /// The ids that have one of the suffixes, in their order.
    pub(crate) ids: Vec<(EventId, u64)>,
    /// The ends of all ids of the session; also others, where the store does not know better.
    pub(crate) ends: Vec<u32>,
}

/// How many bytes an end has: the last ones, in which ids made in one burst differ.
pub(crate) const END_BYTES: usize = 4;

/// Returns the end of an id as a number.
pub(crate) fn id_end(suffix: &IdSuffix) -> u32 {
    let end = suffix.last_chunk::<END_BYTES>().expect("a suffix is longer than its end");
    u32::from_be_bytes(*end)
}

struct SessionIds {
    seqs: HashMap<IdSuffix, u64, BuildHasherDefault<SuffixHasher>>,
    /// What is known of the ids that are not in `seqs`; `None` if all are in there.
    partial: Option<PartialIds>,
    /// The last `seq` that is covered.
    up_to: u64,
    used_at: u64,
}

/// A session of which only some suffixes were looked up.
struct PartialIds {
    /// The suffixes that were looked up: those the session has are in `seqs`.
    looked_up: IdSuffixes,
    /// The ends of all ids that were stored at the first lookup.
    ends: Vec<u32>,
    /// Whether `ends` is in order. The first batch needs no order, and it may be the only one.
    is_sorted: bool,
}

/// How many times longer than the suffixes that are looked up a session has to be. Reading all its
/// ids into the cache costs a few times as much as looking some of them up.
const PREFETCH_RATIO: u64 = 4;

/// How many ends take the memory of one suffix with its `seq`.
const ENDS_PER_SUFFIX: usize = 8;

impl IdCache {
    /// Whether all ids of a session are cached, so that a batch needs no prefetch.
    pub(crate) fn has_all(&self, number: u32) -> bool {
        self.sessions.get(&number).is_some_and(|cached| cached.partial.is_none())
    }

    /// Looks the suffixes of a batch up in the session `number`, which ends at `tail`. Does nothing
    /// if all its ids are cached already or if it is not much longer than what is looked up.
    pub(crate) fn prefetch(
        &mut self,
        reader: &dyn StoredIds,
        number: u32,
        tail: u64,
        suffixes: IdSuffixes,
    ) -> Result<(), StorageError> {
        let is_long = |lookups: usize| lookups as u64 * PREFETCH_RATIO <= tail;
        let Some(cached) = self.sessions.get_mut(&number) else {
            if is_long(suffixes.len()) {
                let matches = reader.ids_with_suffix(number, &suffixes)?;
                let ids = SessionIds::partial(matches, suffixes, tail, self.clock);
                self.count += ids.size();
                self.sessions.insert(number, ids);
            }
            return Ok(());
        };
        let size = cached.size();
        cached.look_up(reader, number, suffixes)?;
        // A source that is read again from its beginning brings only ids that are there.
        if cached.partial.as_ref().is_some_and(|partial| !is_long(partial.looked_up.len())) {
            cached.partial = None;
            // `seqs` keeps what it has; reading from 0 adds the rest and finds the same numbers
            // again.
            cached.up_to = 0;
        }
        self.count = self.count - size + cached.size();
        Ok(())
    }

    /// Returns the `seq` of the fact with this id in the session `number`, which ends at `tail`.
    pub(crate) fn find(
        &mut self,
        reader: &dyn StoredIds,
        number: u32,
        tail: u64,
        id: &EventId,
    ) -> Result<Option<u64>, StorageError> {
        self.clock += 1;
        let clock = self.clock;
        let cached = self.sessions.entry(number).or_insert_with(|| SessionIds {
            seqs: HashMap::default(),
            partial: None,
            up_to: 0,
            used_at: clock,
        });
        cached.used_at = clock;
        let size = cached.size();
        // Also covers what another process has appended meanwhile.
        if cached.up_to < tail {
            let ids = reader.ids(number, cached.up_to)?;
            cached.seqs.extend(ids.into_iter().map(|(id, seq)| (id.tail(), seq)));
            cached.up_to = tail;
        }
        // An id of the batch was looked up with the others; this is for one that it only names.
        cached.look_up(reader, number, IdSuffixes::from_iter([id.tail()]))?;
        self.count = self.count - size + cached.size();
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
            self.count -= cached.size();
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

impl SessionIds {
    /// A session that ends at `tail`, of which the store was asked for some suffixes.
    fn partial(matches: SuffixMatches, looked_up: IdSuffixes, tail: u64, clock: u64) -> SessionIds {
        let SuffixMatches { ids, ends } = matches;
        SessionIds {
            seqs: ids.into_iter().map(|(id, seq)| (id.tail(), seq)).collect(),
            partial: Some(PartialIds { looked_up, ends, is_sorted: false }),
            up_to: tail,
            used_at: clock,
        }
    }

    /// Asks the store for those suffixes that the session may have beyond what is cached.
    fn look_up(
        &mut self,
        reader: &dyn StoredIds,
        number: u32,
        mut suffixes: IdSuffixes,
    ) -> Result<(), StorageError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        suffixes.retain(|suffix| !partial.looked_up.contains(suffix));
        suffixes.retain(|suffix| !self.seqs.contains_key(suffix) && partial.may_have(suffix));
        if suffixes.is_empty() {
            return Ok(());
        }
        let found = reader.ids_with_suffix(number, &suffixes)?.ids;
        self.seqs.extend(found.into_iter().map(|(id, seq)| (id.tail(), seq)));
        partial.looked_up.extend(suffixes);
        Ok(())
    }

    /// The memory it takes, in suffixes.
    fn size(&self) -> usize {
        let partial = self.partial.as_ref();
        self.seqs.len() + partial.map_or(0, |partial| partial.ends.len() / ENDS_PER_SUFFIX)
    }
}

impl PartialIds {
    /// Whether an id with this suffix may be stored. The four bytes of an end are alike by chance
    /// for one new id in 4,000 at a million stored ones.
    fn may_have(&mut self, suffix: &IdSuffix) -> bool {
        if !self.is_sorted {
            self.ends.sort_unstable();
            self.is_sorted = true;
        }
        self.ends.binary_search(&id_end(suffix)).is_ok()
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A long session that counts how often it is asked.
    struct Stored {
        ids: Vec<(EventId, u64)>,
        lists: Cell<usize>,
        lookups: Cell<usize>,
    }

    impl Stored {
        fn new(ids: std::ops::Range<u64>) -> Stored {
            let ids = ids.map(|number| (id(number), number)).collect();
            Stored { ids, lists: Cell::new(0), lookups: Cell::new(0) }
        }

        /// The lists of ids and the lookups since it was asked last.
        fn counts(&self) -> (usize, usize) {
            (self.lists.take(), self.lookups.take())
        }
    }

    impl StoredIds for Stored {
        fn ids(&self, _: u32, after: u64) -> Result<Vec<(EventId, u64)>, StorageError> {
            self.lists.set(self.lists.get() + 1);
            Ok(self.ids.iter().filter(|(_, seq)| *seq > after).copied().collect())
        }

        fn ids_with_suffix(
            &self,
            _: u32,
            suffixes: &IdSuffixes,
        ) -> Result<SuffixMatches, StorageError> {
            self.lookups.set(self.lookups.get() + 1);
            let is_wanted = |(id, _): &&(EventId, u64)| suffixes.contains(&id.tail());
            let ids = self.ids.iter().filter(is_wanted).copied().collect();
            let ends = self.ids.iter().map(|(id, _)| id_end(&id.tail())).collect();
            Ok(SuffixMatches { ids, ends })
        }
    }

    fn id(number: u64) -> EventId {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        EventId::from_bytes(bytes).expect("the bytes are an id")
    }

    /// Asks for the ids of a batch as the writer does, and appends those that are new.
    fn append(
        cache: &mut IdCache,
        stored: &Stored,
        tail: u64,
        numbers: &[u64],
    ) -> Vec<Option<u64>> {
        let suffixes = numbers.iter().map(|number| id(*number).tail()).collect();
        cache.prefetch(stored, 1, tail, suffixes).unwrap();
        let mut seq = tail;
        let found: Vec<_> = numbers
            .iter()
            .map(|number| cache.find(stored, 1, tail, &id(*number)).unwrap())
            .collect();
        for (number, found) in numbers.iter().zip(&found) {
            if found.is_none() {
                seq += 1;
                cache.insert(1, &id(*number), seq);
            }
        }
        found
    }

    #[test]
    fn later_batches_read_no_ids() {
        let stored = Stored::new(1..10_001);
        let mut cache = IdCache::default();
        assert_eq!(append(&mut cache, &stored, 10_000, &[20_001, 7]), [None, Some(7)]);
        assert_eq!(stored.counts(), (0, 1), "one pass for the batch");
        for tail in 10_001..10_101 {
            assert_eq!(append(&mut cache, &stored, tail, &[tail + 10_001]), [None]);
        }
        assert_eq!(append(&mut cache, &stored, 10_101, &[20_050]), [Some(10_050)]);
        assert_eq!(stored.counts(), (0, 0));
    }

    #[test]
    fn stored_ids_are_looked_up_together() {
        let stored = Stored::new(1..10_001);
        let mut cache = IdCache::default();
        append(&mut cache, &stored, 10_000, &[20_001]);
        stored.counts();
        let found = append(&mut cache, &stored, 10_001, &[7, 20_002, 8]);
        assert_eq!((found, stored.counts()), (vec![Some(7), None, Some(8)], (0, 1)));
        // A named id of no batch.
        assert_eq!(cache.find(&stored, 1, 10_002, &id(9)).unwrap(), Some(9));
        assert_eq!(stored.counts(), (0, 1));
    }

    #[test]
    fn source_read_again_lists_ids_once() {
        let stored = Stored::new(1..10_001);
        let mut cache = IdCache::default();
        for batch in (1..10_001).collect::<Vec<u64>>().chunks(500) {
            let found = append(&mut cache, &stored, 10_000, batch);
            assert!(found.iter().zip(batch).all(|(found, number)| *found == Some(*number)));
        }
        let (lists, lookups) = stored.counts();
        assert_eq!(lists, 1);
        assert!(lookups <= 6, "{lookups} passes");
    }

    #[test]
    fn events_of_others_are_found() {
        let mut cache = IdCache::default();
        append(&mut cache, &Stored::new(1..10_001), 10_000, &[20_001]);
        let stored = Stored::new(1..10_011);
        assert_eq!(append(&mut cache, &stored, 10_010, &[10_005]), [Some(10_005)]);
    }
}
