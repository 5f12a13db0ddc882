//! A search: candidates are read, compared with the query, ranked and cut into pages.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::candidates::{CandidateDoc, CandidateSources, Candidates, UnindexedMatches};
use crate::cursor::SearchCursor;
use crate::document::{DocId, DocumentSource, Hit, TopDocs};
use crate::fold::fold;
use crate::index_reader::IndexReader;
use crate::plan::{BooleanQuery, TIERS_MAX, plan_query, tier_of};
use crate::query::{HITS_MAX, Order, Query};
use crate::score::score_texts;
use crate::snippet::cut_snippet;
use crate::store::IndexStore;

/// Candidates one search looks at. What lies beyond is older and reached through the cursor.
pub(crate) const CANDIDATES_MAX: usize = 50_000;

/// Whole-word matches up to which prefix matches are counted too. To count them is to gather them
/// all, which a common word is not worth.
const PREFIXES_COUNTED_MAX: usize = 1_000;

/// Hits that are ranked against each other. The next so many are ranked after them: sorting more
/// would mean reading more before anything can be shown.
const WINDOW_LEN: usize = 64;

/// An index, and how far it has got.
pub struct IndexSnapshot<'s, S> {
    pub store: &'s S,
    /// Everything up to this document is indexed. What comes after it is read through.
    pub indexed: DocId,
}

/// Answers a query. Without an index all documents are read through.
pub fn search<D, S>(
    documents: &D,
    index: Option<IndexSnapshot<'_, S>>,
    query: &Query<'_>,
) -> Result<TopDocs<D::Document>, D::Error>
where
    D: DocumentSource,
    S: IndexStore<Error = D::Error>,
{
    Searcher { documents, query }.run(index)
}

struct Searcher<'a, D> {
    documents: &'a D,
    query: &'a Query<'a>,
}

/// A match before it is decided whether it will be shown.
struct ScoredDoc {
    id: DocId,
    score: f64,
}

/// A page of matches, and how it came about.
struct ScoredPage {
    docs: Vec<ScoredDoc>,
    next: Option<SearchCursor>,
    /// Matches seen, shown or not.
    seen: usize,
    /// Whether the limit of candidates ended it.
    is_cut: bool,
}

impl<D: DocumentSource> Searcher<'_, D> {
    fn run<S>(&self, index: Option<IndexSnapshot<'_, S>>) -> Result<TopDocs<D::Document>, D::Error>
    where
        S: IndexStore<Error = D::Error>,
    {
        let start = self.query.cursor;
        // Every page sees the documents that the first one saw, however many were added since.
        let as_of = match &start {
            Some(start) => start.as_of,
            None => self.documents.last_id()?,
        };
        let sources = self.candidate_sources(index, as_of)?;
        let from = start.unwrap_or(SearchCursor {
            as_of,
            tier: 0,
            done: None,
            shown: 0,
            total: 0,
            total_is_exact: false,
        });
        let page = self.fill_page(&sources, from)?;
        // Counted once: every page of a search gives the same total.
        let (total, total_is_exact) = match &start {
            Some(start) => (start.total as usize, start.total_is_exact),
            None => self.count_total(&sources, &page)?,
        };
        let next =
            page.next.map(|next| SearchCursor { total: total as u64, total_is_exact, ..next });
        let mut hits = Vec::with_capacity(page.docs.len());
        for scored in page.docs {
            hits.extend(self.read_hit(scored)?);
        }
        // A total at the limit means that counting stopped there.
        let complete = !page.is_cut && total < CANDIDATES_MAX;
        Ok(TopDocs { hits, total, total_is_exact, complete, next })
    }

    /// Fills a page window by window, tier after tier.
    ///
    /// A cursor points before a window and counts how many hits of it were shown, because the
    /// order within a window is known only when all of it was scored.
    fn fill_page<S>(
        &self,
        sources: &CandidateSources<'_, D, S>,
        from: SearchCursor,
    ) -> Result<ScoredPage, D::Error>
    where
        S: IndexStore<Error = D::Error>,
    {
        let limit = self.query.limit.clamp(1, HITS_MAX);
        // Ordered by id, each match is final at once; ranking needs a window to sort.
        let window_len = if self.query.order == Order::Best { WINDOW_LEN } else { 1 };
        let mut page = ScoredPage { docs: Vec::new(), next: None, seen: 0, is_cut: false };
        let mut shown = from.shown as usize;
        let mut examined = 0;
        for tier in from.tier as usize..TIERS_MAX {
            let mut done = if tier as u64 == from.tier { from.done } else { None };
            // One more than the page holds, to learn whether there is a next one.
            let mut candidates = Candidates::new(sources, tier, done, limit + 1)?;
            loop {
                // A cursor can only point here: the window before it is final, this one is not
                // sorted yet.
                let before = done;
                let mut window = Vec::new();
                let mut is_exhausted = false;
                while window.len() < window_len && !page.is_cut {
                    let Some(candidate) = candidates.next()? else {
                        is_exhausted = true;
                        break;
                    };
                    done = Some(candidate.id);
                    examined += 1;
                    // Bounds the work of one request for a query that has many candidates and few
                    // matches.
                    page.is_cut = examined >= CANDIDATES_MAX;
                    window.extend(self.score_candidate(sources, candidate)?);
                }
                page.seen += window.len();
                // Stable: of equal scores the one that was visited first stays first.
                window.sort_by(|a: &ScoredDoc, b| b.score.total_cmp(&a.score));
                for (index, scored) in window.into_iter().enumerate().skip(shown) {
                    // One hit more than fits proves that there is a next page.
                    if page.docs.len() == limit {
                        let (tier, shown) = (tier as u64, index as u64);
                        page.next = Some(SearchCursor { tier, done: before, shown, ..from });
                        // The page is full, so the limit of candidates has cut off nothing.
                        page.is_cut = false;
                        return Ok(page);
                    }
                    page.docs.push(scored);
                }
                // Only the first window of a page can have hits that were shown before.
                shown = 0;
                if page.is_cut {
                    page.next = Some(SearchCursor { tier: tier as u64, done, shown: 0, ..from });
                    return Ok(page);
                }
                if is_exhausted {
                    break;
                }
            }
        }
        Ok(page)
    }

    /// Reads a candidate, compares it with the query and scores it.
    fn score_candidate<S>(
        &self,
        sources: &CandidateSources<'_, D, S>,
        candidate: CandidateDoc<D::Document>,
    ) -> Result<Option<ScoredDoc>, D::Error>
    where
        S: IndexStore<Error = D::Error>,
    {
        let id = candidate.id;
        // A scan has read the document already.
        let document = match candidate.document {
            Some(document) => Some(document),
            None => self.documents.read_document(id)?,
        };
        let Some(document) = document else { return Ok(None) };
        let Some(folded) = self.matching_texts(&document)? else { return Ok(None) };
        // After the comparison, which most candidates of a scan fail: this asks the store.
        if sources.is_superseded(id)? {
            return Ok(None);
        }
        let score = self.documents.boost(&document) + score_texts(&folded, self.query.text);
        Ok(Some(ScoredDoc { id, score }))
    }

    /// The folded texts of a document, if it matches.
    fn matching_texts(&self, document: &D::Document) -> Result<Option<Vec<String>>, D::Error> {
        // Filters before texts: folding is the expensive part.
        if !self.documents.accepts(document)? {
            return Ok(None);
        }
        let texts = self.documents.texts(document);
        let folded: Vec<String> = texts.iter().map(|text| fold(text)).collect();
        Ok(self.query.text.matches(&folded).then_some(folded))
    }

    fn candidate_sources<'s, S>(
        &'s self,
        index: Option<IndexSnapshot<'s, S>>,
        as_of: DocId,
    ) -> Result<CandidateSources<'s, D, S>, D::Error>
    where
        S: IndexStore<Error = D::Error>,
    {
        let order = self.query.order;
        let (plan, indexed) = match &index {
            Some(index) => {
                let plan = plan_query(&self.query.text.lookups, &self.query.keywords, order);
                // A later page may meet an index that has gone on; documents behind `as_of` stay
                // out.
                (plan, index.indexed.min(as_of))
            }
            None => (None, 0),
        };
        // Documents that are read through because the index cannot help stand in one tier, so the
        // unindexed ones have to as well.
        let has_tiers = index.is_none() || plan.is_some();
        let unindexed = self.read_unindexed(indexed, as_of, has_tiers)?;
        let (documents, counts) = (self.documents, RefCell::default());
        let index = index.map(|index| IndexReader::new(index.store));
        Ok(CandidateSources { documents, order, index, plan, indexed, unindexed, counts })
    }

    /// Reads through what the index has not reached, newest first, so that a document is met
    /// before the one it stands in for.
    fn read_unindexed(
        &self,
        indexed: DocId,
        as_of: DocId,
        has_tiers: bool,
    ) -> Result<UnindexedMatches, D::Error> {
        let tiers = vec![Vec::new(); TIERS_MAX];
        let mut unindexed = UnindexedMatches { tiers, superseded: HashSet::new() };
        let mut end = as_of + 1;
        while end > indexed + 1 {
            let page = self.documents.read_page(indexed + 1..=end - 1, Order::Newest)?;
            for document in &page {
                let id = self.documents.doc_id(document);
                // The next page of documents ends before the oldest one read so far.
                end = id;
                // Noted even if the newer document does not match: the older one is out of date
                // either way.
                unindexed.superseded.extend(self.documents.supersedes(document)?);
                if unindexed.superseded.contains(&id) {
                    continue;
                }
                let Some(folded) = self.matching_texts(document)? else { continue };
                let is_whole = self.query.text.matches_whole_words(&folded);
                let tier = if has_tiers { tier_of(self.query.order, is_whole) } else { 0 };
                unindexed.tiers[tier].push(id);
            }
            if page.is_empty() {
                break;
            }
        }
        Ok(unindexed)
    }

    /// How many documents match, and whether that is all of them: counted where the index can
    /// tell without comparing texts, else as many as were seen.
    fn count_total<S>(
        &self,
        sources: &CandidateSources<'_, D, S>,
        page: &ScoredPage,
    ) -> Result<(usize, bool), D::Error>
    where
        S: IndexStore<Error = D::Error>,
    {
        // Everything was seen, so the number is known without asking the index.
        if page.next.is_none() {
            return Ok((page.seen, true));
        }
        let unindexed: usize = sources.unindexed.tiers.iter().map(Vec::len).sum();
        let Some(index) = &sources.index else { return Ok((unindexed, true)) };
        // An unindexed document that stands in for an indexed one would make the count too high.
        let is_countable = self.query.text.lookups.are_exact
            && self.query.keywords_are_exact
            && sources.unindexed.superseded.is_empty();
        let Some(plan) = sources.plan.as_ref().filter(|_| is_countable) else {
            return Ok((page.seen.max(unindexed), false));
        };
        let whole = sources.count_docs(&plan.whole, CANDIDATES_MAX)?;
        // A prefix lookup gathers all matches of each shard. It is worth its cost for a rare word
        // in a small log only.
        let is_expensive = plan.tiers.iter().any(BooleanQuery::has_prefix)
            && (whole > PREFIXES_COUNTED_MAX || index.shards()?.len() > 1);
        let mut counted = if is_expensive { whole } else { 0 };
        for tier in plan.tiers.iter().filter(|_| !is_expensive) {
            counted += sources.count_docs(tier, CANDIDATES_MAX - counted)?;
        }
        Ok(((unindexed + counted).max(page.seen), !is_expensive && counted < CANDIDATES_MAX))
    }

    /// A match as it is shown; `None` if it was deleted in the meantime.
    fn read_hit(&self, scored: ScoredDoc) -> Result<Option<Hit<D::Document>>, D::Error> {
        let Some(document) = self.documents.read_document(scored.id)? else { return Ok(None) };
        let snippet = cut_snippet(&self.documents.texts(&document), self.query.text);
        Ok(Some(Hit { document, score: scored.score, snippet }))
    }
}
