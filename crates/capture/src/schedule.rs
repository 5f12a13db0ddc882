//! When each source is polled again: often while it grows, more and more rarely while it is quiet,
//! and not at all after half an hour.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time since the watcher was started.
pub(crate) type Moment = Duration;

/// The interval while the source grows.
const HOT: Duration = Duration::from_millis(500);
/// The same while notifications are known to arrive.
const HOT_AND_WATCHED: Duration = Duration::from_secs(1);
/// The intervals after the source has become quiet, one after the other.
const WARM: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// Later intervals: the first, and all after it.
const COOL: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(30)];

/// How long a source must be quiet until it is no longer hot, no longer warm, and no longer polled.
const HOT_FOR: Duration = Duration::from_secs(10);
const WARM_FOR: Duration = Duration::from_secs(2 * 60);
const COOL_FOR: Duration = Duration::from_secs(30 * 60);

/// The polls that are due.
#[derive(Default)]
pub(crate) struct Schedule {
    /// By time, with stale entries: see `QuietSource::due`.
    polls: BinaryHeap<Reverse<(Moment, PathBuf)>>,
    sources: HashMap<PathBuf, QuietSource>,
    /// Notifications arrive, so polls are only the fallback.
    pub is_watched: bool,
}

#[derive(Clone, Copy)]
struct QuietSource {
    since: Moment,
    /// Polls since then that found nothing.
    empty_polls: usize,
    /// The poll that counts. Older entries of the heap are skipped when they come up.
    due: Moment,
}

impl Schedule {
    /// Makes a poll of the source due now.
    pub(crate) fn poll_now(&mut self, path: &Path, now: Moment) {
        let source = self.sources.entry(path.to_owned());
        let source = source.or_insert(QuietSource { since: now, empty_polls: 0, due: Moment::MAX });
        // A poll that is due already is enough, so that a burst of notifications adds one entry.
        if source.due > now {
            source.due = now;
            self.polls.push(Reverse((now, path.to_owned())));
        }
    }

    /// Schedules the next poll after one that found this. Returns `false` for a source that was quiet
    /// for so long that it gets none.
    pub(crate) fn note_poll(&mut self, path: &Path, has_grown: bool, now: Moment) -> bool {
        let is_watched = self.is_watched;
        let Some(source) = self.sources.get_mut(path) else { return false };
        if has_grown {
            source.since = now;
            source.empty_polls = 0;
        } else {
            source.empty_polls += 1;
        }
        let quiet = now.saturating_sub(source.since);
        match poll_interval(quiet, source.empty_polls, is_watched) {
            Some(wait) => {
                source.due = now + wait;
                if quiet >= HOT_FOR {
                    source.due = next_whole_second(source.due);
                }
                self.polls.push(Reverse((source.due, path.to_owned())));
                true
            }
            None => {
                self.sources.remove(path);
                false
            }
        }
    }

    /// Drops a path that holds no source. Returns `false`, as there will be no poll.
    pub(crate) fn forget_path(&mut self, path: &Path) -> bool {
        self.sources.remove(path);
        false
    }

    /// When the next poll is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        // May be the time of a stale entry. Then a round finds nothing to do, which is harmless.
        self.polls.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes a source that is due now.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<PathBuf> {
        while self.next_due().is_some_and(|due| due <= now) {
            let Reverse((due, path)) = self.polls.pop()?;
            // Otherwise the entry is stale: its source was forgotten, or has an earlier or later
            // poll now.
            if self.sources.get(&path).is_some_and(|source| source.due == due) {
                return Some(path);
            }
        }
        None
    }
}

/// Quiet sources are polled at whole seconds: one round then serves many of them.
fn next_whole_second(due: Moment) -> Moment {
    let begun = due.subsec_nanos() > 0;
    Moment::from_secs(due.as_secs() + u64::from(begun))
}

fn poll_interval(quiet: Duration, empty_polls: usize, is_watched: bool) -> Option<Duration> {
    if quiet < HOT_FOR {
        return Some(if is_watched { HOT_AND_WATCHED } else { HOT });
    }
    // About so many polls happened while it was hot; the warm intervals begin behind them.
    let hot_polls =
        HOT_FOR.as_millis() / if is_watched { HOT_AND_WATCHED } else { HOT }.as_millis();
    let later = empty_polls.saturating_sub(hot_polls as usize);
    if quiet < WARM_FOR {
        return Some(WARM[later.min(WARM.len() - 1)]);
    }
    if quiet < COOL_FOR {
        return Some(if quiet < WARM_FOR + COOL[1] { COOL[0] } else { COOL[1] });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    /// The seconds at which a source that never grows is polled.
    fn poll_seconds(schedule: &mut Schedule, path: &Path) -> Vec<u64> {
        let mut polled = Vec::new();
        while let Some(due) = schedule.next_due() {
            if let Some(taken) = schedule.take_due(due) {
                assert_eq!(taken, path);
                polled.push(due.as_secs());
                schedule.note_poll(path, false, due);
            }
        }
        polled
    }

    #[test]
    fn quiet_source_is_polled_ever_more_rarely() {
        let path = Path::new("a");
        let mut schedule = Schedule { is_watched: true, ..Schedule::default() };
        schedule.poll_now(path, seconds(0));
        let polled = poll_seconds(&mut schedule, path);
        assert_eq!(polled[..16], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 40]);
        assert!(polled.len() < 100, "{} polls", polled.len());
        assert!(*polled.last().unwrap() >= 30 * 60);
        assert!(schedule.sources.is_empty());
    }

    #[test]
    fn quiet_sources_are_polled_together() {
        let mut schedule = Schedule { is_watched: true, ..Schedule::default() };
        for (path, millis) in [("a", 100), ("b", 700)] {
            schedule.poll_now(Path::new(path), seconds(0));
            schedule.note_poll(Path::new(path), false, seconds(20) + Moment::from_millis(millis));
        }
        let due = schedule.sources.values().map(|source| source.due).collect::<Vec<_>>();
        assert_eq!(due, [seconds(22); 2]);
    }

    #[test]
    fn unwatched_source_is_polled_twice_a_second() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        schedule.poll_now(path, seconds(0));
        assert_eq!(schedule.take_due(seconds(0)).as_deref(), Some(path));
        schedule.note_poll(path, true, seconds(0));
        assert_eq!(schedule.next_due(), Some(HOT));
    }

    #[test]
    fn repeated_hints_make_one_poll() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        for _ in 0..3 {
            schedule.poll_now(path, seconds(1));
        }
        assert!(schedule.take_due(seconds(1)).is_some());
        schedule.note_poll(path, true, seconds(1));
        assert_eq!(schedule.take_due(seconds(1)), None);
    }

    #[test]
    fn hint_is_due_at_once() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        schedule.poll_now(path, seconds(0));
        schedule.take_due(seconds(0));
        for second in 1..100 {
            schedule.note_poll(path, false, seconds(second));
        }
        schedule.poll_now(path, seconds(100));
        assert_eq!(schedule.take_due(seconds(100)).as_deref(), Some(path));
    }
}
