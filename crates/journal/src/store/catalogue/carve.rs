//! Finding events in the bytes of a database whose tables no longer lead to them.
//!
//! A damaged page can cut off every page below it. The rows on those are whole, and each carries
//! its own proof: a checksum over its key and everything else. So the file is searched byte by
//! byte for anything that reads as a row of the event table and proves to be one.
//!
//! The layout of SQLite's files is described in its documentation ("Database File Format").

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::row::{EventRecord, Key};
use crate::StorageError;
use crate::limit::EVENT_BYTES_MAX;

/// A record that was found, with its body.
pub(super) struct Carved {
    record: EventRecord<'static>,
    body: Vec<u8>,
}

impl Carved {
    pub(super) fn record(&self) -> EventRecord<'_> {
        EventRecord { body: &self.body, ..self.record.clone() }
    }
}

/// Finds the events `wanted` in the file.
pub(super) fn carve(
    path: &Path,
    page_bytes: usize,
    wanted: &HashSet<Key>,
) -> Result<HashMap<Key, Carved>, StorageError> {
    let search = || -> io::Result<HashMap<Key, Carved>> {
        let file = File::open(path)?;
        let pages =
            Pages { pages_max: file.metadata()?.len() / page_bytes as u64, file, page_bytes };
        let mut found = HashMap::new();
        let mut page = vec![0; page_bytes];
        for number in 1..=pages.pages_max {
            pages.read(number, &mut page)?;
            for place in 0..page.len() {
                let Some((key, len, local)) = cell_head(&page[place..]) else { continue };
                if !wanted.contains(&key) || found.contains_key(&key) {
                    continue;
                }
                let payload = pages.payload(local, len);
                if let Some(carved) = payload.and_then(|payload| event_record(key, &payload)) {
                    found.insert(key, carved);
                }
            }
            if found.len() == wanted.len() {
                break;
            }
        }
        Ok(found)
    };
    search().map_err(|error| StorageError::new("search", path, error))
}

struct Pages {
    file: File,
    page_bytes: usize,
    pages_max: u64,
}

impl Pages {
    fn read(&self, number: u64, page: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(page, (number - 1) * self.page_bytes as u64)
    }

    /// The whole payload of a cell: what is on its page, and what is on the pages that follow.
    fn payload(&self, local: &[u8], len: usize) -> Option<Vec<u8>> {
        let on_page = local_len(len, self.page_bytes);
        let mut payload = local.get(..on_page)?.to_vec();
        let mut next = number_at(local, on_page);
        let mut page = vec![0; self.page_bytes];
        while payload.len() < len {
            let number = next.filter(|next| (1..=self.pages_max).contains(next))?;
            self.read(number, &mut page).ok()?;
            next = number_at(&page, 0);
            let rest = &page[4..];
            payload.extend_from_slice(&rest[..rest.len().min(len - payload.len())]);
        }
        Some(payload)
    }
}

/// Reads the head of a table's cell: the key, the length of the payload, and where it begins.
fn cell_head(bytes: &[u8]) -> Option<(Key, usize, &[u8])> {
    let (len, bytes) = varint(bytes)?;
    let (key, bytes) = varint(bytes)?;
    let len = usize::try_from(len).ok().filter(|len| *len <= 2 * EVENT_BYTES_MAX)?;
    Some((Key(key), len, bytes))
}

/// How much of a payload stands on the page of its cell.
fn local_len(len: usize, page_bytes: usize) -> usize {
    let max = page_bytes - 35;
    if len <= max {
        return len;
    }
    let min = (page_bytes - 12) * 32 / 255 - 23;
    let even = min + (len - min) % (page_bytes - 4);
    if even <= max { even } else { min }
}

/// Reads a payload as a row of the event table, and believes it only if its checksum fits.
fn event_record(key: Key, payload: &[u8]) -> Option<Carved> {
    let mut columns = Columns::new(payload)?;
    // The key stands in the cell; its column is empty.
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
    let carved = Carved { record, body };
    carved.record().is_whole().then_some(carved)
}

/// The columns of a record, one after the other.
struct Columns<'a> {
    types: &'a [u8],
    values: &'a [u8],
    is_one: bool,
}

impl<'a> Columns<'a> {
    fn new(payload: &'a [u8]) -> Option<Columns<'a>> {
        let (head_len, behind) = varint(payload)?;
        let head_len = usize::try_from(head_len).ok()?;
        let types = behind.get(..head_len.checked_sub(payload.len() - behind.len())?)?;
        Some(Columns { types, values: payload.get(head_len..)?, is_one: false })
    }

    /// The bytes of the next column.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (kind, types) = varint(self.types)?;
        self.types = types;
        self.is_one = kind == 9;
        let len = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            12.. => (kind as usize - 12) / 2,
            _ => return None,
        };
        let (value, rest) = self.values.split_at_checked(len)?;
        self.values = rest;
        Some(value)
    }

    fn integer(&mut self) -> Option<i64> {
        let bytes = self.next()?;
        let (first, is_one) = (bytes.first(), self.is_one);
        let Some(first) = first else { return Some(i64::from(is_one)) };
        if bytes.len() > 8 {
            return None;
        }
        let sign = i64::from((*first as i8) >> 7);
        Some(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
    }
}

/// A number of one to nine bytes, seven bits in each but the last.
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
