//! Events that are lost, found again in what they were read from.

use std::collections::{BTreeMap, HashMap, HashSet};

use event::payload::Unknown;
use event::{Draft, Event, EventId, Kind, Raw, SessionId, Source, Time};

use crate::store::BrokenEvent;

/// Tells events again from what they were read from.
pub trait Recovery {
    /// The events of a session in the order of their sources, as far as these are stored.
    fn events_of(&self, session: &SessionId) -> Vec<Draft>;
}

/// The metadata key of a stand-in under which it names the event that it stands for.
const LOST_ID: &str = "lost_id";

/// Makes the `unknown` event that stands for a damaged one: what is left of it, and why.
pub(crate) fn salvage_event(
    session_id: &SessionId,
    seq: u64,
    at: Time,
    broken: &BrokenEvent,
) -> Event {
    // A derived id: reading the same damage twice gives the same event, and readers that count by
    // id count it once.
    let identity = format!("salvaged {seq}");
    let id = EventId::derived(at, "hansard", session_id.as_str(), identity.as_bytes());
    let left = String::from_utf8_lossy(&broken.bytes);
    let raw = Raw::from_value(&left).expect("a string always encodes");
    let data = Raw::from_value(&Unknown { raw, record_type: None, error: None })
        .expect("raw JSON always encodes");
    let mut draft = Draft::with_data(id, session_id.clone(), at, Kind::Unknown, data);
    draft.source = Source::Other("salvage".into());
    draft.text = Some(broken.damage.why.clone());
    draft.with_seq(seq)
}

/// Notes in a stand-in which event it stands for, if an index still knows.
pub(crate) fn name_lost(stand_in: &mut Draft, id: Option<EventId>) {
    if let Some(id) = id {
        let id = Raw::from_value(&id).expect("an id always encodes");
        stand_in.metadata.insert(LOST_ID.to_owned(), id);
    }
}

/// Whether an event stands for one that a repair could not recover.
pub(crate) fn is_stand_in(draft: &Draft) -> bool {
    draft.kind == Kind::Unknown && draft.source == Source::Other("salvage".into())
}

/// A place in a session without its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostPlace {
    pub seq: u64,
    /// The id of the event, where an index or a stand-in has it.
    pub id: Option<EventId>,
}

impl LostPlace {
    /// The place that a stand-in holds.
    pub(crate) fn of_stand_in(event: &Event) -> LostPlace {
        let id = event.metadata.get(LOST_ID).and_then(Raw::text);
        LostPlace { seq: event.seq, id: id.and_then(|id| id.parse().ok()) }
    }
}

/// Finds the events of lost places among those that are told again, by `seq`.
///
/// An id decides where it is known. The rest is placed by order: between two recorded events the
/// source told those that the places between them have lost.
///
/// ```text
/// told       a  b  c  d  e
/// recorded   1        ·  5     lost: 2, 3, 4     placed: b 2, c 3, d 4
/// ```
pub(crate) fn place_events(
    recorded: &[(EventId, u64)],
    lost: &[LostPlace],
    told: Vec<Draft>,
) -> BTreeMap<u64, Draft> {
    // The time in an id may have been inferred, so that ids are compared without it.
    let named = lost.iter().filter_map(|place| Some((place.id?.tail(), place.seq)));
    let mut seqs: HashMap<[u8; 10], u64> = named.collect();
    // Last: an event that is recorded elsewhere in the session is not lost.
    seqs.extend(recorded.iter().map(|(id, seq)| (id.tail(), *seq)));
    let lost_seqs: HashSet<u64> = lost.iter().map(|place| place.seq).collect();
    // Places with a known id wait for that event alone.
    let mut free: Vec<u64> =
        lost.iter().filter(|place| place.id.is_none()).map(|place| place.seq).collect();
    free.sort_unstable();
    let mut placed = BTreeMap::new();
    let mut last = 0;
    let mut waiting: Vec<Draft> = Vec::new();
    for draft in told {
        match seqs.get(&draft.id.tail()) {
            Some(&seq) => {
                place_between(last, seq, &mut waiting, &mut free, &mut placed);
                last = last.max(seq);
                if lost_seqs.contains(&seq) {
                    placed.entry(seq).or_insert(draft);
                }
            }
            None => waiting.push(draft),
        }
    }
    place_between(last, u64::MAX, &mut waiting, &mut free, &mut placed);
    placed
}

/// Places the waiting events between two numbers, if there are places for all of them.
fn place_between(
    after: u64,
    before: u64,
    waiting: &mut Vec<Draft>,
    free: &mut Vec<u64>,
    placed: &mut BTreeMap<u64, Draft>,
) {
    let drafts = std::mem::take(waiting);
    let between: Vec<u64> =
        free.iter().copied().filter(|seq| (after + 1..before).contains(seq)).collect();
    // With fewer places than events the sources tell more than they did, and nothing says which
    // events were recorded.
    if drafts.len() > between.len() {
        return;
    }
    free.retain(|seq| !between[..drafts.len()].contains(seq));
    placed.extend(between.into_iter().zip(drafts));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> EventId {
        EventId::derived(Time::from_millis(1), "claude", "s", name.as_bytes())
    }

    fn draft(name: &str) -> Draft {
        let session = SessionId::new("claude:s").unwrap();
        let data = Raw::parse("{}").unwrap();
        let mut draft = Draft::with_data(id(name), session, Time::EPOCH, Kind::Note, data);
        draft.text = Some(name.to_owned());
        draft
    }

    #[track_caller]
    fn check(recorded: &[(&str, u64)], lost: &[(u64, Option<&str>)], told: &str, expected: &str) {
        let recorded: Vec<_> = recorded.iter().map(|(name, seq)| (id(name), *seq)).collect();
        let lost: Vec<_> =
            lost.iter().map(|(seq, name)| LostPlace { seq: *seq, id: name.map(id) }).collect();
        let told = told.split(' ').map(draft).collect();
        let placed = place_events(&recorded, &lost, told).into_iter();
        let placed: Vec<String> =
            placed.map(|(seq, draft)| format!("{seq}{}", draft.text.unwrap())).collect();
        assert_eq!(placed.join(" "), expected);
    }

    #[test]
    fn known_id_finds_its_place() {
        check(&[("a", 1), ("c", 3)], &[(2, Some("b"))], "a b c", "2b");
        check(&[("a", 1), ("b", 9)], &[(2, Some("b"))], "a b", "");
        // A hook told an event of which no source knows.
        check(&[("a", 1), ("c", 3)], &[(2, Some("hook"))], "a b c", "");
        check(&[("a", 1)], &[(2, Some("c")), (3, Some("b"))], "a b c", "2c 3b");
    }

    #[test]
    fn order_finds_places_without_id() {
        check(&[("a", 1), ("e", 5)], &[(2, None), (3, None), (4, None)], "a b c d e", "2b 3c 4d");
        check(&[("a", 1)], &[(2, None), (3, None)], "a b", "2b");
        check(&[("b", 2)], &[(1, None)], "a b", "1a");
        // More events than places: no one says which of them were recorded.
        check(&[("a", 1), ("d", 3)], &[(2, None)], "a b c d", "");
    }
}
