//! The time on the wall: which day it is where the user is.

use event::Time;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// That of the machine, as its `TZ` or its settings say; UTC where they say nothing.
    pub fn system() -> Zone {
        Zone(TimeZone::system())
    }

    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The day a time lies in.
    pub fn day(&self, at: Time) -> LocalDay {
        LocalDay(self.zoned(at).date())
    }

    /// The time of the day, to the second: `143045`.
    pub(crate) fn clock(&self, at: Time) -> String {
        self.zoned(at).strftime("%H%M%S").to_string()
    }

    /// The same for people: `14:30`.
    pub fn hour_and_minute(&self, at: Time) -> String {
        self.zoned(at).strftime("%H:%M").to_string()
    }

    /// When a day begins and when the next one does.
    pub fn bounds(&self, day: LocalDay) -> Option<(Time, Time)> {
        let begin = |date: Date| {
            let zoned = date.to_zoned(self.0.clone()).ok()?;
            Some(Time::from_nanos(zoned.timestamp().as_nanosecond()))
        };
        Some((begin(day.0)?, begin(day.0.tomorrow().ok()?)?))
    }

    fn zoned(&self, at: Time) -> jiff::Zoned {
        // A time beyond all calendars is as good as the first.
        let timestamp = Timestamp::from_nanosecond(at.nanos()).unwrap_or(Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(self.0.clone())
    }
}

/// A day on the calendar of the user, written `20261116`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LocalDay(Date);

impl LocalDay {
    /// Reads `20261116` and `2026-11-16`; only days that exist.
    pub fn parse(text: &str) -> Option<LocalDay> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let digits = match text.len() {
            10 if text.is_ascii() && &text[4..5] == "-" && &text[7..8] == "-" => {
                [&text[..4], &text[5..7], &text[8..]].concat()
            }
            8 => text.to_owned(),
            _ => return None,
        };
        if !is_digits(&digits) {
            return None;
        }
        Date::new(digits[..4].parse().ok()?, digits[4..6].parse().ok()?, digits[6..].parse().ok()?)
            .ok()
            .map(LocalDay)
    }

    pub fn yesterday(self) -> LocalDay {
        LocalDay(self.0.yesterday().unwrap_or(self.0))
    }

    /// For people: `Monday, 2026-11-16`.
    pub fn in_words(self) -> String {
        self.0.strftime("%A, %Y-%m-%d").to_string()
    }
}

impl std::fmt::Display for LocalDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.strftime("%Y%m%d").to_string())
    }
}

impl serde::Serialize for LocalDay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for LocalDay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<LocalDay, D::Error> {
        let text = String::deserialize(deserializer)?;
        LocalDay::parse(&text).ok_or_else(|| serde::de::Error::custom("no day"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_in_two_ways_and_only_if_it_exists() {
        let day = LocalDay::parse("20240229").expect("a leap day");
        assert_eq!(LocalDay::parse("2024-02-29"), Some(day));
        assert_eq!(day.to_string(), "20240229");
        for bad in ["20230229", "2024-2-29", "yesterday", "", "２０２４", "2024-02-29T", "-0240229"]
        {
            assert_eq!(LocalDay::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_day_begins_when_the_clock_on_the_wall_says_so() {
        let zone = Zone(TimeZone::fixed(jiff::tz::offset(5)));
        let evening: Time = "2026-11-15T20:30:00Z".parse().expect("a time");
        assert_eq!(zone.day(evening).to_string(), "20261116");
        assert_eq!(zone.clock(evening), "013000");
        let (begin, end) = zone.bounds(zone.day(evening)).expect("it has bounds");
        assert_eq!(begin.to_string(), "2026-11-15T19:00:00Z");
        assert!(begin <= evening && evening < end);
    }
}
