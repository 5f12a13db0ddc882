//! Where the bytes of an index are kept.
//!
//! The store keeps rows and orders them; it decides nothing. See the crate's page for the layout.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use crate::document::DocId;
use crate::segment::Segment;
use crate::term_block::CorruptBlock;

/// The rows of an index, read from one snapshot.
pub trait IndexStore {
    /// Also says that a block is corrupt, so that the caller can throw the index away.
    type Error: From<CorruptBlock>;

    /// The shards that have segments, oldest first.
    fn shards(&self) -> Result<Vec<u64>, Self::Error>;

    /// The segments of a shard in the order of their first offsets.
    fn segments(&self, shard: u64) -> Result<Vec<Segment>, Self::Error>;

    /// Offsets of a shard at which a document is deleted while segments still have its postings.
    fn tombstones(&self, shard: u64) -> Result<HashSet<u32>, Self::Error>;

    /// Whether a later document stands in for this one.
    fn is_superseded(&self, id: DocId) -> Result<bool, Self::Error>;

    /// The last block of a segment that begins with `term` or with a term before it: the only one
    /// that can hold the term.
    fn block_at(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The first block of a segment that begins with a term behind `term`.
    fn block_after(&self, segment_id: i64, term: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Visits the blocks of a segment that begin with a term behind `term`, in order, until the
    /// visitor breaks off.
    fn visit_blocks_after(
        &self,
        segment_id: i64,
        term: &[u8],
        visit: &mut dyn FnMut(Vec<u8>) -> Result<ControlFlow<()>, Self::Error>,
    ) -> Result<(), Self::Error>;
}

/// The rows of an index, changed within one transaction.
pub trait IndexStoreMut: IndexStore {
    /// An id that no segment has.
    fn next_segment_id(&self) -> Result<i64, Self::Error>;

    fn put_block(
        &mut self,
        segment_id: i64,
        first_term: &[u8],
        bytes: &[u8],
    ) -> Result<(), Self::Error>;

    fn put_segment(&mut self, shard: u64, segment: &Segment) -> Result<(), Self::Error>;

    /// Removes a segment and its blocks.
    fn remove_segment(&mut self, segment_id: i64) -> Result<(), Self::Error>;

    /// Does nothing if the tombstone is there already.
    fn put_tombstone(&mut self, shard: u64, offset: u32) -> Result<(), Self::Error>;

    fn remove_tombstones(&mut self, shard: u64, offsets: Range<u32>) -> Result<(), Self::Error>;

    /// Notes that a later document stands in for this one.
    fn put_superseded(&mut self, id: DocId) -> Result<(), Self::Error>;
}
