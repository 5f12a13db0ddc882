//! A source of text that falls into blocks: each begins with a line that has a mark.

use std::io::{self, Read};

use crate::agent::BlockMarks;
use crate::limit::RECORD_BYTES_MAX;
use crate::line_reader::LineReader;
use crate::record_reader::{NextRecord, RecordReader};

/// Reads block by block from a known place on. The last one stays open until another begins.
pub(crate) struct BlockReader<R> {
    lines: LineReader<R>,
    marks: BlockMarks,
    /// Where the next block begins.
    offset: u64,
    /// The line that begins the next block.
    ahead: Vec<u8>,
    /// Inside a quote marks are text and begin no block.
    is_quoted: bool,
}

impl<R: Read> BlockReader<R> {
    /// `offset` is where `input` stands in its source.
    pub(crate) fn new(input: R, offset: u64, marks: BlockMarks) -> BlockReader<R> {
        let lines = LineReader::new(input, offset);
        BlockReader { lines, marks, offset, ahead: Vec::new(), is_quoted: false }
    }

    fn notice_quote(&mut self, line: &[u8]) {
        let BlockMarks { quote: (open, close), .. } = self.marks;
        let opened = line.windows(open.len()).rposition(|part| part == open.as_bytes());
        let closed = line.windows(close.len()).rposition(|part| part == close.as_bytes());
        if opened.is_some() || closed.is_some() {
            // The later mark of the line decides; `None` is less than any place.
            self.is_quoted = opened > closed;
        }
    }
}

impl<R: Read> RecordReader for BlockReader<R> {
    fn next<'a>(&'a mut self, kept: &'a mut Vec<u8>) -> io::Result<NextRecord<'a>> {
        let (start, offset) = (kept.len(), self.offset);
        kept.append(&mut self.ahead);
        self.notice_quote(&kept[start..]);
        loop {
            let line_start = kept.len();
            let before = (line_start - start) as u64;
            match self.lines.next(kept)? {
                NextRecord::Whole { .. } => {}
                NextRecord::TooLong { length, .. } => {
                    let length = before + length;
                    self.offset += length;
                    kept.truncate(start);
                    return Ok(NextRecord::TooLong { offset, length });
                }
                NextRecord::Open { length, bytes, .. } => {
                    let length = before + length;
                    // Too long to be held, and so is its block.
                    if bytes.is_empty() {
                        kept.truncate(start);
                    }
                    return Ok(NextRecord::Open { offset, length, bytes: &kept[start..] });
                }
                NextRecord::End if before == 0 => return Ok(NextRecord::End),
                NextRecord::End => {
                    return Ok(NextRecord::Open { offset, length: before, bytes: &kept[start..] });
                }
            }
            let line = &kept[line_start..];
            let begins = self.marks.lines.iter().any(|mark| line.starts_with(mark.as_bytes()));
            // A quote that is never closed must not collect the rest of the file in one block.
            let is_full = kept.len() - start > RECORD_BYTES_MAX;
            if before > 0 && (begins && !self.is_quoted || is_full) {
                self.ahead = kept.split_off(line_start);
                // A block begins outside of quotes, also after one that was cut because it was
                // full.
                self.is_quoted = false;
                self.offset += before;
                return Ok(NextRecord::Whole { offset, bytes: &kept[start..], key: "" });
            }
            self.notice_quote(line);
        }
    }
}
