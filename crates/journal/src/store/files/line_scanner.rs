//! Reads the lines of a file, of any length, with their offsets.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

/// Offset and length of a line, without its line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineSpan {
    pub offset: u64,
    pub length: u64,
}

/// Reads lines from an offset on.
pub(super) struct LineScanner<'a> {
    file: BufReader<OffsetReader<'a>>,
    offset: u64,
    line: Vec<u8>,
}

/// A line that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedLine<'a> {
    pub span: LineSpan,
    pub bytes: &'a [u8],
    /// Whether a line break follows.
    pub is_ended: bool,
}

struct OffsetReader<'a> {
    file: &'a File,
    offset: u64,
}

const BUFFER_BYTES: usize = 128 * 1024;

impl<'a> LineScanner<'a> {
    pub(super) fn new(file: &'a File, offset: u64) -> LineScanner<'a> {
        let file = BufReader::with_capacity(BUFFER_BYTES, OffsetReader { file, offset });
        LineScanner { file, offset, line: Vec::new() }
    }

    /// Returns the next line that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Option<ScannedLine<'_>>> {
        loop {
            self.line.clear();
            // A line has no limit here: a record of an agent may have megabytes.
            let read = self.file.read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let offset = self.offset;
            self.offset += read as u64;
            // Editors add blank lines at the end of a file. They are no damage.
            if !self.line.trim_ascii().is_empty() {
                // Only the last line of a file can lack its break: a write that was cut off, or an
                // editor.
                let is_ended = self.line.last() == Some(&b'\n');
                let bytes = &self.line[..read - usize::from(is_ended)];
                let span = LineSpan { offset, length: bytes.len() as u64 };
                return Ok(Some(ScannedLine { span, bytes, is_ended }));
            }
        }
    }
}

impl LineSpan {
    /// Encodes the span as the body of a row.
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The reverse of [`LineSpan::encode`].
    pub(super) fn decode(bytes: &[u8]) -> Option<LineSpan> {
        let bytes: &[u8; 16] = bytes.try_into().ok()?;
        let (offset, length) = bytes.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of sixteen"));
        Some(LineSpan { offset: number(offset), length: number(length) })
    }
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // `read_at` instead of `seek`: other threads read through the same handle.
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Counts the number of the line that begins at `offset`, from 1.
pub(super) fn line_number(file: &File, offset: u64) -> io::Result<u64> {
    let mut before =
        BufReader::with_capacity(BUFFER_BYTES, OffsetReader { file, offset: 0 }.take(offset));
    let mut breaks = 0;
    loop {
        let bytes = before.fill_buf()?;
        if bytes.is_empty() {
            return Ok(breaks + 1);
        }
        // Counting reads the file up to the line. It happens only for a damaged one, to name it.
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
