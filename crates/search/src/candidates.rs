//! Documents that may match a query, in the order they should be looked at.
//!
//! Three sources take turns: the documents that the index has not reached yet, which were read
//! before; the shards of the index; and, where the index cannot narrow anything down, the
//! documents themselves.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use crate::document::{DocId, DocumentSource};
use crate::index_reader::{IndexReader, overlaps_shard};
use crate::plan::{BooleanQuery, QueryPlan};
use crate::query::Order;
use crate::searcher::CANDIDATES_MAX;
use crate::store::IndexStore;

/// Doc ids fetched from a shard at first. Most pages need no more.
const FIRST_FETCH_LEN: usize = 512;

/// Documents that are read one by one, to spare a prefix lookup of a common word.
const NEAR_LEN: u64 = 256;

/// Where candidates come from.
pub(crate) struct CandidateSources<'a, D, S> {
    pub(crate) documents: &'a D,
    pub(crate) order: Order,
    pub(crate) index: Option<IndexReader<'a, S>>,
    /// `None` where the index cannot narrow anything down and the documents are read through.
    pub(crate) plan: Option<QueryPlan>,
    /// The last document that is indexed and may be seen.
    pub(crate) indexed: DocId,
    pub(crate) unindexed: UnindexedMatches,
    /// How many documents the shards are known to have for a query.
    pub(crate) counts: RefCell<HashMap<(BooleanQuery, u64), usize>>,
}

/// The matches among the documents that the index has not reached.
#[derive(Default)]
pub(crate) struct UnindexedMatches {
    /// For each tier the documents, newest first.
    pub(crate) tiers: Vec<Vec<DocId>>,
    /// Documents for which one of the unindexed ones stands in.
    pub(crate) superseded: HashSet<DocId>,
}

/// A document that may match.
pub(crate) struct CandidateDoc<T> {
    pub(crate) id: DocId,
    /// The document, where it had to be read anyway.
    pub(crate) document: Option<T>,
}

/// The candidates of one tier, one after the other.
pub(crate) struct Candidates<'a, D: DocumentSource, S> {
    sources: &'a CandidateSources<'a, D, S>,
    tier: usize,
    /// The last candidate that was given out.
    done: Option<DocId>,
    ready: VecDeque<CandidateDoc<D::Document>>,
    stages: VecDeque<CandidateStage>,
}

enum CandidateStage {
    Unindexed,
    Shard {
        shard: u64,
        is_begun: bool,
    },
    /// The documents themselves up to and including an id, in the order of the search.
    Scan {
        until: DocId,
    },
}

impl<D, S> CandidateSources<'_, D, S>
where
    D: DocumentSource,
    S: IndexStore<Error = D::Error>,
{
    /// Whether a later document stands in for this one.
    pub(crate) fn is_superseded(&self, id: DocId) -> Result<bool, D::Error> {
        if self.unindexed.superseded.contains(&id) {
            return Ok(true);
        }
        match &self.index {
            Some(index) => index.is_superseded(id),
            None => Ok(false),
        }
    }

    /// How many indexed documents fit a query, counted up to `limit`.
    pub(crate) fn count_docs(&self, query: &BooleanQuery, limit: usize) -> Result<usize, D::Error> {
        // Without an index all documents count as unindexed, and their matches are known already.
        let Some(index) = &self.index else { return Ok(0) };
        let ids = self.ids_after(None);
        let mut total = 0;
        // Counts that the page has found out anyway are used even beyond the limit: they cost
        // nothing.
        for shard in index.shards()?.into_iter().rev() {
            let mut counts = self.counts.borrow_mut();
            let known = counts.entry((query.clone(), shard));
            total += match known {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(_) if total >= limit => break,
                Entry::Vacant(unknown) => {
                    *unknown.insert(index.count_docs(shard, query, &ids, limit - total)?)
                }
            };
        }
        Ok(total.min(limit))
    }

    /// How far to read the documents before the index is asked.
    ///
    /// A prefix lookup gathers all matches of a shard. Where whole words alone fill a page from
    /// the next few documents, reading these is quicker; prefix matches among them are found as
    /// well.
    fn scan_first(
        &self,
        plan: &QueryPlan,
        shards: &[u64],
        tier: usize,
        done: Option<DocId>,
        wanted: usize,
    ) -> Result<Option<DocId>, D::Error> {
        // With several tiers the whole words come first anyway.
        let is_ordered_by_id = plan.tiers.len() == 1 && plan.tiers[0].has_prefix();
        let (Some(index), true, 0) = (&self.index, is_ordered_by_id, tier) else {
            return Ok(None);
        };
        let Range { start, end } = self.ids_after(done);
        let near = if self.order.is_newest_first() {
            end.saturating_sub(NEAR_LEN).max(start)..end
        } else {
            start..end.min(start.saturating_add(NEAR_LEN))
        };
        let mut found = 0;
        for shard in shards.iter().filter(|shard| overlaps_shard(**shard, &near)) {
            let limit = wanted - found;
            let docs = index.matching_docs(*shard, &plan.whole, &near, self.order, limit)?;
            found += docs.len();
            if found >= wanted {
                // Whole words alone fill the page up to this document, so reading stops there.
                return Ok(docs.last().copied());
            }
        }
        Ok(None)
    }

    /// The ids of the indexed documents after `done`, in the order of the search.
    fn ids_after(&self, done: Option<DocId>) -> Range<DocId> {
        match done {
            None => 0..self.indexed + 1,
            Some(done) if self.order.is_newest_first() => 0..done.min(self.indexed + 1),
            Some(done) => done + 1..self.indexed + 1,
        }
    }
}

impl<'a, D, S> Candidates<'a, D, S>
where
    D: DocumentSource,
    S: IndexStore<Error = D::Error>,
{
    /// The candidates of a tier that come after `done`. The caller will look at about `wanted`.
    pub(crate) fn new(
        sources: &'a CandidateSources<'a, D, S>,
        tier: usize,
        done: Option<DocId>,
        wanted: usize,
    ) -> Result<Candidates<'a, D, S>, D::Error> {
        let is_newest_first = sources.order.is_newest_first();
        let mut stages = VecDeque::new();
        match (&sources.index, &sources.plan) {
            (Some(index), Some(plan)) => {
                let mut shards = index.shards()?;
                // The order of the stages is the order of the documents: newest shard first, or
                // oldest.
                if is_newest_first {
                    shards.reverse();
                }
                let near = sources.scan_first(plan, &shards, tier, done, wanted)?;
                stages.extend(near.map(|until| CandidateStage::Scan { until }));
                let shards = shards.into_iter();
                stages.extend(shards.map(|shard| CandidateStage::Shard { shard, is_begun: false }));
            }
            // Documents that are read through have no further tiers.
            (Some(_), None) if tier == 0 => stages.push_back(CandidateStage::Scan {
                until: if is_newest_first { 0 } else { sources.indexed },
            }),
            _ => {}
        }
        // What is not indexed is newer than everything that is.
        if is_newest_first {
            stages.push_front(CandidateStage::Unindexed);
        } else {
            stages.push_back(CandidateStage::Unindexed);
        }
        Ok(Candidates { sources, tier, done, ready: VecDeque::new(), stages })
    }

    pub(crate) fn next(&mut self) -> Result<Option<CandidateDoc<D::Document>>, D::Error> {
        loop {
            if let Some(candidate) = self.ready.pop_front() {
                self.done = Some(candidate.id);
                return Ok(Some(candidate));
            }
            // A stage gives some candidates at a time and comes back to the front with its rest,
            // so a page that fills early reads little.
            let Some(stage) = self.stages.pop_front() else { return Ok(None) };
            if let Some(rest) = self.fetch_stage(stage)? {
                self.stages.push_front(rest);
            }
        }
    }

    /// Gets the next candidates of a stage ready; gives back what is left of it.
    fn fetch_stage(&mut self, stage: CandidateStage) -> Result<Option<CandidateStage>, D::Error> {
        match stage {
            CandidateStage::Unindexed => {
                self.fetch_unindexed();
                Ok(None)
            }
            CandidateStage::Shard { shard, is_begun } => self.fetch_shard(shard, is_begun),
            CandidateStage::Scan { until } => self.fetch_scan(until),
        }
    }

    fn fetch_unindexed(&mut self) {
        // The list is newest first, so the other order walks it backwards. A later page leaves out
        // what came before its cursor.
        let docs = self.sources.unindexed.tiers.get(self.tier).map_or(&[][..], Vec::as_slice);
        let done = self.done;
        if self.sources.order.is_newest_first() {
            let rest = docs.iter().filter(|id| done.is_none_or(|done| **id < done));
            self.ready.extend(rest.copied().map(CandidateDoc::unread));
        } else {
            let rest = docs.iter().rev().filter(|id| done.is_none_or(|done| **id > done));
            self.ready.extend(rest.copied().map(CandidateDoc::unread));
        }
    }

    fn fetch_shard(
        &mut self,
        shard: u64,
        is_begun: bool,
    ) -> Result<Option<CandidateStage>, D::Error> {
        let sources = self.sources;
        let (Some(index), Some(plan)) = (&sources.index, &sources.plan) else { return Ok(None) };
        // `done` has moved on with every candidate given out, so the scan before this stage and
        // an earlier fetch of this shard leave nothing to be found twice.
        let ids = sources.ids_after(self.done);
        let Some(query) = plan.tiers.get(self.tier) else { return Ok(None) };
        if ids.is_empty() || !overlaps_shard(shard, &ids) {
            return Ok(None);
        }
        // Every prefix lookup gathers all matches of the shard, so one lookup takes them all.
        let limit = if is_begun || query.has_prefix() { CANDIDATES_MAX } else { FIRST_FETCH_LEN };
        let docs = index.matching_docs(shard, query, &ids, sources.order, limit)?;
        let is_whole = docs.len() < limit;
        // The total of the first page needs this number again.
        if is_whole && ids == sources.ids_after(None) {
            let known = (query.clone(), shard);
            sources.counts.borrow_mut().insert(known, docs.len());
        }
        self.ready.extend(docs.into_iter().map(CandidateDoc::unread));
        Ok((!is_whole).then_some(CandidateStage::Shard { shard, is_begun: true }))
    }

    fn fetch_scan(&mut self, until: DocId) -> Result<Option<CandidateStage>, D::Error> {
        let sources = self.sources;
        let Range { start, end } = sources.ids_after(self.done);
        let ids = if sources.order.is_newest_first() {
            start.max(until)..end
        } else {
            start..end.min(until + 1)
        };
        if ids.is_empty() {
            return Ok(None);
        }
        let page = sources.documents.read_page(ids.start..=ids.end - 1, sources.order)?;
        // The source gives as many as fit its own page. Only an empty one is the end.
        let is_over = page.is_empty();
        self.ready.extend(page.into_iter().map(|document| CandidateDoc {
            id: sources.documents.doc_id(&document),
            document: Some(document),
        }));
        Ok((!is_over).then_some(CandidateStage::Scan { until }))
    }
}

impl<T> CandidateDoc<T> {
    fn unread(id: DocId) -> CandidateDoc<T> {
        CandidateDoc { id, document: None }
    }
}
