//! What is asked and what is answered.

use std::fmt::Write;
use std::ops::Range;

use ::search::{HITS_DEFAULT, Hit, MatchMode, Order};
use event::{EventId, Kind, SessionId, Time};
use sha2::{Digest, Sha256};

use crate::Recorded;

/// A question to the record.
///
/// Words are joined by AND in any order, case and accents aside. A word of three or more
/// characters also matches as a prefix. Quotes make a phrase. A word with punctuation must
/// stand in the text as typed. Nothing else is syntax, so no text is a mistake.
// The fingerprint of a cursor is made of the `Debug` form: another name of the type or of a field
// makes the cursors of an earlier version invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    pub text: String,
    pub mode: MatchMode,
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
    /// Where the page before this one ended: its [`SearchPage::next`].
    pub cursor: Option<String>,
    /// With [`Order::Best`], what people and agents said ranks before output of tools.
    pub order: Order,
}

/// A page of hits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SearchPage {
    pub hits: Vec<EventHit>,
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
pub struct EventHit {
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
            mode: MatchMode::Words,
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

    /// A short hash of everything that decides about the hits and their order; the limit may
    /// change from page to page.
    pub(super) fn fingerprint(&self) -> String {
        // The cursor is left out too: it would contain the fingerprint that is made here.
        let asked = Query { limit: 0, cursor: None, ..self.clone() };
        let hash = Sha256::digest(format!("{asked:?}").as_bytes());
        // 48 bits: it tells a user's queries apart and protects nothing.
        hash[..6].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl EventHit {
    pub(super) fn new(hit: Hit<Recorded>, project: Option<String>) -> EventHit {
        let Hit { document: Recorded { position, event }, score, snippet } = hit;
        EventHit {
            position,
            project,
            seq: event.seq,
            session_id: event.draft.session_id,
            event_id: event.draft.id,
            kind: event.draft.kind,
            provider: event.draft.provider,
            created_at: event.draft.created_at,
            score,
            snippet: snippet.text,
            highlights: snippet.highlights,
        }
    }
}
