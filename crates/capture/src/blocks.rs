//! A source of text that falls into blocks: each begins with a line that has a mark.

use std::io::{self, Read};

use crate::agent::Marks;
use crate::limit::RECORD_BYTES_MAX;
use crate::lines::Lines;
use crate::records::{Next, Records};

/// Reads block by block from a known place on. The last one stays open until another begins.
pub(crate) struct Blocks<R> {
    lines: Lines<R>,
    marks: Marks,
    block: Vec<u8>,
    offset: u64,
    /// The line that begins the next block.
    ahead: Vec<u8>,
    /// Marks are words of somebody until the quote ends.
    is_quoted: bool,
}

impl<R: Read> Blocks<R> {
    /// `offset` is where `input` stands in its source.
    pub(crate) fn new(input: R, offset: u64, marks: Marks) -> Blocks<R> {
        let lines = Lines::new(input, offset);
        let (block, ahead) = (Vec::new(), Vec::new());
        Blocks { lines, marks, block, offset, ahead, is_quoted: false }
    }

    fn notice_quote(&mut self, line: &[u8]) {
        let Marks { quote: (open, close), .. } = self.marks;
        let opened = line.windows(open.len()).rposition(|part| part == open.as_bytes());
        let closed = line.windows(close.len()).rposition(|part| part == close.as_bytes());
        if opened.is_some() || closed.is_some() {
            self.is_quoted = opened > closed;
        }
    }
}

impl<R: Read> Records for Blocks<R> {
    fn next(&mut self) -> io::Result<Next<'_>> {
        self.offset += self.block.len() as u64;
        self.block.clear();
        let ahead = std::mem::take(&mut self.ahead);
        self.notice_quote(&ahead);
        self.block = ahead;
        loop {
            let line = match self.lines.next()? {
                Next::Whole { bytes, .. } => bytes.to_vec(),
                Next::TooLong { length, .. } => {
                    let length = self.block.len() as u64 + length;
                    let offset = self.offset;
                    self.block.clear();
                    self.offset += length;
                    return Ok(Next::TooLong { offset, length });
                }
                Next::Open { length, bytes, .. } => {
                    let length = self.block.len() as u64 + length;
                    match bytes {
                        // Too long to be held, and so is its block.
                        [] => self.block.clear(),
                        _ => self.block.extend(bytes),
                    }
                    return Ok(Next::Open { offset: self.offset, length, bytes: &self.block });
                }
                Next::End if self.block.is_empty() => return Ok(Next::End),
                Next::End => {
                    let length = self.block.len() as u64;
                    return Ok(Next::Open { offset: self.offset, length, bytes: &self.block });
                }
            };
            let begins = self.marks.lines.iter().any(|mark| line.starts_with(mark.as_bytes()));
            let is_full = self.block.len() + line.len() > RECORD_BYTES_MAX;
            if !self.block.is_empty() && (begins && !self.is_quoted || is_full) {
                self.ahead = line;
                self.is_quoted = false;
                return Ok(Next::Whole { offset: self.offset, bytes: &self.block, key: "" });
            }
            self.notice_quote(&line);
            self.block.extend(line);
        }
    }
}
