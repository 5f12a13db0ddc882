//! The lines of a file, one after the other, whatever their length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

/// Where a line stands in its file, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub offset: u64,
    pub length: u64,
}

/// A reader of lines, from some offset on.
pub(super) struct Scan<'a> {
    file: BufReader<FileAt<'a>>,
    offset: u64,
    line: Vec<u8>,
}

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanned<'a> {
    pub place: Place,
    pub bytes: &'a [u8],
    /// Whether a line break follows.
    pub is_ended: bool,
}

struct FileAt<'a> {
    file: &'a File,
    offset: u64,
}

const BUFFER_BYTES: usize = 128 * 1024;

impl<'a> Scan<'a> {
    pub(super) fn from(file: &'a File, offset: u64) -> Scan<'a> {
        let file = BufReader::with_capacity(BUFFER_BYTES, FileAt { file, offset });
        Scan { file, offset, line: Vec::new() }
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<Scanned<'_>>> {
        loop {
            self.line.clear();
            let read = self.file.read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let offset = self.offset;
            self.offset += read as u64;
            if !self.line.trim_ascii().is_empty() {
                let is_ended = self.line.last() == Some(&b'\n');
                let bytes = &self.line[..read - usize::from(is_ended)];
                let place = Place { offset, length: bytes.len() as u64 };
                return Ok(Some(Scanned { place, bytes, is_ended }));
            }
        }
    }
}

impl Place {
    /// The place as the catalogue keeps it.
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The reverse of [`Place::encode`].
    pub(super) fn decode(bytes: &[u8]) -> Option<Place> {
        let bytes: &[u8; 16] = bytes.try_into().ok()?;
        let (offset, length) = bytes.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of sixteen"));
        Some(Place { offset: number(offset), length: number(length) })
    }
}

impl Read for FileAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The number of the line that begins at `offset`, counted from 1.
pub(super) fn line_number(file: &File, offset: u64) -> io::Result<u64> {
    let mut before =
        BufReader::with_capacity(BUFFER_BYTES, FileAt { file, offset: 0 }.take(offset));
    let mut breaks = 0;
    loop {
        let bytes = before.fill_buf()?;
        if bytes.is_empty() {
            return Ok(breaks + 1);
        }
        breaks += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = bytes.len();
        before.consume(length);
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
