//! A source that is one JSON object, written anew each time: only what changed in it is told.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};

use event::Raw;
use sha2::{Digest, Sha256};

use crate::limit::DOCUMENT_BYTES_MAX;
use crate::record_reader::{NextRecord, RecordReader};
use crate::source::encode_hex;

/// The entries of a document that were not there when it was read last.
pub(crate) struct DocumentReader {
    /// The whole text where it is no document.
    broken: Option<Vec<u8>>,
    fresh: std::vec::IntoIter<DocumentEntry>,
    key: String,
    offset: u64,
    /// The prints of all entries that were told, one after the other.
    told: String,
}

struct DocumentEntry {
    json: String,
    print: String,
}

/// Hex digits that tell an entry from the others of its document.
const PRINT_LEN: usize = 16;

impl DocumentReader {
    /// Reads the file whole. `offset` is where the next record is kept, `watermark` what
    /// [`RecordReader::watermark`] gave before.
    pub(crate) fn read(
        file: File,
        list: &str,
        offset: u64,
        watermark: Option<&str>,
    ) -> io::Result<DocumentReader> {
        let mut bytes = Vec::new();
        // One byte more than allowed shows that the document is too long.
        file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            let why = format!("the document is longer than {DOCUMENT_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let told = watermark.unwrap_or_default().to_owned();
        let mut known: HashSet<&str> = HashSet::new();
        for place in (0..told.len()).step_by(PRINT_LEN) {
            // `get` leaves out the end of a watermark that was damaged.
            known.extend(told.get(place..place + PRINT_LEN));
        }
        let entries = split_entries(&bytes, list);
        // The agent may be writing the file right now. The text is then an open record, which is
        // reported only if the file stays as it is.
        let broken = entries.is_none().then_some(bytes);
        let mut fresh = Vec::new();
        for json in entries.unwrap_or_default() {
            let print = fingerprint(json.as_bytes());
            if !known.contains(print.as_str()) {
                fresh.push(DocumentEntry { json, print });
            }
        }
        let fresh = fresh.into_iter();
        Ok(DocumentReader { broken, fresh, key: String::new(), offset, told })
    }
}

impl RecordReader for DocumentReader {
    fn next<'a>(&'a mut self, kept: &'a mut Vec<u8>) -> io::Result<NextRecord<'a>> {
        let (start, offset) = (kept.len(), self.offset);
        if let Some(broken) = &self.broken {
            kept.extend(broken);
            let bytes = &kept[start..];
            return Ok(NextRecord::Open { offset, length: bytes.len() as u64, bytes });
        }
        let Some(DocumentEntry { json, print }) = self.fresh.next() else {
            return Ok(NextRecord::End);
        };
        kept.extend(json.as_bytes());
        kept.push(b'\n');
        let bytes = &kept[start..];
        self.offset += bytes.len() as u64;
        // Grows with each entry that is returned, so that a batch may end behind any of them.
        self.told.push_str(&print);
        self.key = print;
        Ok(NextRecord::Whole { offset, bytes, key: &self.key })
    }

    fn watermark(&self) -> Option<String> {
        Some(self.told.clone())
    }
}

/// What an entry is called.
pub(crate) fn fingerprint(json: &[u8]) -> String {
    encode_hex(&Sha256::digest(json)[..PRINT_LEN / 2])
}

/// The object without its list, then the entries of the list; `None` for what is no object.
fn split_entries(bytes: &[u8], list: &str) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let members = Raw::parse(text.trim_start_matches('\u{feff}')).ok()?.members()?;
    let mut head = String::from("{");
    let mut entries = Vec::new();
    for (name, value) in members {
        // Under the right name there may be no list at all; then the value stays in the head.
        match value.elements().filter(|_| name == list) {
            Some(elements) => entries = elements,
            None => {
                let name = Raw::from_value(&name).expect("a text encodes");
                let comma = if head.len() > 1 { "," } else { "" };
                head.extend([comma, name.get(), ":", value.get()]);
            }
        }
    }
    head.push('}');
    // The head is an entry like the others: a new title makes it a new one.
    let mut all = vec![one_line(&head)];
    all.extend(entries.iter().map(|entry| one_line(entry.get())));
    Some(all)
}

/// JSON on one line, so that what is kept of a document is a file of lines. A line break can only
/// stand between its parts.
fn one_line(json: &str) -> String {
    json.split(['\n', '\r']).map(str::trim_start).collect()
}
