//! One commit: every statement is keyed, and one sync makes it durable.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::row::{
    EventRecord, RowKey, SEQ_MAX, activity_slot, payload_sum, read_session, session_columns,
};
use super::{BodyDecoder, Catalogue, CatalogueTx, WriteConnection, fault, tails};
use crate::limit::LOCK_WAIT_MAX;
use crate::store::{ChangeSet, CommitError, EventRow, SessionRow, SightingRow};
use event::Time;

/// The WAL may grow to this size while readers keep it from beginning anew. Beyond it every commit
/// tries to restart the WAL, without waiting for readers.
const WAL_BYTES_MAX: u64 = 128 * 1024 * 1024;

impl<B: BodyDecoder> CatalogueTx<'_, WriteConnection<'_>, B> {
    /// Writes the changes and makes them durable, or changes nothing. `body_of` returns the body of
    /// the event at an index of `changes.events`.
    pub(crate) fn commit<'c>(
        self,
        changes: &'c ChangeSet,
        body_of: impl Fn(usize) -> &'c [u8],
    ) -> Result<(), CommitError> {
        self.stage(changes, body_of)?;
        self.finish()
    }

    /// Writes the changes inside the transaction. [`CatalogueTx::finish`] commits them; without it
    /// nothing is changed.
    pub(crate) fn stage<'c>(
        &self,
        changes: &'c ChangeSet,
        body_of: impl Fn(usize) -> &'c [u8],
    ) -> Result<(), CommitError> {
        // On an error the transaction is rolled back when `self` is dropped.
        write_changes(&self.db, changes, self.tail, body_of)
            .map_err(|error| fault::statement(&self.catalogue.file, error))
    }

    /// Commits what was staged. The writers' lock is held until `self` is dropped.
    pub(crate) fn finish(&self) -> Result<(), CommitError> {
        let committed = self.db.prepare_cached("COMMIT").and_then(|mut sql| sql.execute([]));
        committed.map_err(|error| fault::commit(&self.catalogue.file, error))?;
        self.limit_wal();
        Ok(())
    }

    /// Keeps the WAL short. The commit is durable by now, so errors here are ignored.
    fn limit_wal(&self) {
        let mut log = self.catalogue.file.clone().into_os_string();
        log.push("-wal");
        let wal_bytes = std::fs::metadata(log).map_or(0, |log| log.len());
        let Catalogue { file, bare, synchronous, checkpointer, .. } = self.catalogue;
        checkpointer.after_commit(wal_bytes, file, bare.identity(), *synchronous, &self.db);
        if wal_bytes > WAL_BYTES_MAX {
            // A restart waits for readers as long as the timeout allows, and a commit must not.
            let _ = self.db.busy_timeout(Duration::ZERO);
            let _ = self.db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
            let _ = self.db.busy_timeout(LOCK_WAIT_MAX);
        }
    }
}

fn write_changes<'c>(
    db: &Connection,
    changes: &'c ChangeSet,
    tail: u64,
    body_of: impl Fn(usize) -> &'c [u8],
) -> rusqlite::Result<()> {
    let mut statements = EventStatements::prepare(db)?;
    for (index, row) in changes.events.iter().enumerate() {
        statements.write(row, body_of(index))?;
    }
    let noted = tails::update_stretches(db, &changes.events);
    // SQLite rolls the whole transaction back on some errors. Then nothing of it is written, and
    // the error must not be ignored.
    let is_open = !db.is_autocommit();
    match noted {
        // Rows in `tails` only save time, and those of earlier events stay true. Not so with a
        // deletion: a fork gets copies in front of its events, and old rows would be wrong.
        Err(error) if is_open && fault::is_damage(&error) && changes.deleted.is_empty() => {}
        noted => noted?,
    }
    for row in &changes.sessions {
        write_session(db, row)?;
    }
    for row in &changes.sources {
        db.prepare_cached(
            "INSERT INTO source (source_id, position) VALUES (?1, ?2) \
             ON CONFLICT (source_id) DO UPDATE SET position = excluded.position",
        )?
        .execute(params![row.source_id, row.position])?;
    }
    for (name, position) in &changes.consumers {
        db.prepare_cached(
            "INSERT INTO consumer (name, position) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET position = excluded.position",
        )?
        .execute(params![name, *position as i64])?;
    }
    for row in &changes.sightings {
        write_sighting(db, row)?;
    }
    let tail = changes.events.last().map_or(tail, |row| row.position.max(tail));
    for (row, at) in &changes.deleted {
        delete_session(db, row, *at, tail)?;
    }
    Ok(())
}

/// Writes events with their packed text as the body.
pub(super) fn write_events(
    db: &Connection,
    rows: impl Iterator<Item = EventRow>,
) -> rusqlite::Result<()> {
    let mut statements = EventStatements::prepare(db)?;
    for row in rows {
        statements.write(&row, &row.packed.rest)?;
    }
    Ok(())
}

/// The statements that write events, prepared once per commit.
struct EventStatements<'a> {
    payload: CachedStatement<'a>,
    event: CachedStatement<'a>,
    /// The payload that was written last: the events of a block share one.
    last_payload: Option<[u8; 32]>,
}

impl<'a> EventStatements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<EventStatements<'a>> {
        const PAYLOAD: &str = "INSERT INTO payload (digest, checksum, bytes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (digest) DO NOTHING";
        const EVENT: &str = "INSERT INTO event (pk, position, id, kind, created_at, created_ns, \
             observed_at, observed_ns, payload, checksum, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        Ok(EventStatements {
            payload: db.prepare_cached(PAYLOAD)?,
            event: db.prepare_cached(EVENT)?,
            last_payload: None,
        })
    }

    fn write(&mut self, row: &EventRow, body: &[u8]) -> rusqlite::Result<()> {
        // The payload comes before the event, which refers to it by a foreign key.
        if let Some(payload) = &row.packed.payload
            && self.last_payload != Some(payload.digest)
        {
            let checksum = payload_sum(&payload.digest, &payload.bytes);
            self.payload.execute(params![payload.digest, checksum, &payload.bytes[..]])?;
            self.last_payload = Some(payload.digest);
        }
        // Larger numbers would be cut off in the key, and hit the row of another event.
        let record = EventRecord::new(row, body)
            .ok_or(rusqlite::Error::IntegralValueOutOfRange(0, row.seq as i64))?;
        self.event.execute(params![
            record.key.0,
            record.position as i64,
            record.id,
            record.kind,
            record.created_at.0,
            record.created_at.1,
            record.observed_at.0,
            record.observed_at.1,
            record.payload,
            record.checksum,
            record.body,
        ])?;
        Ok(())
    }
}

/// Writes a session row. Most commits only move counters: then no index is touched, or only the
/// one over the last activity.
fn write_session(db: &Connection, row: &SessionRow) -> rusqlite::Result<()> {
    const SQL: &str = concat!("SELECT ", session_columns!(), " FROM session WHERE number = ?1");
    let before = db.prepare_cached(SQL)?.query_row([row.number], read_session).optional()?;
    match before {
        Some(before) if only_counters_differ(&before, row) => {
            update_counters(db, row)?;
            let slot = |row: &SessionRow| activity_slot(row.last_at.micros_and_rest().0);
            // The index over the activity changes once a minute instead of with every commit.
            if slot(&before) == slot(row) {
                return Ok(());
            }
            db.prepare_cached("UPDATE session SET last_slot = ?2 WHERE number = ?1")?
                .execute(params![row.number, slot(row)])
                .map(drop)
        }
        Some(_) => replace_session(db, row),
        None => insert_session(db, row),
    }
}

fn only_counters_differ(before: &SessionRow, after: &SessionRow) -> bool {
    let counted = SessionRow {
        tail_seq: after.tail_seq,
        last_position: after.last_position,
        events: after.events,
        bytes: after.bytes,
        cost: after.cost,
        last_at: after.last_at,
        ..before.clone()
    };
    counted == *after
}

fn update_counters(db: &Connection, row: &SessionRow) -> rusqlite::Result<()> {
    let (last_at, last_ns) = row.last_at.micros_and_rest();
    db.prepare_cached(
        "UPDATE session SET tail_seq = ?2, last_position = ?3, events = ?4, bytes = ?5, cost = ?6, \
         last_at = ?7, last_ns = ?8 WHERE number = ?1",
    )?
    .execute(params![
        row.number,
        row.tail_seq as i64,
        row.last_position as i64,
        row.events as i64,
        row.bytes as i64,
        row.cost.nanos(),
        last_at,
        last_ns,
    ])?;
    Ok(())
}

pub(super) fn replace_session(db: &Connection, row: &SessionRow) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM session WHERE number = ?1")?.execute([row.number])?;
    insert_session(db, row)
}

pub(super) fn insert_session(db: &Connection, row: &SessionRow) -> rusqlite::Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO session (",
        session_columns!(),
        ", last_slot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
         ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)"
    );
    let parent = row.parent.as_ref();
    let (label, reason) = match parent {
        Some(parent) => (&parent.label, &parent.reason),
        None => (&row.root.label, &row.root.reason),
    };
    let (created_at, created_ns) = row.created_at.micros_and_rest();
    let (last_at, last_ns) = row.last_at.micros_and_rest();
    db.prepare_cached(SQL)?.execute(params![
        row.number,
        row.id.as_str(),
        parent.map(|parent| parent.session_id.as_str()),
        parent.map(|parent| parent.mode.as_str()),
        parent.map(|parent| parent.seq as i64),
        parent.and_then(|parent| parent.event_id.as_ref()).map(|id| id.bytes()),
        label,
        reason,
        parent.map(|parent| parent.depth),
        row.base_seq as i64,
        row.tail_seq as i64,
        row.last_position as i64,
        row.events as i64,
        row.bytes as i64,
        row.cost.nanos(),
        created_at,
        created_ns,
        last_at,
        last_ns,
        row.provider,
        row.provider_session_id,
        row.agent,
        row.model,
        row.cwd,
        row.project,
        row.title,
        activity_slot(last_at),
    ])?;
    Ok(())
}

fn write_sighting(db: &Connection, row: &SightingRow) -> rusqlite::Result<()> {
    let (observed_at, observed_ns) = row.observed_at.micros_and_rest();
    db.prepare_cached(
        "INSERT INTO sighting (event, source, observed_at, observed_ns, source_position, differs) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        RowKey::new(row.session, row.seq).0,
        row.source,
        observed_at,
        observed_ns,
        row.source_position,
        row.differs,
    ])?;
    Ok(())
}

/// Deletes a session with the payloads that only it uses, and writes a tombstone.
fn delete_session(db: &Connection, row: &SessionRow, at: Time, tail: u64) -> rusqlite::Result<()> {
    let bounds = [RowKey::new(row.number, 0).0, RowKey::new(row.number, SEQ_MAX).0];
    // Asked before the events are gone; afterwards only those without another user are removed.
    let digests: Vec<[u8; 32]> = db
        .prepare_cached(
            "SELECT DISTINCT payload FROM event WHERE pk BETWEEN ?1 AND ?2 AND payload IS NOT NULL",
        )?
        .query_map(bounds, |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    // Sightings are deleted with their events by the foreign key.
    db.prepare_cached("DELETE FROM event WHERE pk BETWEEN ?1 AND ?2")?.execute(bounds)?;
    tails::delete_from(db, RowKey::new(row.number, 0))?;
    for digest in digests {
        db.prepare_cached(
            "DELETE FROM payload WHERE digest = ?1 \
             AND NOT EXISTS (SELECT 1 FROM event WHERE event.payload = ?1)",
        )?
        .execute([digest])?;
    }
    db.prepare_cached("DELETE FROM session WHERE number = ?1")?.execute([row.number])?;
    let (deleted_at, deleted_ns) = at.micros_and_rest();
    db.prepare_cached(
        "INSERT INTO tombstone (session_id, deleted_at, deleted_ns) VALUES (?1, ?2, ?3) \
         ON CONFLICT (session_id) DO UPDATE \
         SET deleted_at = excluded.deleted_at, deleted_ns = excluded.deleted_ns",
    )?
    .execute(params![row.id.as_str(), deleted_at, deleted_ns])?;
    // Positions and session numbers are never given again, so the highest ones outlive their rows.
    let mut use_up = db.prepare_cached(
        "INSERT INTO meta (name, value) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
    )?;
    use_up.execute(params!["position_deleted", tail as i64])?;
    use_up.execute(params!["number_deleted", row.number])?;
    db.prepare_cached(
        "INSERT INTO meta (name, value) VALUES ('deletions', 1) \
         ON CONFLICT (name) DO UPDATE SET value = value + 1",
    )?
    .execute([])?;
    Ok(())
}
