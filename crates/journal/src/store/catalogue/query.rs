//! Keyed lookups and range scans. A query that meets a damaged index is repeated without indexes.

use std::ops::Deref;

use event::{EventId, SessionId, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::page::key;
use super::row::{
    RowKey, SEQ_MAX, activity_slot, number, read_session, read_sighting, session_columns,
    sighting_columns, time,
};
use super::{BodyDecoder, CatalogueTx, fault};
use crate::StorageError;
use crate::id_cache::{IdSuffixes, StoredIds, SuffixMatches};
use crate::store::{SeqRange, SessionCursor, SessionRow, SightingRow, StoreReader, StoredEvent};

impl<C: Deref<Target = Connection>, B: BodyDecoder> StoredIds for CatalogueTx<'_, C, B> {
    fn ids(&self, session: u32, after: u64) -> Result<Vec<(EventId, u64)>, StorageError> {
        const SQL: &str =
            "SELECT pk, id FROM event INDEXED BY event_ids WHERE pk > ?1 AND pk <= ?2";
        // `event_ids` covers both columns, so no page with bodies is read.
        let bounds = [RowKey::new(session, after).0, RowKey::new(session, SEQ_MAX).0];
        self.retry_without_indexes(SQL, |sql| {
            let mut ids = Vec::new();
            let mut select = self.db.prepare_cached(sql)?;
            let mut rows = select.query(bounds)?;
            while let Some(row) = rows.next()? {
                // An invalid id belongs to a damaged row, which reading reports.
                if let Ok(id) = EventId::from_bytes(row.get(1)?) {
                    ids.push((id, key(row)?.seq()));
                }
            }
            Ok(ids)
        })
    }

    fn ids_with_suffix(
        &self,
        session: u32,
        suffixes: &IdSuffixes,
    ) -> Result<SuffixMatches, StorageError> {
        self.ids_by_suffix(session, suffixes)
    }
}

impl<C: Deref<Target = Connection>, B: BodyDecoder> StoreReader for CatalogueTx<'_, C, B> {
    fn tail(&self) -> Result<u64, StorageError> {
        Ok(self.tail)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StorageError> {
        const SQL: &str = concat!("SELECT ", session_columns!(), " FROM session WHERE id = ?1");
        self.query_one(SQL, [id.as_str()], read_session)
    }

    fn session_numbered(&self, number: u32) -> Result<Option<SessionRow>, StorageError> {
        const SQL: &str = concat!("SELECT ", session_columns!(), " FROM session WHERE number = ?1");
        self.query_one(SQL, [number], read_session)
    }

    fn deletions(&self) -> Result<u64, StorageError> {
        const SQL: &str = "SELECT value FROM meta WHERE name = 'deletions'";
        Ok(self.query_one(SQL, [], |row| number(row, 0))?.unwrap_or(0))
    }

    fn last_number(&self) -> Result<u32, StorageError> {
        // Deleted sessions count: their numbers must not be given again.
        const SQL: &str = "SELECT max(\
            coalesce((SELECT max(number) FROM session), 0), \
            coalesce((SELECT value FROM meta WHERE name = 'number_deleted'), 0))";
        Ok(self.query_one(SQL, [], |row| row.get(0))?.unwrap_or(0))
    }

    fn session_count(&self) -> Result<u64, StorageError> {
        // Records of the user have ids that begin with `user:`; `;` is the byte behind the colon.
        const SQL: &str = "SELECT (SELECT count(*) FROM session) - \
             (SELECT count(*) FROM session WHERE id >= 'user:' AND id < 'user;')";
        let count = self.query_one(SQL, [], |row| number(row, 0))?;
        Ok(count.unwrap_or(0))
    }

    fn sessions(
        &self,
        after: Option<SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StorageError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM session WHERE last_slot <= ?1 AND (last_at, last_ns, number) < (?2, ?3, ?4) \
             ORDER BY last_slot DESC, last_at DESC, last_ns DESC, number DESC LIMIT ?5"
        );
        // Without a cursor the listing begins at the latest instant there can be.
        let (last_at, last_ns, number) = after.map_or((i64::MAX, u16::MAX, 0), |cursor| {
            let (micros, rest) = cursor.last_at.micros_and_rest();
            (micros, rest, cursor.number)
        });
        // The slot narrows the index scan; the three columns then cut exactly behind the cursor.
        let slot = activity_slot(last_at);
        self.query_all(SQL, params![slot, last_at, last_ns, number, limit as i64], read_session)
    }

    fn sessions_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StorageError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM session WHERE number IN (\
                 SELECT number FROM (SELECT number FROM session \
                     WHERE id >= ?1 AND id < ?2 LIMIT ?3) \
                 UNION \
                 SELECT number FROM (SELECT number FROM session \
                     WHERE provider_session_id >= ?1 AND provider_session_id < ?2 LIMIT ?3)) \
             ORDER BY provider_session_id IS NOT ?1, number LIMIT ?3"
        );
        // SQLite sorts every blob behind every text, so an empty blob bounds all texts.
        let behind = prefix_successor(prefix).map_or(Value::Blob(Vec::new()), Value::Text);
        self.query_all(SQL, params![prefix, behind, limit as i64], read_session)
    }

    fn children(&self, parent: &SessionId) -> Result<Vec<SessionRow>, StorageError> {
        const SQL: &str =
            concat!("SELECT ", session_columns!(), " FROM session WHERE parent_session_id = ?1");
        self.query_all(SQL, [parent.as_str()], read_session)
    }

    fn events(&self, session: u32, range: SeqRange) -> Result<Vec<StoredEvent>, StorageError> {
        self.page(session, range)
    }

    fn positions(&self, range: SeqRange) -> Result<Vec<StoredEvent>, StorageError> {
        self.page_of_positions(range)
    }

    fn locate(&self, id: &EventId) -> Result<Option<(u32, u64)>, StorageError> {
        let place = self.query_one("SELECT pk FROM event WHERE id = ?1", [id.bytes()], key)?;
        Ok(place.map(|key| (key.session(), key.seq())))
    }

    fn source(&self, source_id: &str) -> Result<Option<String>, StorageError> {
        const SQL: &str = "SELECT position FROM source WHERE source_id = ?1";
        let read = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned));
        Ok(self.query_one(SQL, [source_id], read)?.flatten())
    }

    fn sources(&self, show: &mut dyn FnMut(&str, &str)) -> Result<(), StorageError> {
        // The table is read by its primary key; there is no other index to fall back from.
        let mut ask = || {
            let mut select = self.db.prepare_cached("SELECT source_id, position FROM source")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                // A row that is no text is left out: its source is read again, and a repair removes
                // it.
                if let (Ok(source), Ok(position)) =
                    (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str())
                {
                    show(source, position);
                }
            }
            Ok(())
        };
        ask().map_err(self.read_failed())
    }

    fn consumer(&self, name: &str) -> Result<Option<u64>, StorageError> {
        const SQL: &str = "SELECT position FROM consumer WHERE name = ?1";
        self.query_one(SQL, [name], |row| number(row, 0))
    }

    fn sightings(&self, session: u32, seq: u64) -> Result<Vec<SightingRow>, StorageError> {
        const SQL: &str = concat!(
            "SELECT ",
            sighting_columns!(),
            " FROM sighting WHERE event = ?1 ORDER BY number"
        );
        self.query_all(SQL, [RowKey::new(session, seq).0], read_sighting)
    }

    fn tombstone(&self, id: &SessionId) -> Result<Option<Time>, StorageError> {
        const SQL: &str = "SELECT deleted_at, deleted_ns FROM tombstone WHERE session_id = ?1";
        self.query_one(SQL, [id.as_str()], |row| time(row, 0))
    }

    fn tombstones(&self) -> Result<Vec<SessionId>, StorageError> {
        let ids =
            self.query_all("SELECT session_id FROM tombstone", [], |row| row.get::<_, String>(0))?;
        // An invalid id belongs to a damaged row.
        Ok(ids.into_iter().filter_map(|id| SessionId::new(id).ok()).collect())
    }
}

/// Returns the newest position ever given, also to an event that was deleted since.
pub(super) fn newest_position(db: &Connection) -> rusqlite::Result<u64> {
    const SQL: &str = "SELECT max(\
        coalesce((SELECT max(position) FROM event), 0), \
        coalesce((SELECT value FROM meta WHERE name = 'position_deleted'), 0))";
    // If the events cannot be read, the session rows know their last positions.
    const BY_SESSION: &str = "SELECT coalesce(max(last_position), 0) FROM session NOT INDEXED";
    match db.prepare_cached(SQL)?.query_row([], |row| number(row, 0)) {
        Err(error) if fault::is_damage(&error) => {
            db.prepare_cached(BY_SESSION)?.query_row([], |row| number(row, 0))
        }
        tail => tail,
    }
}

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    pub(super) fn query_one<T>(
        &self,
        sql: &str,
        params: impl Params + Clone,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StorageError> {
        let ask =
            |sql: &str| self.db.prepare_cached(sql)?.query_row(params.clone(), &read).optional();
        self.retry_without_indexes(sql, ask)
    }

    pub(super) fn query_all<T>(
        &self,
        sql: &str,
        params: impl Params + Clone,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StorageError> {
        let ask =
            |sql: &str| self.db.prepare_cached(sql)?.query_map(params.clone(), &read)?.collect();
        self.retry_without_indexes(sql, ask)
    }

    /// Runs a query, and repeats it without indexes if it meets damage. Whole rows are then found
    /// by a scan of the table: slow, until a repair builds the index again.
    fn retry_without_indexes<T>(
        &self,
        sql: &str,
        ask: impl Fn(&str) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        match ask(sql) {
            Err(error) if fault::is_damage(&error) => ask(&without_indexes(sql)),
            answer => answer,
        }
        .map_err(self.read_failed())
    }

    pub(super) fn read_failed(&self) -> impl Fn(rusqlite::Error) -> StorageError {
        fault::storage("read", &self.catalogue.file)
    }
}

fn without_indexes(sql: &str) -> String {
    // Works on the text: all queries name their tables exactly like this.
    sql.replace(" INDEXED BY event_position", "")
        .replace(" INDEXED BY event_ids", "")
        .replace("FROM event ", "FROM event NOT INDEXED ")
        .replace("FROM session ", "FROM session NOT INDEXED ")
}

/// Returns the smallest text behind all texts that begin with `prefix`; `None` if there is none.
fn prefix_successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Surrogates are no `char`, so the next one after them is taken.
        let next =
            if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successor_bounds_a_prefix() {
        assert_eq!(prefix_successor("ab").as_deref(), Some("ac"));
        assert_eq!(prefix_successor("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(prefix_successor("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(prefix_successor("\u{10FFFF}"), None);
        assert_eq!(prefix_successor(""), None);
    }
}
