//! How often a look has found what no notification told of, and where that happens too often.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::schedule::Moment;

/// How long a notification may be under way when somebody looks before it arrives.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// So many misses of one folder within this time, and its notifications are not relied on.
const MANY: usize = 3;
const WITHIN: Duration = Duration::from_secs(10 * 60);

#[derive(Default)]
pub(crate) struct MissedEvents {
    /// Sources with something new that somebody has told of, since they were looked at last.
    told: HashSet<PathBuf>,
    /// Sources that had grown though nobody had told so, and when that was seen.
    suspected: BTreeMap<PathBuf, Moment>,
    /// The last misses of each folder that is watched.
    by_root: BTreeMap<PathBuf, VecDeque<Moment>>,
}

/// What has become of suspicions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissReport {
    pub count: u64,
    /// Folders that had too many.
    pub roots: Vec<PathBuf>,
}

impl MissedEvents {
    /// Somebody has told of a source, or it is known anyway that there is more.
    pub(crate) fn tell(&mut self, path: &Path) {
        self.suspected.remove(path);
        if !self.told.contains(path) {
            self.told.insert(path.to_owned());
        }
    }

    /// A source was looked at.
    pub(crate) fn looked(&mut self, path: &Path, has_grown: bool, now: Moment) {
        let was_told = self.told.remove(path);
        if has_grown && !was_told {
            self.suspected.entry(path.to_owned()).or_insert(now);
        }
    }

    /// Counts those of which nobody has told by now. What lies in no folder of `watched` was not
    /// to be told of.
    pub(crate) fn settle(&mut self, watched: &BTreeSet<PathBuf>, now: Moment) -> MissReport {
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
    fn what_was_told_before_or_shortly_after_is_not_missed() {
        let mut misses = MissedEvents::default();
        let source = Path::new(SOURCE);
        misses.tell(source);
        misses.looked(source, true, seconds(1));
        misses.looked(source, true, seconds(2));
        misses.tell(source);
        misses.looked(source, false, seconds(3));
        assert_eq!(misses.settle(&watched(), seconds(100)), MissReport::default());
    }

    #[test]
    fn what_nobody_tells_of_is_missed_once() {
        let mut misses = MissedEvents::default();
        let sources = [SOURCE, "/home/dev/.codex/sessions/rollout.jsonl"];
        for source in sources {
            misses.looked(Path::new(source), true, seconds(1));
        }
        assert_eq!(misses.settle(&watched(), seconds(2)).count, 0, "it may still be told");
        assert_eq!(misses.settle(&watched(), seconds(7)).count, 1, "the other is not watched");
        assert_eq!(misses.settle(&watched(), seconds(100)).count, 0);
    }

    #[test]
    fn a_folder_with_many_misses_in_a_short_time_is_named() {
        let mut misses = MissedEvents::default();
        let mut named = |at: u64| {
            misses.looked(Path::new(SOURCE), true, seconds(at));
            misses.settle(&watched(), seconds(at + 10)).roots.len()
        };
        assert_eq!([0, 400, 800].map(&mut named), [0, 0, 0], "they are far apart");
        assert_eq!(named(900), 1);
        assert_eq!(named(920), 0, "it is counted anew");
    }
}
