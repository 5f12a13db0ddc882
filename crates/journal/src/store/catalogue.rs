//! Rows and indexes of a store in one SQLite file: what is found by key is found here.
//!
//! The catalogue keeps the text of an event as opaque bytes, the *body*. The SQLite store puts
//! the text itself there; the files store puts the place in its files, and its catalogue can be
//! deleted and rebuilt. [`Bodies`] turns a body back into an event.
//!
//! One connection writes, several read, each on the state committed when it began.

mod connection; // every setting, with its reason
mod bare; // the file itself, past SQLite
mod migration; // formats, and the way between them
mod row; // rows and their checksum
mod view; // reading
mod page; // events, a page at a time
mod payload; // what is large or packed together
mod tails; // the facts of a session, many in one row
mod write; // one commit
mod copying; // the log into the database, while others commit
mod beside; // numbers of a store that keeps its texts elsewhere
mod check; // is everything as it should be
mod rebuild; // a new database from what can be read
mod carve; // rows in the bytes of a damaged file
mod fault; // what SQLite's errors mean

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::{Draft, SessionId};
use rusqlite::Connection;

use bare::BareFile;
use copying::Copying;
use payload::PayloadNumbers;

use crate::lock::{Held, Lock};
use crate::{AppendError, OpenError, StorageError, folder};

pub(crate) use check::tell_found_again;
pub(crate) use connection::Flush;
pub(crate) use rebuild::{Tools, remove_unfinished};
pub(crate) use row::EventRecord;

/// Connections kept for the next readers. More may read at once; theirs are closed afterwards.
const IDLE_READERS_MAX: usize = 8;

/// What is told to whoever would go on with a file that has lost its name.
const REPLACED: &str = "it was moved, replaced or deleted while it was open; end every `hansard` \
    (`hansard down` ends the daemon) and put it in place as docs/journal.md says";

/// How a store gets from the body of a row to the event.
pub(crate) trait Bodies {
    /// The event of a record whose checksum fits. `payload` holds the bytes stored under the
    /// digest it names, if it names one.
    fn draft(
        &self,
        record: &EventRecord<'_>,
        session_id: &SessionId,
        payload: Option<&[u8]>,
    ) -> Result<Draft, Unreadable>;
}

/// Why a body gives no event, and where it stands if not in the catalogue itself.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable {
    pub why: String,
    pub place: Option<BodyPlace>,
}

/// Where a store keeps a text that its body only points to, and what stands there.
#[derive(Debug, Clone)]
pub(crate) struct BodyPlace {
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
    lock: Lock,
    flush: Flush,
    /// Before the connections: whoever closes the last one of a database copies all of its log.
    copying: Copying,
    writer: Mutex<Connection>,
    idle: Mutex<Vec<Connection>>,
    /// Where payloads stand that the index over them could not tell of.
    payloads: Mutex<PayloadNumbers>,
    /// Behind the connections: see [`BareFile`].
    bare: BareFile,
}

/// A state of the catalogue, read through a connection `C`.
pub(crate) struct View<'a, C, B> {
    catalogue: &'a Catalogue,
    db: C,
    bodies: B,
    tail: u64,
    /// Sessions met so far; bounded by what one reader reads.
    names: RefCell<HashMap<u32, SessionId>>,
}

/// A connection in a read transaction, on loan.
pub(crate) struct Reading<'a> {
    /// `None` only while it is given back.
    db: Option<Connection>,
    idle: &'a Mutex<Vec<Connection>>,
}

/// The writing connection in a transaction that is rolled back unless it commits.
pub(crate) struct Writing<'a> {
    db: MutexGuard<'a, Connection>,
    _turn: Held<'a>,
}

impl Catalogue {
    /// Opens the database at `file` on behalf of `store`, and makes it if it is not there.
    pub(crate) fn open(
        file: &Path,
        store: &'static str,
        lock: Lock,
        flush: Flush,
    ) -> Result<Catalogue, OpenError> {
        connection::require_safe_sqlite()?;
        let bare = BareFile::open(file)?;
        let found = migration::look(store, file, bare.as_ref())?;
        let failed = fault::open(store, file);
        let ready = found == migration::Found::Format(migration::FORMAT);
        // Making and migrating are for one process at a time; opening what is ready is not.
        let turn = (!ready).then(|| lock.acquire()).transpose();
        let turn = turn.map_err(|error| error.on_open(file))?;
        let bare = bare.map_or_else(|| BareFile::open_or_create(file), Ok)?;
        if let Some(dir) = file.parent().filter(|_| found == migration::Found::Nothing) {
            folder::sync(dir)?;
        }
        let mut db = connection::writer(file, flush).map_err(&failed)?;
        migration::migrate(store, file, &mut db)?;
        drop(turn);
        Ok(Catalogue {
            file: file.to_owned(),
            store,
            lock,
            flush,
            copying: Copying::default(),
            writer: Mutex::new(db),
            idle: Mutex::new(Vec::new()),
            payloads: Mutex::default(),
            bare,
        })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// What is committed now, unchanged while it is held.
    pub(crate) fn read<B: Bodies>(
        &self,
        bodies: B,
    ) -> Result<View<'_, Reading<'_>, B>, StorageError> {
        View::new(self, self.begin_read()?, bodies).map_err(fault::storage("read", &self.file))
    }

    /// The newest position.
    pub(crate) fn tail(&self) -> Result<u64, StorageError> {
        view::tail(&*self.begin_read()?).map_err(fault::storage("read", &self.file))
    }

    /// The right to commit, and the newest state to decide on.
    pub(crate) fn write<B: Bodies>(
        &self,
        bodies: B,
    ) -> Result<View<'_, Writing<'_>, B>, AppendError> {
        let turn = self.lock.acquire()?;
        self.require_in_place("write to")?;
        let db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = fault::storage("write", &self.file);
        let began = std::time::Instant::now();
        let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        begun.map_err(|error| match fault::is_busy(&error) {
            true => AppendError::Busy { waited_ms: began.elapsed().as_millis() as u64 },
            false => failed(error).into(),
        })?;
        let db = Writing { db, _turn: turn };
        migration::require_known_now(&self.file, &db)?;
        Ok(View::new(self, db, bodies).map_err(&failed)?)
    }

    /// Makes the disk look full beyond so many pages.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages_max: u32) {
        let db = self.writer.lock().expect("a test that panicked has failed already");
        db.query_row(&format!("PRAGMA max_page_count = {pages_max}"), [], |_| Ok(()))
            .expect("any number is legal");
    }

    fn begin_read(&self) -> Result<Reading<'_>, StorageError> {
        let failed = fault::storage("read", &self.file);
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = match idle {
            Some(db) => db,
            None => {
                self.require_in_place("read")?;
                connection::reader(&self.file).map_err(&failed)?
            }
        };
        let begun = db.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begun.map_err(failed)?;
        Ok(Reading { db: Some(db), idle: &self.idle })
    }

    /// Refuses to go on where the name leads to another file by now, or to none. What is committed
    /// would be in a file that nobody finds, and whoever opens another one beside our log damages
    /// it. It takes a look at one name, a thousandth of a commit.
    fn require_in_place(&self, action: &'static str) -> Result<(), StorageError> {
        let failed = |cause| StorageError::new(action, &self.file, cause);
        match self.bare.identity().is_at(&self.file).map_err(failed)? {
            true => Ok(()),
            false => Err(failed(std::io::Error::other(REPLACED))),
        }
    }

    /// Copies the write-ahead log into the database and empties it, as far as readers allow.
    pub(crate) fn checkpoint(&self) -> Result<(), StorageError> {
        let db = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two who copy at once the second is turned away.
        self.copying.join();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(fault::storage("checkpoint", &self.file))
    }
}

impl<'a, C: Deref<Target = Connection>, B: Bodies> View<'a, C, B> {
    fn new(catalogue: &'a Catalogue, db: C, bodies: B) -> rusqlite::Result<Self> {
        // A transaction sees the state at its first read, which this is.
        let tail = view::tail(&db)?;
        Ok(View { catalogue, db, bodies, tail, names: RefCell::default() })
    }
}

impl Deref for Reading<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.db.as_ref().expect("a loan is open until it is dropped")
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Some(db) = self.db.take() else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that cannot end its transaction is of no use to the next reader.
        if idle.len() < IDLE_READERS_MAX && end(&db).is_ok() {
            idle.push(db);
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.db.is_autocommit() {
            // If even this fails, the connection refuses the next transaction and says why.
            let _ = end(&self.db);
        }
    }
}

fn end(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached("ROLLBACK")?.execute([]).map(drop)
}
