//! The lineage hint of agents that give their records uuids, which copies keep.

use event::Time;
use event::json::string_after;
use memchr::memmem;

use crate::agent::LineageHint;

/// Kin by the name of the first record, and by the session that a copied record says it is from.
pub(crate) fn lineage_hint_by_uuid(head: &[u8]) -> LineageHint {
    // A first record that is longer than what is looked at: all such files are looked at in the
    // order of their age.
    let family = string_after(head, b"\"uuid\":\"").unwrap_or("first record is long");
    LineageHint {
        parent: string_after(head, b"\"forkedFrom\":{\"sessionId\":\"").map(str::to_owned),
        family: Some(family.to_owned()),
        named: first_session(head).map(str::to_owned),
        since: newest_time(head),
        ..LineageHint::default()
    }
}

/// The first session that is named, and not as the one that is repeated.
fn first_session(head: &[u8]) -> Option<&str> {
    const MARK: &[u8] = b"\"sessionId\":\"";
    let is_own = |at: &usize| !head[..*at].ends_with(b"\"forkedFrom\":{");
    let own = memmem::find_iter(head, MARK).find(is_own)?;
    string_after(&head[own..], MARK)
}

/// The newest time up to the first record that has a name. A copy is begun later than what it
/// copies, and its first marks say so.
fn newest_time(head: &[u8]) -> Option<Time> {
    const MARK: &[u8] = b"\"timestamp\":\"";
    let first = memmem::find(head, b"\"uuid\":\"")?;
    let end = memchr::memchr(b'\n', &head[first..]).map_or(head.len(), |end| first + end);
    let head = &head[..end];
    let times = memmem::find_iter(head, MARK).filter_map(|at| string_after(&head[at..], MARK));
    times.filter_map(|time| time.parse().ok()).max()
}
