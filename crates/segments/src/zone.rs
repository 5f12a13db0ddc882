//! The user's time zone: which local day and time an instant falls on.

use std::sync::Arc;

use event::Time;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use projection::DayOf;
use supervise::Day;

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the zone of the machine from `TZ` or its settings, else UTC.
    pub fn system() -> Zone {
        Zone(TimeZone::system())
    }

    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// Returns the local day of a time.
    pub fn day(&self, at: Time) -> Day {
        Day::from_date(self.zoned(at).date())
    }

    /// Returns what tells the local day of a time, as sums of use are grouped by.
    pub fn usage_days(&self) -> DayOf {
        let zone = self.clone();
        Arc::new(move |at| zone.usage_day(at))
    }

    /// Returns the local day of a time, as sums of use are grouped by.
    pub fn usage_day(&self, at: Time) -> projection::Day {
        let offset = i128::from(self.zoned(at).offset().seconds()) * 1_000_000_000;
        // The local clock read as if it were UTC has the local date.
        projection::Day::from_time(Time::from_nanos(at.nanos() + offset))
    }

    /// Returns the first instant of the local day of a time.
    pub fn day_begin(&self, at: Time) -> Time {
        self.bounds(self.day(at)).map_or(at, |(begin, _)| begin)
    }

    /// Returns the last instant of the local day of a time.
    pub fn day_end(&self, at: Time) -> Time {
        self.bounds(self.day(at)).map_or(at, |(_, next)| Time::from_nanos(next.nanos() - 1))
    }

    /// Formats the local time of day to the second: `143045`.
    pub fn clock(&self, at: Time) -> String {
        self.zoned(at).strftime("%H%M%S").to_string()
    }

    /// Formats the local time of day for people: `14:30`.
    pub fn hour_and_minute(&self, at: Time) -> String {
        self.zoned(at).strftime("%H:%M").to_string()
    }

    /// Formats the local date and time to the minute, for lists: `2026-11-18 14:30`.
    pub fn date_and_minute(&self, at: Time) -> String {
        self.zoned(at).strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// Formats the local date and time to the second: `2026-11-18 14:30:45`.
    pub fn date_and_second(&self, at: Time) -> String {
        self.zoned(at).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Returns the instant of a local date and time such as `2026-11-18T14:30`; `None` if it is not
    /// one.
    pub fn parse_local(&self, text: &str) -> Option<Time> {
        // The parser would ignore an offset or a zone behind the time.
        let time = text.get(10..)?;
        if time.contains(['+', '-', '[']) {
            return None;
        }
        let local: jiff::civil::DateTime = text.parse().ok()?;
        let zoned = local.to_zoned(self.0.clone()).ok()?;
        Some(Time::from_nanos(zoned.timestamp().as_nanosecond()))
    }

    /// Returns when a day begins and when the next one begins.
    pub fn bounds(&self, day: Day) -> Option<(Time, Time)> {
        let begin = |date: Date| {
            let zoned = date.to_zoned(self.0.clone()).ok()?;
            Some(Time::from_nanos(zoned.timestamp().as_nanosecond()))
        };
        let date = day.date();
        Some((begin(date)?, begin(date.tomorrow().ok()?)?))
    }

    fn zoned(&self, at: Time) -> jiff::Zoned {
        // A time outside the calendar's range can only be a damaged one: any day will do.
        let timestamp = Timestamp::from_nanosecond(at.nanos()).unwrap_or(Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_begins_at_local_midnight() {
        let zone = Zone(TimeZone::fixed(jiff::tz::offset(5)));
        let evening: Time = "2026-11-15T20:30:00Z".parse().expect("a time");
        assert_eq!(zone.day(evening).to_string(), "20261116");
        assert_eq!(zone.clock(evening), "013000");
        assert_eq!(zone.date_and_minute(evening), "2026-11-16 01:30");
        assert_eq!(zone.parse_local("2026-11-16T01:30"), Some(evening));
        let (begin, end) = zone.bounds(zone.day(evening)).expect("it has bounds");
        assert_eq!(begin.to_string(), "2026-11-15T19:00:00Z");
        assert!(begin <= evening && evening < end);
    }
}
