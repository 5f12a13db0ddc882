//! The agents and projects of all sessions, for filters.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use journal::{Journal, ReadError, SessionFilter, SessionInfo};
use wire::{Facet, Facets};

/// Names in each list, those with the most sessions.
const NAMES_MAX: usize = 500;

/// Sessions read at a time.
const PAGE: usize = 500;

/// Counts sessions by agent and project. Reads the catalogue only, no events.
pub fn facets(journal: &Journal) -> Result<Facets, ReadError> {
    let mut providers: BTreeMap<String, u64> = BTreeMap::new();
    let mut projects: BTreeMap<String, u64> = BTreeMap::new();
    let mut after = None;
    loop {
        let page = journal.sessions(&SessionFilter::default(), after.as_deref(), PAGE)?;
        for session in page.items {
            if let Some(project) = project_of(&session) {
                *projects.entry(project).or_default() += 1;
            }
            *providers.entry(session.provider).or_default() += 1;
        }
        after = page.next;
        if after.is_none() {
            return Ok(Facets { providers: most(providers), projects: most(projects) });
        }
    }
}

/// What a session is grouped by: its project, or the folder it works in.
pub(crate) fn project_of(session: &SessionInfo) -> Option<String> {
    session.project.clone().or_else(|| session.cwd.clone())
}

fn most(counts: BTreeMap<String, u64>) -> Vec<Facet> {
    let mut facets: Vec<Facet> =
        counts.into_iter().map(|(name, sessions)| Facet { name, sessions }).collect();
    facets.sort_by_key(|facet| Reverse(facet.sessions));
    facets.truncate(NAMES_MAX);
    facets
}
