//! Verifies the journal: every event, every reference, every artifact body, every index.

use std::collections::{BTreeMap, HashSet};

use event::payload::ArtifactRecorded;
use event::{Event, SessionId, Time};

use crate::artifact::Artifacts;
use crate::corpus::StoreCorpus;
use crate::derived::Derived;
use crate::event_search;
use crate::recovery::{Recovery, is_stand_in};
use crate::store::{Direction, SeqRange, Store, StoreReader, for_each_session};
use crate::{ArtifactError, ReadError, StorageError};

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    /// What a repair did, or would do.
    pub fix: Option<String>,
}

/// Findings that are listed one by one; the rest is counted.
const NAMED_MAX: usize = 10;

impl Check {
    pub(crate) fn good(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, ok: true, detail: detail.into(), fix: None }
    }

    pub(crate) fn bad(
        name: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Check {
        Check { name, ok: false, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// Checks rows, checksums, numbers and counters of the store.
pub(crate) fn check_store(
    store: &dyn Store,
    repair: bool,
    recovery: Option<&dyn Recovery>,
) -> Result<Vec<Check>, ReadError> {
    let findings = store.check(repair, recovery)?;
    if findings.is_empty() {
        let tail = store.tail()?;
        let detail = format!("{} store, {tail} positions given", store.capabilities().name);
        return Ok(vec![Check::good("events", detail)]);
    }
    let mut checks: Vec<Check> = findings
        .iter()
        .take(NAMED_MAX)
        .map(|finding| Check {
            name: "events",
            ok: finding.repaired,
            detail: finding.damage.to_string(),
            fix: Some(finding.remedy.to_owned()),
        })
        .collect();
    // A check fails as a whole while one of the findings that are not listed is left.
    if findings.len() > NAMED_MAX {
        let unrepaired = findings.iter().filter(|finding| !finding.repaired).count();
        let detail = format!("{} places in all", findings.len());
        checks.push(Check { name: "events", ok: unrepaired == 0, detail, fix: None });
    }
    Ok(checks)
}

/// Checks that every session's parent is there.
pub(crate) fn check_ancestry(reader: &dyn StoreReader) -> Result<Check, ReadError> {
    let (mut count, mut dangling) = (0u64, Vec::new());
    for_each_session(reader, |row| -> Result<(), StorageError> {
        count += 1;
        if let Some(link) = row.parent
            && reader.session(&link.session_id)?.is_none()
        {
            dangling.push(format!("{} names {}", row.id, link.session_id));
        }
        Ok(())
    })?;
    if dangling.is_empty() {
        return Ok(Check::good("ancestry", format!("{count} sessions, every parent is there")));
    }
    let total = dangling.len();
    dangling.truncate(NAMED_MAX);
    // Capture may never have seen a parent. That is no damage.
    let detail = format!("{total} parents were never seen: {}", dangling.join(", "));
    Ok(Check::good("ancestry", detail))
}

/// Checks that every body an event names is there and whole. A repair removes old bodies that no
/// event names.
pub(crate) fn check_artifacts(
    reader: &dyn StoreReader,
    artifacts: &Artifacts,
    repair: bool,
    now: Time,
) -> Result<Vec<Check>, ReadError> {
    let mut named = HashSet::new();
    let mut broken = Vec::new();
    let mut given_up = BTreeMap::new();
    let mut from = 1;
    loop {
        let range = SeqRange { from, to: u64::MAX >> 1, order: Direction::OldestFirst };
        let page = reader.positions(range)?;
        let Some(last) = page.last() else { break };
        from = last.position + 1;
        let events = page.into_iter().filter_map(|stored| stored.event.ok());
        for event in events {
            if is_stand_in(&event) {
                *given_up.entry(event.session_id.clone()).or_insert(0u64) += 1;
            }
            for id in event.artifact_ids() {
                // An artifact outside the journal has no body here.
                if is_outside(&event) || !named.insert(id.clone()) {
                    continue;
                }
                if let Err(error) = artifacts.verify(&id) {
                    broken.push(format!("{} #{}: {error}", event.session_id, event.seq));
                }
            }
        }
    }
    // Counted before they are removed, for the report.
    let orphans = artifacts.orphans(&named, now).map_err(unreadable)?;
    if repair {
        artifacts.remove_orphans(&named, now).map_err(unreadable)?;
    }
    let mut checks: Vec<Check> = check_given_up(&given_up).into_iter().collect();
    if !broken.is_empty() {
        let total = broken.len();
        broken.truncate(NAMED_MAX);
        let detail = format!("{total} bodies cannot be read: {}", broken.join("; "));
        checks.push(Check::bad(
            "artifacts",
            detail,
            "restore the folder `artifacts` from a backup",
        ));
        return Ok(checks);
    }
    let fate = if repair { "removed" } else { "would be removed" };
    checks.push(match orphans.len() {
        0 => Check::good("artifacts", format!("{} bodies, all whole", named.len())),
        count => Check {
            fix: Some(format!("{count} old bodies that no event names {fate}")),
            ..Check::good("artifacts", format!("{} bodies, all whole", named.len()))
        },
    });
    Ok(checks)
}

/// Tells which sessions have lost events for good. It is no damage any more: the journal is whole
/// without them.
fn check_given_up(given_up: &BTreeMap<SessionId, u64>) -> Option<Check> {
    if given_up.is_empty() {
        return None;
    }
    let total: u64 = given_up.values().sum();
    let named = given_up.iter().take(NAMED_MAX).map(|(id, count)| format!("{id} ({count})"));
    let named = named.collect::<Vec<_>>().join(", ");
    let sessions = given_up.len();
    let detail =
        format!("{total} events are lost and shown as unknown, in {sessions} sessions: {named}");
    let fix = "neither the file nor the originals have them; a backup of the journal may";
    Some(Check { fix: Some(fix.to_owned()), ..Check::good("lost", detail) })
}

/// The search index reaches the end of the log; a repair makes it, and the saved views, anew.
pub(crate) fn check_derived(
    corpus: &StoreCorpus<'_>,
    derived: &Derived,
    repair: bool,
) -> Result<Check, ReadError> {
    if repair {
        // Everything in this file can be made again from the log, so the repair is to begin anew.
        derived.clear()?;
    }
    // Each call indexes one transaction's worth of events.
    loop {
        let progress = match event_search::index_events(corpus, derived) {
            Err(error) if error.is_newer_format() => {
                let detail = "a newer version of this program made the index";
                let fix = "update this program; or repair the journal, which rebuilds the index for this version";
                return Ok(Check::bad("search", detail, fix));
            }
            progress => progress?,
        };
        if progress.is_current {
            let made = if repair { "rebuilt, " } else { "" };
            return Ok(Check::good("search", format!("{made}current up to {}", progress.indexed)));
        }
    }
}

/// Whether the event records an artifact that has no bytes in the journal.
fn is_outside(event: &Event) -> bool {
    event.readable::<ArtifactRecorded>().is_some_and(|recorded| recorded.artifact.digest.is_none())
}

fn unreadable(error: ArtifactError) -> ReadError {
    match error {
        ArtifactError::Storage(error) => error.into(),
        other => StorageError::new("list", "artifacts", other).into(),
    }
}
