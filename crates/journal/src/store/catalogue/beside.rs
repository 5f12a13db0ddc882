//! What a store asks for that keeps its texts elsewhere: how far it got, in numbers of its own
//! that commit with the rows.

use std::ops::Deref;

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{Key, SEQ_MAX, number};
use super::{Bodies, Catalogue, View, Writing, fault};
use crate::StorageError;

impl<C: Deref<Target = Connection>, B: Bodies> View<'_, C, B> {
    pub(crate) fn bodies(&self) -> &B {
        &self.bodies
    }

    /// A number the store noted under `name`.
    pub(crate) fn noted(&self, name: &str) -> Result<Option<u64>, StorageError> {
        let mut sql = self
            .db
            .prepare_cached("SELECT value FROM meta WHERE name = ?1")
            .map_err(self.unread())?;
        sql.query_row([name], |row| number(row, 0)).optional().map_err(self.unread())
    }

    /// Every number noted under a name that begins with `prefix`, and the rest of the name.
    pub(crate) fn noted_under(&self, prefix: &str) -> Result<Vec<(String, u64)>, StorageError> {
        let mut sql = self
            .db
            .prepare_cached("SELECT name, value FROM meta WHERE substr(name, 1, ?2) = ?1")
            .map_err(self.unread())?;
        let length = prefix.chars().count();
        sql.query_map(params![prefix, length as i64], |row| {
            let name: String = row.get(0)?;
            Ok((name[prefix.len()..].to_owned(), number(row, 1)?))
        })
        .and_then(Iterator::collect)
        .map_err(self.unread())
    }

    /// Whether some event has its `data` under this digest.
    pub(crate) fn has_payload(&self, digest: &[u8; 32]) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM payload WHERE digest = ?1", digest)
    }

    /// The digests of the `data` of a session's events.
    pub(crate) fn payloads_of(&self, session: u32) -> Result<Vec<[u8; 32]>, StorageError> {
        let bounds = [Key::new(session, 0).0, Key::new(session, SEQ_MAX).0];
        let mut sql = self
            .db
            .prepare_cached(
                "SELECT DISTINCT payload FROM event \
                 WHERE pk BETWEEN ?1 AND ?2 AND payload IS NOT NULL",
            )
            .map_err(self.unread())?;
        sql.query_map(bounds, |row| row.get(0)).and_then(Iterator::collect).map_err(self.unread())
    }

    /// Whether there is an event at this place.
    pub(crate) fn has_event(&self, session: u32, seq: u64) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM event WHERE pk = ?1", Key::new(session, seq).0)
    }

    /// Whether this position was given to an event that is there.
    pub(crate) fn has_position(&self, position: u64) -> Result<bool, StorageError> {
        self.exists("SELECT 1 FROM event WHERE position = ?1", position as i64)
    }

    /// The body and the position of every event of a session, by `seq`.
    pub(crate) fn each_body(
        &self,
        session: u32,
        mut take: impl FnMut(u64, u64, &[u8]),
    ) -> Result<(), StorageError> {
        let bounds = [Key::new(session, 0).0, Key::new(session, SEQ_MAX).0];
        let mut each = || -> rusqlite::Result<()> {
            let mut sql = self.db.prepare_cached(
                "SELECT pk, position, body FROM event WHERE pk BETWEEN ?1 AND ?2 ORDER BY pk",
            )?;
            let mut rows = sql.query(bounds)?;
            while let Some(row) = rows.next()? {
                take(Key(row.get(0)?).seq(), number(row, 1)?, row.get_ref(2)?.as_blob()?);
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

impl<B: Bodies> View<'_, Writing<'_>, B> {
    /// Notes a number under `name`, as part of this commit.
    pub(crate) fn note(&self, name: &str, value: u64) -> Result<(), StorageError> {
        self.change(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![name, value as i64],
        )
    }

    /// Forgets a number, as part of this commit.
    pub(crate) fn forget_note(&self, name: &str) -> Result<(), StorageError> {
        self.change("DELETE FROM meta WHERE name = ?1", [name])
    }

    /// Makes sure that no position up to this one is given again, as part of this commit.
    pub(crate) fn use_up_positions(&self, position: u64) -> Result<(), StorageError> {
        self.change(
            "INSERT INTO meta (name, value) VALUES ('position_deleted', ?1) \
             ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
            [position as i64],
        )
    }

    /// Removes everything, as part of this commit.
    pub(crate) fn forget_everything(&self) -> Result<(), StorageError> {
        self.db
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
    /// Makes durable what was committed so far, also where commits alone do not.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let mut log = self.file.clone().into_os_string();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        match std::fs::File::open(&log) {
            Ok(file) => file.sync_data().map_err(|error| StorageError::new("sync", log, error)),
            // Without a log everything is in the database, which was synced with its end.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StorageError::new("sync", log, error)),
        }
    }
}
