//! Reading the index: which documents fit a boolean query.

use std::ops::Range;

use crate::document::DocId;
use crate::keyword::EVERY_DOCUMENT;
use crate::plan::{BooleanQuery, Clause};
use crate::query::Order;
use crate::segment::Segment;
use crate::store::IndexStore;

/// Doc ids per shard. A prefix query gathers all matches of a shard at once, which takes some
/// milliseconds at this size; and writing never merges more than one shard, so neither cost grows
/// with the log.
pub(crate) const SHARD_DOCS: u64 = 1 << 18;

/// The shard of a document.
pub(crate) fn shard_of(id: DocId) -> u64 {
    id / SHARD_DOCS
}

/// Where in its shard a document is.
pub(crate) fn offset_of(id: DocId) -> u32 {
    (id % SHARD_DOCS) as u32
}

/// Whether doc ids of a shard lie in `ids`.
pub(crate) fn overlaps_shard(shard: u64, ids: &Range<DocId>) -> bool {
    let (start, end) = (shard * SHARD_DOCS, (shard + 1) * SHARD_DOCS);
    start < ids.end && end > ids.start
}

/// What an index holds, as one snapshot of its store shows it.
pub struct IndexReader<'s, S> {
    store: &'s S,
}

impl<'s, S: IndexStore> IndexReader<'s, S> {
    pub fn new(store: &'s S) -> IndexReader<'s, S> {
        IndexReader { store }
    }

    /// Documents within `ids` that have a keyword term of each list, oldest first: of each shard at
    /// most `limit`.
    pub fn docs_with_keywords(
        &self,
        lists: Vec<Vec<String>>,
        ids: &Range<DocId>,
        limit: usize,
    ) -> Result<Vec<DocId>, S::Error> {
        let query = BooleanQuery::with_keywords(lists);
        let mut docs = Vec::new();
        for shard in self.shards()? {
            docs.extend(self.matching_docs(shard, &query, ids, Order::Oldest, limit)?);
        }
        Ok(docs)
    }

    /// The shards there are, oldest first.
    pub(crate) fn shards(&self) -> Result<Vec<u64>, S::Error> {
        self.store.shards()
    }

    /// Up to `limit` documents of a shard within `ids` that fit a query, in order.
    pub(crate) fn matching_docs(
        &self,
        shard: u64,
        query: &BooleanQuery,
        ids: &Range<DocId>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<DocId>, S::Error> {
        let first = shard * SHARD_DOCS;
        let mut segments = self.store.segments(shard)?;
        if order.is_newest_first() {
            segments.reverse();
        }
        // A superseded document keeps its postings until the next merge.
        let tombstones = self.store.tombstones(shard)?;
        let mut found = Vec::new();
        // Segment by segment, so that a full page needs no look at older segments.
        for segment in segments {
            let start = first + u64::from(segment.offsets.start);
            let end = first + u64::from(segment.offsets.end);
            if start >= ids.end || end <= ids.start {
                continue;
            }
            let mut postings = self.postings(&segment, query)?;
            postings.retain(|offset| !tombstones.contains(offset));
            let docs = postings.into_iter().map(|offset| first + u64::from(offset));
            // A segment at the edge of the range also has documents outside it.
            let docs = docs.filter(|id| ids.contains(id));
            let room = limit - found.len();
            if order.is_newest_first() {
                found.extend(docs.rev().take(room));
            } else {
                found.extend(docs.take(room));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// How many documents of a shard within `ids` fit a query, counted up to `limit`.
    pub(crate) fn count_docs(
        &self,
        shard: u64,
        query: &BooleanQuery,
        ids: &Range<DocId>,
        limit: usize,
    ) -> Result<usize, S::Error> {
        Ok(self.matching_docs(shard, query, ids, Order::Newest, limit)?.len())
    }

    /// Whether the index has a document.
    pub(crate) fn has_document(&self, id: DocId) -> Result<bool, S::Error> {
        let any = BooleanQuery::with_keywords(vec![vec![EVERY_DOCUMENT.to_owned()]]);
        Ok(self.count_docs(shard_of(id), &any, &(id..id + 1), 1)? > 0)
    }

    /// Whether a later document stands in for this one.
    pub(crate) fn is_superseded(&self, id: DocId) -> Result<bool, S::Error> {
        self.store.is_superseded(id)
    }

    /// The offsets of a segment that fit a query, in order.
    fn postings(&self, segment: &Segment, query: &BooleanQuery) -> Result<Vec<u32>, S::Error> {
        let mut postings = self.postings_of_all(segment, &query.must)?;
        // Looked up only if there is a document to leave out.
        if !postings.is_empty() && !query.must_not_all.is_empty() {
            let excluded = self.postings_of_all(segment, &query.must_not_all)?;
            retain_sorted(&mut postings, &excluded, false);
        }
        Ok(postings)
    }

    /// The offsets at which all clauses hold, in order.
    fn postings_of_all(&self, segment: &Segment, clauses: &[Clause]) -> Result<Vec<u32>, S::Error> {
        let mut all: Option<Vec<u32>> = None;
        for clause in clauses {
            let postings = self.postings_of(segment, clause)?;
            match &mut all {
                Some(all) => retain_sorted(all, &postings, true),
                None => all = Some(postings),
            }
            // One term that the segment does not have spares the lookup of the others.
            if all.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        Ok(all.unwrap_or_default())
    }

    /// The offsets at which a clause holds, in order.
    fn postings_of(&self, segment: &Segment, clause: &Clause) -> Result<Vec<u32>, S::Error> {
        let mut postings = Vec::new();
        match clause {
            Clause::Term(term) => {
                segment.read_term(self.store, term, &mut postings)?;
                return Ok(postings);
            }
            Clause::Prefix(prefix) => segment.read_prefix(self.store, prefix, &mut postings)?,
            Clause::AnyOf(terms) => {
                for term in terms {
                    segment.read_term(self.store, term, &mut postings)?;
                }
            }
        }
        // The lists of several terms stand one behind the other and overlap.
        postings.sort_unstable();
        postings.dedup();
        Ok(postings)
    }
}

/// Leaves only those offsets that are, or are not, in another list; both lists are sorted.
fn retain_sorted(postings: &mut Vec<u32>, others: &[u32], in_both: bool) {
    let mut others = others.iter().peekable();
    postings.retain(|offset| {
        // Both lists are walked once, side by side.
        while others.next_if(|other| *other < offset).is_some() {}
        (others.peek() == Some(&offset)) == in_both
    });
}
