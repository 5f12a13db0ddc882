//! Stretches of the log in the index: each has the words of its events, by the alphabet, in
//! leaves.
//!
//! Whatever is indexed in one go becomes a stretch. Small ones are merged into larger ones now
//! and then, so that a word has to be looked up in a few places only; every word is written once
//! more for each size of stretches there is. A merge also leaves out what is gone.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::gathering::Gathering;
use super::leaf::{Damaged, Leaf, Words};

/// Stretches of one size that are merged into one.
const MERGED_AT_ONCE: usize = 16;

/// Events up to which a stretch is of the smallest size. Each further size is as many times larger
/// as there are stretches in a merge.
const SMALLEST_EVENTS: usize = 512;

/// Stretches a part may have. Beyond it all are merged, whatever their sizes.
const STRETCHES_MAX: usize = 64;

/// Some events of a part that were indexed together.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    number: i64,
    /// From its first event up to behind its last, as places in the part.
    pub(super) places: Range<u32>,
    events: usize,
}

/// The stretches of a part, oldest first.
pub(super) fn stretches(db: &Connection, part: u64) -> Result<Vec<Stretch>, rusqlite::Error> {
    let sql = "SELECT number, first, behind, events FROM stretches WHERE part = ?1 ORDER BY first";
    let read = |row: &Row<'_>| {
        let (first, behind) = (row.get(1)?, row.get(2)?);
        Ok(Stretch {
            number: row.get(0)?,
            places: first..behind,
            events: row.get::<_, u32>(3)? as usize,
        })
    };
    db.prepare_cached(sql)?.query_map([part as i64], read)?.collect()
}

impl Stretch {
    /// Adds the places of a word to a list.
    pub(super) fn word(
        &self,
        db: &Connection,
        word: &str,
        places: &mut Vec<u32>,
    ) -> Result<(), rusqlite::Error> {
        let Some(bytes) = self.leaf_up_to(db, word.as_bytes())? else { return Ok(()) };
        let mut words = Words::of(bytes)?;
        while words.next()? && &*words.word <= word.as_bytes() {
            if words.word == word.as_bytes() {
                words.places(places)?;
            }
        }
        Ok(())
    }

    /// Adds the places of all words with a beginning to a list, word by word.
    pub(super) fn beginning(
        &self,
        db: &Connection,
        beginning: &str,
        places: &mut Vec<u32>,
    ) -> Result<(), rusqlite::Error> {
        let beginning = beginning.as_bytes();
        let mut take = |bytes: Vec<u8>| -> Result<bool, rusqlite::Error> {
            let mut words = Words::of(bytes)?;
            while words.next()? {
                if words.word.starts_with(beginning) {
                    words.places(places)?;
                } else if &*words.word > beginning {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let goes_on = match self.leaf_up_to(db, beginning)? {
            Some(bytes) => take(bytes)?,
            None => true,
        };
        if goes_on {
            let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word > ?2 ORDER BY word";
            let mut select = db.prepare_cached(sql)?;
            let mut rows = select.query(params![self.number, beginning])?;
            while let Some(row) = rows.next()?
                && take(row.get(0)?)?
            {}
        }
        Ok(())
    }

    /// The leaf in which a word stands, if it stands anywhere.
    fn leaf_up_to(&self, db: &Connection, word: &[u8]) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word <= ?2 \
                   ORDER BY word DESC LIMIT 1";
        db.prepare_cached(sql)?.query_row(params![self.number, word], |row| row.get(0)).optional()
    }

    /// 0 for the smallest, 1 for the next larger …
    fn size(&self) -> u32 {
        (self.events / SMALLEST_EVENTS).checked_ilog(MERGED_AT_ONCE).map_or(0, |size| size + 1)
    }
}

/// Writes down what was gathered of a part, behind what is there, and merges what is due.
pub(super) fn add(
    tx: &Transaction<'_>,
    part: u64,
    gathering: &Gathering,
) -> Result<(), rusqlite::Error> {
    let Some(places) = gathering.places() else { return Ok(()) };
    let mut writing = Writing::new(tx)?;
    gathering.by_word(|word, places| writing.word(word, places))?;
    writing.finish(part, places, gathering.len())?;
    while let Some(due) = due(&stretches(tx, part)?) {
        merge(tx, part, &due)?;
    }
    Ok(())
}

/// Takes what is gone out of a part.
pub(super) fn purge(tx: &Transaction<'_>, part: u64) -> Result<(), rusqlite::Error> {
    let gone = gone(tx, part)?;
    for stretch in stretches(tx, part)? {
        if gone.iter().any(|place| stretch.places.contains(place)) {
            merge(tx, part, &[stretch])?;
        }
    }
    // What is left was never indexed.
    tx.prepare_cached("DELETE FROM gone WHERE part = ?1")?.execute([part as i64])?;
    Ok(())
}

/// The places of a part whose events are gone while their words are still there.
pub(super) fn gone(db: &Connection, part: u64) -> Result<HashSet<u32>, rusqlite::Error> {
    let mut select = db.prepare_cached("SELECT place FROM gone WHERE part = ?1")?;
    select.query_map([part as i64], |row| row.get(0))?.collect()
}

/// The newest stretches that should be one, if there are such.
fn due(stretches: &[Stretch]) -> Option<Vec<Stretch>> {
    if stretches.len() > STRETCHES_MAX {
        return Some(stretches.to_vec());
    }
    let sizes = stretches.iter().map(Stretch::size).max().map_or(0..0, |largest| 0..largest + 1);
    sizes.into_iter().find_map(|size| {
        let smaller = stretches.iter().rev().take_while(|stretch| stretch.size() <= size);
        let newest = &stretches[stretches.len() - smaller.count()..];
        let of_size = newest.iter().filter(|stretch| stretch.size() == size);
        (of_size.count() >= MERGED_AT_ONCE).then(|| newest.to_vec())
    })
}

/// Makes stretches that follow upon each other one, without what is gone.
fn merge(tx: &Transaction<'_>, part: u64, merged: &[Stretch]) -> Result<(), rusqlite::Error> {
    let (Some(first), Some(last)) = (merged.first(), merged.last()) else { return Ok(()) };
    let all = first.places.start..last.places.end;
    let gone = gone(tx, part)?;
    let mut writing = Writing::new(tx)?;
    let mut readings = Vec::new();
    for stretch in merged {
        readings.extend(Reading::begin(tx, stretch.number)?);
    }
    let (mut word, mut places) = (Vec::new(), Vec::new());
    while let Some(next) = readings.iter().map(|reading| &reading.words.word).min() {
        word.clone_from(next);
        places.clear();
        let mut at = 0;
        while let Some(reading) = readings.get_mut(at) {
            let is_it = reading.words.word == word;
            if is_it {
                reading.words.places(&mut places)?;
            }
            if is_it && !reading.next(tx)? {
                readings.remove(at);
            } else {
                at += 1;
            }
        }
        if !gone.is_empty() {
            places.retain(|place| !gone.contains(place));
        }
        if !places.is_empty() {
            writing.word(&word, &places)?;
        }
    }
    for stretch in merged {
        tx.prepare_cached("DELETE FROM leaves WHERE stretch = ?1")?.execute([stretch.number])?;
        tx.prepare_cached("DELETE FROM stretches WHERE number = ?1")?.execute([stretch.number])?;
    }
    tx.prepare_cached("DELETE FROM gone WHERE part = ?1 AND place >= ?2 AND place < ?3")?
        .execute(params![part as i64, all.start, all.end])?;
    writing.finish(part, all, merged.iter().map(|stretch| stretch.events).sum())
}

/// The words of a stretch, one after the other.
struct Reading {
    stretch: i64,
    words: Words,
}

impl Reading {
    /// Stands at the first word; `None` if there is none.
    fn begin(tx: &Transaction<'_>, stretch: i64) -> Result<Option<Reading>, rusqlite::Error> {
        let Some(bytes) = leaf_behind(tx, stretch, b"")? else { return Ok(None) };
        let mut reading = Reading { stretch, words: Words::of(bytes)? };
        Ok(reading.next(tx)?.then_some(reading))
    }

    /// Goes to the next word; `false` behind the last.
    fn next(&mut self, tx: &Transaction<'_>) -> Result<bool, rusqlite::Error> {
        while !self.words.next()? {
            match leaf_behind(tx, self.stretch, &self.words.word)? {
                Some(bytes) => self.words = Words::of(bytes)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The first leaf whose words all come behind a word.
fn leaf_behind(
    tx: &Transaction<'_>,
    stretch: i64,
    word: &[u8],
) -> Result<Option<Vec<u8>>, rusqlite::Error> {
    let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word > ?2 ORDER BY word LIMIT 1";
    tx.prepare_cached(sql)?.query_row(params![stretch, word], |row| row.get(0)).optional()
}

/// A stretch that is being written.
struct Writing<'a> {
    tx: &'a Transaction<'a>,
    number: i64,
    leaf: Leaf,
}

impl<'a> Writing<'a> {
    fn new(tx: &'a Transaction<'_>) -> Result<Writing<'a>, rusqlite::Error> {
        let last: Option<i64> = tx
            .prepare_cached("SELECT max(number) FROM stretches")?
            .query_row([], |row| row.get(0))?;
        Ok(Writing { tx, number: last.unwrap_or(0) + 1, leaf: Leaf::default() })
    }

    fn word(&mut self, word: &[u8], places: &[u32]) -> Result<(), rusqlite::Error> {
        self.leaf.push(word, places);
        if self.leaf.is_full() { self.write_leaf() } else { Ok(()) }
    }

    fn write_leaf(&mut self) -> Result<(), rusqlite::Error> {
        if !self.leaf.is_empty() {
            let sql = "INSERT INTO leaves (stretch, word, bytes) VALUES (?1, ?2, ?3)";
            let first = self.leaf.first.clone();
            self.tx.prepare_cached(sql)?.execute(params![
                self.number,
                first,
                self.leaf.sealed()
            ])?;
            self.leaf.clear();
        }
        Ok(())
    }

    fn finish(
        mut self,
        part: u64,
        places: Range<u32>,
        events: usize,
    ) -> Result<(), rusqlite::Error> {
        self.write_leaf()?;
        let sql = "INSERT INTO stretches (number, part, first, behind, events) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        self.tx.prepare_cached(sql)?.execute(params![
            self.number,
            part as i64,
            places.start,
            places.end,
            events as i64
        ])?;
        Ok(())
    }
}

/// A damaged leaf is a damaged file: it is begun again.
impl From<Damaged> for rusqlite::Error {
    fn from(_: Damaged) -> rusqlite::Error {
        let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        rusqlite::Error::SqliteFailure(corrupt, Some("a leaf of the index".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the newest stretches, given by their events, should be one.
    fn due_of(events: &[usize]) -> Option<usize> {
        let stretch = |events: &usize| Stretch { number: 0, places: 0..0, events: *events };
        due(&events.iter().map(stretch).collect::<Vec<_>>()).map(|due| due.len())
    }

    #[test]
    fn stretches_of_one_size_are_merged() {
        assert_eq!(due_of(&[]), None);
        assert_eq!(due_of(&[64; MERGED_AT_ONCE - 1]), None);
        assert_eq!(due_of(&[64; MERGED_AT_ONCE]), Some(MERGED_AT_ONCE));
        assert_eq!(due_of(&[4_096; MERGED_AT_ONCE]), Some(MERGED_AT_ONCE));
    }

    #[test]
    fn a_large_stretch_is_left_alone_by_small_ones() {
        let mut events = vec![100_000];
        events.extend([64; MERGED_AT_ONCE]);
        assert_eq!(due_of(&events), Some(MERGED_AT_ONCE));
        events.truncate(MERGED_AT_ONCE);
        assert_eq!(due_of(&events), None);
    }

    #[test]
    fn there_are_never_very_many() {
        let events: Vec<usize> =
            (0..=STRETCHES_MAX).map(|number| if number % 4 == 0 { 1_000 } else { 1 }).collect();
        assert_eq!(due_of(&events), Some(STRETCHES_MAX / 4 * 4 + 1));
    }
}
