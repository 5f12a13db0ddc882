//! What is asked and what is answered.

use std::ops::Range;

use event::{EventId, Kind, SessionId, Time};

/// Hits on a page unless said otherwise.
pub const HITS_DEFAULT: usize = 20;

/// Hits a page may have at most; a larger limit gives this many.
pub const HITS_MAX: usize = 1_000;

/// A question to the record.
///
/// Words are joined by AND in any order, case and accents aside. A word of three or more
/// characters also matches as a beginning. Quotes make a phrase. A word with punctuation must
/// stand in the text as typed. Nothing else is syntax, so no text is a mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    pub text: String,
    pub mode: Match,
    /// Only this session, with what it inherits from the sessions it was forked from.
    pub session: Option<SessionId>,
    pub project: Option<String>,
    pub provider: Option<String>,
    /// Any of these kinds; empty for all.
    pub kinds: Vec<Kind>,
    pub tool: Option<String>,
    /// At this time or later.
    pub after: Option<Time>,
    /// Earlier than this time.
    pub before: Option<Time>,
    pub limit: usize,
    /// Where the page before this one ended: its [`Found::next`].
    pub cursor: Option<String>,
    pub order: Order,
}

/// What a word of the query has to be in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Match {
    #[default]
    Words,
    /// Any piece, also in the middle of a word. Looks through the texts themselves.
    Substring,
}

/// Which hits come first. New and old go by the journal's order, not by clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Whole words before beginnings. Among a window of the newest, what people and agents said
    /// comes before everything else, then what is most about the words; then the next window.
    #[default]
    Best,
    Newest,
    Oldest,
}

/// A page of hits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    pub hits: Vec<Hit>,
    /// How many events match; at least this many where `total_is_exact` is false.
    pub total: usize,
    pub total_is_exact: bool,
    /// False when a limit ended the search before everything that could match was looked at.
    /// What was left out is older, and `next` leads there.
    pub complete: bool,
    /// The cursor of the next page, if there may be one.
    pub next: Option<String>,
}

/// An event that matches.
#[derive(Clone, PartialEq, Debug)]
pub struct Hit {
    pub position: u64,
    /// The session that recorded it, also when it was found from a fork.
    pub session_id: SessionId,
    pub seq: u64,
    pub event_id: EventId,
    pub kind: Kind,
    pub provider: String,
    pub project: Option<String>,
    pub created_at: Time,
    /// More is better. Comparable within one search only.
    pub score: f64,
    /// A piece of the text with a match inside, exactly as it stands there.
    pub snippet: String,
    /// The matches in `snippet`, as byte ranges.
    pub highlights: Vec<Range<usize>>,
}

impl Query {
    /// The best hits for some words, without filters.
    pub fn new(text: impl Into<String>) -> Query {
        Query {
            text: text.into(),
            mode: Match::Words,
            session: None,
            project: None,
            provider: None,
            kinds: Vec::new(),
            tool: None,
            after: None,
            before: None,
            limit: HITS_DEFAULT,
            cursor: None,
            order: Order::Best,
        }
    }
}
