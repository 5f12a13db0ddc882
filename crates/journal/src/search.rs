//! Finding what was ever said, done or printed.
//!
//! Candidates come from the full-text index, newest first; what the index has not reached yet,
//! and what no index can answer, is read through. Each candidate that is shown was read and
//! compared with the query, so every store gives the same hits, and a stale or damaged index can
//! cost time but not truth.
//!
//! Not here: what an event offers to search and the keys it has (`event`), the file the index is
//! in (`derived`).

mod query; // what is asked and answered
mod fold; // text as it is compared
mod words; // what a word is
mod terms; // the words of a query
mod filter; // the typed filters
mod tags; // tokens for filters and keys
mod expression; // a query as the index takes it
mod gathering; // the words of events on their way into the index
mod leaf; // some words with their places, as they are kept
mod stretch; // leaves of events that were indexed together
mod index; // feeding and asking the index
mod forget; // following what was deleted
mod candidates; // events that may match, in order
mod score; // how much a text is about the words
mod snippet; // the piece that is shown
mod cursor; // from page to page
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use event::{EventId, EventKey, SessionId};

use crate::backlog::Fresh;
use crate::derived::{Derived, Failure};
use crate::{ReadError, Recorded};
use candidates::{Candidate, Candidates, Sources, Tail};
use cursor::Cursor;
use expression::{Expression, LISTS_MAX};
use filter::Filter;
use index::Index;
use terms::Terms;

pub(crate) use forget::forget;
pub(crate) use index::{Direction, feed};
pub use query::{Found, HITS_DEFAULT, HITS_MAX, Hit, Match, Order, Query};

/// Candidates one search looks at. What lies beyond is older and reached through the cursor.
const CANDIDATES_MAX: usize = 50_000;

/// Hits up to which beginnings are counted too. To count them is to gather them all, which a
/// common word is not worth.
const BEGINNINGS_COUNTED_MAX: usize = 1_000;

/// Hits that are ranked against each other. The next so many are ranked after them: sorting more
/// would mean reading more before anything can be shown.
const WINDOW_LEN: usize = 64;

/// What search needs of a log.
pub(crate) trait Corpus {
    /// The last position that is committed; 0 for an empty log.
    fn tail(&self) -> Result<u64, ReadError>;

    /// How many sessions were deleted so far, and which.
    fn deletions(&self) -> Result<u64, ReadError>;
    fn deleted(&self) -> Result<Vec<SessionId>, ReadError>;

    /// Events between two positions, both included: as many as fit a page, and at least one if
    /// there is any.
    fn page(
        &self,
        range: RangeInclusive<u64>,
        direction: Direction,
    ) -> Result<Vec<Recorded>, ReadError>;

    /// Events from a position on that are at hand without reading: a run without a gap, empty if
    /// the first has to be read. Each is given once.
    fn fresh(&self, _from: u64) -> Vec<Fresh> {
        Vec::new()
    }

    /// The event at a position, if it was not deleted.
    fn at(&self, position: u64) -> Result<Option<Recorded>, ReadError> {
        Ok(self.page(position..=position, Direction::OldestFirst)?.pop())
    }

    /// Where a session's own event is.
    fn position(&self, session_id: &SessionId, id: &EventId) -> Result<Option<u64>, ReadError>;

    /// The project a session belongs to.
    fn project(&self, session_id: &SessionId) -> Result<Option<String>, ReadError>;

    /// The session and those it was forked from, each with the last `seq` of it that the session
    /// shows.
    fn lineage(&self, session_id: &SessionId) -> Result<Vec<(SessionId, u64)>, ReadError>;
}

/// Answers a query. Without derived data the whole log is read through.
pub(crate) fn search(
    corpus: &dyn Corpus,
    derived: Option<&Derived>,
    query: &Query,
) -> Result<Found, ReadError> {
    let terms = Terms::read(&query.text, query.mode);
    if terms.is_empty() {
        return Ok(Found { total_is_exact: true, complete: true, ..Found::default() });
    }
    let search = Search { corpus, query, terms, filter: Filter::of(query, corpus)? };
    with_index(derived, "search", |index| search.run(index))
}

/// The events of a session, inherited ones included, that a key names, oldest first.
pub(crate) fn find(
    corpus: &dyn Corpus,
    derived: Option<&Derived>,
    session_id: &SessionId,
    key: &EventKey,
) -> Result<Vec<Recorded>, ReadError> {
    let lineage = corpus.lineage(session_id)?;
    let is_it = |recorded: &Recorded| {
        let event = &recorded.event;
        lineage
            .iter()
            .any(|(session_id, up_to)| *session_id == event.session_id && event.seq <= *up_to)
            && event.keys().contains(key)
    };
    with_index(derived, "search", |index| {
        let mut found = Vec::new();
        let mut indexed = 0;
        if let Some(index) = index {
            indexed = index.state()?.indexed;
            let tags = lineage.iter().map(|(session_id, _)| tags::key(session_id, key));
            let expression = Expression::any_of(tags.collect());
            for part in index.parts()? {
                let range = 0..indexed + 1;
                let direction = Direction::OldestFirst;
                for position in
                    index.positions(part, &expression, &range, direction, CANDIDATES_MAX)?
                {
                    found.extend(corpus.at(position)?.filter(is_it));
                }
            }
        }
        loop {
            let page = corpus.page(indexed + 1..=u64::MAX, Direction::OldestFirst)?;
            let Some(last) = page.last() else { return Ok(found) };
            indexed = last.position;
            found.extend(page.into_iter().filter(is_it));
        }
    })
}

fn with_index<T>(
    derived: Option<&Derived>,
    action: &'static str,
    ask: impl Fn(Option<Index<'_>>) -> Result<T, Failure>,
) -> Result<T, ReadError> {
    match derived {
        Some(derived) => derived.read(action, |connection| ask(Some(Index::new(connection)))),
        None => ask(None).map_err(|failure| match failure {
            Failure::Read(error) => error,
            Failure::Sqlite(_) | Failure::Replaced => {
                unreachable!("without an index there is no database")
            }
        }),
    }
}

/// A query made ready.
struct Search<'a> {
    corpus: &'a dyn Corpus,
    query: &'a Query,
    terms: Terms,
    filter: Filter<'a>,
}

/// A hit before it is decided that it will be shown.
struct Ranked {
    position: u64,
    score: f64,
}

/// A page and how it came about.
struct Page {
    hits: Vec<Ranked>,
    next: Option<Cursor>,
    /// Hits seen, shown or not.
    seen: usize,
    /// Whether the limit of candidates ended it.
    is_cut: bool,
}

impl Search<'_> {
    fn run(&self, index: Option<Index<'_>>) -> Result<Found, Failure> {
        let start = match &self.query.cursor {
            Some(cursor) => Some(Cursor::decode(cursor, self.query)?),
            None => None,
        };
        let as_of = match &start {
            Some(start) => start.as_of,
            None => self.corpus.tail()?,
        };
        let sources = self.sources(index, as_of)?;
        let from = start.unwrap_or(Cursor {
            as_of,
            list: 0,
            done: None,
            shown: 0,
            total: 0,
            total_is_exact: false,
        });
        let page = self.page(&sources, from)?;
        let (total, total_is_exact) = match &start {
            Some(start) => (start.total as usize, start.total_is_exact),
            None => self.total(&sources, &page)?,
        };
        let next = page
            .next
            .map(|next| Cursor { total: total as u64, total_is_exact, ..next }.encode(self.query));
        let mut hits = Vec::with_capacity(page.hits.len());
        for ranked in page.hits {
            hits.extend(self.hit(ranked)?);
        }
        let complete = !page.is_cut && total < CANDIDATES_MAX;
        Ok(Found { hits, total, total_is_exact, complete, next })
    }

    /// Fills a page window by window.
    fn page(&self, sources: &Sources<'_>, from: Cursor) -> Result<Page, Failure> {
        let limit = self.query.limit.clamp(1, HITS_MAX);
        let window_len = if self.query.order == Order::Best { WINDOW_LEN } else { 1 };
        let mut page = Page { hits: Vec::new(), next: None, seen: 0, is_cut: false };
        let mut shown = from.shown as usize;
        let mut examined = 0;
        for list in from.list as usize..LISTS_MAX {
            let mut done = if list as u64 == from.list { from.done } else { None };
            let mut candidates = Candidates::new(sources, list, done, limit + 1)?;
            loop {
                let before = done;
                let mut window = Vec::new();
                let mut is_exhausted = false;
                while window.len() < window_len && !page.is_cut {
                    let Some(candidate) = candidates.next()? else {
                        is_exhausted = true;
                        break;
                    };
                    done = Some(candidate.position);
                    examined += 1;
                    page.is_cut = examined >= CANDIDATES_MAX;
                    window.extend(self.look(sources, candidate)?);
                }
                page.seen += window.len();
                window.sort_by(|a: &Ranked, b| b.score.total_cmp(&a.score));
                for (index, ranked) in window.into_iter().enumerate().skip(shown) {
                    if page.hits.len() == limit {
                        let (list, shown) = (list as u64, index as u64);
                        page.next = Some(Cursor { list, done: before, shown, ..from });
                        page.is_cut = false;
                        return Ok(page);
                    }
                    page.hits.push(ranked);
                }
                shown = 0;
                if page.is_cut {
                    page.next = Some(Cursor { list: list as u64, done, shown: 0, ..from });
                    return Ok(page);
                }
                if is_exhausted {
                    break;
                }
            }
        }
        Ok(page)
    }

    /// Reads a candidate and compares it.
    fn look(&self, sources: &Sources<'_>, candidate: Candidate) -> Result<Option<Ranked>, Failure> {
        let position = candidate.position;
        let recorded = match candidate.recorded {
            Some(recorded) => Some(recorded),
            None => self.corpus.at(position)?,
        };
        let Some(recorded) = recorded else { return Ok(None) };
        let Some(folded) = self.matching_texts(&recorded)? else { return Ok(None) };
        if sources.is_replaced(position)? {
            return Ok(None);
        }
        let score = score::score(&recorded.event.kind, &folded, &self.terms);
        Ok(Some(Ranked { position, score }))
    }

    /// The folded texts of an event that the query is about.
    fn matching_texts(&self, recorded: &Recorded) -> Result<Option<Vec<String>>, ReadError> {
        if !self.filter.lets_through(&recorded.event, self.corpus)? {
            return Ok(None);
        }
        let texts = recorded.event.search_texts();
        let folded: Vec<String> = texts.iter().map(|text| fold::fold(text)).collect();
        Ok(self.terms.stand_in(&folded).then_some(folded))
    }

    fn sources<'s>(&'s self, index: Option<Index<'s>>, as_of: u64) -> Result<Sources<'s>, Failure> {
        let order = self.query.order;
        let direction = match order {
            Order::Best | Order::Newest => Direction::NewestFirst,
            Order::Oldest => Direction::OldestFirst,
        };
        let (expressions, indexed) = match &index {
            Some(index) => {
                let state = index.state()?;
                let lookups = &self.terms.lookups;
                let expressions = expression::expressions(lookups, &self.filter, &state, order);
                (expressions, state.indexed.min(as_of))
            }
            None => (None, 0),
        };
        let has_lists = index.is_none() || expressions.is_some();
        let tail = self.read_tail(indexed, as_of, has_lists)?;
        let counted = RefCell::default();
        Ok(Sources { corpus: self.corpus, direction, index, expressions, indexed, tail, counted })
    }

    /// Reads through what the index has not reached, newest first, so that a fuller account is
    /// met before what it stands in for.
    fn read_tail(&self, indexed: u64, as_of: u64, has_lists: bool) -> Result<Tail, ReadError> {
        let mut tail = Tail { lists: vec![Vec::new(); LISTS_MAX], replaced: HashSet::new() };
        let mut end = as_of + 1;
        while end > indexed + 1 {
            let page = self.corpus.page(indexed + 1..=end - 1, Direction::NewestFirst)?;
            for recorded in &page {
                end = recorded.position;
                let event = &recorded.event;
                if let Some(first) = event.amends() {
                    tail.replaced.extend(self.corpus.position(&event.session_id, &first)?);
                }
                if tail.replaced.contains(&recorded.position) {
                    continue;
                }
                let Some(folded) = self.matching_texts(recorded)? else { continue };
                let is_whole = self.terms.are_whole_in(&folded);
                let list = expression::list_of(self.query.order, is_whole);
                tail.lists[if has_lists { list } else { 0 }].push(recorded.position);
            }
            if page.is_empty() {
                break;
            }
        }
        Ok(tail)
    }

    /// How many events match, and whether that is all: counted where the index can tell without
    /// comparing, else as many as were seen.
    fn total(&self, sources: &Sources<'_>, page: &Page) -> Result<(usize, bool), Failure> {
        if page.next.is_none() {
            return Ok((page.seen, true));
        }
        let in_tail: usize = sources.tail.lists.iter().map(Vec::len).sum();
        let Some(index) = &sources.index else { return Ok((in_tail, true)) };
        let is_sure = self.terms.lookups.are_sure
            && self.filter.tags_are_sure()
            && sources.tail.replaced.is_empty();
        let Some(expressions) = sources.expressions.as_ref().filter(|_| is_sure) else {
            return Ok((page.seen.max(in_tail), false));
        };
        let whole = sources.count(&expressions.whole, CANDIDATES_MAX)?;
        let is_dear = expressions.lists.iter().any(Expression::has_beginnings)
            && (whole > BEGINNINGS_COUNTED_MAX || index.parts()?.len() > 1);
        let mut counted = if is_dear { whole } else { 0 };
        for list in expressions.lists.iter().filter(|_| !is_dear) {
            counted += sources.count(list, CANDIDATES_MAX - counted)?;
        }
        Ok(((in_tail + counted).max(page.seen), !is_dear && counted < CANDIDATES_MAX))
    }

    /// A hit as it is shown; `None` if it was deleted in the meantime.
    fn hit(&self, ranked: Ranked) -> Result<Option<Hit>, ReadError> {
        let Some(Recorded { position, event }) = self.corpus.at(ranked.position)? else {
            return Ok(None);
        };
        let snippet = snippet::snippet(&event.search_texts(), &self.terms);
        Ok(Some(Hit {
            position,
            project: self.corpus.project(&event.session_id)?,
            seq: event.seq,
            session_id: event.draft.session_id,
            event_id: event.draft.id,
            kind: event.draft.kind,
            provider: event.draft.provider,
            created_at: event.draft.created_at,
            score: ranked.score,
            snippet: snippet.text,
            highlights: snippet.highlights,
        }))
    }
}
