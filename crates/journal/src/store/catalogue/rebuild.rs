//! Mending: everything that can be read goes into a new database, and that over the damaged one.
//!
//! What is replaced is kept, byte for byte. Events that are gone leave their place to an
//! `unknown` event that says so; counters and indexes come out of the events.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use event::payload::{SessionMode, SessionStarted};
use event::{Draft, SessionId, Time};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::carve::{Carved, carve_events, carve_payloads};
use super::payload::PayloadNumbers;
use super::row::{EventRecord, Key, SEQ_MAX, number};
use super::write::{insert_session, replace_session, write_events};
use super::{Bodies, Catalogue, Flush, View, connection, fault, migration, tails};
use crate::intake::size;
use crate::limit::{LOCK_WAIT_MAX, PAGE_BYTES_MAX, PAGE_EVENTS_MAX};
use crate::lock::pause_for;
use crate::store::quarantine::Quarantine;
use crate::store::{Broken, Direction, EventRow, Packed, ParentRow, Reader, SeqRange, SessionRow};
use crate::{Damage, StorageError, folder};

/// What a store is mended with.
pub(crate) struct Tools<'a> {
    pub quarantine: &'a Quarantine,
    /// How the store keeps the texts of events that are recorded together.
    pub pack_all: &'a dyn Fn(&[&Draft]) -> Vec<Packed>,
    /// Whether a payload has its name from these bytes, and not from others.
    pub proves: &'a dyn Fn(&[u8; 32], &[u8]) -> bool,
}

/// Between two looks at a log that another program copies, which takes a good part of a second.
const COPIER_POLL: Duration = Duration::from_millis(20);

/// Tables whose rows stand for themselves.
const PLAIN_TABLES: [(&str, &str); 5] = [
    ("sighting", "event, source, observed_at, observed_ns, source_position, differs"),
    ("tombstone", "session_id, deleted_at, deleted_ns"),
    ("source", "source_id, position"),
    ("consumer", "name, position"),
    ("meta", "name, value"),
];

impl Catalogue {
    /// Replaces the database by one made from what can be read of it. Returns what is gone: the
    /// damage to every event that only its place is left of.
    pub(crate) fn rebuild(
        &self,
        bodies: impl Bodies + Copy,
        tools: &Tools<'_>,
    ) -> Result<Vec<Damage>, StorageError> {
        let failed = fault::storage("repair", &self.file);
        let turn = self.lock.acquire();
        let _turn = turn.map_err(|error| StorageError::new("repair", &self.file, error))?;
        self.require_in_place("repair")?;
        let mut db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        migration::require_known_now(&self.file, &db)?;
        self.copying.join();
        // Nobody writes while the turn is ours, so all of it is in the one file afterwards.
        self.settle_log(&db)?;
        let kept = tools.quarantine.copy_opened(&self.file, self.bare.file())?;
        let path = repaired(&self.file);
        remove_database(&path)?;
        let (made, gone) = self.make_anew(&path, &db, &kept, bodies, tools)?;
        // Copied over, not moved: other processes have the file open.
        let copied = Backup::new(&made, &mut db).and_then(|backup| backup.step(-1));
        if copied.map_err(&failed)? != StepResult::Done {
            return Err(self.in_use());
        }
        drop(made);
        remove_database(&path)?;
        // They have other numbers now.
        let mut payloads = self.payloads.lock().unwrap_or_else(PoisonError::into_inner);
        *payloads = PayloadNumbers::default();
        drop(payloads);
        // What somebody keeps from being copied now is in the log, and is copied later.
        copy_log(&db).map_err(failed)?;
        Ok(gone)
    }

    /// Removes what a repair left behind that was killed behind its end, for the next one to find
    /// nothing to do: see [`remove_unfinished`].
    pub(crate) fn tidy(&self) -> Result<(), StorageError> {
        let turn = self.lock.acquire();
        let _turn = turn.map_err(|error| StorageError::new("repair", &self.file, error))?;
        remove_unfinished(&self.file)
    }

    /// Copies all of the log into the database. Whoever copies it too, or reads what was before it,
    /// is waited for: a file that somebody else still writes to would be kept half of one state and
    /// half of another.
    fn settle_log(&self, db: &Connection) -> Result<(), StorageError> {
        let began = Instant::now();
        loop {
            // Waits by itself for those who read, but not for those who copy.
            if copy_log(db).map_err(fault::storage("repair", &self.file))? {
                return Ok(());
            }
            if began.elapsed() >= LOCK_WAIT_MAX {
                return Err(self.in_use());
            }
            pause_for(COPIER_POLL);
        }
    }

    fn in_use(&self) -> StorageError {
        let why = "another program is reading it or copying its log; end that (`hansard down` ends \
                   the daemon) and repair again";
        StorageError::new("repair", &self.file, std::io::Error::other(why))
    }

    fn make_anew(
        &self,
        path: &Path,
        old: &Connection,
        kept: &Path,
        bodies: impl Bodies + Copy,
        tools: &Tools<'_>,
    ) -> Result<(Connection, Vec<Damage>), StorageError> {
        let failed = fault::storage("write", path);
        folder::open_private(path)?;
        // One database is copied over another only where their pages are alike.
        let page_bytes = page_bytes(old).map_err(fault::storage("read", &self.file))?;
        let new = connection::writer_with_pages(page_bytes, path, Flush::Never);
        let mut new = new.map_err(&failed)?;
        migration::migrate(self.store, path, &mut new)
            .map_err(|error| StorageError::new("create", path, error))?;
        let tx = new.transaction().map_err(&failed)?;
        let old = View::new(self, old, bodies).map_err(fault::storage("read", &self.file))?;
        let written = View::new(self, &*tx, bodies).map_err(&failed)?;
        let gone = Rebuild { old, kept, new: written, tools }.run()?;
        tx.commit().map_err(&failed)?;
        Ok((new, gone))
    }
}

struct Rebuild<'a, B> {
    old: View<'a, &'a Connection, B>,
    /// A copy of the file that is not open elsewhere.
    kept: &'a Path,
    new: View<'a, &'a Connection, B>,
    tools: &'a Tools<'a>,
}

/// An event that cannot be believed where it stands.
struct Lost {
    key: Key,
    position: u64,
    broken: Box<Broken>,
}

/// Events that can be read, on their way into the new database.
#[derive(Default)]
struct Together {
    events: Vec<(Key, u64, Draft)>,
    bytes: usize,
}

impl Together {
    fn push(&mut self, key: Key, position: u64, draft: Draft) {
        self.bytes += size(&draft);
        self.events.push((key, position, draft));
    }

    fn is_full(&self) -> bool {
        self.events.len() >= PAGE_EVENTS_MAX || self.bytes >= PAGE_BYTES_MAX
    }

    fn has_position(&self, position: u64) -> bool {
        self.events.iter().any(|(_, taken, _)| *taken == position)
    }
}

impl<B: Bodies> Rebuild<'_, B> {
    fn run(&self) -> Result<Vec<Damage>, StorageError> {
        let rows = self.sessions()?;
        let mut lost = Vec::new();
        for row in rows.values() {
            insert_session(self.new.db, row).map_err(self.unwritten())?;
            lost.extend(self.copy_events(row)?);
        }
        let lost = self.carve_out(lost)?;
        self.fill_places(&rows, &lost)?;
        for row in rows.values() {
            let counted = self.new.recount(row)?.row;
            if counted.tail_seq > counted.base_seq {
                replace_session(self.new.db, &counted).map_err(self.unwritten())?;
                tails::note_up_to(self.new.db, row.number, counted.tail_seq)
                    .map_err(self.unwritten())?;
            }
        }
        PLAIN_TABLES.iter().try_for_each(|(table, columns)| self.copy_table(table, columns))?;
        Ok(lost.into_iter().map(|lost| lost.broken.damage).collect())
    }

    /// Every session there is a trace of: a row, an entry of the index, or events.
    fn sessions(&self) -> Result<BTreeMap<u32, SessionRow>, StorageError> {
        const INDEX: &str = "SELECT number FROM session INDEXED BY sqlite_autoindex_session_1";
        let mut numbers: BTreeSet<u32> = self.old.sessions_of_events()?.into_iter().collect();
        numbers.extend(self.old.all(INDEX, [], |row| row.get::<_, u32>(0)).unwrap_or_default());
        let mut last = 0;
        while let Some(row) = self.old.session_above(last)? {
            last = row.number;
            numbers.insert(row.number);
        }
        numbers.into_iter().map(|number| Ok((number, self.session(number)?))).collect()
    }

    fn session(&self, number: u32) -> Result<SessionRow, StorageError> {
        if let Ok(Some(row)) = self.old.session_numbered(number) {
            return Ok(row);
        }
        let id = self.old.name(number).ok().flatten().unwrap_or_else(|| {
            SessionId::new(format!("salvaged-{number}")).expect("a name with nothing special")
        });
        self.old.names.borrow_mut().insert(number, id.clone());
        let mut row = SessionRow::new(number, &id, Time::EPOCH);
        let events = self.old.page(number, from(1))?;
        if let Some(first) = events.iter().find_map(|stored| stored.event.as_ref().ok()) {
            row.base_seq = first.seq - 1;
            row.created_at = first.created_at;
            row.parent = first.readable::<SessionStarted>().and_then(parent_of);
        }
        Ok(row)
    }

    /// Copies what is whole, and returns what is not.
    fn copy_events(&self, row: &SessionRow) -> Result<Vec<Lost>, StorageError> {
        let mut lost = Vec::new();
        let mut next = 1;
        loop {
            let page = self.old.page(row.number, from(next))?;
            let Some(last) = page.last() else { return Ok(lost) };
            next = last.seq + 1;
            let mut whole = Together::default();
            for stored in page {
                let key = Key::new(stored.session, stored.seq);
                match stored.event {
                    Ok(event) => whole.push(key, stored.position, event.draft),
                    Err(broken) => lost.push(Lost { key, position: stored.position, broken }),
                }
            }
            self.write(whole)?;
        }
    }

    /// Looks for lost events in the bytes of the file, where damage to the tables around them
    /// does not count, and returns those that are not there either.
    fn carve_out(&self, lost: Vec<Lost>) -> Result<Vec<Lost>, StorageError> {
        if lost.is_empty() {
            return Ok(lost);
        }
        let page_bytes = page_bytes(self.old.db).map_err(self.unwritten())? as usize;
        let wanted = lost.iter().map(|lost| lost.key).collect();
        let found = carve_events(self.kept, page_bytes, &wanted)?;
        let left = self.write_found(lost, &found, |record| self.old.draft(record).ok()?.ok())?;
        let record = |lost: &Lost| found.get(&lost.key).map(Carved::record);
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

    /// Writes events of which a record was found, and returns the others.
    fn write_found(
        &self,
        lost: Vec<Lost>,
        found: &HashMap<Key, Carved>,
        mut read: impl FnMut(&EventRecord<'_>) -> Option<Draft>,
    ) -> Result<Vec<Lost>, StorageError> {
        let mut left = Vec::new();
        let mut again = Together::default();
        for lost in lost {
            let record = found.get(&lost.key).map(Carved::record);
            match record.as_ref().and_then(|record| Some((record.position, read(record)?))) {
                Some((position, draft))
                    if self.is_free(position) && !again.has_position(position) =>
                {
                    again.push(lost.key, position, draft);
                }
                _ => left.push(lost),
            }
            if again.is_full() {
                self.write(std::mem::take(&mut again))?;
            }
        }
        self.write(again)?;
        Ok(left)
    }

    /// Puts something into the place of every event that is gone.
    fn fill_places(
        &self,
        rows: &BTreeMap<u32, SessionRow>,
        lost: &[Lost],
    ) -> Result<(), StorageError> {
        let told = self.positions_of(lost);
        for Lost { key, position, broken } in lost {
            let (key, position) = (*key, *position);
            let row = &rows[&key.session()];
            if !broken.bytes.is_empty() {
                let name = format!("session-{}-event-{}", key.session(), key.seq());
                self.tools.quarantine.keep(Path::new(&name), &broken.bytes)?;
            }
            let told = [position, told.get(&key).copied().unwrap_or(0)];
            let position = match told.into_iter().find(|position| self.is_free(*position)) {
                Some(position) => position,
                None => self.free_position(key)?,
            };
            let event = crate::read::salvaged(&row.id, key.seq(), row.created_at, broken);
            let mut alone = Together::default();
            alone.push(key, position, event.draft);
            self.write(alone)?;
        }
        Ok(())
    }

    /// The positions of lost events, as far as the index still has them.
    fn positions_of(&self, lost: &[Lost]) -> HashMap<Key, u64> {
        const SQL: &str = "SELECT pk, position FROM event INDEXED BY event_position";
        let mut positions: HashMap<Key, u64> = lost.iter().map(|lost| (lost.key, 0)).collect();
        let mut look = || -> rusqlite::Result<()> {
            let mut sql = self.old.db.prepare(SQL)?;
            let mut rows = sql.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(position) = positions.get_mut(&Key(row.get(0)?)) {
                    *position = number(row, 1)?;
                }
            }
            Ok(())
        };
        // Where the index is damaged too, it ends there.
        let _ = look();
        positions
    }

    fn is_free(&self, position: u64) -> bool {
        position > 0 && self.new.has_position(position).is_ok_and(|is_taken| !is_taken)
    }

    /// The first position nobody has behind that of the event before.
    fn free_position(&self, key: Key) -> Result<u64, StorageError> {
        const BEFORE: &str = "SELECT coalesce(max(position), 0) FROM event \
            WHERE pk >= ?1 AND pk < ?2";
        const TAKEN: &str = "SELECT position FROM event WHERE position > ?1 ORDER BY position";
        let look = || -> rusqlite::Result<u64> {
            let bounds = [Key::new(key.session(), 0).0, key.0];
            let mut sql = self.new.db.prepare_cached(BEFORE)?;
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

    fn write(&self, together: Together) -> Result<(), StorageError> {
        let drafts: Vec<&Draft> = together.events.iter().map(|(_, _, draft)| draft).collect();
        let packed = (self.tools.pack_all)(&drafts);
        let rows =
            together.events.into_iter().zip(packed).map(|((key, position, draft), packed)| {
                let (session, seq) = (key.session(), key.seq());
                EventRow { position, session, seq, packed, draft: Arc::new(draft) }
            });
        write_events(self.new.db, rows).map_err(self.unwritten())
    }

    /// Copies a table from its beginning, and where damage is in the way from its end.
    fn copy_table(&self, table: &str, columns: &str) -> Result<(), StorageError> {
        let places = vec!["?"; columns.split(", ").count()].join(", ");
        let insert = format!("INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})");
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
            let values: Vec<Value> =
                (0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            match insert.execute(params_from_iter(values)) {
                // What no such row can have is damage.
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

/// Removes the databases beside `file` that whoever was killed in a repair or a migration left
/// there. They hold everything, also what is deleted later. Only for somebody who knows that nobody
/// is at it: who is holds the writers' lock and has the journal open.
pub(crate) fn remove_unfinished(file: &Path) -> Result<(), StorageError> {
    let copies = migration::unfinished_restore_points(file);
    copies.chain([repaired(file)]).try_for_each(|path| remove_database(&path))
}

/// Where the new database is made.
fn repaired(file: &Path) -> PathBuf {
    beside(file, ".repaired")
}

fn from(seq: u64) -> SeqRange {
    SeqRange { from: seq, to: SEQ_MAX, order: Direction::OldestFirst }
}

/// Where a session says it comes from. Its generation is at least the first.
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

/// Copies the log into the database and empties it; says whether all of it was copied, be it that
/// somebody reads it and it cannot be emptied.
fn copy_log(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        let [is_busy, frames, copied] = [row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?];
        // Both are -1 where nobody looked.
        Ok(is_busy == 0 || (frames >= 0 && frames == copied))
    })
}

fn page_bytes(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA page_size", [], |row| row.get(0))
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.to_owned().into_os_string();
    path.push(ending);
    path.into()
}

fn remove_database(path: &Path) -> Result<(), StorageError> {
    // The journal is that of a file which has no write-ahead log yet.
    for ending in ["", "-journal", "-wal", "-shm"] {
        let path = beside(path, ending);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StorageError::new("remove", path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
