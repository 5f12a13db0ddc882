//! Two clocks: wall time for people, monotonic time for waiting.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::day::Day;

/// Monotonic time since the supervisor started. It stands still while the machine sleeps.
pub(crate) type Moment = Duration;

/// Both clocks and the time zone.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    source: ClockSource,
    pub(crate) zone: Zone,
}

/// Where the time comes from.
#[derive(Clone, Debug)]
enum ClockSource {
    System {
        began: Instant,
    },
    /// A clock that a test sets; both clocks show these seconds.
    #[cfg(test)]
    Set(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

/// Converts instants to local time and back.
#[derive(Clone, Debug)]
pub(crate) struct Zone(TimeZone);

impl Clock {
    pub(crate) fn system() -> Clock {
        let source = ClockSource::System { began: Instant::now() };
        Clock { source, zone: Zone(TimeZone::system()) }
    }

    /// Returns a clock that stands still until a test sets its seconds.
    #[cfg(test)]
    pub(crate) fn set_by(seconds: &std::sync::Arc<std::sync::atomic::AtomicU64>) -> Clock {
        Clock { source: ClockSource::Set(seconds.clone()), zone: Zone(TimeZone::UTC) }
    }

    pub(crate) fn moment(&self) -> Moment {
        match &self.source {
            ClockSource::System { began } => began.elapsed(),
            #[cfg(test)]
            ClockSource::Set(seconds) => {
                Moment::from_secs(seconds.load(std::sync::atomic::Ordering::Relaxed))
            }
        }
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let since = match &self.source {
            ClockSource::System { .. } => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            }
            #[cfg(test)]
            ClockSource::Set(_) => self.moment(),
        };
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    pub(crate) fn today(&self) -> Day {
        self.zone.day(self.now_ms())
    }
}

impl Zone {
    #[cfg(test)]
    pub(crate) fn new(zone: TimeZone) -> Zone {
        Zone(zone)
    }

    pub(crate) fn day(&self, ms: i64) -> Day {
        Day::from_date(self.local(ms).date())
    }

    /// Converts an instant to local time.
    pub(crate) fn local(&self, ms: i64) -> DateTime {
        self.zoned(ms).datetime()
    }

    /// Converts local time to an instant. A time that daylight saving skips counts as the one behind
    /// the gap; a time that occurs twice counts as the first.
    pub(crate) fn instant(&self, local: DateTime) -> i64 {
        let instant = self.0.to_ambiguous_timestamp(local).compatible();
        instant.map_or(i64::MAX, Timestamp::as_millisecond)
    }

    fn zoned(&self, ms: i64) -> Zoned {
        let instant = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
        instant.to_zoned(self.0.clone())
    }
}
