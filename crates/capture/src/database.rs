//! Read-only access to an agent's database, which stays exactly as it was.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::database_guard::{Look, LookError, QueryLimit};
use crate::limit::{LOCK_ASK_MILLIS, QUERY_CHECK_STEPS};
use crate::stop_flag::StopFlag;

/// A connection that cannot write, and whose queries have a limit.
pub(crate) struct Database {
    connection: Connection,
    meter: Arc<QueryMeter>,
    /// The stamp of a file that is read without locks.
    frozen: Option<(PathBuf, DatabaseStamp)>,
}

impl Database {
    /// Opens the file. Its owner may write meanwhile.
    ///
    /// A database in WAL mode that its owner closed has no log beside it, and any reader would make
    /// one. Such a file is read as immutable, without locks; [`Database::is_unchanged`] shows
    /// afterwards whether its owner opened it meanwhile.
    pub(crate) fn open(path: &Path, look: &Look<'_>) -> io::Result<Database> {
        let meter = Arc::new(QueryMeter::new(look));
        if is_at_rest(path)? {
            // Before the connection is opened: the stamp has to be older than everything that is
            // read.
            let stamp = DatabaseStamp::read_stamp(path)?;
            let connection = connect(&format!("{}?immutable=1", sqlite_uri(path)), &meter)?;
            return Ok(Database { connection, meter, frozen: Some((path.to_owned(), stamp)) });
        }
        Database::open_metered(path, meter)
    }

    /// Opens the same file as one that its owner may be using.
    pub(crate) fn reopen_shared(&self, path: &Path) -> io::Result<Database> {
        Database::open_metered(path, Arc::clone(&self.meter))
    }

    fn open_metered(path: &Path, meter: Arc<QueryMeter>) -> io::Result<Database> {
        let connection = connect(&sqlite_uri(path), &meter)?;
        // Short, because SQLite does not notice a stop while it waits.
        connection
            .busy_timeout(Duration::from_millis(LOCK_ASK_MILLIS))
            .map_err(io::Error::other)?;
        Ok(Database { connection, meter, frozen: None })
    }

    /// Runs queries under the limit. A stop ends them at once.
    pub(crate) fn query<T>(
        &self,
        mut query: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> io::Result<T> {
        let mut asks = 1;
        loop {
            self.meter.start();
            match query(&self.connection) {
                Ok(value) => return Ok(value),
                Err(error) => match error.sqlite_error_code() {
                    Some(ErrorCode::OperationInterrupted) => return Err(self.meter.end().into()),
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                        if self.meter.stop.is_asked() {
                            return Err(LookError::Stopped.into());
                        }
                        if asks >= self.meter.limit.lock_asks_max {
                            return Err(LookError::Locked.into());
                        }
                        asks += 1;
                    }
                    _ => return Err(io::Error::other(error)),
                },
            }
        }
    }

    /// Whether all queries together have cost as much as one may.
    pub(crate) fn is_spent(&self) -> bool {
        self.meter.is_spent()
    }

    /// The bytes that one row may have.
    pub(crate) fn row_bytes_max(&self) -> usize {
        self.meter.limit.row_bytes_max
    }

    /// Whether all that was read belongs to one moment.
    pub(crate) fn is_unchanged(&self) -> io::Result<bool> {
        match &self.frozen {
            Some((path, stamp)) => Ok(DatabaseStamp::read_stamp(path)? == *stamp),
            None => Ok(true),
        }
    }
}

/// The database of a `-wal` or `-shm` file; any other path as it is.
pub(crate) fn database_of_log<'a>(path: &'a Path) -> Cow<'a, Path> {
    let before = |path: &'a str| path.strip_suffix("-wal").or_else(|| path.strip_suffix("-shm"));
    let database = path.to_str().and_then(before);
    database.map_or(Cow::Borrowed(path), |path| Cow::Owned(PathBuf::from(path)))
}

/// Whether a file is the index of a log. The first reader makes it anew, however it opens the
/// database.
pub(crate) fn is_log_index(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with("-shm"))
}

#[derive(PartialEq, Eq)]
struct DatabaseStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl DatabaseStamp {
    fn read_stamp(path: &Path) -> io::Result<DatabaseStamp> {
        let metadata = fs::metadata(path)?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Ok(DatabaseStamp { inode: metadata.ino(), size: metadata.size(), changed })
    }
}

/// Counts what the queries of one look cost, while they run.
struct QueryMeter {
    limit: QueryLimit,
    stop: StopFlag,
    begun: Instant,
    /// Steps and microseconds since `begun`, and what they were when the present query began.
    steps: AtomicU64,
    steps_before: AtomicU64,
    micros_before: AtomicU64,
}

impl QueryMeter {
    fn new(look: &Look<'_>) -> QueryMeter {
        let (steps, steps_before, micros_before) = Default::default();
        let (limit, stop, begun) = (look.limit(), look.stop.clone(), Instant::now());
        QueryMeter { limit, stop, begun, steps, steps_before, micros_before }
    }

    /// A query begins. Relaxed is enough here and below: one thread at a time runs queries.
    fn start(&self) {
        self.steps_before.store(self.steps.load(Ordering::Relaxed), Ordering::Relaxed);
        self.micros_before.store(self.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts further steps of the present query and returns whether it has to end.
    fn advance(&self, steps: u64) -> bool {
        let steps = self.steps.fetch_add(steps, Ordering::Relaxed) + steps;
        let micros_before = Duration::from_micros(self.micros_before.load(Ordering::Relaxed));
        steps - self.steps_before.load(Ordering::Relaxed) > self.limit.steps_max
            || self.begun.elapsed().saturating_sub(micros_before) > self.limit.time_max
            || self.stop.is_asked()
    }

    /// Why the present query was ended.
    fn end(&self) -> LookError {
        if self.stop.is_asked() { LookError::Stopped } else { LookError::Overran }
    }

    fn is_spent(&self) -> bool {
        let is_long = self.begun.elapsed() > self.limit.time_max;
        is_long || self.steps.load(Ordering::Relaxed) > self.limit.steps_max
    }
}

fn connect(uri: &str, meter: &Arc<QueryMeter>) -> io::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(uri, flags).map_err(io::Error::other)?;
    // Asked for twice on purpose: nothing here may ever change an agent's data.
    connection.pragma_update(None, "query_only", true).map_err(io::Error::other)?;
    // A longer value is never loaded; a query that needs it fails.
    let length_max = i32::try_from(meter.limit.row_bytes_max).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, length_max).map_err(io::Error::other)?;
    let meter = Arc::clone(meter);
    let handler = move || meter.advance(QUERY_CHECK_STEPS as u64);
    connection.progress_handler(QUERY_CHECK_STEPS, Some(handler)).map_err(io::Error::other)?;
    Ok(connection)
}

/// Whether a database in WAL mode was closed by all its users.
fn is_at_rest(path: &Path) -> io::Result<bool> {
    // Bytes 18 and 19 of the header are the write and the read version; 2 stands for WAL.
    const VERSIONS_AT: usize = 18;
    const WAL: [u8; 2] = [2, 2];
    let mut head = Vec::new();
    fs::File::open(path)?.take(VERSIONS_AT as u64 + 2).read_to_end(&mut head)?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok(head.get(VERSIONS_AT..) == Some(&WAL[..]) && !Path::new(&log).exists())
}

/// The path as SQLite reads it in a URI.
fn sqlite_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            // In a URI `?` and `#` would end the path, and `%` would begin an escape.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database_guard::DatabaseGuard;

    const ENDLESS: &str = "WITH RECURSIVE numbers(number) AS
        (SELECT 1 UNION ALL SELECT number + 1 FROM numbers) SELECT max(number) FROM numbers";

    fn run_endless(limit: QueryLimit, stop: &StopFlag) -> LookError {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (c)").unwrap();
        let guard = DatabaseGuard::new(limit);
        let look = Look { guard: &guard, stop, now: event::Time::EPOCH };
        let database = Database::open(&path, &look).unwrap();
        let read: io::Result<i64> =
            database.query(|connection| connection.query_row(ENDLESS, [], |row| row.get(0)));
        LookError::find_in(&read.unwrap_err()).unwrap().clone()
    }

    #[test]
    fn endless_query_ends_at_its_limit() {
        let steps = QueryLimit { steps_max: 100_000, ..QueryLimit::default() };
        assert_eq!(run_endless(steps, &StopFlag::default()), LookError::Overran);
        let time = QueryLimit { time_max: Duration::ZERO, ..QueryLimit::default() };
        assert_eq!(run_endless(time, &StopFlag::default()), LookError::Overran);
    }

    #[test]
    fn stop_ends_a_running_query() {
        let without_limit =
            QueryLimit { steps_max: u64::MAX, time_max: Duration::MAX, ..QueryLimit::default() };
        let stop = StopFlag::default();
        let asked = stop.clone();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| run_endless(without_limit, &stop));
            asked.request_stop();
            assert_eq!(running.join().unwrap(), LookError::Stopped);
        });
    }
}
