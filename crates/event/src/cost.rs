//! Amounts of money without rounding errors.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::excerpt;

const NANOS_PER_DOLLAR: i64 = 1_000_000_000;

/// US dollars as whole nano-dollars, so that a sum does not depend on the order of addition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost(i64);

/// The text is not a number, or the amount is too large.
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

/// Writes a plain decimal such as `0.08` or `12`, never an exponent.
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

/// Reads any JSON number and rounds it to the nearest nano-dollar.
impl FromStr for Cost {
    type Err = BadCost;

    fn from_str(text: &str) -> Result<Cost, BadCost> {
        parse_nanos(text).map(Cost).ok_or_else(|| BadCost(excerpt(text)))
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As digits and not as a float, which cannot hold every nano-dollar of a large amount.
        RawValue::from_string(self.to_string())
            .expect("a plain decimal is a JSON number")
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cost, D::Error> {
        // From the digits as written: a float would lose the last ones.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        raw.get().parse().map_err(serde::de::Error::custom)
    }
}

// An `i64` holds nine billion dollars, more than an honest total. A larger one stays at the
// limit, which is easier to notice than a wrapped number.

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

/// Sums exactly in any order, also if a partial sum is larger than the largest cost.
impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        let nanos: i128 = costs.map(|cost| i128::from(cost.0)).sum();
        Cost(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}

/// Parses a decimal as nano-dollars, rounded to the nearest, halves away from zero.
fn parse_nanos(text: &str) -> Option<i64> {
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
    // The first `kept` digits are whole nano-dollars; the next one decides the rounding.
    let kept = whole.len() as i64 + exponent + NANO_DIGITS;
    let mut nanos = 0i128;
    let mut place = 0;
    for digit in digits().map(|digit| i128::from(digit - b'0')) {
        if place < kept {
            nanos = check_range(nanos * 10 + digit)?;
        } else if place == kept && digit >= 5 {
            nanos += 1;
        }
        place += 1;
    }
    // The exponent may ask for more zeros than there are digits. `nanos != 0` ends the loop for
    // a zero with a huge exponent, `check_range` for every other number.
    while place < kept && nanos != 0 {
        nanos = check_range(nanos * 10)?;
        place += 1;
    }
    i64::try_from(sign * nanos).ok()
}

/// Decimal places of a dollar that are whole nano-dollars.
const NANO_DIGITS: i64 = 9;

/// The exponent is clamped here: an amount with a larger one is zero or out of range anyway.
const EXPONENT_MAX: i64 = 1 << 32;

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = digits.parse::<i64>().map_or(EXPONENT_MAX, |digits| digits.min(EXPONENT_MAX));
    Some(if text.starts_with('-') { -exponent } else { exponent })
}

/// Returns the amount if it can still fit `i64` with its sign.
fn check_range(nanos: i128) -> Option<i128> {
    // 2^63 itself is allowed: with a minus sign it is the smallest `i64`.
    (nanos <= 1 << 63).then_some(nanos)
}
