//! Counts changes that a poll found and no notification announced, and names folders with many.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::schedule::Moment;

/// How long a notification may take to arrive after a poll has found the change.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// With so many misses within this time the notifications of a folder are not relied on.
const MANY: usize = 3;
const WITHIN: Duration = Duration::from_secs(10 * 60);

#[derive(Default)]
pub(crate) struct MissedEvents {
    /// Sources that a notification named since their last poll.
    told: HashSet<PathBuf>,
    /// Sources that had grown without a notification, and when the poll saw it.
    suspected: BTreeMap<PathBuf, Moment>,
    /// The last misses of each folder that is watched.
    by_root: BTreeMap<PathBuf, VecDeque<Moment>>,
}

/// The misses that are certain by now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissReport {
    pub count: u64,
    /// Folders with too many.
    pub roots: Vec<PathBuf>,
}

impl MissedEvents {
    /// Notes that a notification named a source, or that more of it is expected anyway.
    pub(crate) fn note_notified(&mut self, path: &Path) {
        self.suspected.remove(path);
        // `insert` alone would copy the path with every notification of a busy source.
        if !self.told.contains(path) {
            self.told.insert(path.to_owned());
        }
    }

    /// Notes a poll. A notification that comes shortly after it still counts.
    pub(crate) fn note_poll(&mut self, path: &Path, has_grown: bool, now: Moment) {
        let was_told = self.told.remove(path);
        if has_grown && !was_told {
            // The first time counts: a source that goes on growing must not put off the verdict.
            self.suspected.entry(path.to_owned()).or_insert(now);
        }
    }

    /// Counts sources that had no notification in time. Those outside of `watched` have none.
    pub(crate) fn count_missed(&mut self, watched: &BTreeSet<PathBuf>, now: Moment) -> MissReport {
        let mut missed = MissReport::default();
        let is_late = |since: &Moment| now.saturating_sub(*since) >= UNDER_WAY;
        for (path, since) in self.suspected.extract_if(.., |_, since| is_late(since)) {
            let Some(root) = watched.iter().find(|root| path.starts_with(root)) else { continue };
            missed.count += 1;
            let misses = self.by_root.entry(root.clone()).or_default();
            misses.push_back(since);
            while misses.front().is_some_and(|first| now.saturating_sub(*first) > WITHIN) {
                misses.pop_front();
            }
            if misses.len() >= MANY {
                // The watcher drops the folder for a while. Later its misses are counted from zero.
                misses.clear();
                missed.roots.push(root.clone());
            }
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    fn watched() -> BTreeSet<PathBuf> {
        BTreeSet::from([PathBuf::from("/home/dev/.claude/projects")])
    }

    const SOURCE: &str = "/home/dev/.claude/projects/app/s.jsonl";

    #[test]
    fn late_notification_is_no_miss() {
        let mut misses = MissedEvents::default();
        let source = Path::new(SOURCE);
        misses.note_notified(source);
        misses.note_poll(source, true, seconds(1));
        misses.note_poll(source, true, seconds(2));
        misses.note_notified(source);
        misses.note_poll(source, false, seconds(3));
        assert_eq!(misses.count_missed(&watched(), seconds(100)), MissReport::default());
    }

    #[test]
    fn change_is_missed_once() {
        let mut misses = MissedEvents::default();
        let sources = [SOURCE, "/home/dev/.codex/sessions/rollout.jsonl"];
        for source in sources {
            misses.note_poll(Path::new(source), true, seconds(1));
        }
        assert_eq!(misses.count_missed(&watched(), seconds(2)).count, 0, "it may still be told");
        assert_eq!(
            misses.count_missed(&watched(), seconds(7)).count,
            1,
            "the other is not watched"
        );
        assert_eq!(misses.count_missed(&watched(), seconds(100)).count, 0);
    }

    #[test]
    fn folder_with_many_misses_is_named() {
        let mut misses = MissedEvents::default();
        let mut named = |at: u64| {
            misses.note_poll(Path::new(SOURCE), true, seconds(at));
            misses.count_missed(&watched(), seconds(at + 10)).roots.len()
        };
        assert_eq!([0, 400, 800].map(&mut named), [0, 0, 0], "they are far apart");
        assert_eq!(named(900), 1);
        assert_eq!(named(920), 0, "it is counted anew");
    }
}
