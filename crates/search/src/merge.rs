//! Writing segments, merging them and dropping what tombstones mark.
//!
//! Every transaction of the writer leaves one segment. Small segments are merged into larger ones
//! now and then, so that a term has to be looked up in few places; a posting is therefore written
//! once more for each size class of segments (a log-structured merge). A merge leaves out the
//! postings of deleted documents.

use crate::postings_builder::PostingsBuilder;
use crate::segment::Segment;
use crate::store::{IndexStore, IndexStoreMut};
use crate::term_block::{TermBlockReader, TermBlockWriter};

/// Segments of one size class that are merged into one.
const MERGE_FACTOR: usize = 16;

/// Documents up to which a segment is in the smallest size class. Each further class is
/// [`MERGE_FACTOR`] times larger.
const SMALLEST_SEGMENT_DOCS: usize = 512;

/// Segments a shard may have. Beyond it all are merged, whatever their sizes.
const SEGMENTS_MAX: usize = 64;

/// Writes the buffered documents as a segment behind the others of a shard, and merges what is
/// due.
pub(crate) fn add_segment<S: IndexStoreMut>(
    store: &mut S,
    shard: u64,
    postings: &PostingsBuilder,
) -> Result<(), S::Error> {
    let Some(offsets) = postings.offsets() else { return Ok(()) };
    let mut writer = SegmentWriter::new(store)?;
    postings.visit_terms(|term, postings| writer.add_term(store, term, postings))?;
    let id = writer.finish(store)?;
    store.put_segment(shard, &Segment { id, offsets, doc_count: postings.doc_count() })?;
    // A merge may fill the next larger size class, which is then due as well.
    while let Some(due) = merge_candidates(&store.segments(shard)?) {
        merge_segments(store, shard, &due)?;
    }
    Ok(())
}

/// Rewrites the segments of a shard that hold deleted documents.
pub(crate) fn purge_tombstones<S: IndexStoreMut>(
    store: &mut S,
    shard: u64,
) -> Result<(), S::Error> {
    let tombstones = store.tombstones(shard)?;
    for segment in store.segments(shard)? {
        // A merge of one segment writes it again without the deleted postings. The other segments
        // stay as they are.
        if tombstones.iter().any(|offset| segment.offsets.contains(offset)) {
            merge_segments(store, shard, &[segment])?;
        }
    }
    // The tombstones that are left mark documents that were never indexed.
    store.remove_tombstones(shard, 0..u32::MAX)
}

/// The newest segments that should become one, if there are such.
fn merge_candidates(segments: &[Segment]) -> Option<Vec<Segment>> {
    if segments.len() > SEGMENTS_MAX {
        // Happens when small and large segments alternate, so that no run of one class grows long
        // enough.
        return Some(segments.to_vec());
    }
    let largest = segments.iter().map(size_class).max()?;
    (0..=largest).find_map(|class| {
        // Only neighbours may be merged, because the offsets of a segment are one range. So the
        // run ends at the first segment that is larger, and takes smaller ones along.
        let run = segments.iter().rev().take_while(|segment| size_class(segment) <= class);
        let newest = &segments[segments.len() - run.count()..];
        let of_class = newest.iter().filter(|segment| size_class(segment) == class);
        (of_class.count() >= MERGE_FACTOR).then(|| newest.to_vec())
    })
}

/// 0 for the smallest segments, 1 for those up to [`MERGE_FACTOR`] times larger, and so on.
fn size_class(segment: &Segment) -> u32 {
    let multiple = segment.doc_count / SMALLEST_SEGMENT_DOCS;
    multiple.checked_ilog(MERGE_FACTOR).map_or(0, |class| class + 1)
}

/// Makes neighbouring segments one, without what tombstones mark.
fn merge_segments<S: IndexStoreMut>(
    store: &mut S,
    shard: u64,
    merged: &[Segment],
) -> Result<(), S::Error> {
    let (Some(first), Some(last)) = (merged.first(), merged.last()) else { return Ok(()) };
    let offsets = first.offsets.start..last.offsets.end;
    let tombstones = store.tombstones(shard)?;
    let mut writer = SegmentWriter::new(store)?;
    let mut cursors = Vec::new();
    for segment in merged {
        cursors.extend(SegmentCursor::open(store, segment.id)?);
    }
    // A merge of sorted lists: the smallest term of all cursors is next. With at most
    // `SEGMENTS_MAX` cursors a linear search is not slower than a heap.
    let (mut term, mut postings) = (Vec::new(), Vec::new());
    while let Some(smallest) = cursors.iter().map(|cursor| &cursor.block.term).min() {
        term.clone_from(smallest);
        postings.clear();
        // The cursors stand in the order of their offsets, so the postings come out sorted.
        let mut at = 0;
        while let Some(cursor) = cursors.get_mut(at) {
            let has_term = cursor.block.term == term;
            if has_term {
                cursor.block.read_postings(&mut postings)?;
            }
            if has_term && !cursor.advance(store)? {
                cursors.remove(at);
            } else {
                at += 1;
            }
        }
        if !tombstones.is_empty() {
            postings.retain(|offset| !tombstones.contains(offset));
        }
        // A term that only deleted documents had leaves the dictionary: its bytes are deleted text.
        if !postings.is_empty() {
            writer.add_term(store, &term, &postings)?;
        }
    }
    let id = writer.finish(store)?;
    for segment in merged {
        store.remove_segment(segment.id)?;
    }
    store.remove_tombstones(shard, offsets.clone())?;
    // Deleted documents still count: the sum decides about the size class only, and a segment
    // that shrank into a smaller class would be merged again and again.
    let doc_count = merged.iter().map(|segment| segment.doc_count).sum();
    store.put_segment(shard, &Segment { id, offsets, doc_count })
}

/// The terms of a segment, one after the other.
struct SegmentCursor {
    segment_id: i64,
    block: TermBlockReader,
}

impl SegmentCursor {
    /// Stands at the first term; `None` if there is none.
    fn open<S: IndexStore>(store: &S, segment_id: i64) -> Result<Option<SegmentCursor>, S::Error> {
        let Some(bytes) = store.block_after(segment_id, b"")? else { return Ok(None) };
        let mut cursor = SegmentCursor { segment_id, block: TermBlockReader::new(bytes)? };
        Ok(cursor.advance(store)?.then_some(cursor))
    }

    /// Goes to the next term; `false` behind the last.
    fn advance<S: IndexStore>(&mut self, store: &S) -> Result<bool, S::Error> {
        while !self.block.advance()? {
            // `term` is still the last one of the block, and the next block begins behind it.
            match store.block_after(self.segment_id, &self.block.term)? {
                Some(bytes) => self.block = TermBlockReader::new(bytes)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A segment that is being written. Its row comes last, with [`IndexStoreMut::put_segment`].
struct SegmentWriter {
    segment_id: i64,
    block: TermBlockWriter,
}

impl SegmentWriter {
    fn new<S: IndexStoreMut>(store: &S) -> Result<SegmentWriter, S::Error> {
        let segment_id = store.next_segment_id()?;
        Ok(SegmentWriter { segment_id, block: TermBlockWriter::default() })
    }

    /// Adds the next term with its postings, both in order.
    fn add_term<S: IndexStoreMut>(
        &mut self,
        store: &mut S,
        term: &[u8],
        postings: &[u32],
    ) -> Result<(), S::Error> {
        self.block.push(term, postings);
        if self.block.is_full() { self.flush_block(store) } else { Ok(()) }
    }

    fn flush_block<S: IndexStoreMut>(&mut self, store: &mut S) -> Result<(), S::Error> {
        if !self.block.is_empty() {
            self.block.seal();
            store.put_block(self.segment_id, self.block.first_term(), self.block.bytes())?;
            self.block.clear();
        }
        Ok(())
    }

    /// Writes what is left and returns the id of the segment.
    fn finish<S: IndexStoreMut>(mut self, store: &mut S) -> Result<i64, S::Error> {
        self.flush_block(store)?;
        Ok(self.segment_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the newest segments, given by their document counts, should become one.
    fn due_count(doc_counts: &[usize]) -> Option<usize> {
        let segment = |doc_count: &usize| Segment { id: 0, offsets: 0..0, doc_count: *doc_count };
        let segments: Vec<Segment> = doc_counts.iter().map(segment).collect();
        merge_candidates(&segments).map(|due| due.len())
    }

    #[test]
    fn segments_of_one_class_are_merged() {
        assert_eq!(due_count(&[]), None);
        assert_eq!(due_count(&[64; MERGE_FACTOR - 1]), None);
        assert_eq!(due_count(&[64; MERGE_FACTOR]), Some(MERGE_FACTOR));
        assert_eq!(due_count(&[4_096; MERGE_FACTOR]), Some(MERGE_FACTOR));
    }

    #[test]
    fn small_segments_leave_large_one_alone() {
        let mut doc_counts = vec![100_000];
        doc_counts.extend([64; MERGE_FACTOR]);
        assert_eq!(due_count(&doc_counts), Some(MERGE_FACTOR));
        doc_counts.truncate(MERGE_FACTOR);
        assert_eq!(due_count(&doc_counts), None);
    }

    #[test]
    fn number_of_segments_is_bounded() {
        let doc_counts: Vec<usize> =
            (0..=SEGMENTS_MAX).map(|number| if number % 4 == 0 { 1_000 } else { 1 }).collect();
        assert_eq!(due_count(&doc_counts), Some(SEGMENTS_MAX / 4 * 4 + 1));
    }
}
