//! The floor: SQLite alone, given the same rows and the same settings as the journal.
//!
//! One plain table: the JSON text of each event under its session and number, and a unique index
//! of ids. No compression, no checksum, no search, no catalogue.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::Outcome;

pub(crate) struct RawTable {
    db: Connection,
}

/// An event as the floor keeps it.
pub(crate) struct RawRow {
    pub(crate) session: u32,
    pub(crate) seq: u64,
    pub(crate) id: [u8; 16],
    pub(crate) json: String,
}

/// What both sides are set to; printed with the result.
pub(crate) const SETTINGS: &str =
    "WAL, synchronous=FULL, page_size=8192, log copied at 32 MiB, cache 32 MiB";

impl RawTable {
    pub(crate) fn create(file: &Path) -> Outcome<RawTable> {
        let db = Connection::open(file)?;
        // The page size has to be set before the first table is made, and before WAL mode.
        db.pragma_update(None, "page_size", 8_192)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        // In pages: 4,096 of 8 KiB are the 32 MiB of `SETTINGS`.
        db.pragma_update(None, "wal_autocheckpoint", 4_096)?;
        db.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)?;
        // Negative means KiB.
        db.pragma_update(None, "cache_size", -32 * 1024)?;
        db.pragma_update(None, "mmap_size", 1024 * 1024 * 1024)?;
        db.execute_batch(
            "CREATE TABLE event (session INTEGER NOT NULL, seq INTEGER NOT NULL, \
             id BLOB NOT NULL, json BLOB NOT NULL, PRIMARY KEY (session, seq)); \
             CREATE UNIQUE INDEX event_id ON event (id);",
        )?;
        Ok(RawTable { db })
    }

    /// Inserts the rows in one transaction.
    pub(crate) fn insert_rows(&self, rows: &[RawRow]) -> Outcome<()> {
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for row in rows {
            self.db
                .prepare_cached(
                    "INSERT INTO event (session, seq, id, json) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![row.session, row.seq as i64, row.id, row.json.as_bytes()])?;
        }
        self.db.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Scans a session from its first event on and shows the text of each to `look`.
    pub(crate) fn scan_session(
        &self,
        session: u32,
        mut look: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut statement = self
            .db
            .prepare_cached("SELECT seq, id, json FROM event WHERE session = ?1 ORDER BY seq")?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            look(row.get_ref(2)?.as_blob()?)?;
        }
        Ok(())
    }
}
