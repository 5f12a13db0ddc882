//! Where a page ended, as a text that leads to the next one.
//!
//! It fixes the end of the log the first page saw, so that pages neither repeat nor miss a hit
//! while the log grows, and a fingerprint of the question, so that it cannot lead into another.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::query::Query;
use crate::ReadError;

/// Where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    /// The last position the search may see.
    pub(super) as_of: u64,
    /// The list of candidates the page ended in.
    pub(super) list: u64,
    /// Candidates up to and including this one, in the order of the search, were dealt with.
    pub(super) done: Option<u64>,
    /// Hits of the window after `done` that were shown already.
    pub(super) shown: u64,
    /// What the first page said about the total.
    pub(super) total: u64,
    pub(super) total_is_exact: bool,
}

const FORM: &str = "1";

impl Cursor {
    pub(super) fn encode(&self, query: &Query) -> String {
        format!(
            "{FORM}.{}.{:x}.{:x}.{:x}.{:x}.{:x}.{:x}",
            fingerprint(query),
            self.as_of,
            self.list,
            self.done.map_or(0, |done| done + 1),
            self.shown,
            self.total,
            u8::from(self.total_is_exact),
        )
    }

    pub(super) fn decode(text: &str, query: &Query) -> Result<Cursor, ReadError> {
        parse(text, query).ok_or_else(|| ReadError::BadArgument {
            argument: text.chars().take(80).collect(),
            expected: "a cursor of this search",
        })
    }
}

fn parse(text: &str, query: &Query) -> Option<Cursor> {
    let rest = text.strip_prefix(FORM)?.strip_prefix('.')?;
    let rest = rest.strip_prefix(fingerprint(query).as_str())?.strip_prefix('.')?;
    let numbers: Vec<u64> = rest
        .split('.')
        .map(|number| u64::from_str_radix(number, 16).ok())
        .collect::<Option<_>>()?;
    let [as_of, list, done, shown, total, total_is_exact] = numbers[..] else { return None };
    Some(Cursor {
        as_of,
        list,
        done: done.checked_sub(1),
        shown,
        total,
        total_is_exact: total_is_exact == 1,
    })
}

/// A short hash of everything that decides about the hits and their order; the limit may change
/// from page to page.
fn fingerprint(query: &Query) -> String {
    let asked = Query { limit: 0, cursor: None, ..query.clone() };
    let hash = Sha256::digest(format!("{asked:?}").as_bytes());
    hash[..6].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
