//! A day in the form of folder names: `YYYYMMDD`, a date that exists.

use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A day in the user's calendar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Day(Date);

impl Day {
    /// Parses eight digits; `None` if they are not an existing date.
    pub fn parse(text: &str) -> Option<Day> {
        if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let year = text[..4].parse().ok()?;
        let (month, day) = (text[4..6].parse().ok()?, text[6..].parse().ok()?);
        Date::new(year, month, day).ok().map(Day)
    }

    pub fn from_date(date: Date) -> Day {
        Day(date)
    }

    pub fn date(self) -> Date {
        self.0
    }

    pub fn yesterday(self) -> Day {
        Day(self.0.yesterday().unwrap_or(self.0))
    }

    /// Returns a form for people: `Monday, 2026-11-16`.
    pub fn in_words(self) -> String {
        self.0.strftime("%A, %Y-%m-%d").to_string()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.strftime("%Y%m%d").to_string())
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Day, D::Error> {
        let text = String::deserialize(deserializer)?;
        Day::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no day")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_is_eight_digits_and_exists() {
        let day = Day::parse("20240229").expect("a leap day");
        assert_eq!(day.to_string(), "20240229");
        assert_eq!(day.in_words(), "Thursday, 2024-02-29");
        for bad in ["20230229", "2024-02-29", "yesterday", "", "２０２４", "-0240229", "202402291"]
        {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }
}
