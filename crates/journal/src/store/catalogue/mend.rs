//! Mends what keeps SQLite from opening a database: the header of the file, its length, its schema.
//!
//! Every page behind the first one stays as it is; what is damaged there is found by the check. The
//! caller has copied the file, and no process has it open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;

use super::migration::{
    APPLICATION_ID, APPLICATION_ID_AT, FORMAT, HEADER_LEN, MAGIC, USER_VERSION_AT,
};
use super::{Synchronous, connection, migration};
use crate::file::TempFile;
use crate::{OpenError, StorageError};

/// Bytes of the header that every database of ours has, with their places: fractions of a page,
/// the format of the schema, no automatic vacuum, UTF-8, and what SQLite reserves.
const FIXED: [(usize, &[u8]); 6] = [
    (20, &[0, 64, 32, 32]),
    (44, &[0, 0, 0, 4]),
    (52, &[0, 0, 0, 0]),
    (56, &[0, 0, 0, 1]),
    (64, &[0, 0, 0, 0]),
    (72, &[0; 20]),
];

const PAGE_BYTES_AT: usize = 16;
/// How the file is written and read: 2 for a write-ahead log.
const MODES_AT: usize = 18;
const CHANGES_AT: usize = 24;
const PAGES_AT: usize = 28;
const VALID_FOR_AT: usize = 92;

/// A file that says it has so many times more pages than it has was not cut: the number is damaged.
const PAGES_LOST_MAX: u64 = 256;

/// What was wrong with a file that can be opened now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MendedPart {
    Header,
    /// The file ends before the pages that its header counts.
    Length,
    /// The text of the schema, which was taken from a new database.
    Schema,
}

/// Whether a byte of the header has a value that no database of ours has.
pub(super) fn is_header_damaged(header: &[u8; HEADER_LEN]) -> bool {
    let is_mode = |byte: u8| byte == 1 || byte == 2;
    !header[MODES_AT..MODES_AT + 2].iter().all(|byte| is_mode(*byte))
        || FIXED.iter().any(|(at, bytes)| header[*at..*at + bytes.len()] != **bytes)
}

/// Whether SQLite reads the schema of this program's format from the file. Neither locks the file
/// nor replays its write-ahead log.
pub(crate) fn has_our_schema(file: &Path) -> bool {
    let sum = |db: &Connection| migration::schema_sum(db);
    connection::immutable(file).and_then(|db| sum(&db)).is_ok_and(migration::is_our_schema)
}

/// Mends the file in place; `None` if it is no database of ours even then, and as it was.
pub(crate) fn mend_file(store: &'static str, path: &Path) -> Result<Option<MendedPart>, OpenError> {
    let failed = |error| StorageError::new("repair", path, error);
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    let before = FirstPages::read(&file).map_err(failed)?;
    let Some(before) = before else { return Ok(None) };
    for page_bytes in before.page_sizes() {
        let part = before.mend(&file, page_bytes).map_err(failed)?;
        if has_our_schema(path) {
            file.sync_all().map_err(failed)?;
            return Ok(Some(part));
        }
    }
    let schema = SchemaPages::new(store, path)?;
    schema.write(&file).map_err(failed)?;
    before.mend(&file, connection::PAGE_BYTES).map_err(failed)?;
    if has_our_schema(path) && has_readable_tables(path) {
        file.sync_all().map_err(failed)?;
        return Ok(Some(MendedPart::Schema));
    }
    before.restore(&file, schema.pages.len()).map_err(failed)?;
    Ok(None)
}

/// Whether the schema leads to its tables: in a database that an earlier version made, they stand
/// elsewhere.
fn has_readable_tables(path: &Path) -> bool {
    let read = |db: Connection| -> rusqlite::Result<()> {
        for table in ["event", "session", "source", "payload"] {
            db.query_row(
                &format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)"),
                [],
                |_| Ok(()),
            )?;
        }
        Ok(())
    };
    connection::immutable(path).and_then(read).is_ok()
}

/// The beginning of a file before it was mended, and its length.
struct FirstPages {
    bytes: Vec<u8>,
    header: [u8; HEADER_LEN],
    length: u64,
}

impl FirstPages {
    /// Enough to put every page back that holds a part of the schema.
    const BYTES_MAX: u64 = 64 * connection::PAGE_BYTES as u64;

    /// Reads them; `None` for a file that is shorter than a page.
    fn read(file: &File) -> io::Result<Option<FirstPages>> {
        let length = file.metadata()?.len();
        if length < u64::from(connection::PAGE_BYTES) {
            return Ok(None);
        }
        let mut bytes = vec![0; length.min(Self::BYTES_MAX) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let header = bytes[..HEADER_LEN].try_into().expect("a page is longer than its header");
        Ok(Some(FirstPages { bytes, header, length }))
    }

    /// The page sizes to try: what the header says, then what this program writes.
    fn page_sizes(&self) -> Vec<u32> {
        let told = u32::from(u16::from_be_bytes([
            self.header[PAGE_BYTES_AT],
            self.header[PAGE_BYTES_AT + 1],
        ]));
        let is_possible = told.is_power_of_two() && (512..=32_768).contains(&told);
        let mut sizes = vec![connection::PAGE_BYTES];
        if is_possible && told != connection::PAGE_BYTES {
            sizes.insert(0, told);
        }
        sizes
    }

    /// Writes a header that fits the file, and gives the file the length that it had.
    fn mend(&self, file: &File, page_bytes: u32) -> io::Result<MendedPart> {
        let mut header = self.header;
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        header[PAGE_BYTES_AT..PAGE_BYTES_AT + 2]
            .copy_from_slice(&(page_bytes as u16).to_be_bytes());
        header[MODES_AT..MODES_AT + 2].copy_from_slice(&[2, 2]);
        for (at, bytes) in FIXED {
            header[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let there = self.length.div_ceil(u64::from(page_bytes));
        let told = u64::from(number_at(&self.header, PAGES_AT));
        let pages =
            if told <= there.saturating_mul(PAGES_LOST_MAX) { told.max(there) } else { there };
        set_number(&mut header, PAGES_AT, pages as u32);
        // SQLite takes the number of pages only if both agree.
        let changes = number_at(&header, CHANGES_AT);
        set_number(&mut header, VALID_FOR_AT, changes);
        set_number(&mut header, USER_VERSION_AT, FORMAT);
        set_number(&mut header, APPLICATION_ID_AT, APPLICATION_ID);
        file.set_len(pages * u64::from(page_bytes))?;
        file.write_all_at(&header, 0)?;
        Ok(if pages > self.length / u64::from(page_bytes) {
            MendedPart::Length
        } else {
            MendedPart::Header
        })
    }

    /// Puts everything back.
    fn restore(&self, file: &File, pages: usize) -> io::Result<()> {
        let end = (pages * connection::PAGE_BYTES as usize).max(HEADER_LEN).min(self.bytes.len());
        file.write_all_at(&self.bytes[..end], 0)?;
        file.set_len(self.length)?;
        file.sync_all()
    }
}

/// The pages with the schema of a new database. A database that this program made has the same ones.
struct SchemaPages {
    pages: Vec<Vec<u8>>,
}

impl SchemaPages {
    fn new(store: &'static str, beside: &Path) -> Result<SchemaPages, OpenError> {
        let dir = beside.parent().unwrap_or(Path::new("."));
        let mut temporary = TempFile::new(dir)?;
        let path = temporary.path().to_owned();
        let mut db = connection::writer_with_pages(connection::PAGE_BYTES, &path, Synchronous::Off)
            .map_err(super::fault::open(store, &path))?;
        migration::migrate(store, &path, &mut db)?;
        drop(db);
        let mut bytes = Vec::new();
        let read = io::Read::read_to_end(temporary.file(), &mut bytes);
        read.map_err(|error| StorageError::new("read", &path, error))?;
        // The tables of a new database are empty, one page each. Those of the schema come before
        // them, and only these hold text.
        let is_schema = |page: &[u8]| memchr::memmem::find(page, b"CREATE ").is_some();
        let mut pages: Vec<Vec<u8>> =
            bytes.chunks(connection::PAGE_BYTES as usize).map(<[u8]>::to_vec).collect();
        let last = pages.iter().rposition(|page| is_schema(page)).map_or(0, |last| last + 1);
        pages.truncate(last);
        Ok(SchemaPages { pages })
    }

    fn write(&self, file: &File) -> io::Result<()> {
        for (number, page) in self.pages.iter().enumerate() {
            // A page between those of the schema is the root of a table and stays.
            if memchr::memmem::find(page, b"CREATE ").is_some() || number == 0 {
                file.write_all_at(page, number as u64 * u64::from(connection::PAGE_BYTES))?;
            }
        }
        Ok(())
    }
}

fn number_at(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes of the header"))
}

fn set_number(header: &mut [u8; HEADER_LEN], at: usize, number: u32) {
    header[at..at + 4].copy_from_slice(&number.to_be_bytes());
}
