//! How the database is opened: the one place, with every setting and its reason.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::OpenError;
use crate::limit::LOCK_WAIT_MAX;

/// The first version without the bug by which two connections that write and checkpoint at once
/// corrupt a database.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// A page. Measured on recorded sessions, 8 KiB reads and grows as well as larger ones, and a
/// commit of a single event still writes little.
const PAGE_BYTES: u32 = 8_192;

/// What the log's file may keep when it is empty again.
const WAL_IDLE_BYTES: u32 = 4 * 1024 * 1024;

/// Pages in memory, for the writer and for each reader. The writer's hold what the largest commits
/// change; with more it is no quicker.
const WRITER_CACHE_KIB: i32 = 12 * 1024;
const READER_CACHE_KIB: i32 = 4 * 1024;

/// Statements a connection keeps prepared: more than there are.
const STATEMENTS_MAX: usize = 64;

/// When a commit is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// At once, with the strongest flush the platform has.
    Every,
    /// With the next checkpoint. A power cut loses the newest commits, whole ones only.
    Checkpoints,
    /// When the system likes. A power cut may damage the file: for what can be rebuilt.
    Never,
}

/// Refuses to work with a library that can lose what it was given.
pub(super) fn require_safe_sqlite() -> Result<(), OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::UnsafeSqlite { found: rusqlite::version().to_owned() });
    }
    Ok(())
}

/// The connection that writes. The file must exist; an empty one becomes a database.
pub(super) fn writer(file: &Path, flush: Flush) -> rusqlite::Result<Connection> {
    writer_with_pages(PAGE_BYTES, file, flush)
}

/// The same, where an empty file becomes a database with pages of this size.
pub(super) fn writer_with_pages(
    page_bytes: u32,
    file: &Path,
    flush: Flush,
) -> rusqlite::Result<Connection> {
    let db = connect(file)?;
    // Can only be chosen while the database is empty.
    db.pragma_update(None, "page_size", page_bytes)?;
    // Readers see the last commit and never wait for the writer, nor it for them.
    db.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match flush {
        Flush::Every => "FULL",
        Flush::Checkpoints => "NORMAL",
        Flush::Never => "OFF",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    // Where `fsync` stops at the drive's cache (macOS), ask for the flush that does not.
    db.pragma_update(None, "fullfsync", flush == Flush::Every)?;
    db.pragma_update(None, "checkpoint_fullfsync", flush != Flush::Never)?;
    // No commit waits until the log is copied: see `copying`.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", WAL_IDLE_BYTES)?;
    db.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // A sighting needs its event, an event its payload.
    db.pragma_update(None, "foreign_keys", true)?;
    // What was deleted is overwritten: nobody finds it in a free page, and no repair revives it.
    db.pragma_update(None, "secure_delete", true)?;
    Ok(db)
}

/// A connection that reads, beside the writer.
pub(super) fn reader(file: &Path) -> rusqlite::Result<Connection> {
    let db = connect(file)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    // No mapping of the file into memory: decoding costs ten times what copying does, and a bad
    // sector would be a signal instead of an error.
    Ok(db)
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // No URI: a path is a path, whatever it begins with. No creation: a file that is missing is
    // somebody's mistake. No mutex: a connection has one owner at a time.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    // Other processes are kept apart by our own lock; this is for tools that do not know it.
    db.busy_timeout(LOCK_WAIT_MAX)?;
    // Sorting is small and nobody's business on disk.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // A damaged page is an error where it is met, not a wrong row later.
    db.pragma_update(None, "cell_size_check", true)?;
    // A file somebody tampered with runs no code of its own.
    db.pragma_update(None, "trusted_schema", false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(db)
}
