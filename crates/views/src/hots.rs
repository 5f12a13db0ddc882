//! The newest part of sessions somebody looks at, held between two looks.
//!
//! It is folded from the tail of a log, and continued by what is new. What is not held is folded
//! again: nobody has to keep it.

use std::collections::VecDeque;

use journal::{Journal, ReadError, Selection, SessionInfo};
use projection::{HOT_EVENTS_SEEN, Hot, Projection};

/// Sessions that are held, some 200 KiB each. With more, the one that was looked at longest ago
/// goes.
const HELD_MAX: usize = 128;

#[derive(Default)]
pub struct Hots {
    /// The one that was looked at last is the last.
    held: VecDeque<(event::SessionId, Hot)>,
}

impl Hots {
    /// The newest part of a session as of now.
    pub fn of(&mut self, journal: &Journal, info: &SessionInfo) -> Result<&Hot, ReadError> {
        let place = self.held.iter().position(|(id, _)| *id == info.id);
        let held = place.and_then(|place| self.held.remove(place)).map(|(_, hot)| hot);
        // One that is ahead belongs to a log that was put back.
        let mut hot = held.filter(|hot| hot.seq() <= info.tail_seq).unwrap_or_default();
        let tail = info.tail_seq.saturating_sub(HOT_EVENTS_SEEN);
        if hot.seq() < tail {
            // What lies between counts no more.
            hot = Hot::default();
        }
        for event in journal.events(&info.id, Selection::after(hot.seq().max(tail)))? {
            hot.apply(&event?);
        }
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back((info.id.clone(), hot));
        Ok(self.held.back().map(|(_, hot)| hot).expect("it was just put there"))
    }
}

#[cfg(test)]
mod tests {
    use event::{Draft, EventId, Kind, Raw, SessionId, Time};
    use journal::Batch;
    use serde_json::json;

    use super::*;

    fn record(journal: &Journal, session: &str, numbers: std::ops::Range<u64>) -> SessionInfo {
        let id = SessionId::new(format!("made-up:{session}")).unwrap();
        let mut batch = Batch::observed();
        for number in numbers {
            let at = Time::from_millis(1_800_000_000_000 + i64::try_from(number).unwrap());
            let event_id = EventId::derived(at, "made up", session, &number.to_be_bytes());
            let data = Raw::from_value(&json!({"content": format!("prompt {number}")})).unwrap();
            batch = batch.with(Draft::with_data(event_id, id.clone(), at, Kind::UserPrompt, data));
        }
        journal.append(batch).unwrap();
        journal.stat(&id).unwrap()
    }

    #[test]
    fn what_is_held_and_continued_is_what_the_tail_says() {
        let journal = Journal::in_memory();
        let mut hots = Hots::default();
        // Little news, much news, and so much that what was held counts no more.
        let mut from = 0;
        for to in [3, 10, 1_500, 3_900] {
            let info = record(&journal, "s", from..to);
            from = to;
            let fresh = Hots::default().of(&journal, &info).unwrap().clone();
            assert_eq!(*hots.of(&journal, &info).unwrap(), fresh);
            assert_eq!(fresh.seq(), to);
        }
        for number in 0..HELD_MAX + 5 {
            let info = record(&journal, &format!("{number}"), 0..1);
            hots.of(&journal, &info).unwrap();
        }
        assert_eq!(hots.held.len(), HELD_MAX);
    }
}
