//! Money, counted exactly.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::excerpt;

const NANOS_PER_DOLLAR: i64 = 1_000_000_000;

/// US dollars as whole nano-dollars: no order of addition changes a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost(i64);

/// The text is not an amount of money that can be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an amount in dollars")]
pub struct BadCost(pub String);

impl Cost {
    pub const ZERO: Cost = Cost(0);

    pub fn from_nanos(nanos: i64) -> Cost {
        Cost(nanos)
    }

    pub fn nanos(self) -> i64 {
        self.0
    }
}

/// A plain decimal: `0.08`, `12`, never an exponent.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let (dollars, rest) = (nanos / NANOS_PER_DOLLAR as u64, nanos % NANOS_PER_DOLLAR as u64);
        if rest == 0 {
            return write!(f, "{sign}{dollars}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{sign}{dollars}.{}", digits.trim_end_matches('0'))
    }
}

/// Any JSON number; what is finer than a nano-dollar is rounded to the nearest one.
impl FromStr for Cost {
    type Err = BadCost;

    fn from_str(text: &str) -> Result<Cost, BadCost> {
        parse(text).map(Cost).ok_or_else(|| BadCost(excerpt(text)))
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string())
            .expect("a plain decimal is a JSON number")
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cost, D::Error> {
        // As written: on the way through a float the last digits would be lost.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        raw.get().parse().map_err(serde::de::Error::custom)
    }
}

// Nine billion dollars is more than a total will honestly reach. One that would stands still
// there, which says so better than wrapping around.

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost(self.0.saturating_sub(other.0))
    }
}

/// Exact in any order, also where sums on the way are larger than any cost.
impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        let nanos: i128 = costs.map(|cost| i128::from(cost.0)).sum();
        Cost(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}

/// Whole nano-dollars of a decimal, the nearest ones, halves away from zero.
fn parse(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // The first `kept` digits are whole nano-dollars; the one behind them decides the rounding.
    let kept = whole.len() as i64 + exponent + NANO_DIGITS;
    let mut nanos = 0i128;
    let mut place = 0;
    for digit in digits().map(|digit| i128::from(digit - b'0')) {
        if place < kept {
            nanos = within(nanos * 10 + digit)?;
        } else if place == kept && digit >= 5 {
            nanos += 1;
        }
        place += 1;
    }
    while place < kept && nanos != 0 {
        nanos = within(nanos * 10)?;
        place += 1;
    }
    i64::try_from(sign * nanos).ok()
}

/// Places behind the point of a dollar that are whole nano-dollars.
const NANO_DIGITS: i64 = 9;

/// No amount with a larger exponent is anything but zero or beyond all measure.
const EXPONENT_MAX: i64 = 1 << 32;

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = digits.parse::<i64>().map_or(EXPONENT_MAX, |digits| digits.min(EXPONENT_MAX));
    Some(if text.starts_with('-') { -exponent } else { exponent })
}

/// The amount while it can still become one that is kept.
fn within(nanos: i128) -> Option<i128> {
    (nanos <= 1 << 63).then_some(nanos)
}
