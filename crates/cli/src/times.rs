//! Times and days as users write them, for every option that takes one.
//!
//! | written | means |
//! |---|---|
//! | `90s`, `30m`, `12h`, `7d`, `2w` | so long ago |
//! | `today`, `yesterday`, `2026-11-01`, `20261101` | that day in the user's time zone |
//! | `2026-11-01T14:30`, `2026-11-01 14:30:05` | that time in the user's time zone |
//! | `2026-11-01T14:30:00Z`, `…+02:00` | RFC 3339, in any zone |

use std::str::FromStr;

use event::Time;
use segments::{Day, Zone};
use session::LogPoint;

/// What `--help` says of a value of these options.
pub(crate) const TIME_HELP: &str = "7d, 12h, yesterday, 2026-11-01 or 2026-11-01T14:30";

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// A time that the user wrote. The clock and the time zone decide which instant it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TimeArg {
    Instant(Time),
    SecondsAgo(u32),
    Day(DayArg),
    /// A date and a time of day without a zone.
    Local(String),
}

/// A day that the user wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DayArg {
    Today,
    Yesterday,
    Date(Day),
}

/// A point of a session that the user wrote: a `seq`, an event id or a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PointArg {
    Known(LogPoint),
    Time(TimeArg),
}

impl TimeArg {
    /// The instant, for `--since`: a day counts from its first moment.
    pub(crate) fn begin(&self, now: Time, zone: &Zone) -> Time {
        self.bounds(now, zone).0
    }

    /// The instant, for `--until`: a day counts whole.
    pub(crate) fn end(&self, now: Time, zone: &Zone) -> Time {
        self.bounds(now, zone).1
    }

    /// The last instant that counts: the end of a day is the beginning of the next one, which is not
    /// part of it.
    pub(crate) fn last(&self, now: Time, zone: &Zone) -> Time {
        let end = self.end(now, zone);
        match self {
            TimeArg::Day(_) => Time::from_nanos(end.nanos() - 1),
            _ => end,
        }
    }

    fn bounds(&self, now: Time, zone: &Zone) -> (Time, Time) {
        let instant = match self {
            TimeArg::Instant(at) => *at,
            TimeArg::SecondsAgo(secs) => {
                Time::from_nanos(now.nanos() - i128::from(*secs) * NANOS_PER_SEC)
            }
            // A time or a day at the edge of the calendar may have no instant in this zone; the
            // present time is as good.
            TimeArg::Local(text) => zone.parse_local(text).unwrap_or(now),
            TimeArg::Day(day) => {
                return zone.bounds(day.resolve(now, zone)).unwrap_or((now, now));
            }
        };
        (instant, instant)
    }
}

impl DayArg {
    pub(crate) fn resolve(self, now: Time, zone: &Zone) -> Day {
        match self {
            DayArg::Today => zone.day(now),
            DayArg::Yesterday => zone.day(now).yesterday(),
            DayArg::Date(day) => day,
        }
    }
}

impl PointArg {
    pub(crate) fn resolve(&self, now: Time, zone: &Zone) -> LogPoint {
        match self {
            PointArg::Known(point) => *point,
            PointArg::Time(time) => LogPoint::Time(time.last(now, zone)),
        }
    }
}

impl FromStr for TimeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeArg, String> {
        let text = text.trim();
        if let Ok(day) = text.parse() {
            return Ok(TimeArg::Day(day));
        }
        if let Ok(at) = text.parse() {
            return Ok(TimeArg::Instant(at));
        }
        if let Some(secs) = parse_seconds(text) {
            return Ok(TimeArg::SecondsAgo(secs));
        }
        // Whether it is a time does not depend on the zone.
        match Zone::UTC.parse_local(text) {
            Some(_) => Ok(TimeArg::Local(text.to_owned())),
            None => Err(format!("use {TIME_HELP}")),
        }
    }
}

impl FromStr for DayArg {
    type Err = String;

    fn from_str(text: &str) -> Result<DayArg, String> {
        match text {
            "today" => return Ok(DayArg::Today),
            "yesterday" => return Ok(DayArg::Yesterday),
            _ => {}
        }
        let day = Day::parse(text).or_else(|| parse_dashed(text)).map(DayArg::Date);
        day.ok_or_else(|| "use a date such as 2026-11-16, or `today` or `yesterday`".to_owned())
    }
}

impl FromStr for PointArg {
    type Err = String;

    fn from_str(text: &str) -> Result<PointArg, String> {
        if let Ok(point) = text.parse() {
            return Ok(PointArg::Known(point));
        }
        let time = text.parse().map(PointArg::Time);
        time.map_err(|_| format!("use the number of an event, an event id, or {TIME_HELP}"))
    }
}

/// Parses a number with its unit, such as `7d`.
fn parse_seconds(text: &str) -> Option<u32> {
    let unit = text.chars().last()?;
    let secs = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number = &text[..text.len() - unit.len_utf8()];
    // `+7d` is no number of days.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| number.parse::<u32>().ok()?.checked_mul(secs)).flatten()
}

/// Parses a date such as `2026-11-16`.
fn parse_dashed(text: &str) -> Option<Day> {
    let [year, month, day] = text.split('-').collect::<Vec<_>>().try_into().ok()?;
    // A month of one digit would shift the day: `2026-1-116`.
    (month.len() == 2).then(|| Day::parse(&[year, month, day].concat())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, since: &str, until: &str) {
        let now: Time = "2026-11-18T14:30:00Z".parse().expect("a time");
        let time: TimeArg = text.parse().expect("a time of a user");
        let zone = Zone::UTC;
        let told = (time.begin(now, &zone).to_string(), time.end(now, &zone).to_string());
        assert_eq!(told, (since.to_owned(), until.to_owned()), "{text}");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        check("90s", "2026-11-18T14:28:30Z", "2026-11-18T14:28:30Z");
        check("12h", "2026-11-18T02:30:00Z", "2026-11-18T02:30:00Z");
        check("7d", "2026-11-11T14:30:00Z", "2026-11-11T14:30:00Z");
        check("2w", "2026-11-04T14:30:00Z", "2026-11-04T14:30:00Z");
        // A day counts whole.
        check("today", "2026-11-18T00:00:00Z", "2026-11-19T00:00:00Z");
        check("yesterday", "2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z");
        check("2026-11-01", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        check("20261101", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
        check("2026-11-01T14:30", "2026-11-01T14:30:00Z", "2026-11-01T14:30:00Z");
        check("2026-11-01 14:30:05", "2026-11-01T14:30:05Z", "2026-11-01T14:30:05Z");
        check("2026-11-01T14:30:00+02:00", "2026-11-01T12:30:00Z", "2026-11-01T12:30:00Z");
    }

    #[test]
    fn other_words_are_no_times() {
        for text in [
            "",
            "7",
            "d",
            "7x",
            "-7d",
            "+7d",
            "99999999w",
            "2026-13-01",
            "2026-1-116",
            // An offset needs seconds before it; without them it would be ignored.
            "2026-11-01T14:30+02:00",
            "2026-11-01T14:30[Asia/Tokyo]",
        ] {
            assert!(text.parse::<TimeArg>().is_err(), "{text}");
        }
    }

    #[test]
    fn number_is_a_point_and_a_day_is_a_time() {
        assert_eq!("7".parse(), Ok(PointArg::Known(LogPoint::Seq(7))));
        let point: PointArg = "2026-11-01".parse().expect("a day");
        let LogPoint::Time(at) = point.resolve(Time::from_millis(0), &Zone::UTC) else {
            panic!("{point:?}");
        };
        assert_eq!(Zone::UTC.date_and_second(at), "2026-11-01 23:59:59");
    }
}
