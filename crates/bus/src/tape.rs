//! The tape: relayed lines in order, in chunks, stored once for all clients. A client is a cursor
//! on it.
//!
//! ```text
//!              chunk          chunk        chunk (open)
//!          [ line line ]  [ line line ]  [ line li
//!            ^ slowest cursor    ^ cursor        ^ end: new lines
//! ```
//!
//! Chunks before the slowest cursor are freed. If more than [`TAPE_MAX`] bytes lie behind the oldest
//! chunk, it is dropped, and clients that are still in it miss its lines.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::class::Class;
use crate::relay::NameSpans;

/// Bytes behind the oldest chunk. Beyond that the chunk is dropped, even if clients still need it.
pub(crate) const TAPE_MAX: usize = 16 << 20;

/// Bytes of a chunk. A longer line has a chunk of its own.
const CHUNK_MAX: usize = 64 << 10;

/// What the bus knows of a line on the tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineMeta {
    /// Where the line ends with its newline, counted from the beginning of its chunk.
    pub(crate) end: u32,
    pub(crate) names: NameSpans,
    pub(crate) class: Class,
    /// The connection it came from; 0 is this process.
    pub(crate) sender: u32,
    /// When it was relayed, in milliseconds since 1970.
    pub(crate) ts: u64,
    /// Its journal position; 0 if it is not recorded.
    pub(crate) position: u64,
    /// Whether it is the last line of its position.
    pub(crate) is_last: bool,
}

#[derive(Debug, Default)]
pub(crate) struct TapeChunk {
    /// The offset on the tape where it begins.
    pub(crate) base: u64,
    /// Shared only after the chunk left the tape, with clients in the middle of one of its lines.
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) metas: Vec<LineMeta>,
    pub(crate) has_bulk: bool,
}

/// A line of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct TapeLine<'a> {
    pub(crate) meta: &'a LineMeta,
    /// The offset on the tape where it ends.
    pub(crate) end: u64,
    pub(crate) bytes: &'a [u8],
}

impl TapeChunk {
    pub(crate) fn end_offset(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns the lines that end behind an offset; the first may begin before it.
    pub(crate) fn lines_from(&self, place: u64) -> impl Iterator<Item = TapeLine<'_>> {
        let from = place.saturating_sub(self.base);
        let first = self.metas.partition_point(|meta| u64::from(meta.end) <= from);
        (first..self.metas.len()).map(|index| {
            let meta = &self.metas[index];
            let start = if index == 0 { 0 } else { self.metas[index - 1].end as usize };
            let bytes = &self.bytes[start..meta.end as usize];
            TapeLine { meta, end: self.base + u64::from(meta.end), bytes }
        })
    }
}

#[derive(Default)]
pub(crate) struct Tape {
    chunks: VecDeque<TapeChunk>,
    end: u64,
    len: usize,
    /// Everything recorded up to this position was on the tape or never will be.
    recorded: u64,
    /// An empty chunk with its allocations, for reuse.
    spare: Option<TapeChunk>,
}

impl Tape {
    pub(crate) fn end_offset(&self) -> u64 {
        self.end
    }

    pub(crate) fn recorded_position(&self) -> u64 {
        self.recorded
    }

    /// Notes how far the record goes. It never goes back.
    pub(crate) fn advance_recorded(&mut self, position: u64) {
        self.recorded = self.recorded.max(position);
    }

    /// Returns the bytes held.
    pub(crate) fn byte_len(&self) -> usize {
        self.len
    }

    /// Appends the line that `write` puts at the end of the buffer.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>) -> LineMeta) {
        if self.chunks.back().is_none_or(|chunk| chunk.bytes.len() >= CHUNK_MAX) {
            let chunk = self.spare.take().unwrap_or_default();
            self.chunks.push_back(TapeChunk { base: self.end, ..chunk });
        }
        let chunk = self.chunks.back_mut().expect("there is a chunk now");
        let bytes = Arc::get_mut(&mut chunk.bytes).expect("a chunk on the tape is not shared");
        let start = bytes.len();
        let meta = write(bytes);
        let len = bytes.len() - start;
        chunk.has_bulk |= meta.class == Class::Bulk;
        chunk.metas.push(LineMeta { end: bytes.len() as u32, ..meta });
        self.end += len as u64;
        self.len += len;
    }

    /// Returns the chunks from an offset on.
    pub(crate) fn chunks_from(&self, place: u64) -> impl Iterator<Item = &TapeChunk> {
        let first = self.chunks.partition_point(|chunk| chunk.end_offset() <= place);
        self.chunks.range(first..)
    }

    /// Frees the chunks that all clients have read.
    pub(crate) fn trim(&mut self, slowest: u64) {
        while self.chunks.front().is_some_and(|chunk| chunk.end_offset() <= slowest) {
            self.recycle_front();
        }
    }

    /// Takes the oldest chunk off the tape if too much lies behind it.
    pub(crate) fn pop_overflow(&mut self) -> Option<TapeChunk> {
        // The oldest chunk itself does not count. A single line may be longer than the limit, and
        // the newest chunk must never be dropped.
        let oldest = self.chunks.front()?.bytes.len();
        if self.len - oldest <= TAPE_MAX {
            return None;
        }
        self.len -= oldest;
        self.chunks.pop_front()
    }

    fn recycle_front(&mut self) {
        if let Some(mut chunk) = self.chunks.pop_front() {
            self.len -= chunk.bytes.len();
            // Reuse one chunk: on a quiet bus each message would otherwise allocate a new one. Do
            // not keep one that a long line has blown up.
            if self.spare.is_none()
                && let Some(bytes) = Arc::get_mut(&mut chunk.bytes)
                && bytes.capacity() <= 2 * CHUNK_MAX
            {
                bytes.clear();
                chunk.metas.clear();
                chunk.has_bulk = false;
                self.spare = Some(chunk);
            }
        }
    }
}
