//! Rows and indexes of a store in one SQLite file: what is found by key is found here.
//!
//! The catalogue keeps the text of an event as opaque bytes, the *body*. The SQLite store puts
//! the text itself there; the files store puts the place in its files, and its catalogue can be
//! deleted and rebuilt. [`BodyDecoder`] turns a body back into an event.
//!
//! One connection writes, several read, each on the state committed when it began.

mod connection; // every setting of SQLite, with its reason
mod bare_file; // the database file, read past SQLite
mod migration; // formats, and how older ones are brought forward
mod row; // rows and their checksum
mod query; // keyed lookups and range scans
mod page; // events, a page at a time
mod payload; // large data, and blocks of texts packed together
mod tails; // the ends of many ids in one row
mod write; // one commit
mod checkpointer; // the WAL into the database, beside commits
mod meta; // numbers of a store that keeps its texts elsewhere
mod check; // verifies every row and reference
mod rebuild; // a new database from what can be read
mod carve; // rows in the bytes of a damaged file
mod mend; // header, length and schema of a file that cannot be opened
mod fault; // what SQLite's errors mean

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::{Draft, SessionId};
use rusqlite::Connection;

use bare_file::BareFile;
use checkpointer::Checkpointer;
use payload::PayloadNumbers;

use crate::lock::{WriterGuard, WriterLock};
use crate::{AppendError, OpenError, StorageError, folder};

pub(crate) use check::mark_recovered;
pub(crate) use connection::Synchronous;
pub(crate) use mend::{MendedPart, has_our_schema, mend_file};
pub(crate) use rebuild::{RepairTools, remove_database, remove_unfinished_copies};
pub(crate) use row::EventRecord;

/// Connections kept for the next readers. More may read at once; theirs are closed afterwards.
const IDLE_READERS_MAX: usize = 8;

/// The error for a process after its database file was moved, replaced or deleted.
const FILE_REPLACED: &str = "it was moved, replaced or deleted while it was open; end every `hansard` \
    (`hansard down` ends the daemon) and put it in place as docs/internals/journal.md says";

/// Turns the body of a row into the event.
pub(crate) trait BodyDecoder {
    /// The event of a record with a checksum that fits. `payload` holds the bytes stored under the
    /// digest it names, if it names one.
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        payload: Option<&[u8]>,
    ) -> Result<Draft, BodyError>;
}

/// Why a body cannot be decoded, and where it is if not in the catalogue itself.
#[derive(Debug, Clone)]
pub(crate) struct BodyError {
    pub why: String,
    pub location: Option<BodyLocation>,
}

/// Where a store keeps a text that the body only points to, and the bytes found there.
#[derive(Debug, Clone)]
pub(crate) struct BodyLocation {
    pub file: PathBuf,
    pub line: Option<u64>,
    pub byte: Option<u64>,
    pub bytes: Vec<u8>,
}

/// The database of one journal.
#[derive(Debug)]
pub(crate) struct Catalogue {
    file: PathBuf,
    store: &'static str,
    /// `None` for a database on a disk that cannot be written to: it can only be read.
    lock: Option<WriterLock>,
    synchronous: Synchronous,
    /// Dropped before the connections: closing the last connection of a database checkpoints its
    /// WAL, and two checkpoints exclude each other.
    checkpointer: Checkpointer,
    writer: Mutex<Connection>,
    idle: Mutex<Vec<Connection>>,
    /// Row numbers of payloads, found by a scan where the index over them is damaged.
    payloads: Mutex<PayloadNumbers>,
    /// Dropped after the connections: see [`BareFile`].
    bare: BareFile,
}

/// A transaction on the catalogue, through a connection `C`. Reads see one state of it.
pub(crate) struct CatalogueTx<'a, C, B> {
    catalogue: &'a Catalogue,
    db: C,
    bodies: B,
    tail: u64,
    /// Ids of the sessions met so far; bounded by what one reader reads.
    names: RefCell<HashMap<u32, SessionId>>,
}

/// A pooled connection in a read transaction. Returned to the pool on drop.
pub(crate) struct ReadConnection<'a> {
    /// `None` only during the drop.
    db: Option<Connection>,
    idle: &'a Mutex<Vec<Connection>>,
}

/// The write connection in a transaction that is rolled back on drop unless it was committed.
pub(crate) struct WriteConnection<'a> {
    db: MutexGuard<'a, Connection>,
    _guard: WriterGuard<'a>,
}

impl Catalogue {
    /// Opens the database at `file` on behalf of `store`, and creates it if it is missing.
    pub(crate) fn open(
        file: &Path,
        store: &'static str,
        lock: WriterLock,
        synchronous: Synchronous,
    ) -> Result<Catalogue, OpenError> {
        connection::require_safe_sqlite()?;
        let bare = BareFile::open(file)?;
        // Before SQLite: it would replay a WAL, also that of a newer program.
        let found = migration::inspect_file(store, file, bare.as_ref())?;
        let failed = fault::open(store, file);
        let ready = found == migration::FoundDatabase::Format(migration::FORMAT);
        // Only one process at a time may create or migrate. A database in the present format
        // opens without the lock, also while another process commits.
        let turn = (!ready).then(|| lock.acquire()).transpose();
        let turn = turn.map_err(|error| error.into_open_error(file))?;
        let bare = bare.map_or_else(|| BareFile::open_or_create(file), Ok)?;
        if let Some(dir) = file.parent().filter(|_| found == migration::FoundDatabase::Nothing) {
            // The name of a new file is synced before anything is recorded in it.
            folder::sync(dir)?;
        }
        let mut db = connection::writer(file, synchronous).map_err(&failed)?;
        migration::migrate(store, file, &mut db)?;
        drop(turn);
        Ok(Catalogue {
            file: file.to_owned(),
            store,
            lock: Some(lock),
            synchronous,
            checkpointer: Checkpointer::default(),
            writer: Mutex::new(db),
            idle: Mutex::new(Vec::new()),
            payloads: Mutex::default(),
            bare,
        })
    }

    /// Opens a database that no process can write to, such as one on a disk that is mounted for
    /// reading only. Nothing is locked, written or created.
    pub(crate) fn open_immutable(file: &Path, store: &'static str) -> Result<Catalogue, OpenError> {
        let not_found = || OpenError::JournalNotFound { path: file.to_owned() };
        let bare = BareFile::open(file)?.ok_or_else(not_found)?;
        let failed = fault::open(store, file);
        let found = migration::inspect_file(store, file, Some(&bare))?;
        let db = connection::immutable(file).map_err(&failed)?;
        if found != migration::FoundDatabase::Format(migration::FORMAT) {
            let why = "it is of an earlier format, and cannot be brought forward here".to_owned();
            return Err(StorageError::new("open", file, std::io::Error::other(why)).into());
        }
        migration::require_schema(store, file, &db)?;
        Ok(Catalogue {
            file: file.to_owned(),
            store,
            lock: None,
            synchronous: Synchronous::Off,
            checkpointer: Checkpointer::default(),
            writer: Mutex::new(db),
            idle: Mutex::new(Vec::new()),
            payloads: Mutex::default(),
            bare,
        })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Begins a read transaction on what is committed now.
    pub(crate) fn read<B: BodyDecoder>(
        &self,
        bodies: B,
    ) -> Result<CatalogueTx<'_, ReadConnection<'_>, B>, StorageError> {
        CatalogueTx::new(self, self.begin_read()?, bodies)
            .map_err(fault::storage("read", &self.file))
    }

    /// The same for a check, which also has to look at a database without any whole table.
    pub(crate) fn read_damaged<B: BodyDecoder>(
        &self,
        bodies: B,
    ) -> Result<CatalogueTx<'_, ReadConnection<'_>, B>, StorageError> {
        CatalogueTx::damaged(self, self.begin_read()?, bodies)
            .map_err(fault::storage("read", &self.file))
    }

    /// Reads the newest position.
    pub(crate) fn tail(&self) -> Result<u64, StorageError> {
        query::newest_position(&*self.begin_read()?).map_err(fault::storage("read", &self.file))
    }

    /// Waits for the right to commit and begins the write transaction.
    pub(crate) fn write<B: BodyDecoder>(
        &self,
        bodies: B,
    ) -> Result<CatalogueTx<'_, WriteConnection<'_>, B>, AppendError> {
        let guard = self.lock.as_ref().ok_or(AppendError::ReadOnly)?.acquire()?;
        // After the lock: the file may have been replaced while this process waited.
        self.require_in_place("write to")?;
        let db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = fault::storage("write", &self.file);
        // Our processes wait for the lock above, so only another tool on the file can be in the way
        // here.
        let began = std::time::Instant::now();
        let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        begun.map_err(|error| match fault::is_busy(&error) {
            true => AppendError::Busy { waited_ms: began.elapsed().as_millis() as u64 },
            false => failed(error).into(),
        })?;
        let db = WriteConnection { db, _guard: guard };
        // A newer program may have migrated the file while this process had it open.
        migration::require_known_format(&self.file, &db)?;
        Ok(CatalogueTx::new(self, db, bodies).map_err(&failed)?)
    }

    /// Makes the disk look full beyond this many pages.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages_max: u32) {
        let db = self.writer.lock().expect("a test that panicked has failed already");
        db.query_row(&format!("PRAGMA max_page_count = {pages_max}"), [], |_| Ok(()))
            .expect("any number is legal");
    }

    fn begin_read(&self) -> Result<ReadConnection<'_>, StorageError> {
        let failed = fault::storage("read", &self.file);
        // The lock is held for the pop only: opening a connection takes long enough to matter.
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = match idle {
            Some(db) => db,
            None => {
                self.require_in_place("read")?;
                match self.lock {
                    Some(_) => connection::reader(&self.file),
                    None => connection::immutable(&self.file),
                }
                .map_err(&failed)?
            }
        };
        let begun = db.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begun.map_err(failed)?;
        Ok(ReadConnection { db: Some(db), idle: &self.idle })
    }

    /// Refuses to go on if the path leads to another file by now, or to none.
    ///
    /// A commit would go to a file that has no name any more, and a connection to another file
    /// beside our WAL would damage that file. Costs one `stat`, a thousandth of a commit.
    fn require_in_place(&self, action: &'static str) -> Result<(), StorageError> {
        let failed = |cause| StorageError::new(action, &self.file, cause);
        match self.bare.identity().is_at(&self.file).map_err(failed)? {
            true => Ok(()),
            false => Err(failed(std::io::Error::other(FILE_REPLACED))),
        }
    }

    /// Checkpoints the WAL and truncates it, as far as readers allow.
    pub(crate) fn checkpoint(&self) -> Result<(), StorageError> {
        if self.lock.is_none() {
            return Ok(());
        }
        let db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // SQLite refuses the second of two checkpoints that run at once.
        self.checkpointer.join();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(fault::storage("checkpoint", &self.file))
    }
}

impl<'a, C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'a, C, B> {
    fn new(catalogue: &'a Catalogue, db: C, bodies: B) -> rusqlite::Result<Self> {
        // SQLite fixes the state of a transaction with its first read, which this is.
        let tail = query::newest_position(&db)?;
        Ok(CatalogueTx { catalogue, db, bodies, tail, names: RefCell::default() })
    }

    /// The same for a check or a repair, which give no positions: a newest one that cannot be read
    /// is no error.
    fn damaged(catalogue: &'a Catalogue, db: C, bodies: B) -> rusqlite::Result<Self> {
        let tail = match query::newest_position(&db) {
            Err(error) if fault::is_damage(&error) => 0,
            tail => tail?,
        };
        Ok(CatalogueTx { catalogue, db, bodies, tail, names: RefCell::default() })
    }
}

impl Deref for ReadConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.db.as_ref().expect("a connection is open until it is dropped")
    }
}

impl Drop for ReadConnection<'_> {
    fn drop(&mut self) {
        let Some(db) = self.db.take() else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that cannot end its transaction is of no use to the next reader.
        if idle.len() < IDLE_READERS_MAX && roll_back(&db).is_ok() {
            idle.push(db);
        }
    }
}

impl Deref for WriteConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

impl Drop for WriteConnection<'_> {
    fn drop(&mut self) {
        if !self.db.is_autocommit() {
            // If the rollback fails, the connection refuses the next transaction with the reason.
            let _ = roll_back(&self.db);
        }
    }
}

fn roll_back(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached("ROLLBACK")?.execute([]).map(drop)
}
