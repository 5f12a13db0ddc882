//! Read-only access to an agent's database, which stays exactly as it was.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::limit::DATABASE_BUSY_MILLIS;

/// A connection that cannot write.
pub(crate) struct Database {
    connection: Connection,
    /// The stamp of a file that is read without locks.
    frozen: Option<(PathBuf, DatabaseStamp)>,
}

impl Database {
    /// Opens the file. Its owner may write meanwhile.
    ///
    /// A database in WAL mode that its owner closed has no log beside it, and any reader would make
    /// one. Such a file is read as immutable, without locks; [`Database::is_unchanged`] shows
    /// afterwards whether its owner opened it meanwhile.
    pub(crate) fn open(path: &Path) -> io::Result<Database> {
        if is_at_rest(path)? {
            // Before the connection is opened: the stamp has to be older than everything that is
            // read.
            let stamp = DatabaseStamp::read_stamp(path)?;
            let connection = connect(&format!("{}?immutable=1", sqlite_uri(path)))?;
            return Ok(Database { connection, frozen: Some((path.to_owned(), stamp)) });
        }
        Database::open_shared(path)
    }

    /// Opens a file that its owner may be using.
    pub(crate) fn open_shared(path: &Path) -> io::Result<Database> {
        let connection = connect(&sqlite_uri(path))?;
        let limit = Duration::from_millis(DATABASE_BUSY_MILLIS);
        connection.busy_timeout(limit).map_err(io::Error::other)?;
        Ok(Database { connection, frozen: None })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
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

fn connect(uri: &str) -> io::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags).map_err(io::Error::other)?;
    // Asked for twice on purpose: nothing here may ever change an agent's data.
    connection.pragma_update(None, "query_only", true).map_err(io::Error::other)?;
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
