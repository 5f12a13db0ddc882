//! What goes out to everybody, once: relayed lines in order, in chunks. A client is a cursor on it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::class::Class;
use crate::relay::Names;

/// Bytes behind the oldest chunk. With more, that chunk is taken away from whoever is still in it.
pub(crate) const TAPE_MAX: usize = 16 << 20;

/// Bytes of a chunk; a longer line has one of its own.
const CHUNK_MAX: usize = 64 << 10;

/// What is known of a line on the tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Where the line ends, newline and all, counted from the beginning of its chunk.
    pub(crate) end: u32,
    pub(crate) names: Names,
    pub(crate) class: Class,
    /// The connection it came from; 0 is ourselves.
    pub(crate) sender: u32,
    /// When it was relayed.
    pub(crate) ts: u64,
    /// Where it is in the journal; 0 if it is not.
    pub(crate) position: u64,
    /// Whether it is the last line of its position.
    pub(crate) is_last: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Where it begins on the tape.
    pub(crate) base: u64,
    /// Shared only once it has left the tape, with whoever is in the middle of a line.
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) has_bulk: bool,
}

/// A line of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) mark: &'a Mark,
    /// Where it ends on the tape.
    pub(crate) end: u64,
    pub(crate) bytes: &'a [u8],
}

impl Chunk {
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The lines that end after a place; the first may have begun before it.
    pub(crate) fn lines_from(&self, place: u64) -> impl Iterator<Item = Line<'_>> {
        let from = place.saturating_sub(self.base);
        let first = self.marks.partition_point(|mark| u64::from(mark.end) <= from);
        (first..self.marks.len()).map(|index| {
            let mark = &self.marks[index];
            let start = if index == 0 { 0 } else { self.marks[index - 1].end as usize };
            let bytes = &self.bytes[start..mark.end as usize];
            Line { mark, end: self.base + u64::from(mark.end), bytes }
        })
    }
}

#[derive(Default)]
pub(crate) struct Tape {
    chunks: VecDeque<Chunk>,
    end: u64,
    len: usize,
    /// Whatever is recorded up to this position was on the tape, or never will be.
    recorded: u64,
    /// An empty chunk to begin with again.
    spare: Option<Chunk>,
}

impl Tape {
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// The record goes this far. It never goes back.
    pub(crate) fn record(&mut self, position: u64) {
        self.recorded = self.recorded.max(position);
    }

    /// Bytes it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a line that `write` puts at the end of a buffer.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Mark) {
        if self.chunks.back().is_none_or(|chunk| chunk.bytes.len() >= CHUNK_MAX) {
            let chunk = self.spare.take().unwrap_or_default();
            self.chunks.push_back(Chunk { base: self.end, ..chunk });
        }
        let chunk = self.chunks.back_mut().expect("there is a chunk now");
        let bytes = Arc::get_mut(&mut chunk.bytes).expect("a chunk on the tape is not shared");
        let start = bytes.len();
        let mark = write(bytes);
        let len = bytes.len() - start;
        chunk.has_bulk |= mark.class == Class::Bulk;
        chunk.marks.push(Mark { end: bytes.len() as u32, ..mark });
        self.end += len as u64;
        self.len += len;
    }

    /// The chunks from a place on.
    pub(crate) fn from(&self, place: u64) -> impl Iterator<Item = &Chunk> {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= place);
        self.chunks.range(first..)
    }

    /// Lets go of what everybody has passed.
    pub(crate) fn trim(&mut self, slowest: u64) {
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= slowest) {
            self.pop();
        }
    }

    /// Takes the oldest chunk away if there is too much behind it.
    pub(crate) fn shed(&mut self) -> Option<Chunk> {
        let oldest = self.chunks.front()?.bytes.len();
        if self.len - oldest <= TAPE_MAX {
            return None;
        }
        self.len -= oldest;
        self.chunks.pop_front()
    }

    fn pop(&mut self) {
        if let Some(mut chunk) = self.chunks.pop_front() {
            self.len -= chunk.bytes.len();
            if self.spare.is_none()
                && let Some(bytes) = Arc::get_mut(&mut chunk.bytes)
                && bytes.capacity() <= 2 * CHUNK_MAX
            {
                bytes.clear();
                chunk.marks.clear();
                chunk.has_bulk = false;
                self.spare = Some(chunk);
            }
        }
    }
}
