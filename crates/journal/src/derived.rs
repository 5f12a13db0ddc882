//! The file beside the log that may be deleted: the rows of the search index and saved views.
//!
//! All of it follows from the log. A file that is damaged or of an older version is replaced by an
//! empty one, so the file can delay an answer but never falsify or prevent one. Any process may
//! replace it at any time; the other processes notice and continue with the new file. A file that
//! a newer program made is left alone: of two versions that run at once, each would throw away
//! what the other has made. Then there are no views, and a search returns an error that says so.
//! Writing the file never holds the log's lock.
//!
//! Not here: what is indexed and how it is found (`event_search`, `search`), what a saved view
//! holds (`session`).

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::SessionId;
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, ffi,
    params,
};

use crate::file::FileIdentity;
use crate::limit::EVENT_BYTES_MAX;
use crate::lock::wait_for;
use crate::store::pack::{pack, unpack};
use crate::{OpenError, ReadError, StorageError, View, folder};

/// The version of the tables, of the tokenizer and of the keyword terms. Any change to one of them
/// is a new number, and older files are built anew. It stands in the file twice: if only one of the
/// two numbers is higher, that is damage and not a newer program.
const FORMAT: i64 = 3;

/// How long to wait for another process that writes or opens the file. After that the caller gets
/// an error; the journal opens without derived data.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reading connections kept open; one more reader opens its own and closes it again.
const IDLE_READERS_MAX: usize = 4;

/// Attempts at one action, each with another file. Other processes may delete or replace the file
/// at any time, and again while the next is opened; after the last attempt the caller gets an
/// error.
const ATTEMPTS_MAX: u32 = 4;

const LOCK_FOLDER: &str = "lock";

/// Statements kept prepared per connection: more than there are.
const STATEMENTS_MAX: usize = 64;

/// The file of derived data.
#[derive(Debug)]
pub(crate) struct Derived {
    path: PathBuf,
    /// How long to wait for the file lock.
    wait_max: Duration,
    /// Opened with the first change: a process that only reads needs one connection.
    writer: Mutex<Option<Connection>>,
    readers: Mutex<ReaderPool>,
    indexing: Mutex<()>,
}

#[derive(Debug, Default)]
struct ReaderPool {
    /// The file that all connections have open; `None` if there is none that can be used.
    file: Option<FileIdentity>,
    /// Rises whenever another file takes its place: older connections look at a replaced file.
    generation: u64,
    idle: Vec<Connection>,
}

/// A view of a session as it was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedView {
    pub(crate) up_to_seq: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Why an action on the file failed.
#[derive(Debug)]
pub(crate) enum DerivedError {
    Sqlite(rusqlite::Error),
    Read(ReadError),
    /// The file has been replaced or deleted since it was opened.
    Replaced,
}

impl Derived {
    /// Opens the file, or creates it if it is not there or cannot be used.
    pub(crate) fn open(path: &Path) -> Result<Derived, StorageError> {
        Derived::open_within(path, BUSY_TIMEOUT)
    }

    fn open_within(path: &Path, wait_max: Duration) -> Result<Derived, StorageError> {
        folder::create_private(&path.with_file_name(LOCK_FOLDER))?;
        let derived = Derived {
            path: path.to_owned(),
            wait_max,
            writer: Mutex::default(),
            readers: Mutex::default(),
            indexing: Mutex::default(),
        };
        // An error is not lost: the first action on the file meets it again and returns it. The
        // journal itself opens without derived data.
        let _ = derived.replace(&mut lock(&derived.writer), 0, Replacement::Present);
        Ok(derived)
    }

    /// Lets one thread of this process index at a time.
    pub(crate) fn lock_indexing(&self) -> MutexGuard<'_, ()> {
        lock(&self.indexing)
    }

    /// Runs `ask` on one snapshot of the file. If the file turns out to be damaged or replaced,
    /// `ask` runs again on the next one, up to [`ATTEMPTS_MAX`] times.
    pub(crate) fn read<T>(
        &self,
        action: &'static str,
        mut ask: impl FnMut(&Connection) -> Result<T, DerivedError>,
    ) -> Result<T, ReadError> {
        let mut attempts = 1;
        loop {
            // Read before the attempt: `replace` does nothing if another thread has replaced the
            // file since.
            let generation = lock(&self.readers).generation;
            let error = match self.read_once(&mut ask) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.recover(&mut lock(&self.writer), generation, error, &mut attempts)
                .map_err(|error| error.into_read_error(action, &self.path))?;
        }
    }

    /// Runs `change` in one transaction. If the file turns out to be damaged or replaced, `change`
    /// runs again on the next one, up to [`ATTEMPTS_MAX`] times.
    pub(crate) fn write<T>(
        &self,
        action: &'static str,
        mut change: impl FnMut(&Transaction<'_>) -> Result<T, DerivedError>,
    ) -> Result<T, ReadError> {
        let mut writer = lock(&self.writer);
        let mut attempts = 1;
        loop {
            let generation = lock(&self.readers).generation;
            let error = match self.write_once(&mut writer, &mut change) {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            self.recover(&mut writer, generation, error, &mut attempts)
                .map_err(|error| error.into_read_error(action, &self.path))?;
        }
    }

    /// Saves views, each in place of an older one of that name. The view of a session that was
    /// deleted is left out. `exists` is called within the transaction: a later deletion finds the
    /// view committed and removes it.
    pub(crate) fn put_views(
        &self,
        name: &str,
        views: &[View<'_>],
        exists: &dyn Fn(&SessionId) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let saved = self.write("save views in", |tx| {
            let mut put =
                tx.prepare_cached("INSERT OR REPLACE INTO views VALUES (?1, ?2, ?3, ?4, ?5)")?;
            for View { session_id, up_to_seq, bytes } in views {
                // A view that is saved after its session was deleted would never be removed.
                if !exists(session_id)? {
                    continue;
                }
                let bytes = pack_view(bytes);
                let check = crc32fast::hash(&bytes);
                // `up_to_seq` fits: a `seq` has 32 bits.
                put.execute(params![session_id.as_str(), name, *up_to_seq as i64, check, bytes])?;
            }
            Ok(())
        });
        unless_newer(saved)
    }

    /// The views of all sessions under that name, without those that are damaged.
    pub(crate) fn views(&self, name: &str) -> Result<Vec<(String, SavedView)>, ReadError> {
        let views = self.read("read views from", |connection| {
            let mut select = connection.prepare_cached(
                "SELECT session_id, up_to_seq, bytes, bytes_check FROM views WHERE name = ?1",
            )?;
            let mut rows = select.query([name])?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                let bytes: Vec<u8> = row.get(2)?;
                if crc32fast::hash(&bytes) == row.get::<_, u32>(3)? {
                    let up_to_seq = row.get::<_, i64>(1)? as u64;
                    views.push((row.get(0)?, SavedView { up_to_seq, bytes: unpack_view(bytes) }));
                }
            }
            Ok(views)
        });
        unless_newer(views)
    }

    /// The view saved under that name, if there is one and it is not damaged.
    pub(crate) fn view(
        &self,
        session_id: &SessionId,
        name: &str,
    ) -> Result<Option<SavedView>, ReadError> {
        let view = self.read("read a view from", |connection| {
            let view = connection
                .prepare_cached(
                    "SELECT up_to_seq, bytes, bytes_check FROM views
                     WHERE session_id = ?1 AND name = ?2",
                )?
                .query_row(params![session_id.as_str(), name], |row| {
                    let up_to_seq = row.get::<_, i64>(0)? as u64;
                    Ok((SavedView { up_to_seq, bytes: row.get(1)? }, row.get::<_, u32>(2)?))
                })
                .optional()?;
            let is_whole =
                |(view, check): &(SavedView, u32)| crc32fast::hash(&view.bytes) == *check;
            let view = view.filter(is_whole).map(|(view, _)| view);
            Ok(view.map(|view| SavedView { bytes: unpack_view(view.bytes), ..view }))
        });
        unless_newer(view)
    }

    /// Throws everything away, to be built anew from the log.
    pub(crate) fn clear(&self) -> Result<(), ReadError> {
        let mut writer = lock(&self.writer);
        let generation = lock(&self.readers).generation;
        self.replace(&mut writer, generation, Replacement::Empty)
            .map_err(|error| error.into_read_error("begin again", &self.path))
    }

    fn read_once<T>(
        &self,
        ask: &mut impl FnMut(&Connection) -> Result<T, DerivedError>,
    ) -> Result<T, DerivedError> {
        // On an error the connection is dropped and not given back: it may be in a transaction, or
        // look at a damaged file.
        let (generation, connection) = self.take_reader()?;
        let snapshot = connection.unchecked_transaction()?;
        let answer = ask(&connection)?;
        snapshot.finish()?;
        self.give_back(generation, connection);
        Ok(answer)
    }

    fn write_once<T>(
        &self,
        writer: &mut Option<Connection>,
        change: &mut impl FnMut(&Transaction<'_>) -> Result<T, DerivedError>,
    ) -> Result<T, DerivedError> {
        let file = lock(&self.readers).file;
        let writer = match writer {
            Some(writer) if self.is_in_place(file)? => writer,
            Some(_) => return Err(DerivedError::Replaced),
            None => writer.insert(self.connect_to(file)?),
        };
        let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let outcome = change(&tx)?;
        tx.commit()?;
        Ok(outcome)
    }

    /// An idle reading connection or a new one, with the generation it belongs to.
    fn take_reader(&self) -> Result<(u64, Connection), DerivedError> {
        let (file, generation, idle) = {
            let mut readers = lock(&self.readers);
            if !self.is_in_place(readers.file)? {
                return Err(DerivedError::Replaced);
            }
            (readers.file, readers.generation, readers.idle.pop())
        };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect_to(file)?,
        };
        Ok((generation, connection))
    }

    /// One more connection to the file that the others have open.
    fn connect_to(&self, file: Option<FileIdentity>) -> Result<Connection, DerivedError> {
        // Under the lock: another process may be replacing the file right now.
        let _lock = lock_file(&self.path, self.wait_max)?;
        match self.is_in_place(file)? {
            true => open_known(&self.path),
            false => Err(DerivedError::Replaced),
        }
    }

    /// Whether the file that was opened is the one that is there now.
    fn is_in_place(&self, file: Option<FileIdentity>) -> Result<bool, StorageError> {
        Ok(file.is_some() && file_identity(&self.path)? == file)
    }

    fn give_back(&self, generation: u64, connection: Connection) {
        let mut readers = lock(&self.readers);
        if readers.generation == generation && readers.idle.len() < IDLE_READERS_MAX {
            readers.idle.push(connection);
        }
    }

    /// Opens another file for another attempt, if that helps and attempts are left.
    fn recover(
        &self,
        writer: &mut Option<Connection>,
        generation: u64,
        error: DerivedError,
        attempts: &mut u32,
    ) -> Result<(), DerivedError> {
        let Some(replacement) = self.replacement_for(&error).filter(|_| *attempts < ATTEMPTS_MAX)
        else {
            return Err(error);
        };
        *attempts += 1;
        match self.replace(writer, generation, replacement) {
            // The file was deleted again meanwhile: the next attempt finds out and recovers.
            Err(error) if self.replacement_for(&error).is_some() => Ok(()),
            replaced => replaced,
        }
    }

    /// The file that helps against an error, if another file does.
    fn replacement_for(&self, error: &DerivedError) -> Option<Replacement> {
        match error {
            DerivedError::Replaced => Some(Replacement::Present),
            // A deleted file makes SQLite fail in many ways, depending on how far it got.
            DerivedError::Sqlite(_) if matches!(file_identity(&self.path), Ok(None)) => {
                Some(Replacement::Present)
            }
            DerivedError::Sqlite(error) if is_unusable(error) => {
                Some(Replacement::EmptyUnlessReplaced)
            }
            DerivedError::Sqlite(_) | DerivedError::Read(_) => None,
        }
    }

    /// Continues with another file, unless another thread has done so since `generation`.
    fn replace(
        &self,
        writer: &mut Option<Connection>,
        generation: u64,
        replacement: Replacement,
    ) -> Result<(), DerivedError> {
        // The file lock comes before that of the readers: another process may hold it for long,
        // and meanwhile readers have to be able to give their connections back.
        let _lock = lock_file(&self.path, self.wait_max)?;
        let mut readers = lock(&self.readers);
        if readers.generation == generation {
            let is_empty = match replacement {
                Replacement::Present => false,
                Replacement::EmptyUnlessReplaced => self.is_in_place(readers.file)?,
                Replacement::Empty => true,
            };
            // All connections to the old file are closed before the new one is opened. If opening
            // fails, there is no file, and the next action tries again.
            readers.idle.clear();
            *writer = None;
            readers.file = None;
            let path = &self.path;
            readers.idle.push(if is_empty { create_empty(path)? } else { open_or_create(path)? });
            readers.file = file_identity(&self.path)?;
            readers.generation += 1;
        }
        Ok(())
    }
}

impl Drop for Derived {
    /// Lets SQLite remove the write-ahead log if no other process has the file open. If another
    /// process holds the file lock just now, the log stays and is read with the next opening.
    fn drop(&mut self) {
        let Ok(_lock) = lock_file(&self.path, Duration::ZERO) else { return };
        let file = lock(&self.readers).file;
        let mut open: Vec<Connection> = lock(&self.readers).idle.drain(..).collect();
        open.extend(lock(&self.writer).take());
        let Some(last) = open.pop() else { return };
        drop(open);
        if self.is_in_place(file).unwrap_or(false) {
            let _ = last.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        }
    }
}

/// Which file comes after the one that was open.
#[derive(Clone, Copy)]
enum Replacement {
    /// The one that is there, or an empty one if that is none of ours.
    Present,
    /// An empty one, unless another process has replaced the file already.
    EmptyUnlessReplaced,
    /// An empty one.
    Empty,
}

impl DerivedError {
    fn into_read_error(self, action: &'static str, path: &Path) -> ReadError {
        match self {
            DerivedError::Sqlite(error) => failed(action, path, error).into(),
            DerivedError::Read(error) => error,
            DerivedError::Replaced => {
                let why = std::io::Error::other("other programs keep replacing it");
                StorageError::new(action, path, why).into()
            }
        }
    }
}

impl From<rusqlite::Error> for DerivedError {
    fn from(error: rusqlite::Error) -> DerivedError {
        DerivedError::Sqlite(error)
    }
}

impl From<ReadError> for DerivedError {
    fn from(error: ReadError) -> DerivedError {
        DerivedError::Read(error)
    }
}

impl From<StorageError> for DerivedError {
    fn from(error: StorageError) -> DerivedError {
        DerivedError::Read(error.into())
    }
}

/// Takes the lock under which processes open or create the file: a file that is half created looks
/// damaged, and another process would replace it. A process that is stopped while it holds the
/// lock keeps it, so nothing waits longer than `wait_max`.
fn lock_file(path: &Path, wait_max: Duration) -> Result<File, StorageError> {
    let failed = |error| StorageError::new("lock", path, error);
    let file = folder::open_private(&path.with_file_name(LOCK_FOLDER).join("derived"))?;
    match wait_for(&file, Instant::now(), wait_max).map_err(failed)? {
        true => Ok(file),
        false => {
            let why = format!("another program has kept it for {} ms", wait_max.as_millis());
            Err(failed(std::io::Error::other(why)))
        }
    }
}

/// Which file the path names now; `None` if there is none.
fn file_identity(path: &Path) -> Result<Option<FileIdentity>, StorageError> {
    FileIdentity::from_path(path).map_err(|error| StorageError::new("look at", path, error))
}

/// Packs a view that is text, as most are. A row of more than a thousand bytes takes a page of its own
/// in the table, and there is at least one for every session.
fn pack_view(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= EVENT_BYTES_MAX => Cow::Owned(pack(text)),
        _ => Cow::Borrowed(bytes),
    }
}

/// Returns a view as it was saved. One that does not unpack was not packed: it is no text, or an
/// earlier version saved it.
fn unpack_view(stored: Vec<u8>) -> Vec<u8> {
    unpack(&stored, |text| text.as_bytes().to_vec()).unwrap_or(stored)
}

/// Views only save time: under the file of a newer program there are none, which is no error.
fn unless_newer<T: Default>(answer: Result<T, ReadError>) -> Result<T, ReadError> {
    match answer {
        Err(error) if error.is_newer_format() => Ok(T::default()),
        answer => answer,
    }
}

/// Opens the file that is there, or creates an empty one if there is none or it is none of ours.
fn open_or_create(path: &Path) -> Result<Connection, DerivedError> {
    // Users delete the main file alone. The write-ahead log beside it belongs to the deleted file,
    // which other processes may still have open, and SQLite would apply it to a new one.
    if file_identity(path)?.is_none() {
        return create_empty(path);
    }
    match open_known(path) {
        Err(DerivedError::Sqlite(error)) if is_unusable(&error) => create_empty(path),
        opened => opened,
    }
}

/// Opens the file that is there, if it is one of ours in this version. One that a newer program
/// made is not touched.
fn open_known(path: &Path) -> Result<Connection, DerivedError> {
    let connection = connect(path)?;
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let format = number("user_version")?;
    if format > FORMAT && number("application_id")? == format {
        let (found, supported) = (format as u32, FORMAT as u32);
        let newer = OpenError::NewerFormat { path: path.to_owned(), found, supported };
        return Err(StorageError::new("use", path, newer).into());
    }
    let tables: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN
         ('state', 'stretches', 'leaves', 'gone', 'replaced', 'forgotten', 'views')",
        [],
        |row| row.get(0),
    )?;
    if (format, tables) != (FORMAT, 7) {
        let why = format!("format {format} with {tables} tables");
        let error = ffi::Error::new(ffi::SQLITE_NOTADB);
        return Err(rusqlite::Error::SqliteFailure(error, Some(why)).into());
    }
    configure(&connection)?;
    Ok(connection)
}

/// Opens a connection. A file that is missing is not created here: see [`open_or_create`].
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The connection that closes a database last removes the write-ahead log by its name. Without
    // the file lock, that may be the log of a file that another process has created meanwhile.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Gives a connection every setting it needs.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        // WAL: readers continue while the index is written. NORMAL: after a power cut the last
        // transactions may be gone; they are indexed again, so no commit waits for the disk. No
        // memory mapping: a file that another program cuts short must be an error, not SIGBUS.
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA mmap_size = 0;
         PRAGMA cache_size = -4096;
         PRAGMA wal_autocheckpoint = 4096;",
    )
}

/// Replaces the file that is there, if any, by an empty one.
fn create_empty(path: &Path) -> Result<Connection, DerivedError> {
    let cannot = |error| StorageError::new("begin", path, error);
    // The main file first: SQLite throws away a write-ahead log without its file, but would
    // believe a file without its log.
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot(error).into());
            }
            _ => {}
        }
    }
    create_private(path).map_err(cannot)?;
    let mut connection = connect(path)?;
    configure(&connection)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(&format!(
        // The tables of the index are described in `event_search::sqlite_index`. `forgotten` are
        // deleted sessions, after their events have left the index.
        "CREATE TABLE state (
             indexed INTEGER NOT NULL,
             first_day INTEGER NOT NULL,
             last_day INTEGER NOT NULL,
             deletions INTEGER NOT NULL
         );
         INSERT INTO state VALUES (0, {first_day}, {last_day}, 0);
         CREATE TABLE stretches (
             number INTEGER PRIMARY KEY,
             part INTEGER NOT NULL,
             first INTEGER NOT NULL,
             behind INTEGER NOT NULL,
             events INTEGER NOT NULL
         );
         CREATE TABLE leaves (
             stretch INTEGER NOT NULL,
             word BLOB NOT NULL,
             bytes BLOB NOT NULL
         );
         CREATE UNIQUE INDEX leaf_by_word ON leaves (stretch, word);
         CREATE TABLE gone (
             part INTEGER NOT NULL,
             place INTEGER NOT NULL,
             PRIMARY KEY (part, place)
         ) WITHOUT ROWID;
         CREATE TABLE replaced (position INTEGER PRIMARY KEY);
         CREATE TABLE forgotten (session_id TEXT PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE views (
             session_id TEXT NOT NULL,
             name TEXT NOT NULL,
             up_to_seq INTEGER NOT NULL,
             bytes_check INTEGER NOT NULL,
             bytes BLOB NOT NULL,
             PRIMARY KEY (session_id, name)
         ) WITHOUT ROWID;
         PRAGMA user_version = {FORMAT};
         PRAGMA application_id = {FORMAT};",
        first_day = i64::MAX,
        last_day = i64::MIN,
    ))?;
    tx.commit()?;
    Ok(connection)
}

/// Creates an empty file that only its owner can read; SQLite gives its companions the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Whether an error means that the file has to be replaced: it is damaged, or shorter than its
/// write-ahead log says.
fn is_unusable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHORT_READ)
}

fn failed(action: &'static str, path: &Path, error: rusqlite::Error) -> StorageError {
    StorageError::new(action, path, error)
}

/// A poisoned lock is no danger: the connections are as they were, and SQLite rolls back a
/// transaction that a panic left open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
