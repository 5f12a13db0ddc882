//! Searching the events of the log: events become documents of the full-text index, and hits
//! become events again.
//!
//! The crate `search` has the index and the search itself. This module tells it which texts and
//! keywords an event has, applies the filters that need the log (session lineage, project, time),
//! and keeps the rows of the index in `derived.db`.
//!
//! Not here: what an event offers to search and the keys it has (`event`), terms, postings and
//! ranking (`search`), how the file is opened and replaced (`derived`).

mod query; // what is asked and answered
mod filter; // the typed filters of a query
mod keywords; // keyword terms for filters and keys
mod documents; // events as documents of one search
mod indexing; // events on their way into the index
mod deletions; // deleted sessions leave the index
mod sqlite_index; // the rows of the index in `derived.db`
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use ::search::{IndexReader, IndexSnapshot, SearchCursor, TextQuery};
use event::{EventId, EventKey, Kind, SessionId};

use crate::backlog::UnindexedEvent;
use crate::derived::{Derived, DerivedError};
use crate::store::Direction;
use crate::{ReadError, Recorded};
use documents::EventDocuments;
use filter::Filter;
use sqlite_index::SqliteIndex;

pub(crate) use deletions::forget_deleted;
pub(crate) use indexing::index_events;
pub use query::{EventHit, Query, SearchPage};

/// Documents with a key that one lookup reads from a shard of the index. More are not expected: a
/// key names one exchange.
const KEYED_MAX: usize = 50_000;

/// Events that the index has not reached and a lookup by kind reads. With more, the caller reads the
/// session.
const UNINDEXED_MAX: u64 = 10_000;

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
    fn fresh(&self, _from: u64) -> Vec<UnindexedEvent> {
        Vec::new()
    }

    /// The event at a position, if it was not deleted.
    fn event_at(&self, position: u64) -> Result<Option<Recorded>, ReadError> {
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
) -> Result<SearchPage, ReadError> {
    let text = TextQuery::parse(&query.text, query.mode);
    if text.is_empty() {
        return Ok(SearchPage { total_is_exact: true, complete: true, ..SearchPage::default() });
    }
    let documents = EventDocuments { corpus, filter: Filter::new(query, corpus)? };
    let fingerprint = query.fingerprint();
    let cursor = match &query.cursor {
        Some(cursor) => Some(decode_cursor(cursor, &fingerprint)?),
        None => None,
    };
    let found = with_index(derived, "search", |index| {
        // The days that occur in the index bound the keywords of a time filter, so the keywords
        // are made from the same snapshot that is searched.
        let state = index.map(|index| index.state()).transpose()?;
        let keywords = state.map_or(Vec::new(), |state| documents.filter.keywords(&state));
        let query = ::search::Query {
            text: &text,
            keywords,
            keywords_are_exact: documents.filter.keywords_are_exact(),
            order: query.order,
            limit: query.limit,
            cursor,
        };
        let indexed = state.map_or(0, |state| state.indexed);
        let snapshot = index.map(|store| IndexSnapshot { store, indexed });
        ::search::search(&documents, snapshot, &query)
    })?;
    let mut hits = Vec::with_capacity(found.hits.len());
    for hit in found.hits {
        // Looked up now and not taken from the index: a session may have learnt its project later.
        let project = corpus.project(&hit.document.event.session_id)?;
        hits.push(EventHit::new(hit, project));
    }
    Ok(SearchPage {
        hits,
        total: found.total,
        total_is_exact: found.total_is_exact,
        complete: found.complete,
        next: found.next.map(|next| next.encode(&fingerprint)),
    })
}

fn decode_cursor(text: &str, fingerprint: &str) -> Result<SearchCursor, ReadError> {
    SearchCursor::decode(text, fingerprint).ok_or_else(|| ReadError::BadArgument {
        // A cursor may be any text a client sends; the error shows its beginning.
        argument: text.chars().take(80).collect(),
        expected: "a cursor of this search",
    })
}

/// The events of a session, inherited ones included, that a key names, oldest first.
pub(crate) fn find_by_key(
    corpus: &dyn Corpus,
    derived: Option<&Derived>,
    session_id: &SessionId,
    key: &EventKey,
) -> Result<Vec<Recorded>, ReadError> {
    let lineage = corpus.lineage(session_id)?;
    // Of an ancestor only the events up to the fork point belong to the session.
    let has_key = |recorded: &Recorded| {
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
            let terms = lineage.iter().map(|(session_id, _)| keywords::key(session_id, key));
            let reader = IndexReader::new(index);
            let positions =
                reader.docs_with_keywords(vec![terms.collect()], &(0..indexed + 1), KEYED_MAX)?;
            for position in positions {
                // The index keeps keys as hashes, so the event decides.
                found.extend(corpus.event_at(position)?.filter(has_key));
            }
        }
        // Then the events that the index has not reached, all of which are newer.
        loop {
            let page = corpus.page(indexed + 1..=u64::MAX, Direction::OldestFirst)?;
            let Some(last) = page.last() else { return Ok(found) };
            indexed = last.position;
            found.extend(page.into_iter().filter(has_key));
        }
    })
}

/// The events that a session recorded itself and that have one of these kinds. `None` if the index is
/// so far behind that reading the session is quicker.
pub(crate) fn find_by_kind(
    corpus: &dyn Corpus,
    derived: &Derived,
    session_id: &SessionId,
    kinds: &[Kind],
) -> Result<Option<Vec<Recorded>>, ReadError> {
    let is_wanted = |recorded: &Recorded| {
        recorded.event.session_id == *session_id && kinds.contains(&recorded.event.kind)
    };
    with_index(Some(derived), "search", |index| {
        let index = index.expect("there is derived data");
        let mut indexed = index.state()?.indexed;
        if corpus.tail()?.saturating_sub(indexed) > UNINDEXED_MAX {
            return Ok(None);
        }
        // The rarer list first: most segments have none of these kinds, and are left at once.
        let lists =
            vec![kinds.iter().map(keywords::kind).collect(), vec![keywords::session(session_id)]];
        let ids = 0..indexed + 1;
        let positions = IndexReader::new(index).docs_with_keywords(lists, &ids, usize::MAX)?;
        let mut found = Vec::with_capacity(positions.len());
        for position in positions {
            // The index keeps names as hashes, so the event decides.
            found.extend(corpus.event_at(position)?.filter(is_wanted));
        }
        loop {
            let page = corpus.page(indexed + 1..=u64::MAX, Direction::OldestFirst)?;
            let Some(last) = page.last() else { return Ok(Some(found)) };
            indexed = last.position;
            found.extend(page.into_iter().filter(is_wanted));
        }
    })
}

/// Runs `ask` with the index, or without one if there is no derived data.
fn with_index<T>(
    derived: Option<&Derived>,
    action: &'static str,
    ask: impl Fn(Option<&SqliteIndex<'_>>) -> Result<T, DerivedError>,
) -> Result<T, ReadError> {
    match derived {
        Some(derived) => {
            // `read` may call this again, on a file that was found damaged and made anew. Therefore
            // `ask` keeps nothing between two calls.
            derived.read(action, |connection| ask(Some(&SqliteIndex::new(connection))))
        }
        None => ask(None).map_err(|error| match error {
            DerivedError::Read(error) => error,
            DerivedError::Sqlite(_) | DerivedError::Replaced => {
                unreachable!("without an index there is no database")
            }
        }),
    }
}
