//! Quarters of an hour in UTC: what sums are kept by, so that they can be shown by the days of any
//! time zone.

use event::Time;
use serde::{Deserialize, Serialize};

use crate::day::Day;

/// Every zone that is in use is a multiple of this away from UTC, so each local midnight lies
/// between two of them.
const NANOS_PER_QUARTER: i128 = 900 * 1_000_000_000;

/// A quarter of an hour, stored as the count of them since 1970.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct QuarterHour(i64);

impl QuarterHour {
    pub fn from_time(time: Time) -> QuarterHour {
        QuarterHour(time.nanos().div_euclid(NANOS_PER_QUARTER) as i64)
    }

    /// Its first instant.
    pub fn begin(self) -> Time {
        Time::from_nanos(i128::from(self.0) * NANOS_PER_QUARTER)
    }

    /// The first one of its day in UTC.
    pub(crate) fn first_of_day(self) -> QuarterHour {
        QuarterHour::from_time(Day::from_time(self.begin()).begin())
    }
}
