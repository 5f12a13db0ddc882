//! When something is due that nobody sends a message for: an hour of silence, and the end of a day.

use std::collections::BTreeSet;

use event::Time;
use serde::{Deserialize, Serialize};

use crate::dream::Dream;
use crate::segment::SegmentKey;
use crate::zone::Zone;
use supervise::Day;

/// Silence after which what was worked at is over.
const FLUSH_AFTER_MILLIS: i128 = 60 * 60 * 1_000;

/// Days that are digested after a long absence: the newest of those with news.
const DAYS_MAX: usize = 4;

/// What has come since the last time, and what was done about it. Kept over restarts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Calendar {
    /// The last segment, when it came, and whether everything was ended since.
    last: Option<Last>,
    /// Days with segments that are not in their digests.
    changed: BTreeSet<Day>,
    today: Option<Day>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Last {
    key: SegmentKey,
    at: Time,
    is_flushed: bool,
}

impl Calendar {
    /// A segment has come while somebody is at work.
    pub(super) fn saw(&mut self, key: SegmentKey, at: Time) {
        self.changed.insert(key.day());
        self.last = Some(Last { key, at, is_flushed: false });
    }

    /// A segment of long ago has come.
    pub(super) fn saw_history(&mut self, day: Day) {
        self.changed.insert(day);
    }

    /// What is due now. Each is told once.
    pub(super) fn due(&mut self, now: Time, zone: &Zone) -> Vec<Dream> {
        let today = zone.day(now);
        let mut due = Vec::new();
        if let Some(last) = self.last.as_mut().filter(|last| !last.is_flushed) {
            let silence = (now.nanos() - last.at.nanos()) / 1_000_000;
            if silence >= FLUSH_AFTER_MILLIS || last.key.day() < today {
                last.is_flushed = true;
                due.push(Dream::Flush(last.key.clone()));
            }
        }
        // A clock that was put back changes no day.
        if self.today.is_none_or(|before| before < today) {
            self.today = Some(today);
            let over: Vec<Day> = self.changed.range(..today).copied().collect();
            self.changed = self.changed.split_off(&today);
            let newest = over.len().saturating_sub(DAYS_MAX);
            due.extend(over.into_iter().skip(newest).map(Dream::Daily));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        text.parse().expect("a time")
    }

    fn key(day: &str) -> SegmentKey {
        SegmentKey::parse(day, "claude", "080001_5").expect("a key")
    }

    fn day(text: &str) -> Day {
        Day::parse(text).expect("a day")
    }

    #[test]
    fn an_hour_of_silence_is_told_once_and_counted_anew() {
        let mut calendar = Calendar::default();
        let due = |calendar: &mut Calendar, now: &str| calendar.due(at(now), &Zone::UTC);
        assert_eq!(due(&mut calendar, "2026-11-16T08:00:00Z"), []);
        calendar.saw(key("20261116"), at("2026-11-16T08:00:00Z"));
        assert_eq!(due(&mut calendar, "2026-11-16T08:59:00Z"), []);
        calendar.saw(key("20261116"), at("2026-11-16T08:59:00Z"));
        assert_eq!(due(&mut calendar, "2026-11-16T09:01:00Z"), []);
        let flush = [Dream::Flush(key("20261116"))];
        assert_eq!(due(&mut calendar, "2026-11-16T10:00:00Z"), flush);
        assert_eq!(due(&mut calendar, "2026-11-16T12:00:00Z"), []);
    }

    #[test]
    fn at_midnight_yesterday_is_ended_and_then_digested() {
        let mut calendar = Calendar::default();
        calendar.due(at("2026-11-16T08:00:00Z"), &Zone::UTC);
        calendar.saw(key("20261116"), at("2026-11-16T23:58:00Z"));
        let due = calendar.due(at("2026-11-17T00:00:01Z"), &Zone::UTC);
        assert_eq!(due, [Dream::Flush(key("20261116")), Dream::Daily(day("20261116"))]);
        assert_eq!(calendar.due(at("2026-11-17T00:00:02Z"), &Zone::UTC), []);
    }

    #[test]
    fn after_a_long_absence_the_newest_days_come_oldest_first_and_today_later() {
        let mut calendar = Calendar::default();
        calendar.due(at("2026-11-10T08:00:00Z"), &Zone::UTC);
        for number in 10..=16 {
            calendar.saw_history(day(&format!("202611{number}")));
        }
        let due = calendar.due(at("2026-11-16T08:00:00Z"), &Zone::UTC);
        let days = ["20261112", "20261113", "20261114", "20261115"];
        assert_eq!(due, days.map(|text| Dream::Daily(day(text))));
        let due = calendar.due(at("2026-11-17T08:00:00Z"), &Zone::UTC);
        assert_eq!(due, [Dream::Daily(day("20261116"))]);
    }

    #[test]
    fn it_goes_on_where_it_was_saved() {
        let mut calendar = Calendar::default();
        calendar.due(at("2026-11-16T08:00:00Z"), &Zone::UTC);
        calendar.saw(key("20261116"), at("2026-11-16T08:00:00Z"));
        let saved = serde_json::to_string(&calendar).expect("it can be saved");
        let again: Calendar = serde_json::from_str(&saved).expect("it can be read");
        assert_eq!(again, calendar);
    }
}
