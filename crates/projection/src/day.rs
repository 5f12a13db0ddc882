//! Days, weeks and months: what sums are shown by.

use std::fmt;
use std::str::FromStr;

use event::{BadTime, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_DAY: i128 = 86_400 * 1_000_000_000;

/// A day of the calendar, written `2026-11-16`. Its instants are those of the day in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Day(i64);

impl Day {
    /// The day in UTC.
    pub fn from_time(time: Time) -> Day {
        // Rounds down also before 1970, where a plain division would round towards zero.
        Day(time.nanos().div_euclid(NANOS_PER_DAY) as i64)
    }

    /// Its first instant.
    pub fn begin(self) -> Time {
        Time::from_nanos(i128::from(self.0) * NANOS_PER_DAY)
    }

    /// Its last instant.
    pub fn end(self) -> Time {
        Time::from_nanos((i128::from(self.0) + 1) * NANOS_PER_DAY - 1)
    }

    /// The week of ISO 8601, written `2026-W47`: it begins on a Monday and belongs to the year
    /// its Thursday lies in.
    pub fn week(self) -> String {
        // Day 0, the first of 1970, was a Thursday.
        let days_since_monday = (self.0 + 3).rem_euclid(7);
        let thursday = Day(self.0 - days_since_monday + 3);
        let year = thursday.year();
        let new_year = format!("{year}-01-01").parse::<Day>().map_or(thursday, |day| day);
        format!("{year}-W{:02}", (thursday.0 - new_year.0) / 7 + 1)
    }

    /// The month, written `2026-11`.
    pub fn month(self) -> String {
        let date = self.to_string();
        date[..date.len() - "-16".len()].to_owned()
    }

    fn year(self) -> String {
        let month = self.month();
        month[..month.len() - "-11".len()].to_owned()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let midnight = self.begin().to_string();
        f.pad(midnight.split('T').next().unwrap_or_default())
    }
}

impl FromStr for Day {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Day, BadTime> {
        format!("{text}T00:00:00Z").parse().map(Day::from_time)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Day, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
