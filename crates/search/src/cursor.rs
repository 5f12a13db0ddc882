//! Where a page ended, as a text that leads to the next one.
//!
//! It fixes the newest document that the first page saw, so that pages neither repeat nor miss a
//! hit while documents are added, and carries the caller's fingerprint of the query, so that it
//! cannot be used with another query.

use crate::document::DocId;

/// Where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchCursor {
    /// The last document that the search may see.
    pub(crate) as_of: DocId,
    /// The tier of candidates that the page ended in.
    pub(crate) tier: u64,
    /// Candidates up to and including this one, in the order of the search, were dealt with.
    pub(crate) done: Option<DocId>,
    /// Hits of the window after `done` that were shown already.
    pub(crate) shown: u64,
    /// What the first page said about the total.
    pub(crate) total: u64,
    pub(crate) total_is_exact: bool,
}

/// The version of the text form.
const VERSION: &str = "1";

impl SearchCursor {
    /// Writes the cursor as a text for a query with this fingerprint.
    pub fn encode(&self, fingerprint: &str) -> String {
        format!(
            "{VERSION}.{fingerprint}.{:x}.{:x}.{:x}.{:x}.{:x}.{:x}",
            self.as_of,
            self.tier,
            // One more than the id, so that 0 can mean "none".
            self.done.map_or(0, |done| done + 1),
            self.shown,
            self.total,
            u8::from(self.total_is_exact),
        )
    }

    /// Reads a cursor; `None` if the text is no cursor of a query with this fingerprint.
    pub fn decode(text: &str, fingerprint: &str) -> Option<SearchCursor> {
        let rest = text.strip_prefix(VERSION)?.strip_prefix('.')?;
        let rest = rest.strip_prefix(fingerprint)?.strip_prefix('.')?;
        // Cursors come back from clients, so every part is checked and none is trusted.
        let numbers: Vec<u64> = rest
            .split('.')
            .map(|number| u64::from_str_radix(number, 16).ok())
            .collect::<Option<_>>()?;
        let [as_of, tier, done, shown, total, total_is_exact] = numbers[..] else { return None };
        Some(SearchCursor {
            as_of,
            tier,
            done: done.checked_sub(1),
            shown,
            total,
            total_is_exact: total_is_exact == 1,
        })
    }
}
