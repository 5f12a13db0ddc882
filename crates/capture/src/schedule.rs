//! When to look at which source again: often while it grows, more and more rarely while it is
//! quiet, and not at all when it has long been.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks are timed from the start of the watch.
pub(crate) type Moment = Duration;

/// While somebody writes, a look is never further away than this.
const HOT: Duration = Duration::from_millis(500);
/// The same while notifications are known to arrive.
const HOT_AND_WATCHED: Duration = Duration::from_secs(1);
/// Looks at a source that has just become quiet, one after the other.
const WARM: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// Later looks: the first, and all after it.
const COOL: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(30)];

/// Quiet for this long is no longer hot, warm, cool.
const HOT_FOR: Duration = Duration::from_secs(10);
const WARM_FOR: Duration = Duration::from_secs(2 * 60);
const COOL_FOR: Duration = Duration::from_secs(30 * 60);

/// The looks that are due.
#[derive(Default)]
pub(crate) struct Schedule {
    looks: BinaryHeap<Reverse<(Moment, PathBuf)>>,
    sources: HashMap<PathBuf, QuietSource>,
    /// Notifications arrive, so polling only has to be sure.
    pub is_watched: bool,
}

#[derive(Clone, Copy)]
struct QuietSource {
    since: Moment,
    /// Looks since then that found nothing.
    looks: usize,
    /// The look that counts; earlier entries of the heap are passed over.
    due: Moment,
}

impl Schedule {
    /// Something was seen to happen to a source, or may have: it is looked at now.
    pub(crate) fn hint(&mut self, path: &Path, now: Moment) {
        let source = self.sources.entry(path.to_owned());
        let source = source.or_insert(QuietSource { since: now, looks: 0, due: Moment::MAX });
        if source.due > now {
            source.due = now;
            self.looks.push(Reverse((now, path.to_owned())));
        }
    }

    /// A look found this. The next one follows from it, if there will be one: a source that has
    /// long been quiet gets none.
    pub(crate) fn looked(&mut self, path: &Path, has_grown: bool, now: Moment) -> bool {
        let is_watched = self.is_watched;
        let Some(source) = self.sources.get_mut(path) else { return false };
        if has_grown {
            source.since = now;
            source.looks = 0;
        } else {
            source.looks += 1;
        }
        match wait(now.saturating_sub(source.since), source.looks, is_watched) {
            Some(wait) => {
                source.due = now + wait;
                self.looks.push(Reverse((source.due, path.to_owned())));
                true
            }
            None => {
                self.sources.remove(path);
                false
            }
        }
    }

    /// Nothing is there to look at; `false`, as there will be no look.
    pub(crate) fn forget(&mut self, path: &Path) -> bool {
        self.sources.remove(path);
        false
    }

    /// When the next look is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.looks.peek().map(|Reverse((due, _))| *due)
    }

    /// A source to look at now.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<PathBuf> {
        while self.next_due().is_some_and(|due| due <= now) {
            let Reverse((due, path)) = self.looks.pop()?;
            if self.sources.get(&path).is_some_and(|source| source.due == due) {
                return Some(path);
            }
        }
        None
    }
}

fn wait(quiet: Duration, looks: usize, is_watched: bool) -> Option<Duration> {
    if quiet < HOT_FOR {
        return Some(if is_watched { HOT_AND_WATCHED } else { HOT });
    }
    // About so many looks were taken while it was hot.
    let looks_before =
        HOT_FOR.as_millis() / if is_watched { HOT_AND_WATCHED } else { HOT }.as_millis();
    let later = looks.saturating_sub(looks_before as usize);
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

    /// The moments at which a source that never grows is looked at.
    fn looks(schedule: &mut Schedule, path: &Path) -> Vec<u64> {
        let mut looks = Vec::new();
        while let Some(due) = schedule.next_due() {
            if let Some(taken) = schedule.take_due(due) {
                assert_eq!(taken, path);
                looks.push(due.as_secs());
                schedule.looked(path, false, due);
            }
        }
        looks
    }

    #[test]
    fn a_quiet_source_is_looked_at_more_and_more_rarely_and_then_not_at_all() {
        let path = Path::new("a");
        let mut schedule = Schedule { is_watched: true, ..Schedule::default() };
        schedule.hint(path, seconds(0));
        let looks = looks(&mut schedule, path);
        assert_eq!(looks[..16], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 40]);
        assert!(looks.len() < 100, "{} looks", looks.len());
        assert!(*looks.last().unwrap() >= 30 * 60);
        assert!(schedule.sources.is_empty());
    }

    #[test]
    fn without_notifications_a_growing_source_is_looked_at_twice_a_second() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        schedule.hint(path, seconds(0));
        assert_eq!(schedule.take_due(seconds(0)).as_deref(), Some(path));
        schedule.looked(path, true, seconds(0));
        assert_eq!(schedule.next_due(), Some(HOT));
    }

    #[test]
    fn one_change_told_three_times_is_one_look() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        for _ in 0..3 {
            schedule.hint(path, seconds(1));
        }
        assert!(schedule.take_due(seconds(1)).is_some());
        schedule.looked(path, true, seconds(1));
        assert_eq!(schedule.take_due(seconds(1)), None);
    }

    #[test]
    fn a_hint_does_not_wait_for_the_next_look() {
        let path = Path::new("a");
        let mut schedule = Schedule::default();
        schedule.hint(path, seconds(0));
        schedule.take_due(seconds(0));
        for second in 1..100 {
            schedule.looked(path, false, seconds(second));
        }
        schedule.hint(path, seconds(100));
        assert_eq!(schedule.take_due(seconds(100)).as_deref(), Some(path));
    }
}
