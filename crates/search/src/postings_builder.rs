//! The postings of one segment while it is in memory: collected document by document, given back
//! term by term.
//!
//! This is the hot path of indexing: it runs for every word of every text. Its tables are made
//! for that: one hash per word, one cache line per lookup, no allocation for a term that is known.

use std::ops::Range;

use crate::tokenizer::tokenize;

/// The terms of some documents of one shard, each document at its offset in the shard.
#[derive(Default)]
pub(crate) struct PostingsBuilder {
    terms: Vec<TermSpan>,
    /// The bytes of all terms, one behind the other.
    term_bytes: Vec<u8>,
    short_terms: TermTable,
    long_terms: TermTable,
    /// Terms met lately, each mixed with the document it was met in. Most words of a long text
    /// are repetitions, and the tables are too large for the processor's cache.
    recent: Vec<u64>,
    docs: Vec<BufferedDoc>,
    /// The term numbers of one document after the other, each number once per document.
    occurrences: Vec<u32>,
}

/// Where a term stands in the bytes of all terms.
struct TermSpan {
    start: u32,
    len: u32,
}

/// Term numbers by hash: a table with open addressing, at most half full.
#[derive(Default)]
struct TermTable {
    slots: Vec<TermSlot>,
    len: usize,
}

/// All that is needed for a term that is met again, so that a lookup waits for memory once.
#[derive(Clone, Copy, Default)]
struct TermSlot {
    hash: u64,
    /// The number of the term, counted from 1; 0 for an empty slot.
    number: u32,
    /// The number of documents there were when the term was met last: it counts once in each.
    last_doc: u32,
}

struct BufferedDoc {
    offset: u32,
    /// Where its terms end among the occurrences; they begin where those of the document before
    /// it end.
    end: usize,
    is_dropped: bool,
}

impl PostingsBuilder {
    /// Begins the next document. Offsets rise.
    pub(crate) fn start_document(&mut self, offset: u32) {
        self.docs.push(BufferedDoc { offset, end: self.occurrences.len(), is_dropped: false });
    }

    /// Adds the terms of a folded text to the document.
    pub(crate) fn add_text(&mut self, folded: &str) {
        tokenize(folded, |term| self.add_term(term));
    }

    /// Adds one term to the document.
    pub(crate) fn add_term(&mut self, term: &str) {
        /// Shorter terms need no comparison: [`hash_term`] gives no two of them the same hash.
        const LONG_LEN: usize = 8;
        let PostingsBuilder {
            terms,
            term_bytes,
            short_terms,
            long_terms,
            recent,
            docs,
            occurrences,
        } = self;
        let hash = hash_term(term.as_bytes());
        // A term of this document may be taken for another only if two terms have one 64-bit
        // hash. That is less likely than a memory fault.
        let met_here = hash ^ (docs.len() as u64).wrapping_mul(MIX);
        let recent_slot = hash as usize % RECENT_LEN;
        if recent.get(recent_slot) == Some(&met_here) {
            return;
        }
        // Allocates with the first term and does nothing afterwards.
        recent.resize(RECENT_LEN, 0);
        recent[recent_slot] = met_here;
        let slot = if term.len() < LONG_LEN {
            short_terms.slot(hash, |_| true)
        } else {
            long_terms
                .slot(hash, |number| terms[number as usize].bytes(term_bytes) == term.as_bytes())
        };
        if slot.number == 0 {
            terms.push(TermSpan { start: term_bytes.len() as u32, len: term.len() as u32 });
            term_bytes.extend(term.as_bytes());
            slot.number = terms.len() as u32;
        }
        // The table of recent terms forgets, so a repetition within the document still arrives
        // here.
        if slot.last_doc != docs.len() as u32 {
            slot.last_doc = docs.len() as u32;
            occurrences.push(slot.number - 1);
            if let Some(doc) = docs.last_mut() {
                doc.end = occurrences.len();
            }
        }
    }

    /// Leaves a document out; whether it was there.
    pub(crate) fn drop_document(&mut self, offset: u32) -> bool {
        // Documents come with rising offsets.
        let found = self.docs.binary_search_by_key(&offset, |doc| doc.offset);
        if let Ok(number) = found {
            self.docs[number].is_dropped = true;
        }
        found.is_ok()
    }

    /// From the first document up to behind the last; `None` if there are none.
    pub(crate) fn offsets(&self) -> Option<Range<u32>> {
        Some(self.docs.first()?.offset..self.docs.last()?.offset + 1)
    }

    pub(crate) fn doc_count(&self) -> usize {
        self.docs.len()
    }

    /// About the bytes it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // 64 for the span of a term and its share of a table that may be a quarter full; 8 for an
        // occurrence now and its posting in `visit_terms`.
        self.term_bytes.len() + 64 * self.terms.len() + 8 * self.occurrences.len()
    }

    /// Visits every term with its postings, both in order.
    pub(crate) fn visit_terms<E>(
        &self,
        mut visit: impl FnMut(&[u8], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        // A counting sort by term number: first where the postings of each term begin, behind
        // those of the terms before it.
        let mut starts = vec![0; self.terms.len() + 1];
        self.occurrences.iter().for_each(|number| starts[*number as usize + 1] += 1);
        for number in 1..starts.len() {
            starts[number] += starts[number - 1];
        }
        // Then the postings themselves. Documents come in the order of their offsets, so the
        // postings of each term are sorted. A dropped document leaves a gap at the end.
        let mut ends = starts.clone();
        let mut postings = vec![0; self.occurrences.len()];
        let mut from = 0;
        for doc in &self.docs {
            for number in &self.occurrences[from..doc.end] {
                if !doc.is_dropped {
                    let end = &mut ends[*number as usize];
                    postings[*end] = doc.offset;
                    *end += 1;
                }
            }
            from = doc.end;
        }
        for number in self.numbers_in_term_order() {
            let postings = &postings[starts[number]..ends[number]];
            if !postings.is_empty() {
                visit(self.terms[number].bytes(&self.term_bytes), postings)?;
            }
        }
        Ok(())
    }

    /// The numbers of all terms, sorted by the bytes of the terms.
    fn numbers_in_term_order(&self) -> impl Iterator<Item = usize> {
        // The first eight bytes decide nearly always, and a big-endian number of them compares as
        // the bytes do.
        let first_bytes = |term: &TermSpan| {
            let bytes = term.bytes(&self.term_bytes);
            let mut first = [0; 8];
            let len = bytes.len().min(8);
            first[..len].copy_from_slice(&bytes[..len]);
            u64::from_be_bytes(first)
        };
        let numbered = self.terms.iter().enumerate();
        let mut order: Vec<(u64, usize)> =
            numbered.map(|(number, term)| (first_bytes(term), number)).collect();
        order.sort_unstable_by(|(first, a), (second, b)| {
            let bytes = |number: usize| self.terms[number].bytes(&self.term_bytes);
            first.cmp(second).then_with(|| bytes(*a).cmp(bytes(*b)))
        });
        order.into_iter().map(|(_, number)| number)
    }
}

impl TermSpan {
    fn bytes<'a>(&self, term_bytes: &'a [u8]) -> &'a [u8] {
        &term_bytes[self.start as usize..(self.start + self.len) as usize]
    }
}

impl TermTable {
    /// The slot of a term, by its hash and whether the term of a number is the same: an empty slot
    /// to be filled if the term is new.
    fn slot(&mut self, hash: u64, is_same: impl Fn(u32) -> bool) -> &mut TermSlot {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        // The number of slots is a power of two. Linear probing ends, because half are empty.
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let TermSlot { hash: other, number: 1.., .. } = self.slots[at]
            && !(other == hash && is_same(self.slots[at].number - 1))
        {
            at = (at + 1) & mask;
        }
        let slot = &mut self.slots[at];
        if slot.number == 0 {
            slot.hash = hash;
            self.len += 1;
        }
        slot
    }

    fn grow(&mut self) {
        const SLOTS_MIN: usize = 4_096;
        let len = (4 * self.slots.len()).max(SLOTS_MIN);
        let slots = std::mem::replace(&mut self.slots, vec![TermSlot::default(); len]);
        // Slots keep their hashes, so no term is read again.
        for slot in slots.into_iter().filter(|slot| slot.number != 0) {
            let mut at = slot.hash as usize & (len - 1);
            while self.slots[at].number != 0 {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = slot;
        }
    }
}

/// Terms that are remembered as met lately: 32 KiB, which fits the processor's first cache.
const RECENT_LEN: usize = 4_096;

/// An odd number without a pattern: multiplied by it, every bit influences those above.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash of a term, eight bytes at a time. Keyword terms store it, so it never changes.
///
/// Terms below eight bytes never collide: no term holds a NUL byte, so their bytes as one number
/// also tell their length, and each step is a bijection.
pub(crate) fn hash_term(term: &[u8]) -> u64 {
    let (chunks, rest) = term.as_chunks::<8>();
    let mut hash = term.len() as u64;
    let mut mix = |bytes: u64| {
        hash = (hash ^ bytes).wrapping_mul(MIX);
        hash ^= hash >> 32;
    };
    chunks.iter().for_each(|chunk| mix(u64::from_le_bytes(*chunk)));
    mix(last_bytes(term, rest));
    hash
}

/// The bytes of a term behind its whole chunks of eight, as a number.
///
/// Terms are short and many: reading two overlapping pieces and shifting is quicker than a copy
/// of a variable number of bytes, which would be a call of `memcpy`.
fn last_bytes(term: &[u8], rest: &[u8]) -> u64 {
    let shift = |bytes: usize| 8 * bytes as u32;
    if let Some(last) = term.last_chunk::<8>() {
        return u64::from_le_bytes(*last).checked_shr(shift(8 - rest.len())).unwrap_or(0);
    }
    if let (Some(first), Some(last)) = (term.first_chunk::<4>(), term.last_chunk::<4>()) {
        let [first, last] = [first, last].map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
        return first | last << shift(term.len() - 4);
    }
    term.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_bytes_are_rest_of_chunks() {
        let term = b"abcdefghijklmnopqrstuvwxyz";
        for len in 0..term.len() {
            let (_, rest) = term[..len].as_chunks::<8>();
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            assert_eq!(last_bytes(&term[..len], rest), u64::from_le_bytes(bytes), "{len}");
        }
    }
}
