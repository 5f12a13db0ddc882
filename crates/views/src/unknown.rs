//! Records that no adapter understood, over all sessions.

use std::collections::BTreeMap;

use journal::{Journal, ReadError, SessionFilter};
use projection::{Facts, UnknownCount};

use crate::saved::SavedViews;

/// Sessions read at a time.
const PAGE: usize = 500;

/// Provider, version, and the agent's name for the record.
pub type UnknownKind = (String, Option<String>, String);

/// Counts the records that no adapter understood, by provider, the agent's version and its name for
/// the record.
pub fn count_unknown_records(journal: &Journal) -> Result<BTreeMap<UnknownKind, u64>, ReadError> {
    let mut saved = SavedViews::<Facts>::load(journal)?;
    let mut unknown = BTreeMap::new();
    let mut after = None;
    loop {
        let page = journal.sessions(&SessionFilter::default(), after.as_deref(), PAGE)?;
        for session in &page.items {
            let facts = saved.take(journal, session)?;
            for UnknownCount { agent_version, record_type, count } in facts.unknown() {
                // A record without a type was torn, which says nothing about the format.
                let Some(kind) = record_type.clone() else { continue };
                let key = (session.provider.clone(), agent_version.clone(), kind);
                *unknown.entry(key).or_default() += count;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(unknown);
        }
    }
}
