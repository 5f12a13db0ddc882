//! Sessions as people list them: the catalogue, what their events add up to, and what that costs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use event::SessionId;
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::{BadPrices, Grouping, PriceTable, Spending};

use crate::answers;
use crate::facts::KeptFacts;

/// Sessions read at a time.
const PAGE: usize = 500;

/// What a listing needs beside the catalogue, read once.
pub struct Listing<'a> {
    journal: &'a Journal,
    kept: KeptFacts,
    prices: PriceTable,
    without_source: BTreeSet<SessionId>,
}

/// Why there is no listing.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot read `{path}`")]
    PricesUnreadable { path: PathBuf, source: std::io::Error },
    #[error("`{path}` is no table of prices")]
    BadPrices { path: PathBuf, source: BadPrices },
}

impl<'a> Listing<'a> {
    pub fn load(journal: &'a Journal) -> Result<Listing<'a>, ListingError> {
        Ok(Listing {
            journal,
            kept: KeptFacts::load(journal)?,
            prices: prices(journal)?,
            without_source: capture::sessions_without_source(&journal.sources()?),
        })
    }

    /// These sessions, each as of now.
    pub fn of(&mut self, sessions: &[SessionInfo]) -> Result<Vec<wire::Session>, ReadError> {
        let mut shapes = Vec::with_capacity(sessions.len());
        for info in sessions {
            let facts = self.kept.take(self.journal, info)?;
            let shape = answers::session(info, &facts, &self.prices);
            let source_missing = Some(self.without_source.contains(&info.id));
            shapes.push(wire::Session { source_missing, ..shape });
        }
        Ok(shapes)
    }
}

/// What the sessions that fit have used, grouped.
pub fn spending(
    journal: &Journal,
    filter: &SessionFilter,
    by: Grouping,
) -> Result<Spending, ListingError> {
    let prices = prices(journal)?;
    let mut kept = KeptFacts::load(journal)?;
    let mut spending = Spending::by(by);
    let mut after = None;
    loop {
        let page = journal.sessions(filter, after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = kept.take(journal, session)?;
            spending.add(&session.id, &session.provider, &facts, &prices);
        }
        after = page.next;
        if after.is_none() {
            return Ok(spending);
        }
    }
}

/// What models cost: the user's own table if the journal has one, else the one that ships.
pub fn prices(journal: &Journal) -> Result<PriceTable, ListingError> {
    let Some(path) = journal.dir().map(|dir| dir.join("prices.json")) else {
        return Ok(PriceTable::shipped());
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            PriceTable::parse(&text).map_err(|source| ListingError::BadPrices { path, source })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(PriceTable::shipped()),
        Err(source) => Err(ListingError::PricesUnreadable { path, source }),
    }
}
