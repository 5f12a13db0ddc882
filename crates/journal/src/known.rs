//! What the writer remembers of ids, to recognise a fact it has recorded before.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use event::EventId;

use crate::StorageError;
use crate::limit::KNOWN_IDS_MAX;
use crate::store::Reader;

/// The tails of ids per session and the `seq` they stand at.
///
/// A fact is the same fact if its id is the same apart from the time. A session's tails are read
/// once, when the first event of this process goes to it, and kept up to date from then on; an
/// index of such tails on disk would scatter every append over all of it.
#[derive(Default)]
pub(crate) struct KnownIds {
    sessions: HashMap<u32, Known>,
    count: usize,
    clock: u64,
}

/// What two tellings of one fact have in common. All of it: ids made in one burst differ in their
/// last bits only.
pub(crate) type Tail = [u8; 10];

struct Known {
    seqs: HashMap<Tail, u64, BuildHasherDefault<TailHasher>>,
    up_to: u64,
    used: u64,
}

impl KnownIds {
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
            up_to: 0,
            used: clock,
        });
        known.used = clock;
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
struct TailHasher(u64);

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
