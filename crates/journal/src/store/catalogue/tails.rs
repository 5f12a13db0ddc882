//! The table `tails`: the last bytes of 512 event ids in one row.
//!
//! The writer asks a long session for a few ids by their suffix. Instead of reading every id, it
//! reads these rows: a hit says where an id *may* stand, and the event says whether it does.
//!
//! ```text
//! seq of a session   1 … 511 │ 512 … 1023 │ 1024 … 1300
//! tails              row     │ row        │ (not full: ids are read from their index)
//! ```
//!
//! All of it follows from the ids. A stretch of 512 events is written when it becomes full,
//! without gaps from the first one on. Behind the last row that is whole, the ids are read.

use std::collections::BTreeMap;
use std::ops::Deref;

use event::EventId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::row::{RowKey, SEQ_MAX};
use super::{BodyDecoder, CatalogueTx, fault};
use crate::StorageError;
use crate::id_cache::{END_BYTES, IdSuffixes, StoredIds, SuffixMatches, id_end};
use crate::store::EventRow;

/// Events of a stretch, as a power of two: rows of 2 KiB, three of which share a page.
const STRETCH_BITS: u32 = 9;
const STRETCH_EVENTS: usize = 1 << STRETCH_BITS;

/// A mask for the lowest bits of these bytes.
const LOWEST: usize = 0xFFF;

/// The id ends that are looked for, with a bitmap in front of the binary search.
struct SuffixFilter {
    /// Which lowest bits occur: most other ids are ruled out by this alone.
    lowest: [bool; LOWEST + 1],
    ends: Vec<u32>,
}

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    /// Finds the ids of a session that have one of these suffixes, and the ends of all.
    pub(super) fn ids_by_suffix(
        &self,
        session: u32,
        suffixes: &IdSuffixes,
    ) -> Result<SuffixMatches, StorageError> {
        let wanted = SuffixFilter::new(suffixes);
        let mut ends = Vec::new();
        let (places, behind) =
            self.candidate_keys(session, &wanted, &mut ends).map_err(self.read_failed())?;
        let mut ids = Vec::new();
        for place in places {
            const SQL: &str = "SELECT id FROM event INDEXED BY event_ids WHERE pk = ?1";
            let id = self.query_one(SQL, [place.0], |row| row.get(0))?;
            // An invalid id belongs to a damaged row, which reading reports.
            if let Some(id) = id.and_then(|id| EventId::from_bytes(id).ok()) {
                ids.push((id, place.seq()));
            }
        }
        // `ids` begins behind the `seq` it gets, so one less.
        let rest = self.ids(session, behind.saturating_sub(1))?;
        ends.extend(rest.iter().map(|(id, _)| id_end(&id.tail())));
        ids.extend(rest);
        // Four bytes are only a part of the suffix, so a hit may be another id.
        ids.retain(|(id, _)| suffixes.contains(&id.tail()));
        Ok(SuffixMatches { ids, ends })
    }

    /// Returns the keys that may have a wanted id, as far as stretches are written, and the `seq`
    /// behind those. Adds the ends it passes to `ends`, with zeros where there is no event.
    fn candidate_keys(
        &self,
        session: u32,
        wanted: &SuffixFilter,
        ends: &mut Vec<u32>,
    ) -> rusqlite::Result<(Vec<RowKey>, u64)> {
        let mut places = Vec::new();
        let first = match first_stretch(&self.db, session) {
            Err(error) if fault::is_damage(&error) => None,
            first => first?,
        };
        // Without a first event, or with a damaged index over ids, all ids are read.
        let Some(mut next) = first else { return Ok((places, 0)) };
        let mut select = self.db.prepare_cached(ROWS)?;
        let mut rows = select.query([next, stretches_from(RowKey::new(session, 0))[1]])?;
        // A damaged or missing row ends the loop: the rest is read from the ids.
        while let Ok(Some(row)) = rows.next() {
            let Some(bytes) = checked_bytes(row, next) else { break };
            // The slot of an id is the low bits of its key, so a key needs no bytes in the row.
            let first = ends.len();
            ends.extend(bytes.as_chunks().0.iter().copied().map(u32::from_be_bytes));
            let slots = (next << STRETCH_BITS..).zip(&ends[first..]);
            places.extend(slots.filter(|(_, end)| wanted.has(**end)).map(|(key, _)| RowKey(key)));
            next += 1;
        }
        Ok((places, RowKey(next << STRETCH_BITS).seq()))
    }

    /// Lists the sessions that have rows here.
    pub(super) fn sessions_of_tails(&self) -> rusqlite::Result<Vec<u32>> {
        let mut select = self.db.prepare("SELECT DISTINCT stretch >> ?1 FROM tails")?;
        let session = |row: &Row<'_>| row.get::<_, i64>(0);
        let sessions = select.query_map([32 - STRETCH_BITS], session)?;
        // A damaged key may give a number that no session can have.
        sessions.map(|session| Ok(session?.try_into().unwrap_or(u32::MAX))).collect()
    }

    /// Whether the rows of a session agree with its ids, without a gap.
    pub(super) fn fits_tails(&self, session: u32) -> rusqlite::Result<bool> {
        let bounds = stretches_from(RowKey::new(session, 0));
        let Some(first) = first_stretch(&self.db, session)? else { return Ok(false) };
        let mut select = self.db.prepare_cached(ROWS)?;
        let mut rows = select.query(bounds)?;
        // A row that is missing in the middle shows as one with the wrong number.
        for stretch in first.. {
            let Some(row) = rows.next()? else { break };
            if checked_bytes(row, stretch) != Some(&stretch_bytes(&self.db, stretch)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

const ROWS: &str = "SELECT stretch, checksum, bytes FROM tails \
     WHERE stretch BETWEEN ?1 AND ?2 ORDER BY stretch";

/// Writes the stretches that became full with these events. Stretches from the first event on are
/// written again: a fork that takes over copies of its parent's events gets events in front.
pub(super) fn update_stretches(db: &Connection, events: &[EventRow]) -> rusqlite::Result<()> {
    let mut written: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in events {
        let (first, last) = written.entry(row.session).or_insert((row.seq, row.seq));
        (*first, *last) = (row.seq.min(*first), row.seq.max(*last));
    }
    for (session, (first, last)) in written {
        // An append at the end deletes nothing: its stretch is not full and has no row.
        delete_from(db, RowKey::new(session, first))?;
        if stretch_of(RowKey::new(session, first)) < stretch_of(RowKey::new(session, last + 1)) {
            write_stretches(db, session, last)?;
        }
    }
    Ok(())
}

/// Deletes the stretches of a session from a key on.
pub(super) fn delete_from(db: &Connection, key: RowKey) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM tails WHERE stretch BETWEEN ?1 AND ?2")?
        .execute(stretches_from(key))
        .map(drop)
}

/// Writes the full stretches behind the last one that is written, up to the event `last`.
pub(super) fn write_stretches(db: &Connection, session: u32, last: u64) -> rusqlite::Result<()> {
    const LAST: &str = "SELECT stretch FROM tails WHERE stretch BETWEEN ?1 AND ?2 \
         ORDER BY stretch DESC LIMIT 1";
    const PUT: &str = "INSERT INTO tails (stretch, checksum, bytes) VALUES (?1, ?2, ?3)";
    let end = stretch_of(RowKey::new(session, last + 1));
    let bounds = stretches_from(RowKey::new(session, 0));
    let noted =
        db.prepare_cached(LAST)?.query_row(bounds, |row| row.get::<_, i64>(0)).optional()?;
    let from = match noted {
        Some(noted) => Some(noted + 1),
        None => first_stretch(db, session)?,
    };
    let Some(from) = from else { return Ok(()) };
    let mut put = db.prepare_cached(PUT)?;
    for stretch in from..end {
        let bytes = stretch_bytes(db, stretch)?;
        put.execute(params![stretch, sum(stretch, &bytes), bytes])?;
    }
    Ok(())
}

/// Computes the bytes of a stretch; zeros where there is no event.
fn stretch_bytes(db: &Connection, stretch: i64) -> rusqlite::Result<Vec<u8>> {
    const IDS: &str = "SELECT pk, id FROM event INDEXED BY event_ids WHERE pk >= ?1 AND pk < ?2";
    let mut bytes = vec![0; STRETCH_EVENTS * END_BYTES];
    let mut select = db.prepare_cached(IDS)?;
    let mut rows = select.query([stretch << STRETCH_BITS, (stretch + 1) << STRETCH_BITS])?;
    while let Some(row) = rows.next()? {
        // The remainder of the key is its slot, because a stretch begins at a multiple of 512.
        let at = row.get::<_, i64>(0)? as usize % STRETCH_EVENTS * END_BYTES;
        let id: [u8; 16] = row.get(1)?;
        bytes[at..at + END_BYTES].copy_from_slice(&id[id.len() - END_BYTES..]);
    }
    Ok(bytes)
}

/// Returns the stretch of a session's first own event. A fork begins behind what it inherits.
fn first_stretch(db: &Connection, session: u32) -> rusqlite::Result<Option<i64>> {
    const SQL: &str = "SELECT pk FROM event INDEXED BY event_ids WHERE pk > ?1 AND pk <= ?2 \
         ORDER BY pk LIMIT 1";
    let bounds = [RowKey::new(session, 0).0, RowKey::new(session, SEQ_MAX).0];
    let first = db.prepare_cached(SQL)?.query_row(bounds, |row| row.get(0)).optional()?;
    Ok(first.map(|key| stretch_of(RowKey(key))))
}

/// Returns the bytes of a row, if it is that of the stretch and its checksum fits.
fn checked_bytes<'r>(row: &'r Row<'_>, stretch: i64) -> Option<&'r [u8]> {
    let bytes = row.get_ref(2).ok()?.as_blob().ok()?;
    let is_whole = row.get(0) == Ok(stretch)
        && row.get(1) == Ok(sum(stretch, bytes))
        && bytes.len() == STRETCH_EVENTS * END_BYTES;
    is_whole.then_some(bytes)
}

fn stretch_of(key: RowKey) -> i64 {
    key.0 >> STRETCH_BITS
}

/// Returns the stretch of a key, and the last one its session could have.
fn stretches_from(key: RowKey) -> [i64; 2] {
    [stretch_of(key), stretch_of(RowKey::new(key.session(), SEQ_MAX))]
}

fn sum(stretch: i64, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&stretch.to_be_bytes());
    sum.update(bytes);
    sum.finalize()
}

impl SuffixFilter {
    fn new(suffixes: &IdSuffixes) -> SuffixFilter {
        let mut ends: Vec<u32> = suffixes.iter().map(id_end).collect();
        ends.sort_unstable();
        let mut lowest = [false; LOWEST + 1];
        ends.iter().for_each(|end| lowest[*end as usize & LOWEST] = true);
        SuffixFilter { lowest, ends }
    }

    fn has(&self, end: u32) -> bool {
        self.lowest[end as usize & LOWEST] && self.ends.binary_search(&end).is_ok()
    }
}
