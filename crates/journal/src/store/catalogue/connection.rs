//! Opens connections: the one place, with every setting and its reason.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::OpenError;
use crate::limit::LOCK_WAIT_MAX;

/// The first version without the bug by which two connections that write and checkpoint at once
/// corrupt a database.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// The page size. Measured on recorded sessions: reading and file size are as good as with larger
/// pages, and a commit of a single event still writes little.
pub(super) const PAGE_BYTES: u32 = 8_192;

/// The size that the WAL file keeps when it begins anew.
const WAL_IDLE_BYTES: u32 = 4 * 1024 * 1024;

/// Page caches of the writer and of each reader. The writer's holds the pages that the largest
/// commits change; more makes it no quicker.
const WRITER_CACHE_KIB: i32 = 12 * 1024;
const READER_CACHE_KIB: i32 = 4 * 1024;

/// Prepared statements that a connection keeps: more than there are.
const STATEMENTS_MAX: usize = 64;

/// When a commit is synced, as SQLite's `synchronous` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// With every commit, with the strongest sync the platform has.
    Full,
    /// With the next checkpoint. A power cut loses the newest commits, but only whole ones.
    Normal,
    /// Never. A power cut may damage the file: for files that can be rebuilt.
    Off,
}

/// Refuses a SQLite that can corrupt a database.
pub(super) fn require_safe_sqlite() -> Result<(), OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::UnsafeSqlite { found: rusqlite::version().to_owned() });
    }
    Ok(())
}

/// Opens the connection that writes. The file must exist; an empty one becomes a database.
pub(super) fn writer(file: &Path, synchronous: Synchronous) -> rusqlite::Result<Connection> {
    writer_with_pages(PAGE_BYTES, file, synchronous)
}

/// The same, where an empty file becomes a database with pages of this size.
pub(super) fn writer_with_pages(
    page_bytes: u32,
    file: &Path,
    synchronous: Synchronous,
) -> rusqlite::Result<Connection> {
    let db = connect(file)?;
    // Has an effect only while the database is empty.
    db.pragma_update(None, "page_size", page_bytes)?;
    // Readers see the last commit and never wait for the writer, nor it for them.
    db.pragma_update(None, "journal_mode", "WAL")?;
    let level = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
        Synchronous::Off => "OFF",
    };
    db.pragma_update(None, "synchronous", level)?;
    // Where `fsync` stops at the drive's cache (macOS), ask for the sync that does not.
    db.pragma_update(None, "fullfsync", synchronous == Synchronous::Full)?;
    db.pragma_update(None, "checkpoint_fullfsync", synchronous != Synchronous::Off)?;
    // A commit must not wait for a checkpoint: see `checkpointer`.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", WAL_IDLE_BYTES)?;
    db.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // A sighting needs its event, an event its payload.
    db.pragma_update(None, "foreign_keys", true)?;
    // Deleted rows are overwritten: a deleted text must not be found in a free page, and a repair
    // that searches the bytes must not bring it back.
    db.pragma_update(None, "secure_delete", true)?;
    Ok(db)
}

/// Opens a connection that reads, beside the writer.
pub(super) fn reader(file: &Path) -> rusqlite::Result<Connection> {
    let db = connect(file)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    // No memory map: decoding costs ten times what copying a page does, and a bad sector would be
    // a signal instead of an error.
    Ok(db)
}

/// Opens a connection that reads the file as it is: without locks, without its write-ahead log, and
/// without writing anything beside it. Nothing may change the file meanwhile.
pub(crate) fn immutable(file: &Path) -> rusqlite::Result<Connection> {
    // In a URI these characters mean something.
    let path = file.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)?;
    prepare(db)
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // No URI: a path that begins with `file:` is still a path. No creation: the caller creates the
    // file with private permissions. No mutex: a connection has one owner at a time.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    prepare(Connection::open_with_flags(file, flags)?)
}

/// Settings of every connection.
fn prepare(db: Connection) -> rusqlite::Result<Connection> {
    // Our own lock keeps our processes apart; the timeout is for other tools on the file.
    db.busy_timeout(LOCK_WAIT_MAX)?;
    // Sorts are small, and their texts must not be left in a temporary file.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Reports a damaged page where it is read, instead of a wrong row later.
    db.pragma_update(None, "cell_size_check", true)?;
    // Functions and triggers in a manipulated schema must not run.
    db.pragma_update(None, "trusted_schema", false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(db)
}
