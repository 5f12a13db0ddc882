//! The format of the database, and how older formats are brought forward.
//!
//! Migrations are only ever added. An older database is copied aside, brought forward in one
//! transaction and verified before that commits: a crash leaves the old format or the new one.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::bare_file::BareFile;
use super::fault;
use super::mend::is_header_damaged;
use crate::{OpenError, StorageError, folder};

/// The format this program writes: the number of the last migration.
pub(crate) const FORMAT: u32 = MIGRATIONS.len() as u32;

const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/0001_record.sql"),
    include_str!("../../../migrations/0002_sightings.sql"),
    include_str!("../../../migrations/0003_ids.sql"),
    include_str!("../../../migrations/0004_blocks.sql"),
    include_str!("../../../migrations/0005_tails.sql"),
];

/// CRC-32 over the text of the schema in this format. Every further migration changes that text, so
/// that it tells the format where the number in the header is damaged. SQLite reads all rows by this text, which
/// stands in the file, so a flipped byte in it has to be noticed before anything else is read.
const SCHEMA_SUM: u32 = 0x2943_7665;

/// Tells our databases from those of other programs: "HNSD".
pub(super) const APPLICATION_ID: u32 = 0x484E_5344;

/// The first bytes of every SQLite file.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";
pub(super) const HEADER_LEN: usize = 100;
pub(super) const USER_VERSION_AT: usize = 60;
pub(super) const APPLICATION_ID_AT: usize = 68;

/// What the file header says, before SQLite opens the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundDatabase {
    /// No file, or an empty one.
    Nothing,
    /// A database of ours. A newer format may still be in its WAL.
    Format(u32),
}

/// Reads the file header without SQLite. Refuses a file that is not ours or too new.
///
/// Opening alone would let SQLite replay a WAL: a newer program's journal must stay untouched.
pub(super) fn inspect_file(
    store: &'static str,
    file: &Path,
    bare: Option<&BareFile>,
) -> Result<FoundDatabase, OpenError> {
    let Some(bare) = bare.map(BareFile::file) else { return Ok(FoundDatabase::Nothing) };
    let failed = |cause| StorageError::new("open", file, cause);
    let len = bare.metadata().map_err(failed)?.len();
    if len == 0 {
        return Ok(FoundDatabase::Nothing);
    }
    let mut header = [0; HEADER_LEN];
    // A shorter file leaves zeros, which are no database.
    if len >= HEADER_LEN as u64 {
        bare.read_exact_at(&mut header, 0).map_err(failed)?;
    }
    if !header.starts_with(MAGIC) {
        return Err(fault::corrupt(store, file, "it is not a SQLite database".to_owned()));
    }
    let number_at = |place: usize| {
        let bytes = header[place..place + 4].try_into().expect("four bytes of a whole header");
        u32::from_be_bytes(bytes)
    };
    let (format, application_id) = (number_at(USER_VERSION_AT), number_at(APPLICATION_ID_AT));
    if application_id != APPLICATION_ID {
        // The first transaction of a new database, which sets both numbers, is still in the WAL.
        if format == 0 && application_id == 0 {
            return Ok(FoundDatabase::Format(0));
        }
        return Err(fault::corrupt(store, file, "it belongs to another program".to_owned()));
    }
    check_format(file, format)?;
    if is_header_damaged(&header) {
        return Err(fault::corrupt(store, file, "its header is damaged".to_owned()));
    }
    Ok(FoundDatabase::Format(format))
}

/// Brings the database to the present format. The caller holds the writers' lock unless the format
/// is the present one already.
pub(super) fn migrate(
    store: &'static str,
    file: &Path,
    db: &mut Connection,
) -> Result<(), OpenError> {
    let failed = |error| fault::open(store, file)(error);
    let format = format(db).map_err(failed)?;
    check_format(file, format)?;
    if format == FORMAT {
        return require_schema(store, file, db);
    }
    // Every format has a schema of its own, so the number in the header is damaged.
    if format > 0 && schema_sum(db).map_err(failed)? == SCHEMA_SUM {
        let why = format!("it says format {format} and has the schema of format {FORMAT}");
        return Err(fault::corrupt(store, file, why));
    }
    // A new database has nothing to restore.
    if format > 0 {
        make_restore_point(file, db, format)?;
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Inside the transaction: another process cannot add rows between the two counts.
    let before = counts(&tx, format).map_err(failed)?;
    for migration in &MIGRATIONS[format as usize..] {
        tx.execute_batch(migration).map_err(failed)?;
    }
    tx.pragma_update(None, "user_version", FORMAT).map_err(failed)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    verify(&tx, before).map_err(|why| match why {
        VerifyError::Sqlite(error) => failed(error),
        VerifyError::Because(why) => fault::corrupt(store, file, why),
    })?;
    require_schema(store, file, &tx)?;
    tx.commit().map_err(failed)?;
    // The header in the file gets the new format only with a checkpoint, and `inspect_file` reads
    // the header.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)
}

pub(super) fn format(db: &Connection) -> rusqlite::Result<u32> {
    db.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Refuses a database that a newer program has migrated since it was opened here. Called before
/// every change: it takes a microsecond, a commit a thousand times as long.
pub(super) fn require_known_format(file: &Path, db: &Connection) -> Result<(), StorageError> {
    let format = format(db).map_err(fault::storage("read", file))?;
    check_format(file, format).map_err(|error| StorageError::new("write to", file, error))
}

/// The path of the copy that is made before a migration from `format`.
pub(crate) fn restore_point(file: &Path, format: u32) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".v{format}.bak"));
    file.with_file_name(name)
}

fn check_format(file: &Path, found: u32) -> Result<(), OpenError> {
    if found > FORMAT {
        let path = file.to_owned();
        return Err(OpenError::NewerFormat { path, found, supported: FORMAT });
    }
    Ok(())
}

pub(super) fn require_schema(
    store: &'static str,
    file: &Path,
    db: &Connection,
) -> Result<(), OpenError> {
    let sum = schema_sum(db).map_err(fault::open(store, file))?;
    if sum != SCHEMA_SUM {
        let why = format!("its schema is not that of format {FORMAT}");
        return Err(fault::corrupt(store, file, why));
    }
    Ok(())
}

/// Whether a sum is that of the schema in the present format.
pub(super) fn is_our_schema(sum: u32) -> bool {
    sum == SCHEMA_SUM
}

pub(super) fn schema_sum(db: &Connection) -> rusqlite::Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    // SQLite's own tables are left out: a tool may have run `ANALYZE`.
    let mut sql = db.prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema \
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let mut rows = sql.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..4 {
            sum.update(row.get_ref(column)?.as_bytes_or_null()?.unwrap_or_default());
            // A separator, so that text that moves from one column to the next changes the sum.
            sum.update(&[0]);
        }
    }
    Ok(sum.finalize())
}

/// Copies the database aside, whole and synced, before a migration.
fn make_restore_point(file: &Path, db: &Connection, format: u32) -> Result<(), StorageError> {
    let kept = restore_point(file, format);
    if kept.exists() {
        // An earlier try got this far. Its copy is the same database, or an older state of it
        // that must not be overwritten.
        return Ok(());
    }
    copy_database(db, &kept)
}

/// The paths where restore points are written until they are whole.
pub(super) fn unfinished_restore_points(file: &Path) -> impl Iterator<Item = PathBuf> {
    (1..FORMAT).map(move |format| unfinished(&restore_point(file, format)))
}

fn unfinished(to: &Path) -> PathBuf {
    to.with_extension("unfinished")
}

/// Writes a compact copy of the database under a temporary name, syncs it and renames it.
fn copy_database(db: &Connection, to: &Path) -> Result<(), StorageError> {
    let unfinished = unfinished(to);
    let failed = |cause| StorageError::new("copy the database to", to, cause);
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // `VACUUM INTO` accepts an empty file, so the file is created here with private permissions.
    let copy = folder::open_private(&unfinished)?;
    let target = unfinished.to_string_lossy();
    db.execute("VACUUM INTO ?1", [target.as_ref()]).map_err(fault::storage("copy", to))?;
    copy.sync_all().map_err(failed)?;
    std::fs::rename(&unfinished, to).map_err(failed)?;
    match to.parent() {
        Some(dir) => folder::sync(dir),
        None => Ok(()),
    }
}

/// The number of rows that no migration may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowCounts {
    events: i64,
    sessions: i64,
    sources: i64,
}

fn counts(db: &Connection, format: u32) -> rusqlite::Result<RowCounts> {
    if format == 0 {
        return Ok(RowCounts { events: 0, sessions: 0, sources: 0 });
    }
    let query = "SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM session), \
                 (SELECT count(*) FROM source)";
    db.query_row(query, [], |row| {
        Ok(RowCounts { events: row.get(0)?, sessions: row.get(1)?, sources: row.get(2)? })
    })
}

enum VerifyError {
    Sqlite(rusqlite::Error),
    Because(String),
}

impl From<rusqlite::Error> for VerifyError {
    fn from(error: rusqlite::Error) -> VerifyError {
        VerifyError::Sqlite(error)
    }
}

fn verify(db: &Connection, before: RowCounts) -> Result<(), VerifyError> {
    let after = counts(db, FORMAT)?;
    if after != before {
        return Err(VerifyError::Because(format!(
            "a migration would have changed {before:?} into {after:?}"
        )));
    }
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(VerifyError::Because(found));
    }
    // `quick_check` does not look at references.
    let orphan = db.prepare("PRAGMA foreign_key_check")?.exists([])?;
    if orphan {
        return Err(VerifyError::Because("a row refers to one that is missing".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_checksum_fits_migrations() {
        let db = Connection::open_in_memory().unwrap();
        for migration in MIGRATIONS {
            db.execute_batch(migration).unwrap();
        }
        assert_eq!(schema_sum(&db).unwrap(), SCHEMA_SUM);
    }
}
