//! The state of each agent: its folders, sessions, versions, unknown records and hooks.

use std::collections::BTreeMap;
use std::path::Path;

use capture::{AGENTS, Environment};
use event::Time;
use journal::{Journal, ReadError, SessionFilter};
use projection::{Facts, UnknownCount};
use wire::{Adapter, AdapterHooks, AdapterRoot, UnknownRecord};

use crate::status::SessionStatus;
use hooks::HookInstall;
use views::ViewCache;

/// Sessions read at a time.
const PAGE: usize = 500;

/// Versions of an agent that are named, those seen last.
const VERSIONS_MAX: usize = 5;

#[derive(Default)]
struct ProviderTotals {
    sessions: u64,
    events: u64,
    last_event_at: Option<Time>,
    versions: Vec<String>,
    unknown: BTreeMap<(Option<String>, String), u64>,
}

pub(crate) fn adapters(
    journal: &Journal,
    facts: &ViewCache<Facts>,
    environment: &Environment,
    statuses: &[SessionStatus],
    now: Time,
) -> Result<Vec<Adapter>, ReadError> {
    let mut seen = seen(journal, facts)?;
    let folder = journal.dir().map(Path::to_owned).unwrap_or_default();
    let hooks = HookInstall {
        environment,
        journal: &folder,
        command: "hansard".to_owned(),
        project: None,
        now,
    };
    let adapters = AGENTS.iter().map(|agent| {
        let provider = agent.provider();
        let seen = seen.remove(provider).unwrap_or_default();
        let roots = agent.source_roots(environment).into_iter().map(|root| AdapterRoot {
            is_there: root.path.exists(),
            path: root.path.display().to_string(),
        });
        let behind = statuses.iter().filter(|it| it.is_behind && it.info.provider == provider);
        let unknown = seen.unknown.into_iter();
        Adapter {
            provider: provider.to_owned(),
            roots: roots.collect(),
            sessions: seen.sessions,
            behind: behind.count() as u64,
            last_event_at: seen.last_event_at,
            versions: seen.versions,
            events: seen.events,
            unknown: unknown
                .map(|((version, record), count)| UnknownRecord { version, record, count })
                .collect(),
            hooks: hooks.status(provider).map(|status| AdapterHooks {
                path: status.path.display().to_string(),
                events: status.events,
                is_trusted: status.is_trusted,
                last_call_at: status.last_call_at,
                problem: status.problem,
            }),
        }
    });
    Ok(adapters.collect())
}

/// Adds up the sessions of each provider.
fn seen(
    journal: &Journal,
    held: &ViewCache<Facts>,
) -> Result<BTreeMap<String, ProviderTotals>, ReadError> {
    let mut by: BTreeMap<String, ProviderTotals> = BTreeMap::new();
    let mut after = None;
    loop {
        // The newest sessions come first, so the newest versions are named.
        let page = journal.sessions(&SessionFilter::default(), after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = held.get(journal, session)?;
            let seen = by.entry(session.provider.clone()).or_default();
            seen.sessions += 1;
            seen.events += session.events;
            seen.last_event_at = seen.last_event_at.max(Some(session.last_event_at));
            if let Some(version) = &facts.about().agent_version
                && seen.versions.len() < VERSIONS_MAX
                && !seen.versions.contains(version)
            {
                seen.versions.push(version.clone());
            }
            for UnknownCount { agent_version, record_type, count } in facts.unknown() {
                // A record without a type was torn, and says nothing about the format.
                let Some(record) = record_type.clone() else { continue };
                *seen.unknown.entry((agent_version.clone(), record)).or_default() += count;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(by);
        }
    }
}
