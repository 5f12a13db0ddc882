//! The file beside the log that may be deleted: the search index and saved views.
//!
//! All of it follows from the log. A file that is damaged or of another version is thrown away
//! and begun again, so it can delay an answer but never falsify or prevent one. Writing it never
//! holds the log's lock.
//!
//! Not here: what is indexed and how it is found (`search`), what a saved view holds (`session`).

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::SessionId;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};

use crate::{ReadError, StorageError, View, folder};

/// The version of the tables, of the word rules and of the tags. Any change to one of them is a
/// new number, and older files are built anew.
const FORMAT: i64 = 3;

/// How long to wait for another process that writes the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reading connections kept open; one more reader opens its own and closes it again.
const IDLE_READERS_MAX: usize = 4;

/// Statements kept prepared per connection: more than there are.
const STATEMENTS_MAX: usize = 64;

/// The file of derived data.
#[derive(Debug)]
pub(crate) struct Derived {
    path: PathBuf,
    /// Opened with the first change: whoever only reads needs one connection.
    writer: Mutex<Option<Connection>>,
    readers: Mutex<Readers>,
    feeding: Mutex<()>,
}

#[derive(Debug, Default)]
struct Readers {
    /// Rises whenever the file is begun again: older connections look at a file that is gone.
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
}

impl Derived {
    /// Opens the file, or begins it if it is not there or cannot be used.
    pub(crate) fn open(path: &Path) -> Result<Derived, StorageError> {
        let _turn = turn(path)?;
        let connection =
            match connect(path).and_then(|connection| check(&connection).map(|()| connection)) {
                Ok(connection) => connection,
                Err(error) if is_unusable(&error) => {
                    begin(path).map_err(|error| failed("create", path, error))?
                }
                Err(error) => return Err(failed("open", path, error)),
            };
        Ok(Derived {
            path: path.to_owned(),
            writer: Mutex::default(),
            readers: Mutex::new(Readers { generation: 0, idle: vec![connection] }),
            feeding: Mutex::default(),
        })
    }

    /// The right to feed the index, among the threads of this process.
    pub(crate) fn feeding(&self) -> MutexGuard<'_, ()> {
        lock(&self.feeding)
    }

    /// Runs `ask` on one snapshot of the file. A file that turns out to be damaged is begun again
    /// and asked once more.
    pub(crate) fn read<T>(
        &self,
        action: &'static str,
        mut ask: impl FnMut(&Connection) -> Result<T, Failure>,
    ) -> Result<T, ReadError> {
        let generation = lock(&self.readers).generation;
        let answer = match self.ask_once(&mut ask) {
            Err(failure) if failure.is_damage() => self
                .begin_again(&mut lock(&self.writer), generation)
                .and_then(|()| self.ask_once(&mut ask)),
            answer => answer,
        };
        answer.map_err(|failure| failure.told(action, &self.path))
    }

    /// Runs `change` in one transaction. A file that turns out to be damaged is begun again and
    /// changed once more.
    pub(crate) fn write<T>(
        &self,
        action: &'static str,
        mut change: impl FnMut(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, ReadError> {
        let mut writer = lock(&self.writer);
        let generation = lock(&self.readers).generation;
        let outcome = match self.change_once(&mut writer, &mut change) {
            Err(failure) if failure.is_damage() => self
                .begin_again(&mut writer, generation)
                .and_then(|()| self.change_once(&mut writer, &mut change)),
            outcome => outcome,
        };
        outcome.map_err(|failure| failure.told(action, &self.path))
    }

    /// Saves views, each in place of an older one of that name. One of a session that does not
    /// exist any more is left out: asked here, because a deletion removes views once this is done.
    pub(crate) fn put_views(
        &self,
        name: &str,
        views: &[View<'_>],
        exists: &dyn Fn(&SessionId) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        self.write("save views in", |tx| {
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
        })
    }

    /// The views of all sessions under that name, as far as they are as they were saved.
    pub(crate) fn views(&self, name: &str) -> Result<Vec<(String, SavedView)>, ReadError> {
        self.read("read views from", |connection| {
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
        })
    }

    /// The view saved under that name, if there is one whose bytes are as they were saved.
    pub(crate) fn view(
        &self,
        session_id: &SessionId,
        name: &str,
    ) -> Result<Option<SavedView>, ReadError> {
        self.read("read a view from", |connection| {
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
        })
    }

    /// Throws everything away, to be built anew from the log.
    pub(crate) fn clear(&self) -> Result<(), ReadError> {
        let mut writer = lock(&self.writer);
        let generation = lock(&self.readers).generation;
        self.begin_again(&mut writer, generation)
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
        let writer = match writer {
            Some(writer) => writer,
            None => writer.insert(connect(&self.path)?),
        };
        let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let outcome = change(&tx)?;
        tx.commit()?;
        Ok(outcome)
    }

    fn reader(&self) -> Result<(u64, Connection), rusqlite::Error> {
        let mut readers = lock(&self.readers);
        let generation = readers.generation;
        let connection = match readers.idle.pop() {
            Some(connection) => connection,
            None => connect(&self.path)?,
        };
        Ok((generation, connection))
    }

    fn give_back(&self, generation: u64, connection: Connection) {
        let mut readers = lock(&self.readers);
        if readers.generation == generation && readers.idle.len() < IDLE_READERS_MAX {
            readers.idle.push(connection);
        }
    }

    /// Replaces the file by an empty one, unless somebody did so since `generation`.
    fn begin_again(&self, writer: &mut Option<Connection>, generation: u64) -> Result<(), Failure> {
        let mut readers = lock(&self.readers);
        if readers.generation == generation {
            // The damaged file must be closed before its place is taken.
            readers.idle.clear();
            *writer = None;
            let _turn = turn(&self.path).map_err(ReadError::from)?;
            *writer = Some(begin(&self.path)?);
            readers.generation += 1;
        }
        Ok(())
    }
}

impl Failure {
    fn is_damage(&self) -> bool {
        matches!(self, Failure::Sqlite(error) if is_unusable(error))
    }

    fn told(self, action: &'static str, path: &Path) -> ReadError {
        match self {
            Failure::Sqlite(error) => failed(action, path, error).into(),
            Failure::Read(error) => error,
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

/// The right to open or begin the file, among processes: half a beginning looks like damage, and
/// whoever takes it for damage would throw it away.
fn turn(path: &Path) -> Result<File, StorageError> {
    let dir = path.with_file_name("lock");
    folder::create_private(&dir)?;
    let turn = folder::open_private(&dir.join("derived"))?;
    turn.lock().map_err(|error| StorageError::new("lock", dir, error))?;
    Ok(turn)
}

/// Opens a connection with every setting it needs.
fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.execute_batch(
        // Readers go on while the index is fed. After a power cut the last batches may be gone;
        // they are indexed again, so no commit waits for the disk. No memory mapping: a file cut
        // short by somebody else must be an error, not the end of the process.
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA mmap_size = 0;
         PRAGMA cache_size = -4096;
         PRAGMA wal_autocheckpoint = 4096;",
    )?;
    Ok(connection)
}

/// Whether the file is one of ours in this version; a new one is.
fn check(connection: &Connection) -> Result<(), rusqlite::Error> {
    let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN
         ('state', 'stretches', 'leaves', 'gone', 'replaced', 'forgotten', 'views')",
        [],
        |row| row.get(0),
    )?;
    match (format, tables) {
        (FORMAT, 7) => Ok(()),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB),
            Some(format!("format {format} with {tables} tables")),
        )),
    }
}

/// Puts an empty file in the place of whatever is there.
fn begin(path: &Path) -> Result<Connection, rusqlite::Error> {
    let cannot = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    // The main file first: SQLite throws away a write-ahead log whose file is gone, but would
    // believe a file whose log is gone.
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot(error));
            }
            _ => {}
        }
    }
    create_private(path).map_err(cannot)?;
    let mut connection = connect(path)?;
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
         PRAGMA user_version = {FORMAT};",
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

/// Whether an error tells that the file must be begun again.
fn is_unusable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn failed(action: &'static str, path: &Path, error: rusqlite::Error) -> StorageError {
    StorageError::new(action, path, error)
}

/// A panic of another thread leaves connections as they were; SQLite rolls back what was open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_only_reads_has_one_connection() {
        let dir = tempfile::tempdir().unwrap();
        let derived = Derived::open(&dir.path().join("derived.db")).unwrap();
        for _ in 0..2 {
            assert_eq!(derived.views("facts").unwrap(), []);
            assert_eq!(lock(&derived.readers).idle.len(), 1);
            assert!(lock(&derived.writer).is_none());
        }
        let session_id = SessionId::new("claude:a").unwrap();
        let view = View { session_id: &session_id, up_to_seq: 1, bytes: b"kept" };
        derived.put_views("facts", &[view], &|_| Ok(true)).unwrap();
        assert_eq!(derived.views("facts").unwrap().len(), 1);
    }
}
