//! Repair: copies everything readable into a new database, and that over the damaged one.
//!
//! The damaged file is kept in the quarantine, byte for byte. An event that cannot be recovered is
//! replaced by an `unknown` event with the reason, so that numbers stay. Counters and indexes are
//! computed from the events. An event is looked for in this order:
//!
//! ```text
//! table, through the b-tree ─► record in the bytes of the file ─► payload in the bytes of the file
//!     ─► what it was read from
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use event::payload::{SessionMode, SessionStarted};
use event::{Draft, Event, EventId, SessionId, Time};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::carve::{CarvedEvent, carve_events, carve_payloads};
use super::payload::PayloadNumbers;
use super::row::{EventRecord, RowKey, SEQ_MAX, number};
use super::write::{insert_session, replace_session, write_events};
use super::{
    BodyDecoder, Catalogue, CatalogueTx, Synchronous, connection, fault, migration, tails,
};
use crate::id_cache::StoredIds;
use crate::limit::{LOCK_WAIT_MAX, PAGE_BYTES_MAX, PAGE_EVENTS_MAX};
use crate::lock::{WriterGuard, pause_for};
use crate::prepare::json_size;
use crate::recovery::{LostPlace, Recovery, is_stand_in, name_lost, place_events, salvage_event};
use crate::store::quarantine::Quarantine;
use crate::store::{
    BrokenEvent, Direction, EventRow, PackedEvent, ParentRow, RootWords, SeqRange, SessionRow,
    StoreReader,
};
use crate::{Damage, StorageError, folder};

/// What the repair needs from the store.
pub(crate) struct RepairTools<'a> {
    pub quarantine: &'a Quarantine,
    /// Packs the texts of events that are recorded together.
    pub pack_all: &'a dyn Fn(&[&Draft]) -> Vec<PackedEvent>,
    /// Whether the name of a payload is the hash of these bytes.
    pub proves: &'a dyn Fn(&[u8; 32], &[u8]) -> bool,
    /// Tells events again that are nowhere in the file.
    pub recovery: Option<&'a dyn Recovery>,
}

/// What a repair could not copy, event by event.
#[derive(Default)]
pub(crate) struct RebuildReport {
    /// Lost: an `unknown` event stands in for each.
    pub gone: Vec<Damage>,
    /// Told again by what they were read from.
    pub retold: Vec<Damage>,
}

/// Pause between two tries while another process runs a checkpoint, which takes a good part of a
/// second.
const COPIER_POLL: Duration = Duration::from_millis(20);

/// Tables with rows that are copied as they are.
const PLAIN_TABLES: [(&str, &str); 5] = [
    ("sighting", "event, source, observed_at, observed_ns, source_position, differs"),
    ("tombstone", "session_id, deleted_at, deleted_ns"),
    ("source", "source_id, position"),
    ("consumer", "name, position"),
    ("meta", "name, value"),
];

impl Catalogue {
    /// Replaces the content of the database by what can be read of it.
    pub(crate) fn rebuild(
        &self,
        bodies: impl BodyDecoder + Copy,
        tools: &RepairTools<'_>,
    ) -> Result<RebuildReport, StorageError> {
        let failed = fault::storage("repair", &self.file);
        let _turn = self.take_turn()?;
        self.require_in_place("repair")?;
        let mut db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        migration::require_known_format(&self.file, &db)?;
        self.checkpointer.join();
        // No process writes while this one holds the lock, so afterwards everything is in the one
        // file, which can be copied and searched.
        self.checkpoint_wal(&db)?;
        // Through the handle that is open already: closing another one would drop SQLite's locks,
        // see `BareFile`.
        let kept = tools.quarantine.copy_opened(&self.file, self.bare.file())?;
        let path = repaired_path(&self.file);
        // A repair that was killed may have left a half-built copy.
        remove_database(&path)?;
        let (made, report) = self.build_copy(&path, &db, &kept, bodies, tools)?;
        // The new content goes into the old file. A rename would leave other processes with the
        // damaged file open.
        let copied = Backup::new(&made, &mut db).and_then(|backup| backup.step(-1));
        if copied.map_err(&failed)? != StepResult::Done {
            return Err(self.in_use_error());
        }
        drop(made);
        remove_database(&path)?;
        // Payloads have other row numbers now.
        let mut payloads = self.payloads.lock().unwrap_or_else(PoisonError::into_inner);
        *payloads = PayloadNumbers::default();
        drop(payloads);
        // If a reader holds the checkpoint up, the new content stays in the WAL until the next.
        run_checkpoint(&db).map_err(failed)?;
        Ok(report)
    }

    /// Removes the copy of a repair that was killed after it had replaced the content. The next
    /// check finds no damage, so no other repair would remove it.
    pub(crate) fn remove_leftovers(&self) -> Result<(), StorageError> {
        let _turn = self.take_turn()?;
        remove_unfinished_copies(&self.file)
    }

    /// Waits for the right to write.
    fn take_turn(&self) -> Result<WriterGuard<'_>, StorageError> {
        let failed = |why| StorageError::new("repair", &self.file, std::io::Error::other(why));
        let lock = self.lock.as_ref().ok_or_else(|| failed("its disk cannot be written to"))?;
        lock.acquire().map_err(|error| StorageError::new("repair", &self.file, error))
    }

    /// Checkpoints all of the WAL. Waits for readers and for checkpoints of other processes: a copy
    /// of a file that another process still writes to would be half of one state and half of
    /// another.
    fn checkpoint_wal(&self, db: &Connection) -> Result<(), StorageError> {
        let began = Instant::now();
        loop {
            // SQLite waits for readers here, but not for another checkpoint.
            if run_checkpoint(db).map_err(fault::storage("repair", &self.file))? {
                return Ok(());
            }
            if began.elapsed() >= LOCK_WAIT_MAX {
                return Err(self.in_use_error());
            }
            pause_for(COPIER_POLL);
        }
    }

    fn in_use_error(&self) -> StorageError {
        let why = "another program is reading it or copying its log; end that (`hansard down` ends \
                   the daemon) and repair again";
        StorageError::new("repair", &self.file, std::io::Error::other(why))
    }

    fn build_copy(
        &self,
        path: &Path,
        old: &Connection,
        kept: &Path,
        bodies: impl BodyDecoder + Copy,
        tools: &RepairTools<'_>,
    ) -> Result<(Connection, RebuildReport), StorageError> {
        let failed = fault::storage("write", path);
        folder::open_private(path)?;
        // The backup API copies pages, so both databases need the same page size.
        let page_bytes = page_bytes(old).map_err(fault::storage("read", &self.file))?;
        // Without syncs: if the power goes, the original is untouched and the repair starts over.
        let new = connection::writer_with_pages(page_bytes, path, Synchronous::Off);
        let mut new = new.map_err(&failed)?;
        migration::migrate(self.store, path, &mut new)
            .map_err(|error| StorageError::new("create", path, error))?;
        let tx = new.transaction().map_err(&failed)?;
        let old =
            CatalogueTx::damaged(self, old, bodies).map_err(fault::storage("read", &self.file))?;
        let written = CatalogueTx::new(self, &*tx, bodies).map_err(&failed)?;
        let report = Rebuild { old, kept, new: written, tools }.run()?;
        tx.commit().map_err(&failed)?;
        Ok((new, report))
    }
}

struct Rebuild<'a, B> {
    old: CatalogueTx<'a, &'a Connection, B>,
    /// The copy in the quarantine, which is not open elsewhere.
    kept: &'a Path,
    new: CatalogueTx<'a, &'a Connection, B>,
    tools: &'a RepairTools<'a>,
}

/// An event with a row that is damaged or missing.
struct LostEvent {
    key: RowKey,
    position: u64,
    broken: Box<BrokenEvent>,
    /// What an earlier repair wrote in its place.
    stand_in: Option<Event>,
}

/// Whole events that are written into the new database together.
#[derive(Default)]
struct EventBatch {
    events: Vec<(RowKey, u64, Draft)>,
    bytes: usize,
}

impl EventBatch {
    fn push(&mut self, key: RowKey, position: u64, draft: Draft) {
        self.bytes += json_size(&draft);
        self.events.push((key, position, draft));
    }

    fn is_full(&self) -> bool {
        self.events.len() >= PAGE_EVENTS_MAX || self.bytes >= PAGE_BYTES_MAX
    }

    fn has_position(&self, position: u64) -> bool {
        self.events.iter().any(|(_, taken, _)| *taken == position)
    }
}

impl<B: BodyDecoder> Rebuild<'_, B> {
    fn run(&self) -> Result<RebuildReport, StorageError> {
        // The order matters:
        //
        //     whole events ─► carved events ─► retold events, stand-ins ─► counters ─► other tables
        //
        // Whole events take their positions first, and counters are computed over everything that
        // was written.
        let rows = self.sessions()?;
        let mut lost = Vec::new();
        for row in rows.values() {
            insert_session(self.new.db, row).map_err(self.unwritten())?;
            lost.extend(self.copy_events(row)?);
        }
        // After all whole events: a carved record must not take a position that one of them has.
        let lost = self.carve_lost(lost)?;
        let retold = self.retell_lost(&rows, &lost)?;
        let report = self.fill_lost(&rows, lost, retold)?;
        for row in rows.values() {
            let counted = self.new.recount(row)?.row;
            // A session without events keeps the counters of its row: there is nothing to count.
            if counted.tail_seq > counted.base_seq {
                replace_session(self.new.db, &counted).map_err(self.unwritten())?;
                tails::write_stretches(self.new.db, row.number, counted.tail_seq)
                    .map_err(self.unwritten())?;
            }
        }
        // After the events, which sightings refer to.
        PLAIN_TABLES.iter().try_for_each(|(table, columns)| self.copy_table(table, columns))?;
        Ok(report)
    }

    /// Collects every session that has a row, an entry in the index over ids, or events.
    fn sessions(&self) -> Result<BTreeMap<u32, SessionRow>, StorageError> {
        const INDEX: &str = "SELECT number FROM session INDEXED BY sqlite_autoindex_session_1";
        let mut numbers: BTreeSet<u32> = self.old.sessions_of_events()?.into_iter().collect();
        numbers
            .extend(self.old.query_all(INDEX, [], |row| row.get::<_, u32>(0)).unwrap_or_default());
        // A damaged page in the table of sessions hides rows that the other two sources still name.
        let mut last = 0;
        while let Some(row) = self.old.session_above(last)? {
            last = row.number;
            numbers.insert(row.number);
        }
        let mut rows = BTreeMap::new();
        for number in numbers {
            let mut row = self.session(number)?;
            // Ids are unique in the table. A name that damage gave to two sessions is the first's.
            if rows.values().any(|other: &SessionRow| other.id == row.id) {
                row.id = salvaged_id(number);
                self.old.names.borrow_mut().insert(number, row.id.clone());
            }
            rows.insert(number, row);
        }
        Ok(rows)
    }

    fn session(&self, number: u32) -> Result<SessionRow, StorageError> {
        if let Ok(Some(row)) = self.old.session_numbered(number) {
            return Ok(row);
        }
        let known = self.old.session_id_of(number).ok().flatten();
        let id = known.clone().unwrap_or_else(|| salvaged_id(number));
        // Events are decoded with the id of their session, so the name that was made up has to be
        // known before the next read.
        self.old.names.borrow_mut().insert(number, id.clone());
        let mut row = SessionRow::new(number, &id, Time::EPOCH);
        let events = self.old.page(number, range_from(1))?;
        if let Some(first) = events.iter().find_map(|stored| stored.event.as_ref().ok()) {
            if let Some(id) = self.retold_id(first).filter(|_| known.is_none()) {
                self.old.names.borrow_mut().insert(number, id.clone());
                row.id = id;
            }
            // A fork begins behind what it inherits, so its first `seq` says how much that is.
            row.base_seq = first.seq - 1;
            row.created_at = first.created_at;
            let started = first.readable::<SessionStarted>().unwrap_or_default();
            let (label, reason) = (started.label.clone(), started.reason.clone());
            row.parent = parent_of(started);
            if row.parent.is_none() {
                row.root = RootWords { label, reason };
            }
        }
        Ok(row)
    }

    /// The id of the session that an event was told in, from what it was read from.
    fn retold_id(&self, event: &Event) -> Option<SessionId> {
        let session = event.provider_session_id.as_ref()?;
        // How capture names the sessions of an agent. Only a session that has the event counts.
        let id = SessionId::new(format!("{}:{session}", event.provider)).ok()?;
        let told = self.tools.recovery?.events_of(&id);
        told.iter().any(|draft| draft.id == event.id).then_some(id)
    }

    /// Copies the whole events of a session, and returns the others.
    fn copy_events(&self, row: &SessionRow) -> Result<Vec<LostEvent>, StorageError> {
        let mut lost = Vec::new();
        let mut next = 1;
        loop {
            let page = self.old.page(row.number, range_from(next))?;
            let Some(last) = page.last() else { return Ok(lost) };
            next = last.seq + 1;
            let mut whole = EventBatch::default();
            for stored in page {
                let key = RowKey::new(stored.session, stored.seq);
                let position = stored.position;
                match stored.event {
                    // What an earlier repair gave up may be told again now.
                    Ok(event) if self.tools.recovery.is_some() && is_stand_in(&event) => {
                        let (broken, stand_in) = (self.old.given_up(&event), Some(event));
                        lost.push(LostEvent { key, position, broken, stand_in });
                    }
                    Ok(event) => whole.push(key, position, event.draft),
                    Err(broken) => {
                        lost.push(LostEvent { key, position, broken, stand_in: None });
                    }
                }
            }
            self.write_batch(whole)?;
        }
    }

    /// Searches the bytes of the file for lost events, and returns those that are not there either.
    fn carve_lost(&self, lost: Vec<LostEvent>) -> Result<Vec<LostEvent>, StorageError> {
        // What an earlier repair gave up is not in the file: the bytes have its stand-in.
        let (mut given_up, lost): (Vec<_>, Vec<_>) =
            lost.into_iter().partition(|lost| lost.stand_in.is_some());
        given_up.extend(self.carve_damaged(lost)?);
        Ok(given_up)
    }

    fn carve_damaged(&self, lost: Vec<LostEvent>) -> Result<Vec<LostEvent>, StorageError> {
        if lost.is_empty() {
            return Ok(lost);
        }
        let page_bytes = page_bytes(self.old.db).map_err(self.unwritten())? as usize;
        let wanted = lost.iter().map(|lost| lost.key).collect();
        let found = carve_events(self.kept, page_bytes, &wanted)?;
        // First with payloads that the tables lead to: cheap, and enough for most.
        let left = self.write_found(lost, &found, |record| self.old.draft(record).ok()?.ok())?;
        // Records that were found, with payloads that the tables do not lead to.
        let record = |lost: &LostEvent| found.get(&lost.key).map(CarvedEvent::record);
        let wanted: HashSet<[u8; 32]> =
            left.iter().filter_map(|lost| record(lost)?.payload).collect();
        if wanted.is_empty() {
            return Ok(left);
        }
        let mut payloads = carve_payloads(self.kept, page_bytes, &wanted, self.tools.proves)?;
        self.write_found(left, &found, |record| {
            let payload = payloads.bytes(&record.payload?)?;
            self.old.draft_with(record, payload).ok()?.ok()
        })
    }

    /// Writes the events with a record that was found and can be decoded. Returns the others.
    fn write_found(
        &self,
        lost: Vec<LostEvent>,
        found: &HashMap<RowKey, CarvedEvent>,
        mut read: impl FnMut(&EventRecord<'_>) -> Option<Draft>,
    ) -> Result<Vec<LostEvent>, StorageError> {
        let mut left = Vec::new();
        let mut again = EventBatch::default();
        for lost in lost {
            let record = found.get(&lost.key).map(CarvedEvent::record);
            match record.as_ref().and_then(|record| Some((record.position, read(record)?))) {
                // A position is unique in the table, so a second claim would fail the whole batch.
                Some((position, draft))
                    if self.is_free(position) && !again.has_position(position) =>
                {
                    again.push(lost.key, position, draft);
                }
                _ => left.push(lost),
            }
            if again.is_full() {
                self.write_batch(std::mem::take(&mut again))?;
            }
        }
        self.write_batch(again)?;
        Ok(left)
    }

    /// Finds lost events in what they were read from.
    fn retell_lost(
        &self,
        rows: &BTreeMap<u32, SessionRow>,
        lost: &[LostEvent],
    ) -> Result<HashMap<RowKey, Draft>, StorageError> {
        let mut retold = HashMap::new();
        let Some(recovery) = self.tools.recovery else { return Ok(retold) };
        let mut by_session: BTreeMap<u32, Vec<LostPlace>> = BTreeMap::new();
        for lost in lost {
            by_session.entry(lost.key.session()).or_default().push(self.lost_place(lost));
        }
        for (number, places) in by_session {
            let recorded = self.new.ids(number, 0)?;
            let told = recovery.events_of(&rows[&number].id);
            for (seq, draft) in place_events(&recorded, &places, told) {
                // Ids are unique in the table: the event may stand in another session by now.
                if self.new.locate(&draft.id)?.is_none() {
                    retold.insert(RowKey::new(number, seq), draft);
                }
            }
        }
        Ok(retold)
    }

    fn lost_place(&self, lost: &LostEvent) -> LostPlace {
        if let Some(event) = &lost.stand_in {
            return LostPlace::of_stand_in(event);
        }
        const SQL: &str = "SELECT id FROM event INDEXED BY event_ids WHERE pk = ?1";
        let id = self.old.query_one(SQL, [lost.key.0], |row| row.get::<_, [u8; 16]>(0));
        // A damaged index says nothing, and the order has to do.
        let id = id.ok().flatten().and_then(|id| EventId::from_bytes(id).ok());
        LostPlace { seq: lost.key.seq(), id }
    }

    /// Writes lost events that were told again, and an `unknown` event in place of every other.
    fn fill_lost(
        &self,
        rows: &BTreeMap<u32, SessionRow>,
        lost: Vec<LostEvent>,
        mut retold: HashMap<RowKey, Draft>,
    ) -> Result<RebuildReport, StorageError> {
        let told = self.positions_of(&lost);
        let mut report = RebuildReport::default();
        for lost in lost {
            let LostEvent { key, position, ref broken, .. } = lost;
            let row = &rows[&key.session()];
            let retold = retold.remove(&key);
            // What is left of the row may still help a user with a hex editor.
            if !broken.bytes.is_empty() && retold.is_none() {
                let name = format!("session-{}-event-{}", key.session(), key.seq());
                self.tools.quarantine.keep(Path::new(&name), &broken.bytes)?;
            }
            // In the order of trust: the row's own column, then the index.
            let told = [position, told.get(&key).copied().unwrap_or(0)];
            let position = match told.into_iter().find(|position| self.is_free(*position)) {
                Some(position) => position,
                None => self.free_position(key)?,
            };
            let is_retold = retold.is_some();
            let mut alone = EventBatch::default();
            alone.push(key, position, retold.unwrap_or_else(|| self.stand_in(row, &lost)));
            self.write_batch(alone)?;
            let damages = if is_retold { &mut report.retold } else { &mut report.gone };
            damages.push(lost.broken.damage);
        }
        Ok(report)
    }

    fn stand_in(&self, row: &SessionRow, lost: &LostEvent) -> Draft {
        if let Some(event) = &lost.stand_in {
            return event.draft.clone();
        }
        let seq = lost.key.seq();
        let mut draft = salvage_event(&row.id, seq, row.created_at, &lost.broken).draft;
        // A later repair may be able to tell it again, and needs to know what it was.
        name_lost(&mut draft, self.lost_place(lost).id);
        draft
    }

    /// Reads the positions of lost events from the index, as far as it is whole.
    fn positions_of(&self, lost: &[LostEvent]) -> HashMap<RowKey, u64> {
        const SQL: &str = "SELECT pk, position FROM event INDEXED BY event_position";
        let mut positions: HashMap<RowKey, u64> = lost.iter().map(|lost| (lost.key, 0)).collect();
        let mut look = || -> rusqlite::Result<()> {
            let mut sql = self.old.db.prepare(SQL)?;
            let mut rows = sql.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(position) = positions.get_mut(&RowKey(row.get(0)?)) {
                    *position = number(row, 1)?;
                }
            }
            Ok(())
        };
        // A damaged index ends the search; what was found before it counts.
        let _ = look();
        positions
    }

    fn is_free(&self, position: u64) -> bool {
        position > 0 && self.new.has_position(position).is_ok_and(|is_taken| !is_taken)
    }

    /// Returns the first free position behind the event before.
    fn free_position(&self, key: RowKey) -> Result<u64, StorageError> {
        const BEFORE: &str = "SELECT coalesce(max(position), 0) FROM event \
            WHERE pk >= ?1 AND pk < ?2";
        const TAKEN: &str = "SELECT position FROM event WHERE position > ?1 ORDER BY position";
        let look = || -> rusqlite::Result<u64> {
            let bounds = [RowKey::new(key.session(), 0).0, key.0];
            let mut sql = self.new.db.prepare_cached(BEFORE)?;
            // Near the event before it, so that the stand-in appears at about the right time.
            let mut free = sql.query_row(bounds, |row| number(row, 0))? + 1;
            let mut sql = self.new.db.prepare_cached(TAKEN)?;
            let mut taken = sql.query([free as i64 - 1])?;
            while let Some(row) = taken.next()? {
                if number(row, 0)? != free {
                    break;
                }
                free += 1;
            }
            Ok(free)
        };
        look().map_err(self.unwritten())
    }

    fn write_batch(&self, batch: EventBatch) -> Result<(), StorageError> {
        let drafts: Vec<&Draft> = batch.events.iter().map(|(_, _, draft)| draft).collect();
        // Packed again and not copied: a block may have lost some of its events.
        let packed = (self.tools.pack_all)(&drafts);
        let rows = batch.events.into_iter().zip(packed).map(|((key, position, draft), packed)| {
            let (session, seq) = (key.session(), key.seq());
            EventRow { position, session, seq, packed, draft: Arc::new(draft) }
        });
        write_events(self.new.db, rows).map_err(self.unwritten())
    }

    /// Copies a table from its beginning, and from its end if damage is in the way.
    fn copy_table(&self, table: &str, columns: &str) -> Result<(), StorageError> {
        let places = vec!["?"; columns.split(", ").count()].join(", ");
        let insert = format!("INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})");
        // Damage ends a scan, so the second one comes up to it from the other side.
        for order in ["ASC", "DESC"] {
            let select = format!("SELECT {columns} FROM {table} ORDER BY 1 {order}");
            match self.copy_rows(&select, &insert) {
                Err(error) if fault::is_damage(&error) => {}
                copied => return copied.map_err(self.unwritten()),
            }
        }
        Ok(())
    }

    fn copy_rows(&self, select: &str, insert: &str) -> rusqlite::Result<()> {
        let mut select = self.old.db.prepare(select)?;
        let mut insert = self.new.db.prepare(insert)?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            // A row with a value that cannot be read is left out: those behind it are whole.
            let Ok(values): rusqlite::Result<Vec<Value>> =
                (0..columns).map(|column| row.get(column)).collect()
            else {
                continue;
            };
            match insert.execute(params_from_iter(values)) {
                // A row that violates the constraints of its table is damaged.
                Err(error) if fault::is_refused(&error) => {}
                inserted => drop(inserted?),
            }
        }
        Ok(())
    }

    fn unwritten(&self) -> impl Fn(rusqlite::Error) -> StorageError {
        fault::storage("repair", &self.old.catalogue.file)
    }
}

/// Removes the databases beside `file` that a killed repair or migration left there: they hold the
/// whole record, also what is deleted later.
///
/// The caller knows that no repair or migration runs. It holds the writers' lock, or is the only
/// process that has the journal open.
pub(crate) fn remove_unfinished_copies(file: &Path) -> Result<(), StorageError> {
    let copies = migration::unfinished_restore_points(file);
    copies.chain([repaired_path(file)]).try_for_each(|path| remove_database(&path))
}

/// The path of the new database.
fn repaired_path(file: &Path) -> PathBuf {
    with_ending(file, ".repaired")
}

/// The id of a session whose own is lost.
fn salvaged_id(number: u32) -> SessionId {
    SessionId::new(format!("salvaged-{number}")).expect("a name with nothing special")
}

fn range_from(seq: u64) -> SeqRange {
    SeqRange { from: seq, to: SEQ_MAX, order: Direction::OldestFirst }
}

/// Returns the parent that a session names. Its depth is at least 1.
fn parent_of(started: SessionStarted) -> Option<ParentRow> {
    let parent = started.parent?;
    Some(ParentRow {
        session_id: parent.session_id,
        mode: started.mode.unwrap_or(SessionMode::Fork),
        seq: parent.seq,
        event_id: parent.event_id,
        label: started.label,
        reason: started.reason,
        depth: 1,
    })
}

/// Checkpoints the WAL and truncates it. Returns whether all of it was copied, even if a reader
/// keeps it from being truncated.
fn run_checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        let [is_busy, frames, copied] = [row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?];
        // Both counts are -1 if another checkpoint kept this one from starting.
        Ok(is_busy == 0 || (frames >= 0 && frames == copied))
    })
}

fn page_bytes(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA page_size", [], |row| row.get(0))
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.to_owned().into_os_string();
    path.push(ending);
    path.into()
}

/// Removes a database and the files that SQLite keeps beside it.
pub(crate) fn remove_database(path: &Path) -> Result<(), StorageError> {
    // `-journal` is the rollback journal of a file that is not in WAL mode yet.
    for ending in ["", "-journal", "-wal", "-shm"] {
        let path = with_ending(path, ending);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StorageError::new("remove", path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
