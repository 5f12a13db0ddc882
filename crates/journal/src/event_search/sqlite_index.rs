//! The rows of the full-text index in `derived.db`.
//!
//! | table       | a row is                                                             |
//! |-------------|----------------------------------------------------------------------|
//! | `stretches` | a segment: `number`, shard (`part`), offsets `first..behind`, `events` |
//! | `leaves`    | a term block: segment (`stretch`), its first term (`word`), `bytes`  |
//! | `gone`      | a tombstone: shard (`part`), offset (`place`)                        |
//! | `replaced`  | a superseded document: its `position`                                |
//! | `state`     | the one row of [`IndexState`]                                        |
//!
//! The names of tables and columns are older than those of the code. A stored file keeps them:
//! other names would be another format, and every index would be built anew.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use ::search::{CorruptBlock, DocId, IndexStore, IndexStoreMut, Segment};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::derived::DerivedError;

/// The index as one connection sees it. Changes belong into a transaction of the connection.
#[derive(Clone, Copy)]
pub(super) struct SqliteIndex<'a> {
    connection: &'a Connection,
}

/// How far the log is indexed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IndexState {
    /// Everything up to this position is indexed.
    pub(super) indexed: u64,
    /// The days that occur in the index; none if the first is after the last.
    pub(super) first_day: i64,
    pub(super) last_day: i64,
    /// Deletions of the log that were followed here.
    pub(super) deletions: u64,
}

impl<'a> SqliteIndex<'a> {
    pub(super) fn new(connection: &'a Connection) -> SqliteIndex<'a> {
        SqliteIndex { connection }
    }

    pub(super) fn state(&self) -> Result<IndexState, DerivedError> {
        const SQL: &str = "SELECT indexed, first_day, last_day, deletions FROM state";
        let read = |row: &Row<'_>| {
            Ok(IndexState {
                // SQLite's integers have a sign. Positions never use the top bit, so the casts lose
                // nothing.
                indexed: row.get::<_, i64>(0)? as u64,
                first_day: row.get(1)?,
                last_day: row.get(2)?,
                deletions: row.get::<_, i64>(3)? as u64,
            })
        };
        Ok(self.connection.prepare_cached(SQL)?.query_row([], read)?)
    }

    pub(super) fn save_state(&mut self, state: IndexState) -> Result<(), DerivedError> {
        const SQL: &str =
            "UPDATE state SET indexed = ?1, first_day = ?2, last_day = ?3, deletions = ?4";
        let IndexState { indexed, first_day, last_day, deletions } = state;
        let values = params![indexed as i64, first_day, last_day, deletions as i64];
        self.connection.prepare_cached(SQL)?.execute(values)?;
        Ok(())
    }
}

impl IndexStore for SqliteIndex<'_> {
    type Error = DerivedError;

    fn shards(&self) -> Result<Vec<u64>, DerivedError> {
        let sql = "SELECT DISTINCT part FROM stretches ORDER BY part";
        let mut select = self.connection.prepare_cached(sql)?;
        let shards = select.query_map([], |row| Ok(row.get::<_, i64>(0)? as u64))?;
        Ok(shards.collect::<Result<_, _>>()?)
    }

    fn segments(&self, shard: u64) -> Result<Vec<Segment>, DerivedError> {
        let sql =
            "SELECT number, first, behind, events FROM stretches WHERE part = ?1 ORDER BY first";
        let read = |row: &Row<'_>| {
            let (first, behind) = (row.get(1)?, row.get(2)?);
            Ok(Segment {
                id: row.get(0)?,
                offsets: first..behind,
                doc_count: row.get::<_, u32>(3)? as usize,
            })
        };
        let mut select = self.connection.prepare_cached(sql)?;
        Ok(select.query_map([shard as i64], read)?.collect::<Result<_, _>>()?)
    }

    fn tombstones(&self, shard: u64) -> Result<HashSet<u32>, DerivedError> {
        let mut select =
            self.connection.prepare_cached("SELECT place FROM gone WHERE part = ?1")?;
        let offsets = select.query_map([shard as i64], |row| row.get(0))?;
        Ok(offsets.collect::<Result<_, _>>()?)
    }

    fn is_superseded(&self, id: DocId) -> Result<bool, DerivedError> {
        let mut select =
            self.connection.prepare_cached("SELECT 1 FROM replaced WHERE position = ?1")?;
        Ok(select.exists([id as i64])?)
    }

    fn block_at(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, DerivedError> {
        // One step down the index `leaf_by_word`, which orders blocks by segment and first term.
        let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word <= ?2 \
                   ORDER BY word DESC LIMIT 1";
        let mut select = self.connection.prepare_cached(sql)?;
        Ok(select.query_row(params![segment_id, term], |row| row.get(0)).optional()?)
    }

    fn block_after(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, DerivedError> {
        let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word > ?2 \
                   ORDER BY word LIMIT 1";
        let mut select = self.connection.prepare_cached(sql)?;
        Ok(select.query_row(params![segment_id, term], |row| row.get(0)).optional()?)
    }

    fn visit_blocks_after(
        &self,
        segment_id: i64,
        term: &[u8],
        visit: &mut dyn FnMut(Vec<u8>) -> Result<ControlFlow<()>, DerivedError>,
    ) -> Result<(), DerivedError> {
        let sql = "SELECT bytes FROM leaves WHERE stretch = ?1 AND word > ?2 ORDER BY word";
        let mut select = self.connection.prepare_cached(sql)?;
        // Row by row, so that a visitor that breaks off has not loaded the rest of a long prefix.
        let mut rows = select.query(params![segment_id, term])?;
        while let Some(row) = rows.next()? {
            if visit(row.get(0)?)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl IndexStoreMut for SqliteIndex<'_> {
    fn next_segment_id(&self) -> Result<i64, DerivedError> {
        // A removed segment's number may be used again: its blocks were removed with it.
        let mut select = self.connection.prepare_cached("SELECT max(number) FROM stretches")?;
        let last: Option<i64> = select.query_row([], |row| row.get(0))?;
        Ok(last.unwrap_or(0) + 1)
    }

    fn put_block(
        &mut self,
        segment_id: i64,
        first_term: &[u8],
        bytes: &[u8],
    ) -> Result<(), DerivedError> {
        let sql = "INSERT INTO leaves (stretch, word, bytes) VALUES (?1, ?2, ?3)";
        let values = params![segment_id, first_term, bytes];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn put_segment(&mut self, shard: u64, segment: &Segment) -> Result<(), DerivedError> {
        let sql = "INSERT INTO stretches (number, part, first, behind, events) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let Segment { id, offsets: Range { start, end }, doc_count } = segment;
        let values = params![id, shard as i64, start, end, *doc_count as i64];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn remove_segment(&mut self, segment_id: i64) -> Result<(), DerivedError> {
        for sql in
            ["DELETE FROM leaves WHERE stretch = ?1", "DELETE FROM stretches WHERE number = ?1"]
        {
            self.connection.prepare_cached(sql)?.execute([segment_id])?;
        }
        Ok(())
    }

    fn put_tombstone(&mut self, shard: u64, offset: u32) -> Result<(), DerivedError> {
        // A document may be superseded and then deleted.
        let sql = "INSERT OR IGNORE INTO gone VALUES (?1, ?2)";
        self.connection.prepare_cached(sql)?.execute(params![shard as i64, offset])?;
        Ok(())
    }

    fn remove_tombstones(&mut self, shard: u64, offsets: Range<u32>) -> Result<(), DerivedError> {
        let sql = "DELETE FROM gone WHERE part = ?1 AND place >= ?2 AND place < ?3";
        let values = params![shard as i64, offsets.start, offsets.end];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn put_superseded(&mut self, id: DocId) -> Result<(), DerivedError> {
        // Two later accounts may amend the same first one.
        let sql = "INSERT OR IGNORE INTO replaced VALUES (?1)";
        self.connection.prepare_cached(sql)?.execute([id as i64])?;
        Ok(())
    }
}

/// A corrupt block is a corrupt file: `derived` begins it again.
impl From<CorruptBlock> for DerivedError {
    fn from(_: CorruptBlock) -> DerivedError {
        let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        let what = Some("a term block of the search index".to_owned());
        DerivedError::Sqlite(rusqlite::Error::SqliteFailure(corrupt, what))
    }
}
