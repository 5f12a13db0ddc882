//! Lists of sessions: the catalogue, the facts folded from their events, and their cost.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use event::{SessionId, Time};
use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use projection::{
    BadPrices, BudgetAccount, BudgetUse, Budgets, Facts, Grouping, PriceList, PriceTable, Spending,
    SpendingFilter,
};

use crate::answers;
use segments::Zone;
use views::{SavedViews, ViewCache, load_current};

/// Sessions read at a time.
const PAGE: usize = 500;

/// Sessions of which the facts are loaded one by one. For a longer list all saved facts are read at
/// once, which is quicker than as many lookups.
const LOOKUPS_MAX: usize = 64;

/// Makes lists of sessions. Prices and missing files are read once for all of them, and only if a
/// session is listed.
pub struct Listing<'a> {
    journal: &'a Journal,
    facts: FactsSource<'a>,
    prices: PriceTable,
    without_source: Option<Arc<BTreeSet<SessionId>>>,
}

/// Where the facts of sessions come from.
enum FactsSource<'a> {
    /// The saved facts of each session that is listed.
    Lookup,
    /// All saved facts, loaded at once.
    Saved(SavedViews<Facts>),
    /// A cache of the sessions requested before.
    Held(&'a ViewCache<Facts>),
}

/// Why sessions cannot be listed.
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
    /// For lists of any length: a short one costs what its sessions cost.
    pub fn load(journal: &'a Journal) -> Result<Listing<'a>, ListingError> {
        let facts = FactsSource::Lookup;
        Ok(Listing { journal, facts, prices: prices(journal)?, without_source: None })
    }

    /// For one page of sessions: costs what the page costs, however many sessions there are. The
    /// caller passes the sessions without a file, because finding them checks every file.
    pub(crate) fn for_page(
        journal: &'a Journal,
        held: &'a ViewCache<Facts>,
        without_source: Arc<BTreeSet<SessionId>>,
    ) -> Result<Listing<'a>, ListingError> {
        let facts = FactsSource::Held(held);
        let without_source = Some(without_source);
        Ok(Listing { journal, facts, prices: prices(journal)?, without_source })
    }

    /// Converts these sessions, each up to its last event.
    pub fn list(&mut self, sessions: &[SessionInfo]) -> Result<Vec<wire::Session>, ReadError> {
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        if matches!(self.facts, FactsSource::Lookup) && sessions.len() > LOOKUPS_MAX {
            self.facts = FactsSource::Saved(SavedViews::load(self.journal)?);
        }
        let without_source = match &self.without_source {
            Some(known) => Arc::clone(known),
            None => Arc::clone(self.without_source.insert(Arc::new(without_source(self.journal)?))),
        };
        let mut shapes = Vec::with_capacity(sessions.len());
        for info in sessions {
            let facts = match &mut self.facts {
                FactsSource::Lookup => Arc::new(load_current(self.journal, info)?),
                FactsSource::Saved(saved) => Arc::new(saved.take(self.journal, info)?),
                FactsSource::Held(held) => held.get(self.journal, info)?,
            };
            let shape = answers::session(info, &facts, &self.prices);
            let source_missing = Some(without_source.contains(&info.id));
            shapes.push(wire::Session { source_missing, ..shape });
        }
        Ok(shapes)
    }
}

/// The sessions with a file that the agent has deleted. Checks every file that was ever read.
pub(crate) fn without_source(journal: &Journal) -> Result<BTreeSet<SessionId>, ReadError> {
    Ok(capture::sessions_without_source(&journal.sources()?))
}

/// Adds up tokens and cost by group, over whole days of the zone and only the matching part of each
/// session.
pub fn spending(
    journal: &Journal,
    filter: &SessionFilter,
    by: Grouping,
    zone: &Zone,
) -> Result<Spending, ListingError> {
    let mut kept = SavedViews::<Facts>::load(journal)?;
    spending_of(journal, filter, by, zone, |session| kept.take(journal, session))
}

/// As `spending`, with the facts from a function of the caller.
pub(crate) fn spending_of<F: Borrow<Facts>>(
    journal: &Journal,
    filter: &SessionFilter,
    by: Grouping,
    zone: &Zone,
    mut facts_of: impl FnMut(&SessionInfo) -> Result<F, ReadError>,
) -> Result<Spending, ListingError> {
    let prices = prices(journal)?;
    let mut spending = Spending::grouped_by(by).by_days(zone.usage_days()).within(SpendingFilter {
        since: filter.active_since.map(|since| zone.usage_day(since)),
        until: filter.active_until.map(|until| zone.usage_day(until)),
        project: filter.project.clone(),
    });
    // No filter by project here: a session may have worked on the project before it changed to
    // another one. `Within` above selects that part.
    let filter = SessionFilter {
        project: None,
        active_since: filter.active_since.map(|since| zone.day_begin(since)),
        active_until: filter.active_until.map(|until| zone.day_end(until)),
        ..filter.clone()
    };
    let mut after = None;
    loop {
        let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = facts_of(session)?;
            spending.add_session(&session.id, &session.provider, facts.borrow(), &prices);
        }
        after = page.next;
        if after.is_none() {
            return Ok(spending);
        }
    }
}

/// What is used of the budgets on the day of this time.
pub fn budget_uses(
    journal: &Journal,
    budgets: &Budgets,
    now: Time,
    zone: &Zone,
) -> Result<Vec<BudgetUse>, ListingError> {
    budget_uses_of(journal, budgets, now, zone, |session| load_current::<Facts>(journal, session))
}

/// As `budget_uses`, with the facts from a function of the caller.
pub(crate) fn budget_uses_of<F: Borrow<Facts>>(
    journal: &Journal,
    budgets: &Budgets,
    now: Time,
    zone: &Zone,
    mut facts_of: impl FnMut(&SessionInfo) -> Result<F, ReadError>,
) -> Result<Vec<BudgetUse>, ListingError> {
    if budgets.is_empty() {
        return Ok(Vec::new());
    }
    let prices = prices(journal)?;
    let mut account = BudgetAccount::new(budgets, zone.usage_day(now), zone.usage_days());
    let active_since = Some(zone.day_begin(now));
    let filter = SessionFilter { active_since, ..SessionFilter::default() };
    let mut after = None;
    loop {
        let page = journal.sessions(&filter, after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = facts_of(session)?;
            account.add_session(&session.id, &session.provider, facts.borrow(), &prices);
        }
        after = page.next;
        if after.is_none() {
            return Ok(account.uses());
        }
    }
}

/// The prices of models: the user's own list if the journal has one, above the shipped one.
pub fn prices(journal: &Journal) -> Result<PriceTable, ListingError> {
    let Some(path) = own_prices_path(journal) else { return Ok(PriceTable::shipped()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => PriceList::parse(&text)
            .map(PriceTable::with_own)
            .map_err(|source| ListingError::BadPrices { path, source }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(PriceTable::shipped()),
        Err(source) => Err(ListingError::PricesUnreadable { path, source }),
    }
}

/// Where the user's own prices lie; `None` for a journal in memory.
pub fn own_prices_path(journal: &Journal) -> Option<PathBuf> {
    journal.dir().map(|dir| dir.join("prices.json"))
}
