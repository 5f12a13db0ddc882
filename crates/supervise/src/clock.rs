//! The clocks of this machine: one for people, one for waiting.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::day::Day;

/// Time on the supervisor's own clock: it begins at 0, never goes back, and stands still while
/// the machine sleeps.
pub(crate) type Moment = Duration;

/// The two clocks, and where on earth they hang.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    source: Source,
    pub(crate) zone: Zone,
}

/// What the clocks go by.
#[derive(Clone, Debug)]
enum Source {
    System {
        began: Instant,
    },
    /// Whoever set it; both clocks show the seconds since it was made.
    #[cfg(test)]
    Set(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

/// Turns instants into what a clock on the wall shows, and back.
#[derive(Clone, Debug)]
pub(crate) struct Zone(TimeZone);

impl Clock {
    pub(crate) fn system() -> Clock {
        let source = Source::System { began: Instant::now() };
        Clock { source, zone: Zone(TimeZone::system()) }
    }

    /// One that stands still until its seconds are set.
    #[cfg(test)]
    pub(crate) fn set_by(seconds: &std::sync::Arc<std::sync::atomic::AtomicU64>) -> Clock {
        Clock { source: Source::Set(seconds.clone()), zone: Zone(TimeZone::UTC) }
    }

    pub(crate) fn moment(&self) -> Moment {
        match &self.source {
            Source::System { began } => began.elapsed(),
            #[cfg(test)]
            Source::Set(seconds) => {
                Moment::from_secs(seconds.load(std::sync::atomic::Ordering::Relaxed))
            }
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let since = match &self.source {
            Source::System { .. } => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            }
            #[cfg(test)]
            Source::Set(_) => self.moment(),
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
        Day::of(self.local(ms).date())
    }

    /// What the clock on the wall shows.
    pub(crate) fn local(&self, ms: i64) -> DateTime {
        self.zoned(ms).datetime()
    }

    /// When the clock on the wall shows this. A time that is skipped counts as the one it is
    /// skipped to, one that comes twice as the first.
    pub(crate) fn instant(&self, local: DateTime) -> i64 {
        let instant = self.0.to_ambiguous_timestamp(local).compatible();
        instant.map_or(i64::MAX, Timestamp::as_millisecond)
    }

    fn zoned(&self, ms: i64) -> Zoned {
        let instant = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
        instant.to_zoned(self.0.clone())
    }
}
