//! Which facts a session has, for many of its events in one row.
//!
//! A fact is told by the tail of its id. Of stretches of a session that are full, the ends of
//! these tails stand together, in the order of their events: whoever asks for some facts of a long
//! session reads a few of these rows instead of every id. They say where a fact may stand; whether
//! it does, the event says.
//!
//! All of it follows from the ids. Stretches are noted from the first one on, without a gap, when
//! one of them becomes full; behind the last that is noted and can be believed, the ids are asked.

use std::collections::BTreeMap;
use std::ops::Deref;

use event::EventId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::row::{Key, SEQ_MAX};
use super::{Bodies, View, fault};
use crate::StorageError;
use crate::known::Tails;
use crate::store::{EventRow, Reader};

/// Events of a stretch, as a power of two: a row of 2 KiB, so that three of them share a page.
const STRETCH_BITS: u32 = 9;
const STRETCH_EVENTS: usize = 1 << STRETCH_BITS;

/// What is noted of an id: its last bytes, the only ones in which ids of one burst differ.
const END_BYTES: usize = 4;

/// The lowest bits of an end.
const LOWEST: usize = 0xFFF;

/// Ends of tails that are looked for.
struct Wanted {
    /// Which lowest bits they have, by which most others are told from them.
    lowest: [bool; LOWEST + 1],
    ends: Vec<u32>,
}

impl<C: Deref<Target = Connection>, B: Bodies> View<'_, C, B> {
    /// Where a session has the facts of these tails, oldest first.
    pub(super) fn facts_by_tail(
        &self,
        session: u32,
        tails: &Tails,
    ) -> Result<Vec<(EventId, u64)>, StorageError> {
        let wanted = Wanted::new(tails);
        let (places, behind) = self.places_of_facts(session, &wanted).map_err(self.failed())?;
        let mut found = Vec::new();
        for place in places {
            const SQL: &str = "SELECT id FROM event INDEXED BY event_ids WHERE pk = ?1";
            let id = self.one(SQL, [place.0], |row| row.get(0))?;
            // An id that cannot be one belongs to a damaged row, which reading will name.
            if let Some(id) = id.and_then(|id| EventId::from_bytes(id).ok()) {
                found.push((id, place.seq()));
            }
        }
        found.extend(self.ids(session, behind.saturating_sub(1))?);
        found.retain(|(id, _)| tails.contains(&id.tail()));
        Ok(found)
    }

    /// Where wanted facts may stand as far as stretches are noted, and the `seq` behind those.
    fn places_of_facts(&self, session: u32, wanted: &Wanted) -> rusqlite::Result<(Vec<Key>, u64)> {
        let mut places = Vec::new();
        let first = match first_stretch(&self.db, session) {
            Err(error) if fault::is_damage(&error) => None,
            first => first?,
        };
        let Some(mut next) = first else { return Ok((places, 0)) };
        let mut select = self.db.prepare_cached(ROWS)?;
        let mut rows = select.query([next, stretches_from(Key::new(session, 0))[1]])?;
        // Where the table is damaged, or a row of it is gone, the rest is asked of the ids.
        while let Ok(Some(row)) = rows.next() {
            let Some(bytes) = whole(row, next) else { break };
            let slots = (next << STRETCH_BITS..).zip(bytes.chunks_exact(END_BYTES));
            places
                .extend(slots.filter(|(_, end)| wanted.has(number(end))).map(|(key, _)| Key(key)));
            next += 1;
        }
        Ok((places, Key(next << STRETCH_BITS).seq()))
    }

    /// The sessions of which something is noted.
    pub(super) fn sessions_of_tails(&self) -> rusqlite::Result<Vec<u32>> {
        let mut select = self.db.prepare("SELECT DISTINCT stretch >> ?1 FROM tails")?;
        let session = |row: &Row<'_>| row.get::<_, i64>(0);
        let sessions = select.query_map([32 - STRETCH_BITS], session)?;
        // A number that no session can have is that of none.
        sessions.map(|session| Ok(session?.try_into().unwrap_or(u32::MAX))).collect()
    }

    /// Whether all that is noted of a session is what its ids say, without a gap.
    pub(super) fn fits_tails(&self, session: u32) -> rusqlite::Result<bool> {
        let bounds = stretches_from(Key::new(session, 0));
        let Some(first) = first_stretch(&self.db, session)? else { return Ok(false) };
        let mut select = self.db.prepare_cached(ROWS)?;
        let mut rows = select.query(bounds)?;
        for stretch in first.. {
            let Some(row) = rows.next()? else { break };
            if whole(row, stretch) != Some(&ends(&self.db, stretch)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

const ROWS: &str = "SELECT stretch, checksum, bytes FROM tails \
     WHERE stretch BETWEEN ?1 AND ?2 ORDER BY stretch";

/// Notes the stretches that became full with these events. What was noted from the first of them
/// on is noted anew: a session may get events in front of others, when it takes over its parent's.
pub(super) fn note(db: &Connection, events: &[EventRow]) -> rusqlite::Result<()> {
    let mut written: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in events {
        let (first, last) = written.entry(row.session).or_insert((row.seq, row.seq));
        (*first, *last) = (row.seq.min(*first), row.seq.max(*last));
    }
    for (session, (first, last)) in written {
        forget_from(db, Key::new(session, first))?;
        if stretch_of(Key::new(session, first)) < stretch_of(Key::new(session, last + 1)) {
            note_up_to(db, session, last)?;
        }
    }
    Ok(())
}

/// Forgets what is noted of a session from a key on.
pub(super) fn forget_from(db: &Connection, key: Key) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM tails WHERE stretch BETWEEN ?1 AND ?2")?
        .execute(stretches_from(key))
        .map(drop)
}

/// Notes the full stretches of a session behind the last that is noted, up to the event `last`.
pub(super) fn note_up_to(db: &Connection, session: u32, last: u64) -> rusqlite::Result<()> {
    const LAST: &str = "SELECT stretch FROM tails WHERE stretch BETWEEN ?1 AND ?2 \
         ORDER BY stretch DESC LIMIT 1";
    const PUT: &str = "INSERT INTO tails (stretch, checksum, bytes) VALUES (?1, ?2, ?3)";
    let end = stretch_of(Key::new(session, last + 1));
    let bounds = stretches_from(Key::new(session, 0));
    let noted =
        db.prepare_cached(LAST)?.query_row(bounds, |row| row.get::<_, i64>(0)).optional()?;
    let from = match noted {
        Some(noted) => Some(noted + 1),
        None => first_stretch(db, session)?,
    };
    let Some(from) = from else { return Ok(()) };
    let mut put = db.prepare_cached(PUT)?;
    for stretch in from..end {
        let bytes = ends(db, stretch)?;
        put.execute(params![stretch, sum(stretch, &bytes), bytes])?;
    }
    Ok(())
}

/// What is to be noted of a stretch.
fn ends(db: &Connection, stretch: i64) -> rusqlite::Result<Vec<u8>> {
    const IDS: &str = "SELECT pk, id FROM event INDEXED BY event_ids WHERE pk >= ?1 AND pk < ?2";
    let mut bytes = vec![0; STRETCH_EVENTS * END_BYTES];
    let mut select = db.prepare_cached(IDS)?;
    let mut rows = select.query([stretch << STRETCH_BITS, (stretch + 1) << STRETCH_BITS])?;
    while let Some(row) = rows.next()? {
        let at = row.get::<_, i64>(0)? as usize % STRETCH_EVENTS * END_BYTES;
        let id: [u8; 16] = row.get(1)?;
        bytes[at..at + END_BYTES].copy_from_slice(&id[id.len() - END_BYTES..]);
    }
    Ok(bytes)
}

/// The stretch a session begins in; what it inherits is not in its own.
fn first_stretch(db: &Connection, session: u32) -> rusqlite::Result<Option<i64>> {
    const SQL: &str = "SELECT pk FROM event INDEXED BY event_ids WHERE pk > ?1 AND pk <= ?2 \
         ORDER BY pk LIMIT 1";
    let bounds = [Key::new(session, 0).0, Key::new(session, SEQ_MAX).0];
    let first = db.prepare_cached(SQL)?.query_row(bounds, |row| row.get(0)).optional()?;
    Ok(first.map(|key| stretch_of(Key(key))))
}

/// What a row notes, if it is that of the stretch and as it was written.
fn whole<'r>(row: &'r Row<'_>, stretch: i64) -> Option<&'r [u8]> {
    let bytes = row.get_ref(2).ok()?.as_blob().ok()?;
    let is_whole = row.get(0) == Ok(stretch)
        && row.get(1) == Ok(sum(stretch, bytes))
        && bytes.len() == STRETCH_EVENTS * END_BYTES;
    is_whole.then_some(bytes)
}

fn stretch_of(key: Key) -> i64 {
    key.0 >> STRETCH_BITS
}

/// The stretch of a key, and the last one its session could have.
fn stretches_from(key: Key) -> [i64; 2] {
    [stretch_of(key), stretch_of(Key::new(key.session(), SEQ_MAX))]
}

fn sum(stretch: i64, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&stretch.to_be_bytes());
    sum.update(bytes);
    sum.finalize()
}

fn number(end: &[u8]) -> u32 {
    end.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

impl Wanted {
    fn new(tails: &Tails) -> Wanted {
        let ends = tails.iter().map(|tail| number(&tail[tail.len() - END_BYTES..]));
        let mut ends: Vec<u32> = ends.collect();
        ends.sort_unstable();
        let mut lowest = [false; LOWEST + 1];
        ends.iter().for_each(|end| lowest[*end as usize & LOWEST] = true);
        Wanted { lowest, ends }
    }

    fn has(&self, end: u32) -> bool {
        self.lowest[end as usize & LOWEST] && self.ends.binary_search(&end).is_ok()
    }
}
