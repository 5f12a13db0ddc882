//! What the writer remembers of ids, to recognise a fact it has recorded before.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use event::EventId;

use crate::StorageError;
use crate::limit::KNOWN_IDS_MAX;
use crate::store::Reader;

/// The tails of ids per session and the `seq` they stand at.
///
/// A fact is the same fact if its id is the same apart from the time. The tails of a session are
/// read once and kept up to date from then on; an index of such tails on disk would scatter every
/// append over all of it. The first batch of this process only looks for its own among them: who
/// comes once does not need to remember the others.
#[derive(Default)]
pub(crate) struct KnownIds {
    sessions: HashMap<u32, Known>,
    count: usize,
    clock: u64,
}

/// What two tellings of one fact have in common. All of it: ids made in one burst differ in their
/// last bits only.
pub(crate) type Tail = [u8; 10];

/// Some of them.
pub(crate) type Tails = HashSet<Tail, BuildHasherDefault<TailHasher>>;

struct Known {
    seqs: HashMap<Tail, u64, BuildHasherDefault<TailHasher>>,
    /// Of the tails there were at first only these are known; `None` if all are.
    looked_for: Option<Tails>,
    up_to: u64,
    used: u64,
}

/// A batch looks for its own ids only if the session has so many times more: remembering all of
/// them costs some times as much as looking through them.
const LONGER: u64 = 4;

impl KnownIds {
    /// Whether anything of a session is known.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.sessions.contains_key(&number)
    }

    /// Looks for the ids of a batch in the session `number`, which ends at `tail`, if this is the
    /// first one that goes to it and the session is long.
    pub(crate) fn look_for(
        &mut self,
        reader: &dyn Reader,
        number: u32,
        tail: u64,
        tails: Tails,
    ) -> Result<(), StorageError> {
        if self.has(number) || tails.len() as u64 * LONGER > tail {
            return Ok(());
        }
        let found = reader.facts_among(number, &tails)?;
        let seqs: HashMap<_, _, _> = found.into_iter().map(|(id, seq)| (id.tail(), seq)).collect();
        self.count += seqs.len();
        let known = Known { seqs, looked_for: Some(tails), up_to: tail, used: self.clock };
        self.sessions.insert(number, known);
        Ok(())
    }

    /// Where the session `number`, which ends at `tail`, has the fact of this id.
    pub(crate) fn find(
        &mut self,
        reader: &dyn Reader,
        number: u32,
        tail: u64,
        id: &EventId,
    ) -> Result<Option<u64>, StorageError> {
        self.clock += 1;
        let clock = self.clock;
        let known = self.sessions.entry(number).or_insert_with(|| Known {
            seqs: HashMap::default(),
            looked_for: None,
            up_to: 0,
            used: clock,
        });
        known.used = clock;
        if known.looked_for.as_ref().is_some_and(|tails| !tails.contains(&id.tail())) {
            known.looked_for = None;
            known.up_to = 0;
        }
        if known.up_to < tail {
            let ids = reader.ids(number, known.up_to)?;
            known.seqs.reserve(ids.len());
            for (id, seq) in ids {
                self.count += usize::from(known.seqs.insert(id.tail(), seq).is_none());
            }
            known.up_to = tail;
        }
        let found = known.seqs.get(&id.tail()).copied();
        self.forget_oldest(number);
        Ok(found)
    }

    /// Remembers an event that was just committed behind all known ones.
    pub(crate) fn add(&mut self, number: u32, id: &EventId, seq: u64) {
        if let Some(known) = self.sessions.get_mut(&number) {
            self.count += usize::from(known.seqs.insert(id.tail(), seq).is_none());
            known.up_to = known.up_to.max(seq);
        }
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(known) = self.sessions.remove(&number) {
            self.count -= known.seqs.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = KnownIds::default();
    }

    fn forget_oldest(&mut self, keep: u32) {
        while self.count > KNOWN_IDS_MAX && self.sessions.len() > 1 {
            let others = self.sessions.iter().filter(|(number, _)| **number != keep);
            let Some((&oldest, _)) = others.min_by_key(|(_, known)| known.used) else { return };
            self.forget(oldest);
        }
    }
}

/// Tails are random or hashes already; what is left to do is to spread the last bits of those
/// made in one burst.
#[derive(Default)]
pub(crate) struct TailHasher(u64);

impl Hasher for TailHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    // Every tail is as long as every other.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let spread = self.0.wrapping_mul(SPREAD);
        spread ^ spread >> 32
    }
}
