//! A source of lines: whole ones only, each with its place.

use std::io::{self, BufRead, BufReader, Read};

use crate::limit::RECORD_BYTES_MAX;
use crate::records::{Next, Records};

/// Reads line by line from a known place on.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    offset: u64,
}

impl<R: Read> Lines<R> {
    /// `offset` is where `input` stands in its source.
    pub(crate) fn new(input: R, offset: u64) -> Lines<R> {
        Lines { input: BufReader::with_capacity(256 * 1024, input), line: Vec::new(), offset }
    }

    /// The next line, as far as it is there and not too long; how long that is.
    fn fill(&mut self) -> io::Result<u64> {
        self.line.clear();
        loop {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let room = RECORD_BYTES_MAX - self.line.len();
            let bytes = &bytes[..bytes.len().min(room)];
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.line.extend(&bytes[..taken]);
            self.input.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(self.line.len() as u64);
            }
        }
    }

    /// How long the rest of a line is that is too long, and whether its end is there.
    fn pass_over(&mut self) -> io::Result<(u64, bool)> {
        self.line = Vec::new();
        let mut length = 0;
        loop {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() {
                return Ok((length, false));
            }
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.input.consume(taken);
            length += taken as u64;
            self.offset += taken as u64;
            if end.is_some() {
                return Ok((length, true));
            }
        }
    }
}

impl<R: Read> Records for Lines<R> {
    fn next(&mut self) -> io::Result<Next<'_>> {
        let offset = self.offset;
        let length = self.fill()?;
        self.offset += length;
        Ok(match self.line.last() {
            None => Next::End,
            Some(b'\n') => Next::Whole { offset, bytes: &self.line, key: "" },
            Some(_) if length < RECORD_BYTES_MAX as u64 => {
                Next::Open { offset, length, bytes: &self.line }
            }
            Some(_) => match self.pass_over()? {
                (rest, true) => Next::TooLong { offset, length: length + rest },
                (rest, false) => Next::Open { offset, length: length + rest, bytes: &[] },
            },
        })
    }
}
