//! The file beside the log that may be deleted: the search index and saved views.
//!
//! All of it follows from the log. A file that is damaged or of an older version is thrown away
//! and begun again, so it can delay an answer but never falsify or prevent one. Any process may do
//! so at any time; the others go on with the file that is there then. One that a newer program made
//! is left to it: of two versions that run at once, each would throw away what the other has made.
//! Then there are no views, and who searches is told. Writing it never holds the log's lock.
//!
//! Not here: what is indexed and how it is found (`search`), what a saved view holds (`session`).

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
use crate::lock::wait_for;
use crate::{OpenError, ReadError, StorageError, View, folder};

/// The version of the tables, of the word rules and of the tags. Any change to one of them is a
/// new number, and older files are built anew. It stands in the file twice: one number alone that
/// is higher is damage, not a newer program.
const FORMAT: i64 = 3;

/// How long to wait for another process that writes the file, or opens it. Whoever waits longer is
/// told; the journal opens without.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reading connections kept open; one more reader opens its own and closes it again.
const IDLE_READERS_MAX: usize = 4;

/// Files that something is tried with. Others may delete or replace one at any time, and may do so
/// again while the next is opened; whoever meets that more often is told.
const FILES_MAX: u32 = 4;

const LOCK_FOLDER: &str = "lock";

/// Statements kept prepared per connection: more than there are.
const STATEMENTS_MAX: usize = 64;

/// The file of derived data.
#[derive(Debug)]
pub(crate) struct Derived {
    path: PathBuf,
    /// How long to wait for the turn.
    wait_max: Duration,
    /// Opened with the first change: whoever only reads needs one connection.
    writer: Mutex<Option<Connection>>,
    readers: Mutex<Readers>,
    feeding: Mutex<()>,
}

#[derive(Debug, Default)]
struct Readers {
    /// The file that all connections have open; `None` if there is none that can be used.
    file: Option<FileIdentity>,
    /// Rises whenever another one takes its place: older connections look at a file that is gone.
    generation: u64,
    idle: Vec<Connection>,
}

/// A view of a session as somebody saved it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedView {
    pub(crate) up_to_seq: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Why something done with the file failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    Read(ReadError),
    /// The file has been replaced or deleted since it was opened.
    Replaced,
}

impl Derived {
    /// Opens the file, or begins it if it is not there or cannot be used.
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
            feeding: Mutex::default(),
        };
        // What stands in the way is told to whoever asks for what is in it: the journal opens
        // without.
        let _ = derived.replace(&mut lock(&derived.writer), 0, Next::There);
        Ok(derived)
    }

    /// The right to feed the index, among the threads of this process.
    pub(crate) fn feeding(&self) -> MutexGuard<'_, ()> {
        lock(&self.feeding)
    }

    /// Runs `ask` on one snapshot of the file. A file that turns out to be damaged is begun again
    /// and asked once more, as is one that took the place of another; see [`FILES_MAX`].
    pub(crate) fn read<T>(
        &self,
        action: &'static str,
        mut ask: impl FnMut(&Connection) -> Result<T, Failure>,
    ) -> Result<T, ReadError> {
        let mut tries = 1;
        loop {
            let generation = lock(&self.readers).generation;
            let failure = match self.ask_once(&mut ask) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            self.go_on(&mut lock(&self.writer), generation, failure, &mut tries)
                .map_err(|failure| failure.told(action, &self.path))?;
        }
    }

    /// Runs `change` in one transaction. A file that turns out to be damaged is begun again and
    /// changed once more, as is one that took the place of another; see [`FILES_MAX`].
    pub(crate) fn write<T>(
        &self,
        action: &'static str,
        mut change: impl FnMut(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, ReadError> {
        let mut writer = lock(&self.writer);
        let mut tries = 1;
        loop {
            let generation = lock(&self.readers).generation;
            let failure = match self.change_once(&mut writer, &mut change) {
                Ok(outcome) => return Ok(outcome),
                Err(failure) => failure,
            };
            self.go_on(&mut writer, generation, failure, &mut tries)
                .map_err(|failure| failure.told(action, &self.path))?;
        }
    }

    /// Saves views, each in place of an older one of that name. One of a session that does not
    /// exist any more is left out: asked here, because a deletion removes views once this is done.
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
                if !exists(session_id)? {
                    continue;
                }
                let check = crc32fast::hash(bytes);
                put.execute(params![session_id.as_str(), name, *up_to_seq as i64, check, bytes])?;
            }
            Ok(())
        });
        unless_newer(saved)
    }

    /// The views of all sessions under that name, as far as they are as they were saved.
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
                    views.push((row.get(0)?, SavedView { up_to_seq, bytes }));
                }
            }
            Ok(views)
        });
        unless_newer(views)
    }

    /// The view saved under that name, if there is one whose bytes are as they were saved.
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
            Ok(view.filter(is_whole).map(|(view, _)| view))
        });
        unless_newer(view)
    }

    /// Throws everything away, to be built anew from the log.
    pub(crate) fn clear(&self) -> Result<(), ReadError> {
        let mut writer = lock(&self.writer);
        let generation = lock(&self.readers).generation;
        self.replace(&mut writer, generation, Next::Begun)
            .map_err(|failure| failure.told("begin again", &self.path))
    }

    fn ask_once<T>(
        &self,
        ask: &mut impl FnMut(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (generation, connection) = self.reader()?;
        let snapshot = connection.unchecked_transaction()?;
        let answer = ask(&connection)?;
        snapshot.finish()?;
        self.give_back(generation, connection);
        Ok(answer)
    }

    fn change_once<T>(
        &self,
        writer: &mut Option<Connection>,
        change: &mut impl FnMut(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let file = lock(&self.readers).file;
        let writer = match writer {
            Some(writer) if self.is_in_place(file)? => writer,
            Some(_) => return Err(Failure::Replaced),
            None => writer.insert(self.connect_to(file)?),
        };
        let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let outcome = change(&tx)?;
        tx.commit()?;
        Ok(outcome)
    }

    fn reader(&self) -> Result<(u64, Connection), Failure> {
        let (file, generation, idle) = {
            let mut readers = lock(&self.readers);
            if !self.is_in_place(readers.file)? {
                return Err(Failure::Replaced);
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
    fn connect_to(&self, file: Option<FileIdentity>) -> Result<Connection, Failure> {
        let _turn = turn(&self.path, self.wait_max)?;
        match self.is_in_place(file)? {
            true => open_known(&self.path),
            false => Err(Failure::Replaced),
        }
    }

    /// Whether the file that was opened is the one that is there now.
    fn is_in_place(&self, file: Option<FileIdentity>) -> Result<bool, StorageError> {
        Ok(file.is_some() && place(&self.path)? == file)
    }

    fn give_back(&self, generation: u64, connection: Connection) {
        let mut readers = lock(&self.readers);
        if readers.generation == generation && readers.idle.len() < IDLE_READERS_MAX {
            readers.idle.push(connection);
        }
    }

    /// Goes on with another file for another try, if that helps and there were not too many.
    fn go_on(
        &self,
        writer: &mut Option<Connection>,
        generation: u64,
        failure: Failure,
        tries: &mut u32,
    ) -> Result<(), Failure> {
        let Some(next) = self.cure(&failure).filter(|_| *tries < FILES_MAX) else {
            return Err(failure);
        };
        *tries += 1;
        match self.replace(writer, generation, next) {
            // Deleted again: the next try notices and goes on from there.
            Err(failure) if self.cure(&failure).is_some() => Ok(()),
            replaced => replaced,
        }
    }

    /// What helps against a failure, if another file does.
    fn cure(&self, failure: &Failure) -> Option<Next> {
        match failure {
            Failure::Replaced => Some(Next::There),
            // How it fails if somebody deletes the file depends on how far it got.
            Failure::Sqlite(_) if matches!(place(&self.path), Ok(None)) => Some(Next::There),
            Failure::Sqlite(error) if is_unusable(error) => Some(Next::BegunUnlessReplaced),
            Failure::Sqlite(_) | Failure::Read(_) => None,
        }
    }

    /// Goes on with another file, unless somebody did so since `generation`.
    fn replace(
        &self,
        writer: &mut Option<Connection>,
        generation: u64,
        next: Next,
    ) -> Result<(), Failure> {
        // Before the readers: whoever holds it may need long.
        let _turn = turn(&self.path, self.wait_max)?;
        let mut readers = lock(&self.readers);
        if readers.generation == generation {
            let is_begun = match next {
                Next::There => false,
                Next::BegunUnlessReplaced => self.is_in_place(readers.file)?,
                Next::Begun => true,
            };
            // The old file must be closed before its place is taken. If that fails, there is none.
            readers.idle.clear();
            *writer = None;
            readers.file = None;
            let path = &self.path;
            readers.idle.push(if is_begun { begin(path)? } else { open_or_begin(path)? });
            readers.file = place(&self.path)?;
            readers.generation += 1;
        }
        Ok(())
    }
}

impl Drop for Derived {
    /// Puts the log away if nobody else has the file open. A log that stays, because another
    /// process has the turn just now, is read again by whoever opens the file next.
    fn drop(&mut self) {
        let Ok(_turn) = turn(&self.path, Duration::ZERO) else { return };
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
enum Next {
    /// The one that is there, or a new one if it is none of ours.
    There,
    /// A new one, unless somebody else has begun it already.
    BegunUnlessReplaced,
    /// A new one.
    Begun,
}

impl Failure {
    fn told(self, action: &'static str, path: &Path) -> ReadError {
        match self {
            Failure::Sqlite(error) => failed(action, path, error).into(),
            Failure::Read(error) => error,
            Failure::Replaced => {
                let why = std::io::Error::other("others keep replacing it");
                StorageError::new(action, path, why).into()
            }
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::Read(error)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        Failure::Read(error.into())
    }
}

/// The right to open or begin the file, among processes: half a beginning looks like damage, and
/// whoever takes it for damage would throw it away. One that was stopped meanwhile keeps it until
/// it goes on, so nobody waits for ever.
fn turn(path: &Path, wait_max: Duration) -> Result<File, StorageError> {
    let failed = |error| StorageError::new("lock", path, error);
    let turn = folder::open_private(&path.with_file_name(LOCK_FOLDER).join("derived"))?;
    match wait_for(&turn, Instant::now(), wait_max).map_err(failed)? {
        true => Ok(turn),
        false => {
            let why = format!("another program has kept it for {} ms", wait_max.as_millis());
            Err(failed(std::io::Error::other(why)))
        }
    }
}

/// Which file is at its place now.
fn place(path: &Path) -> Result<Option<FileIdentity>, StorageError> {
    FileIdentity::from_path(path).map_err(|error| StorageError::new("look at", path, error))
}

/// Views only save time: where a newer program keeps its own, there are none.
fn unless_newer<T: Default>(answer: Result<T, ReadError>) -> Result<T, ReadError> {
    match answer {
        Err(error) if error.is_newer_format() => Ok(T::default()),
        answer => answer,
    }
}

/// Opens the file that is there, or begins one if there is none or it is none of ours.
fn open_or_begin(path: &Path) -> Result<Connection, Failure> {
    // Whoever deletes it deletes that name alone. What is left beside it belongs to the file that
    // others may still have open, and would be taken for that of the new one.
    if place(path)?.is_none() {
        return begin(path);
    }
    match open_known(path) {
        Err(Failure::Sqlite(error)) if is_unusable(&error) => begin(path),
        opened => opened,
    }
}

/// Opens the file that is there, if it is one of ours in this version. One that a newer program
/// made is not touched.
fn open_known(path: &Path) -> Result<Connection, Failure> {
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
    settle(&connection)?;
    Ok(connection)
}

/// Opens a connection. A file that is missing is not made here: see [`open_or_begin`].
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Whoever closes a database last removes its log, and does so by name: without the turn that
    // may be the log of a file that another process has begun meanwhile.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Gives a connection every setting it needs.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        // Readers go on while the index is fed. After a power cut the last batches may be gone;
        // they are indexed again, so no commit waits for the disk. No memory mapping: a file cut
        // short by somebody else must be an error, not the end of the process.
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA mmap_size = 0;
         PRAGMA cache_size = -4096;
         PRAGMA wal_autocheckpoint = 4096;",
    )
}

/// Puts an empty file in the place of whatever is there.
fn begin(path: &Path) -> Result<Connection, Failure> {
    let cannot = |error| StorageError::new("begin", path, error);
    // The main file first: SQLite throws away a write-ahead log whose file is gone, but would
    // believe a file whose log is gone.
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
    settle(&connection)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(&format!(
        // `state` has one row: how far the log is indexed, which days occur and how many deletions
        // were followed. `stretches` are events that were indexed together, `leaves` their words,
        // each leaf under its first one; `gone` are events whose words are still there. `replaced`
        // are events that a fuller account stands in for. `forgotten` are deleted sessions.
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

/// Whether an error tells that the file must be begun again: it is damaged, or shorter than what
/// stands beside it says.
fn is_unusable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHORT_READ)
}

fn failed(action: &'static str, path: &Path, error: rusqlite::Error) -> StorageError {
    StorageError::new(action, path, error)
}

/// A panic of another thread leaves connections as they were; SQLite rolls back what was open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
