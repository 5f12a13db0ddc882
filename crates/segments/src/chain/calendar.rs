//! Dreams that are due by the clock and not by a message: after an hour of silence, and at the end
//! of a day.

use std::collections::BTreeSet;

use event::Time;
use serde::{Deserialize, Serialize};

use crate::dream::Dream;
use crate::segment::SegmentKey;
use crate::zone::Zone;
use supervise::Day;

/// Silence after which all open activities are over.
const FLUSH_AFTER_MILLIS: i128 = 60 * 60 * 1_000;

/// Days that are digested after a long absence, the newest ones. Older digests are computed on
/// request.
const DAYS_MAX: usize = 4;

/// Days that wait for their digest. Beyond that the oldest is forgotten: other programs name days
/// too, and only the newest are digested.
const CHANGED_MAX: usize = 400;

/// Segments since the last dreams by the clock. Saved as part of the chain's state.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Calendar {
    /// The last segment, and whether a flush has followed it.
    last: Option<LastSegment>,
    /// Days with segments that their digests lack.
    changed: BTreeSet<Day>,
    today: Option<Day>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct LastSegment {
    key: SegmentKey,
    at: Time,
    is_flushed: bool,
}

impl Calendar {
    /// Notes a new segment of current work.
    pub(super) fn add_segment(&mut self, key: SegmentKey, at: Time) {
        self.changed.insert(key.day());
        self.last = Some(LastSegment { key, at, is_flushed: false });
    }

    /// Notes a new segment of another program. A day that lies ahead would never be over.
    pub(super) fn add_foreign(&mut self, key: SegmentKey, at: Time, zone: &Zone) {
        if key.day() <= zone.day(at) {
            self.add_history(key.day());
        }
        self.last = Some(LastSegment { key, at, is_flushed: false });
    }

    /// Notes a day with a new segment of history.
    pub(super) fn add_history(&mut self, day: Day) {
        self.changed.insert(day);
        while self.changed.len() > CHANGED_MAX {
            self.changed.pop_first();
        }
    }

    /// Returns the dreams that are due now, each of them once.
    pub(super) fn due_dreams(&mut self, now: Time, zone: &Zone) -> Vec<Dream> {
        let today = zone.day(now);
        let mut due = Vec::new();
        if let Some(last) = self.last.as_mut().filter(|last| !last.is_flushed) {
            let silence = (now.nanos() - last.at.nanos()) / 1_000_000;
            // A new day flushes at once, however short the silence: activities do not pass
            // midnight.
            if silence >= FLUSH_AFTER_MILLIS || last.key.day() < today {
                last.is_flushed = true;
                // Before the digest of the day: it contains the activities that the flush ends.
                due.push(Dream::Flush(last.key.clone()));
            }
        }
        // Only forward: a clock that was set back does not end a day twice.
        if self.today.is_none_or(|before| before < today) {
            self.today = Some(today);
            let over: Vec<Day> = self.changed.range(..today).copied().collect();
            // The changes of today stay for the next midnight.
            self.changed = self.changed.split_off(&today);
            // The newest of them: the set is in order.
            let newest = over.len().saturating_sub(DAYS_MAX);
            due.extend(over.into_iter().skip(newest).map(Dream::Daily));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().expect("a time")
    }

    fn key(day: &str) -> SegmentKey {
        SegmentKey::parse(day, "claude", "080001_5").expect("a key")
    }

    fn day(text: &str) -> Day {
        Day::parse(text).expect("a day")
    }

    #[test]
    fn silence_is_flushed_once() {
        let mut calendar = Calendar::default();
        let due = |calendar: &mut Calendar, now: &str| calendar.due_dreams(time(now), &Zone::UTC);
        assert_eq!(due(&mut calendar, "2026-11-16T08:00:00Z"), []);
        calendar.add_segment(key("20261116"), time("2026-11-16T08:00:00Z"));
        assert_eq!(due(&mut calendar, "2026-11-16T08:59:00Z"), []);
        calendar.add_segment(key("20261116"), time("2026-11-16T08:59:00Z"));
        assert_eq!(due(&mut calendar, "2026-11-16T09:01:00Z"), []);
        let flush = [Dream::Flush(key("20261116"))];
        assert_eq!(due(&mut calendar, "2026-11-16T10:00:00Z"), flush);
        assert_eq!(due(&mut calendar, "2026-11-16T12:00:00Z"), []);
    }

    #[test]
    fn midnight_flushes_before_digest() {
        let mut calendar = Calendar::default();
        calendar.due_dreams(time("2026-11-16T08:00:00Z"), &Zone::UTC);
        calendar.add_segment(key("20261116"), time("2026-11-16T23:58:00Z"));
        let due = calendar.due_dreams(time("2026-11-17T00:00:01Z"), &Zone::UTC);
        assert_eq!(due, [Dream::Flush(key("20261116")), Dream::Daily(day("20261116"))]);
        assert_eq!(calendar.due_dreams(time("2026-11-17T00:00:02Z"), &Zone::UTC), []);
    }

    #[test]
    fn absence_digests_the_newest_days() {
        let mut calendar = Calendar::default();
        calendar.due_dreams(time("2026-11-10T08:00:00Z"), &Zone::UTC);
        for number in 10..=16 {
            calendar.add_history(day(&format!("202611{number}")));
        }
        let due = calendar.due_dreams(time("2026-11-16T08:00:00Z"), &Zone::UTC);
        let days = ["20261112", "20261113", "20261114", "20261115"];
        assert_eq!(due, days.map(|text| Dream::Daily(day(text))));
        let due = calendar.due_dreams(time("2026-11-17T08:00:00Z"), &Zone::UTC);
        assert_eq!(due, [Dream::Daily(day("20261116"))]);
    }

    #[test]
    fn calendar_survives_a_restart() {
        let mut calendar = Calendar::default();
        calendar.due_dreams(time("2026-11-16T08:00:00Z"), &Zone::UTC);
        calendar.add_segment(key("20261116"), time("2026-11-16T08:00:00Z"));
        let saved = serde_json::to_string(&calendar).expect("it can be saved");
        let again: Calendar = serde_json::from_str(&saved).expect("it can be read");
        assert_eq!(again, calendar);
    }
}
