//! Carving: finds rows in the bytes of a database after its b-trees no longer lead to them.
//!
//! A damaged interior page cuts off every page below it. The rows on those are whole, and each
//! can be proved: an event by the checksum over its key and columns, a payload by its name, which
//! is a hash of its bytes. So the file is searched byte by byte for anything that parses as a row
//! of these tables and passes its proof.
//!
//! A row is a cell of a table b-tree leaf ("Database File Format" in SQLite's documentation):
//!
//! ```text
//! cell     payload length varint · rowid varint · record · first overflow page u32, if any
//! record   header length varint · one type varint per column · values
//! overflow page   next page u32 · bytes
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::row::{EventRecord, RowKey};
use crate::StorageError;
use crate::limit::EVENT_BYTES_MAX;

/// An event that was found, with its body.
pub(super) struct CarvedEvent {
    record: EventRecord<'static>,
    body: Vec<u8>,
}

impl CarvedEvent {
    pub(super) fn record(&self) -> EventRecord<'_> {
        EventRecord { body: &self.body, ..self.record.clone() }
    }
}

/// Payloads that were found. They may be more than memory holds, so only their offsets are kept.
pub(super) struct CarvedPayloads {
    pages: PageFile,
    places: HashMap<[u8; 32], RecordOffset>,
    /// The payload that was read last: neighbouring events often share one.
    last: Option<([u8; 32], Vec<u8>)>,
}

/// Where a record begins: the number of a page and a byte on it.
#[derive(Debug, Clone, Copy)]
struct RecordOffset {
    page: u64,
    byte: usize,
}

impl CarvedPayloads {
    /// Reads the bytes of a payload.
    pub(super) fn bytes(&mut self, name: &[u8; 32]) -> Option<&[u8]> {
        if self.last.as_ref().is_none_or(|(last, _)| last != name) {
            let place = self.places.get(name)?;
            let mut page = vec![0; self.pages.page_bytes];
            self.pages.read(place.page, &mut page).ok()?;
            let local = &page[place.byte..];
            let bytes = self.pages.payload(local, &payload_head(local)?)?;
            self.last = Some((*name, bytes));
        }
        self.last.as_ref().map(|(_, bytes)| bytes.as_slice())
    }
}

/// Finds the events with these keys in the file.
pub(super) fn carve_events(
    path: &Path,
    page_bytes: usize,
    wanted: &HashSet<RowKey>,
) -> Result<HashMap<RowKey, CarvedEvent>, StorageError> {
    let search = || -> io::Result<HashMap<RowKey, CarvedEvent>> {
        let pages = PageFile::open(path, page_bytes)?;
        let mut found = HashMap::new();
        pages.each_offset(|_, bytes| {
            // Cheap tests first: nearly every offset of the file is tried and is no cell.
            let Some((key, len, local)) = cell_head(bytes) else {
                return ControlFlow::Continue(());
            };
            if wanted.contains(&key) && !found.contains_key(&key) {
                let record = pages.record(local, len);
                if let Some(carved) = record.and_then(|record| event_record(key, &record)) {
                    found.insert(key, carved);
                }
            }
            end_if(found.len() == wanted.len())
        })?;
        Ok(found)
    };
    search().map_err(|error| StorageError::new("search", path, error))
}

/// Finds the payloads with these names in the file. `proves` says whether a name is that of the
/// bytes.
pub(super) fn carve_payloads(
    path: &Path,
    page_bytes: usize,
    wanted: &HashSet<[u8; 32]>,
    proves: impl Fn(&[u8; 32], &[u8]) -> bool,
) -> Result<CarvedPayloads, StorageError> {
    let search = || -> io::Result<CarvedPayloads> {
        let pages = PageFile::open(path, page_bytes)?;
        let mut places = HashMap::new();
        pages.each_offset(|place, bytes| {
            let Some(head) = payload_head(bytes) else { return ControlFlow::Continue(()) };
            // A name of 32 wanted bytes is hardly ever an accident, and `proves` excludes the rest.
            if wanted.contains(&head.name) && !places.contains_key(&head.name) {
                let payload = pages.payload(bytes, &head);
                if payload.is_some_and(|payload| proves(&head.name, &payload)) {
                    places.insert(head.name, place);
                }
            }
            end_if(places.len() == wanted.len())
        })?;
        Ok(CarvedPayloads { pages, places, last: None })
    };
    search().map_err(|error| StorageError::new("search", path, error))
}

struct PageFile {
    file: File,
    page_bytes: usize,
    pages_max: u64,
}

impl PageFile {
    fn open(path: &Path, page_bytes: usize) -> io::Result<PageFile> {
        let file = File::open(path)?;
        // A file that was cut in the middle of a page loses that page.
        let pages_max = file.metadata()?.len() / page_bytes as u64;
        Ok(PageFile { file, page_bytes, pages_max })
    }

    fn read(&self, number: u64, page: &mut [u8]) -> io::Result<()> {
        // SQLite counts pages from 1.
        self.file.read_exact_at(page, (number - 1) * self.page_bytes as u64)
    }

    /// Passes every offset and the rest of its page to `look`, until it breaks.
    fn each_offset(
        &self,
        mut look: impl FnMut(RecordOffset, &[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut page = vec![0; self.page_bytes];
        for number in 1..=self.pages_max {
            self.read(number, &mut page)?;
            // Cells may begin anywhere: the array of cell pointers at the top of the page may be
            // damaged.
            for byte in 0..page.len() {
                if look(RecordOffset { page: number, byte }, &page[byte..]).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads the payload with a record that begins at `local`. The cell header before it is not
    /// needed: the record's own header tells how long it is.
    fn payload(&self, local: &[u8], head: &PayloadHead) -> Option<Vec<u8>> {
        let mut record = self.record(local, head.bytes_at + head.bytes_len)?;
        Some(record.split_off(head.bytes_at))
    }

    /// Reads a whole record: the part on its leaf page, then the chain of overflow pages.
    fn record(&self, local: &[u8], len: usize) -> Option<Vec<u8>> {
        // leaf page       record, first part │ next page
        // overflow page   next page │ bytes
        // overflow page   0 │ bytes
        let on_page = local_len(len, self.page_bytes);
        let mut record = local.get(..on_page)?.to_vec();
        let mut next = number_at(local, on_page);
        let mut page = vec![0; self.page_bytes];
        // Each turn adds a page of bytes, so a chain that runs in a circle ends too.
        while record.len() < len {
            let number = next.filter(|next| (1..=self.pages_max).contains(next))?;
            self.read(number, &mut page).ok()?;
            // An overflow page begins with the number of the next one.
            next = number_at(&page, 0);
            let rest = &page[4..];
            record.extend_from_slice(&rest[..rest.len().min(len - record.len())]);
        }
        Some(record)
    }
}

fn end_if(is_done: bool) -> ControlFlow<()> {
    if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Reads the header of a cell: the key, the length of the record, and the bytes from the record on.
fn cell_head(bytes: &[u8]) -> Option<(RowKey, usize, &[u8])> {
    let (len, bytes) = varint(bytes)?;
    let (key, bytes) = varint(bytes)?;
    // Most bytes of the file are no cell: a length no event can have ends the try early.
    let len = usize::try_from(len).ok().filter(|len| *len <= 2 * EVENT_BYTES_MAX)?;
    Some((RowKey(key), len, bytes))
}

/// How much of a record stands on its leaf page. The formula is SQLite's.
fn local_len(len: usize, page_bytes: usize) -> usize {
    // These constants are in "B-tree Pages" of the file format: for a table leaf, with no bytes
    // reserved at the end of a page.
    let max = page_bytes - 35;
    if len <= max {
        return len;
    }
    let min = (page_bytes - 12) * 32 / 255 - 23;
    // As much as leaves only full pages behind it, if that fits on the leaf.
    let even = min + (len - min) % (page_bytes - 4);
    if even <= max { even } else { min }
}

/// Parses a record as a row of the event table; `None` unless its checksum fits.
fn event_record(key: RowKey, record: &[u8]) -> Option<CarvedEvent> {
    let mut columns = RecordColumns::new(record)?;
    // The key is the rowid in the cell header; its own column is stored as null.
    columns.next()?.is_empty().then_some(())?;
    let position = columns.integer()? as u64;
    let id = columns.next()?.try_into().ok()?;
    let kind = columns.integer()?.try_into().ok()?;
    let created_at = (columns.integer()?, columns.integer()?.try_into().ok()?);
    let observed_at = (columns.integer()?, columns.integer()?.try_into().ok()?);
    let payload = match columns.next()? {
        [] => None,
        digest => Some(digest.try_into().ok()?),
    };
    let checksum = columns.integer()?.try_into().ok()?;
    let body = columns.next()?.to_vec();
    let record = EventRecord {
        key,
        position,
        id,
        kind,
        created_at,
        observed_at,
        payload,
        checksum,
        body: &[],
    };
    let carved = CarvedEvent { record, body };
    carved.record().is_whole().then_some(carved)
}

/// The start of a record of the payload table.
struct PayloadHead {
    name: [u8; 32],
    bytes_at: usize,
    bytes_len: usize,
}

/// Parses the start of a record as that of a payload.
fn payload_head(record: &[u8]) -> Option<PayloadHead> {
    // The types of the first two columns: null, since the number is the rowid, and a blob of 32
    // bytes (12 + 2 × length).
    const FIRST_TYPES: [u8; 2] = [0, 12 + 2 * 32];
    let (head_len, types) = varint(record)?;
    let (checksum, types) = varint(types.strip_prefix(&FIRST_TYPES)?)?;
    let (bytes, values) = varint(types)?;
    let head_len = usize::try_from(head_len).ok()?;
    // The header has to end exactly behind the types that were read.
    if head_len != record.len() - values.len() {
        return None;
    }
    // The values stand in the order of the columns: name, checksum, bytes.
    let (name, _) = values.split_first_chunk()?;
    let bytes_at = head_len + name.len() + value_len(checksum).filter(|len| *len <= 8)?;
    let bytes_len = value_len(bytes).filter(|len| *len <= 2 * EVENT_BYTES_MAX)?;
    Some(PayloadHead { name: *name, bytes_at, bytes_len })
}

/// The columns of a record, one after the other.
struct RecordColumns<'a> {
    types: &'a [u8],
    values: &'a [u8],
    /// The last column had type 9: the number 1, stored without bytes.
    is_one: bool,
}

impl<'a> RecordColumns<'a> {
    fn new(record: &'a [u8]) -> Option<RecordColumns<'a>> {
        let (head_len, behind) = varint(record)?;
        let head_len = usize::try_from(head_len).ok()?;
        let types = behind.get(..head_len.checked_sub(record.len() - behind.len())?)?;
        Some(RecordColumns { types, values: record.get(head_len..)?, is_one: false })
    }

    /// Returns the bytes of the next column.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (kind, types) = varint(self.types)?;
        self.types = types;
        self.is_one = kind == 9;
        let (value, rest) = self.values.split_at_checked(value_len(kind)?)?;
        self.values = rest;
        Some(value)
    }

    fn integer(&mut self) -> Option<i64> {
        let bytes = self.next()?;
        let (first, is_one) = (bytes.first(), self.is_one);
        // Serial types 8 and 9 are the numbers 0 and 1 without any bytes.
        let Some(first) = first else { return Some(i64::from(is_one)) };
        if bytes.len() > 8 {
            return None;
        }
        // Numbers are big-endian and shorter than eight bytes: the first bit is the sign.
        let sign = i64::from((*first as i8) >> 7);
        Some(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
    }
}

/// How many bytes a value of this serial type has.
fn value_len(kind: i64) -> Option<usize> {
    match kind {
        // Null, and the numbers 0 and 1.
        0 | 8 | 9 => Some(0),
        1..=4 => Some(kind as usize),
        5 => Some(6),
        6 | 7 => Some(8),
        // Even for blobs, odd for texts.
        12.. => Some((kind as usize - 12) / 2),
        // 10 and 11 are reserved by SQLite and never stand in a file.
        _ => None,
    }
}

/// Reads a varint: one to nine bytes, seven bits in each but the ninth, which has eight.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut number = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        if place == 8 {
            number = number << 8 | u64::from(*byte);
        } else {
            number = number << 7 | u64::from(byte & 0x7F);
        }
        if place == 8 || *byte < 0x80 {
            return Some((number as i64, &bytes[place + 1..]));
        }
    }
    None
}

fn number_at(bytes: &[u8], place: usize) -> Option<u64> {
    let bytes = bytes.get(place..place + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes).into())
}
