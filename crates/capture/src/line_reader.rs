//! A source of lines: whole ones only, each with its place.

use std::io::{self, BufRead, BufReader, Read};

use crate::limit::RECORD_BYTES_MAX;
use crate::record_reader::{NextRecord, RecordReader};

/// Bytes that are read at once, as far as there are so many. A longer line takes several reads.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// The least bytes that are read at once, so that a source that grows meanwhile needs few reads.
const BUFFER_BYTES_MIN: usize = 4 * 1024;

/// Reads line by line from a known place on.
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    offset: u64,
}

impl<R: Read> LineReader<R> {
    /// `offset` is where `input` stands in its source.
    pub(crate) fn new(input: R, offset: u64) -> LineReader<R> {
        LineReader::with_length(input, offset, u64::MAX)
    }

    /// The same for an input of which so many bytes are left, as far as is known.
    ///
    /// A source that is followed is opened again for every new line. Clearing a large buffer would
    /// cost more than the line.
    pub(crate) fn with_length(input: R, offset: u64, length: u64) -> LineReader<R> {
        let length = usize::try_from(length).unwrap_or(BUFFER_BYTES_MAX);
        let buffer = length.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        LineReader { input: BufReader::with_capacity(buffer, input), offset }
    }

    /// Adds the next line, as far as it is there and not too long.
    fn fill_line(&mut self, kept: &mut Vec<u8>) -> io::Result<()> {
        let end_max = kept.len() + RECORD_BYTES_MAX;
        loop {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            // At most as many bytes as a record may have are held; `next` passes over the rest.
            let bytes = &bytes[..bytes.len().min(end_max - kept.len())];
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            kept.extend(&bytes[..taken]);
            self.input.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(());
            }
        }
    }

    /// How long the rest of a line is that is too long, and whether its end is there.
    fn pass_over(&mut self) -> io::Result<(u64, bool)> {
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

impl<R: Read> RecordReader for LineReader<R> {
    fn next<'a>(&'a mut self, kept: &'a mut Vec<u8>) -> io::Result<NextRecord<'a>> {
        let (start, offset) = (kept.len(), self.offset);
        self.fill_line(kept)?;
        let length = (kept.len() - start) as u64;
        self.offset += length;
        // The limit was reached before the line end: the rest is only counted, not held.
        if length == RECORD_BYTES_MAX as u64 && !kept.ends_with(b"\n") {
            kept.truncate(start);
            // Gives the 64 MiB back at once.
            kept.shrink_to_fit();
            return Ok(match self.pass_over()? {
                (rest, true) => NextRecord::TooLong { offset, length: length + rest },
                (rest, false) => NextRecord::Open { offset, length: length + rest, bytes: &[] },
            });
        }
        let bytes = &kept[start..];
        Ok(match bytes.last() {
            None => NextRecord::End,
            Some(b'\n') => NextRecord::Whole { offset, bytes, key: "" },
            Some(_) => NextRecord::Open { offset, length, bytes },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a source, and the largest room that a read had.
    struct Measured<'a>(&'a [u8], &'a mut usize);

    impl Read for Measured<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            *self.1 = room.len().max(*self.1);
            self.0.read(room)
        }
    }

    #[test]
    fn buffer_is_no_larger_than_the_rest() {
        for (length, expected) in [(3, BUFFER_BYTES_MIN), (u64::MAX, BUFFER_BYTES_MAX)] {
            let mut room = 0;
            let mut lines = LineReader::with_length(Measured(b"one\ntwo\n", &mut room), 0, length);
            let mut read = Vec::new();
            while !matches!(lines.next(&mut read).expect("it can be read"), NextRecord::End) {}
            assert_eq!((read, room), (b"one\ntwo\n".to_vec(), expected));
        }
    }
}
