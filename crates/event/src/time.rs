//! Instants with nanoseconds, their text and their stored form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::excerpt;
use crate::json::JsonString;

const NANOS_PER_SEC: i128 = 1_000_000_000;
const SECS_PER_DAY: i64 = 86_400;

/// The largest year, positive or negative. It covers every wrong clock, and microseconds since
/// 1970 still fit 64 bits.
const YEAR_MAX: i64 = 200_000;

/// An instant in UTC with nanoseconds, from the year −200,000 to the year 200,000.
///
/// Written as RFC 3339; years outside 0000–9999 carry a sign and five or more digits, as in
/// ISO 8601. Compared as instants, never as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    secs: i64,
    nanos: u32,
}

/// The text is not a valid time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 time")]
pub struct BadTime(pub String);

impl Time {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Time = Time { secs: 0, nanos: 0 };

    /// The first instant: the beginning of the year −200,000.
    pub const MIN: Time = Time { secs: days_from_civil(-YEAR_MAX, 1, 1) * SECS_PER_DAY, nanos: 0 };

    /// The last instant: the end of the year 200,000.
    pub const MAX: Time = Time {
        secs: days_from_civil(YEAR_MAX + 1, 1, 1) * SECS_PER_DAY - 1,
        nanos: NANOS_PER_SEC as u32 - 1,
    };

    /// Returns the instant `nanos` nanoseconds after 1970, clamped to [`Time::MIN`] and
    /// [`Time::MAX`].
    pub fn from_nanos(nanos: i128) -> Time {
        let nanos = nanos.clamp(Time::MIN.nanos(), Time::MAX.nanos());
        // Euclidean, so that an instant before 1970 has a positive fraction too. The derived
        // order, seconds first, depends on it.
        Time {
            secs: nanos.div_euclid(NANOS_PER_SEC) as i64,
            nanos: nanos.rem_euclid(NANOS_PER_SEC) as u32,
        }
    }

    /// Returns the instant `millis` milliseconds after 1970.
    pub fn from_millis(millis: i64) -> Time {
        Time::from_nanos(i128::from(millis) * 1_000_000)
    }

    /// Returns the nanoseconds since 1970.
    pub fn nanos(self) -> i128 {
        i128::from(self.secs) * NANOS_PER_SEC + i128::from(self.nanos)
    }

    /// Returns the milliseconds up to a later instant; 0 if it is not later.
    pub fn millis_until(self, later: Time) -> u64 {
        u64::try_from((later.nanos() - self.nanos()) / 1_000_000).unwrap_or(0)
    }

    /// Splits the instant into microseconds since 1970 and remaining nanoseconds, as stores keep
    /// it: the microseconds fit one 64-bit column.
    pub fn micros_and_rest(self) -> (i64, u16) {
        let micros = self.secs * 1_000_000 + i64::from(self.nanos / 1_000);
        (micros, (self.nanos % 1_000) as u16)
    }

    /// The reverse of [`Time::micros_and_rest`].
    pub fn from_micros_and_rest(micros: i64, rest: u16) -> Time {
        Time::from_nanos(i128::from(micros) * 1_000 + i128::from(rest.min(999)))
    }

    /// Returns the milliseconds since 1970, clamped to the 48 bits of an event id.
    pub fn id_millis(self) -> u64 {
        // An instant outside is a wrong clock. Clamped, its id still sorts first or last.
        self.nanos().div_euclid(1_000_000).clamp(0, (1 << 48) - 1) as u64
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.secs.div_euclid(SECS_PER_DAY));
        let second = self.secs.rem_euclid(SECS_PER_DAY);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        // ISO 8601 demands a sign and more than four digits for all other years. The width of 6
        // counts the sign.
        if (0..=9_999).contains(&year) {
            write!(f, "{year:04}")?;
        } else {
            write!(f, "{year:+06}")?;
        }
        write!(f, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl FromStr for Time {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Time, BadTime> {
        parse_rfc3339(text.trim()).ok_or_else(|| BadTime(excerpt(text)))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = JsonString::deserialize(deserializer)?;
        text.0.parse().map_err(serde::de::Error::custom)
    }
}

/// Parses RFC 3339, with a blank for the `T`, small letters and long signed years allowed.
fn parse_rfc3339(text: &str) -> Option<Time> {
    // A signed year has any number of digits and ends at the next hyphen; a plain one has four.
    let year_len = if text.starts_with(['+', '-']) { text[1..].find('-')? + 1 } else { 4 };
    let (year, rest) = text.split_at_checked(year_len)?;
    let year: i64 = year.parse().ok()?;
    let rest = rest.as_bytes();
    // -MM-DDTHH:MM:SS, then a fraction, then the offset.
    if rest.len() < 16
        || rest[0] != b'-'
        || rest[3] != b'-'
        || !matches!(rest[6], b'T' | b't' | b' ')
        || rest[9] != b':'
        || rest[12] != b':'
        || year.abs() > YEAR_MAX
    {
        return None;
    }
    let month = two_digits(&rest[1..3])?;
    let day = two_digits(&rest[4..6])?;
    let (hour, minute) = (two_digits(&rest[7..9])?, two_digits(&rest[10..12])?);
    let second = two_digits(&rest[13..15])?;
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanos, rest) = parse_fraction(&rest[15..])?;
    let offset_secs = parse_offset(rest)?;
    // A leap second (`:60`) becomes the second before it. The log needs an order, not astronomy.
    let second = second.min(59);
    let secs =
        days_from_civil(year, month, day) * SECS_PER_DAY + hour * 3_600 + minute * 60 + second;
    let time = Time { secs: secs - offset_secs, nanos };
    // The year is in range, but the offset can push the instant over the limit.
    (Time::MIN..=Time::MAX).contains(&time).then_some(time)
}

fn two_digits(bytes: &[u8]) -> Option<i64> {
    let [tens, ones] = bytes else { return None };
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Reads a fraction such as `.25` as nanoseconds; digits after the ninth are dropped.
fn parse_fraction(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let Some(digits) = bytes.strip_prefix(b".") else { return Some((0, bytes)) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, place| {
        let digit = if place < count { digits[place] - b'0' } else { 0 };
        nanos * 10 + u32::from(digit)
    });
    Some((nanos, &digits[count..]))
}

/// Reads `Z` or `±HH:MM` as seconds.
fn parse_offset(bytes: &[u8]) -> Option<i64> {
    match bytes {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two_digits(&[*h1, *h2])?, two_digits(&[*m1, *m2])?);
            let secs = hours * 3_600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -secs } else { secs })
        }
        _ => None,
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

// Conversion between a date and its day number, after Howard Hinnant's `chrono` algorithms. The
// year begins in March, so that the leap day is its last day. 400 years always have 146,097 days,
// and 719,468 days lie between 0000-03-01 and 1970-01-01. Five months from March have 153 days,
// which `(153 * month + 2) / 5` spreads over 31 and 30.

const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    // The three corrections take out the leap days before this day: one in 4 years, none in 100,
    // one in 400.
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
