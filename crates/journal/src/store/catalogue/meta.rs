//! Named numbers that commit with the rows, and the questions of a store that keeps its texts in
//! files of its own.

use std::ops::Deref;

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{RowKey, SEQ_MAX, number};
use super::{BodyDecoder, Catalogue, CatalogueTx, WriteConnection, fault};
use crate::StorageError;

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    pub(crate) fn bodies(&self) -> &B {
        &self.bodies
    }

    /// Reads the number under `name`.
    pub(crate) fn meta_value(&self, name: &str) -> Result<Option<u64>, StorageError> {
        let mut sql = self
            .db
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")
            .map_err(self.unread())?;
        sql.query_row([name], |row| number(row, 0)).optional().map_err(self.unread())
    }

    /// Lists the numbers with a name that begins with `prefix`, each with the rest of its name.
    pub(crate) fn meta_with_prefix(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, u64)>, StorageError> {
        let mut sql = self
            .db
            .prepare_cached("SELECT name, value FROM meta WHERE substr(name, 1, ?2) = ?1")
            .map_err(self.unread())?;
        // `substr` and not `LIKE`, which ignores case and gives `_` and `%` a meaning. SQLite
        // counts characters where Rust counts bytes.
        let length = prefix.chars().count();
        sql.query_map(params![prefix, length as i64], |row| {
            let name: String = row.get(0)?;
            Ok((name[prefix.len()..].to_owned(), number(row, 1)?))
        })
        .and_then(Iterator::collect)
        .map_err(self.unread())
    }

    /// Whether an event has its `data` under this digest.
    pub(crate) fn has_payload(&self, digest: &[u8; 32]) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM payload WHERE digest = ?1", digest)
    }

    /// Lists the digests of the `data` of a session's events.
    pub(crate) fn payloads_of(&self, session: u32) -> Result<Vec<[u8; 32]>, StorageError> {
        let bounds = [RowKey::new(session, 0).0, RowKey::new(session, SEQ_MAX).0];
        let mut sql = self
            .db
            .prepare_cached(
                "SELECT DISTINCT payload FROM event \
                 WHERE pk BETWEEN ?1 AND ?2 AND payload IS NOT NULL",
            )
            .map_err(self.unread())?;
        sql.query_map(bounds, |row| row.get(0)).and_then(Iterator::collect).map_err(self.unread())
    }

    /// Whether the session has an event at this `seq`.
    pub(crate) fn has_event(&self, session: u32, seq: u64) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM event WHERE pk = ?1", RowKey::new(session, seq).0)
    }

    /// Whether an event has this position.
    pub(crate) fn has_position(&self, position: u64) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM event WHERE position = ?1", position as i64)
    }

    /// Passes `seq`, position and body of every event of a session to `take`, by `seq`.
    pub(crate) fn for_each_body(
        &self,
        session: u32,
        mut take: impl FnMut(u64, u64, &[u8]),
    ) -> Result<(), StorageError> {
        let bounds = [RowKey::new(session, 0).0, RowKey::new(session, SEQ_MAX).0];
        let mut each = || -> rusqlite::Result<()> {
            let mut sql = self.db.prepare_cached(
                "SELECT pk, position, body FROM event WHERE pk BETWEEN ?1 AND ?2 ORDER BY pk",
            )?;
            let mut rows = sql.query(bounds)?;
            while let Some(row) = rows.next()? {
                // Row by row: the bodies of a long session need not fit into memory.
                take(RowKey(row.get(0)?).seq(), number(row, 1)?, row.get_ref(2)?.as_blob()?);
            }
            Ok(())
        };
        each().map_err(self.unread())
    }

    fn exists(&self, sql: &str, key: impl rusqlite::ToSql) -> Result<bool, StorageError> {
        self.db.prepare_cached(sql).and_then(|mut sql| sql.exists([key])).map_err(self.unread())
    }

    fn unread(&self) -> impl Fn(rusqlite::Error) -> StorageError {
        fault::storage("read", self.catalogue.file())
    }
}

impl<B: BodyDecoder> CatalogueTx<'_, WriteConnection<'_>, B> {
    /// Writes a number under `name`, as part of this commit.
    pub(crate) fn set_meta(&self, name: &str, value: u64) -> Result<(), StorageError> {
        self.change(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![name, value as i64],
        )
    }

    /// Removes a number, as part of this commit.
    pub(crate) fn remove_meta(&self, name: &str) -> Result<(), StorageError> {
        self.change("DELETE FROM meta WHERE name = ?1", [name])
    }

    /// Makes sure that no position up to this one is ever given again, as part of this commit.
    pub(crate) fn reserve_positions(&self, position: u64) -> Result<(), StorageError> {
        self.change(
            "INSERT INTO meta (name, value) VALUES ('position_deleted', ?1) \
             ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
            [position as i64],
        )
    }

    /// Removes everything, as part of this commit.
    pub(crate) fn delete_all_rows(&self) -> Result<(), StorageError> {
        self.db
            // Rows that refer to others go first, as the foreign keys demand.
            .execute_batch(
                "DELETE FROM sighting; DELETE FROM event; DELETE FROM tails; \
                 DELETE FROM payload; DELETE FROM session; DELETE FROM tombstone; DELETE FROM source; \
                 DELETE FROM consumer; DELETE FROM meta;",
            )
            .map_err(self.unwritten())
    }

    fn change(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), StorageError> {
        let changed = self.db.prepare_cached(sql).and_then(|mut sql| sql.execute(params));
        changed.map(drop).map_err(self.unwritten())
    }

    fn unwritten(&self) -> impl Fn(rusqlite::Error) -> StorageError {
        fault::storage("write", self.catalogue.file())
    }
}

impl Catalogue {
    /// Syncs what was committed so far, for a catalogue that does not sync each commit.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        // SQLite in this mode syncs the WAL only with a checkpoint, so the file is synced past it.
        // The WAL has none of SQLite's locks, which closing a handle would release.
        match std::fs::File::open(&log) {
            Ok(file) => file.sync_data().map_err(|error| StorageError::new("sync", log, error)),
            // Without a WAL everything is in the database, which the last checkpoint synced.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StorageError::new("sync", log, error)),
        }
    }
}
