//! Schedules: tasks that run at set local times.
//!
//! A time that was missed, because the machine slept or no daemon ran, runs once.
//!
//! Not here: running tasks, files, clocks.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::DateTime;

use crate::clock::Zone;
use crate::services_file::{Every, Schedule, Weekday};

/// The last run of each schedule by name; before the first run, when the schedule was first seen.
pub(crate) type LastRuns = BTreeMap<String, LastRun>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct LastRun {
    pub at_ms: i64,
    /// False until the first run.
    pub has_run: bool,
}

/// All schedules of the file.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    schedules: Vec<Schedule>,
    last_runs: LastRuns,
}

impl Schedules {
    pub(crate) fn new(last_runs: LastRuns) -> Schedules {
        Schedules { schedules: Vec::new(), last_runs }
    }

    /// Loads the schedules of a file. A new one waits for its next time.
    pub(crate) fn load(&mut self, schedules: &[Schedule], now_ms: i64) {
        self.schedules = schedules.to_vec();
        for schedule in schedules {
            let known = LastRun { at_ms: now_ms, has_run: false };
            self.last_runs.entry(schedule.name.clone()).or_insert(known);
        }
        let is_there = |name: &str| schedules.iter().any(|schedule| schedule.name == name);
        // A schedule that comes back later is new: what it missed in between is not made up for.
        self.last_runs.retain(|name, _| is_there(name));
    }

    /// Returns the schedules that are due. They count as run.
    pub(crate) fn take_due(&mut self, now_ms: i64, zone: &Zone) -> Vec<Schedule> {
        let mut due = Vec::new();
        for schedule in &self.schedules {
            let Some(last) = self.last_runs.get_mut(&schedule.name) else { continue };
            // The clock was ahead then. The task must not wait until that time comes again.
            last.at_ms = last.at_ms.min(now_ms);
            if next_run(schedule, last.at_ms, zone) <= now_ms {
                // From now on, not from the missed time: several missed times run once.
                *last = LastRun { at_ms: now_ms, has_run: true };
                due.push(schedule.clone());
            }
        }
        due
    }

    pub(crate) fn last_runs(&self) -> &LastRuns {
        &self.last_runs
    }

    /// Lists each schedule with its last and its next run.
    pub(crate) fn all<'a>(
        &'a self,
        zone: &'a Zone,
    ) -> impl Iterator<Item = (&'a Schedule, Option<i64>, i64)> {
        self.schedules.iter().filter_map(move |schedule| {
            let last = self.last_runs.get(&schedule.name)?;
            let next = next_run(schedule, last.at_ms, zone);
            Some((schedule, last.has_run.then_some(last.at_ms), next))
        })
    }
}

/// Returns the first time of a schedule after an instant.
fn next_run(schedule: &Schedule, after_ms: i64, zone: &Zone) -> i64 {
    let local = zone.local(after_ms);
    let (hour, minute) = schedule.at;
    let first = match schedule.every {
        Every::Hourly => local.date().at(local.hour(), 0, 0, 0),
        Every::Daily => local.date().at(hour, minute, 0, 0),
        Every::Weekly => {
            // Negative before the weekday comes: the time of this week then lies ahead.
            let since = local.date().weekday().to_monday_zero_offset() - day_of_week(schedule.on);
            let date = local.date().saturating_sub(i64::from(since).days());
            date.at(hour, minute, 0, 0)
        }
    };
    // Try the time of this hour, day or week, then the following ones.
    for count in 0..=2 {
        let at = zone.instant(later(first, schedule.every, count));
        if at > after_ms {
            return at;
        }
    }
    i64::MAX
}

fn later(local: DateTime, every: Every, count: i64) -> DateTime {
    match every {
        Every::Hourly => local.saturating_add(count.hours()),
        Every::Daily => local.saturating_add(count.days()),
        Every::Weekly => local.saturating_add(count.weeks()),
    }
}

fn day_of_week(day: Weekday) -> i8 {
    match day {
        Weekday::Mon => 0,
        Weekday::Tue => 1,
        Weekday::Wed => 2,
        Weekday::Thu => 3,
        Weekday::Fri => 4,
        Weekday::Sat => 5,
        Weekday::Sun => 6,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// A zone of its own: UTC+2 in summer, UTC+1 in winter.
    fn zone() -> Zone {
        Zone::new(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
    }

    fn schedule(every: Every, at: (i8, i8), on: Weekday) -> Schedule {
        let name = "fetch".to_owned();
        Schedule { name, every, at, on, cmd: vec!["git".to_owned()] }
    }

    fn local(text: &str) -> i64 {
        zone().instant(text.parse().unwrap())
    }

    #[track_caller]
    fn check(schedule: &Schedule, after: &str, expected: &str) {
        let next = next_run(schedule, local(after), &zone());
        assert_eq!(zone().local(next).to_string(), expected, "after {after}");
    }

    #[test]
    fn next_run_follows_local_time() {
        let hourly = schedule(Every::Hourly, (0, 0), Weekday::Mon);
        check(&hourly, "2025-02-13T10:30:00", "2025-02-13T11:00:00");
        check(&hourly, "2025-02-13T11:00:00", "2025-02-13T12:00:00");
        let daily = schedule(Every::Daily, (3, 0), Weekday::Mon);
        check(&daily, "2025-02-13T02:59:59", "2025-02-13T03:00:00");
        check(&daily, "2025-02-13T03:00:00", "2025-02-14T03:00:00");
        check(&daily, "2025-12-31T23:00:00", "2026-01-01T03:00:00");
        // A Thursday.
        let weekly = schedule(Every::Weekly, (3, 0), Weekday::Thu);
        check(&weekly, "2025-02-13T02:00:00", "2025-02-13T03:00:00");
        check(&weekly, "2025-02-13T04:00:00", "2025-02-20T03:00:00");
        check(&weekly, "2025-02-14T04:00:00", "2025-02-20T03:00:00");
        check(&weekly, "2025-02-10T04:00:00", "2025-02-13T03:00:00");
    }

    #[test]
    fn daylight_saving_loses_no_run() {
        // On this day 02:30 does not exist.
        let daily = schedule(Every::Daily, (2, 30), Weekday::Mon);
        check(&daily, "2025-03-29T12:00:00", "2025-03-30T03:30:00");
        check(&daily, "2025-03-30T12:00:00", "2025-03-31T02:30:00");
        // On this day 02:30 occurs twice; the first counts.
        check(&daily, "2025-10-25T12:00:00", "2025-10-26T02:30:00");
        check(&daily, "2025-10-26T02:30:00", "2025-10-27T02:30:00");
    }

    #[test]
    fn missed_schedule_runs_once() {
        let daily = schedule(Every::Daily, (3, 0), Weekday::Mon);
        let mut schedules = Schedules::default();
        schedules.load(std::slice::from_ref(&daily), local("2025-02-13T10:00:00"));
        let mut due = |at: &str| schedules.take_due(local(at), &zone()).len();
        assert_eq!(due("2025-02-13T10:00:05"), 0, "a new one waits for its time");
        assert_eq!(due("2025-02-14T02:59:59"), 0);
        assert_eq!(due("2025-02-14T03:00:00"), 1);
        assert_eq!(due("2025-02-14T03:00:05"), 0);
        assert_eq!(due("2025-02-20T12:00:00"), 1, "asleep over six days");
        assert_eq!(due("2025-02-20T12:00:05"), 0);
        assert_eq!(due("2025-02-21T03:00:00"), 1);
        // The next daemon continues from the saved state.
        let mut next = Schedules::new(schedules.last_runs().clone());
        next.load(&[daily], local("2025-02-23T10:00:00"));
        assert_eq!(next.take_due(local("2025-02-23T10:00:00"), &zone()).len(), 1);
    }

    #[test]
    fn clock_set_back_delays_no_run() {
        let daily = schedule(Every::Daily, (3, 0), Weekday::Mon);
        let at_ms = local("2050-01-01T00:00:00");
        let last = BTreeMap::from([("fetch".to_owned(), LastRun { at_ms, has_run: true })]);
        let mut schedules = Schedules::new(last);
        schedules.load(&[daily], local("2025-02-13T10:00:00"));
        assert_eq!(schedules.take_due(local("2025-02-13T10:00:00"), &zone()).len(), 0);
        assert_eq!(schedules.take_due(local("2025-02-14T03:00:00"), &zone()).len(), 1);
    }
}
