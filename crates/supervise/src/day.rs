//! A day as folders are called: `YYYYMMDD`, a date that exists.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A day, eight digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Day(String);

impl Day {
    /// Reads eight digits that are a date; `None` for anything else.
    pub fn parse(text: &str) -> Option<Day> {
        let digits = text.as_bytes();
        if digits.len() != 8 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let year = text[..4].parse().ok()?;
        let (month, day) = (text[4..6].parse().ok()?, text[6..].parse().ok()?);
        jiff::civil::Date::new(year, month, day).ok()?;
        Some(Day(text.to_owned()))
    }

    pub(crate) fn of(date: jiff::civil::Date) -> Day {
        Day(format!("{:04}{:02}{:02}", date.year(), date.month(), date.day()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Day, D::Error> {
        let text = String::deserialize(deserializer)?;
        Day::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no day")))
    }
}
