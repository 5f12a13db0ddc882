//! The sessions that are kept current, and when each check of them is due.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use event::{SessionId, Time};
use projection::status::Status;

use super::tracker::SessionStatus;

/// The least time between two updates of the board.
pub(super) const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// How often open sessions are probed where the kernel tells nothing, and for as long as things are
/// in motion: a lock is taken a moment after its file was opened, a session is opened some seconds
/// after its process has started. The end of a process shows within two seconds, also on a busy
/// machine.
const OPEN_EVERY: Duration = Duration::from_secs(1);

/// How often they are probed while the kernel tells nothing. It does not tell of everything: a
/// network file system has no notifications, and a lock may be released while its file stays open.
const UNTOLD_EVERY: Duration = Duration::from_secs(10);

/// The least time between two probes that news of the kernel cause.
const NEWS_EVERY: Duration = Duration::from_millis(250);

/// How often it is asked whether a process has started or a session was deleted. Both are one small
/// question, and nothing tells of them.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a scan for agents after the start of a process is put off, in times of what the last one
/// took: on a machine where processes start all the time it takes half a percent of a core.
const SCAN_PAUSE_FACTOR: u32 = 200;

/// The sessions that are kept current, and when each check was made last.
pub(super) struct ShownSessions {
    /// The sessions on the board.
    pub(super) listed: BTreeSet<SessionId>,
    /// Child sessions at work. Lists leave them out, but the bus reports on their runs.
    pub(super) unlisted: BTreeSet<SessionId>,
    /// The journal's count of deletions when all were listed.
    pub(super) deletions: u64,
    /// When the board was updated last.
    pub(super) shown_at: Instant,
    pub(super) open_probed_at: Instant,
    /// The next probe of open sessions is due soon, though nothing is told.
    pub(super) is_in_motion: bool,
    pub(super) ended_probed_at: Instant,
    pub(super) asked_at: Instant,
    /// The count of started processes at the last probe.
    pub(super) starts: Option<u32>,
    pub(super) scan: StartScan,
    pub(super) listed_at: Instant,
    /// When the clock alone may change a status.
    pub(super) due_at: Option<Time>,
}

/// The last scan for agents that was made because a process had started.
pub(super) struct StartScan {
    scanned_at: Instant,
    /// The count of started processes at the scan.
    starts: Option<u32>,
    /// A process may have been seen before it ran its program: one more scan follows.
    is_repeated: bool,
}

impl ShownSessions {
    /// As of a listing that was just made.
    pub(super) fn new(statuses: &[SessionStatus], deletions: u64) -> ShownSessions {
        let now = Instant::now();
        let mut shown = ShownSessions {
            listed: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            deletions,
            shown_at: now,
            open_probed_at: now,
            is_in_motion: true,
            ended_probed_at: now,
            asked_at: now,
            starts: None,
            scan: StartScan { scanned_at: now, starts: None, is_repeated: true },
            listed_at: now,
            due_at: None,
        };
        statuses.iter().for_each(|status| shown.add(status));
        shown
    }

    /// All of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = &SessionId> {
        self.listed.union(&self.unlisted)
    }

    /// The time until the next probe of open sessions.
    pub(super) fn until_probe(&self, has_host_news: bool) -> Duration {
        let every = match (has_host_news, self.is_in_motion) {
            (true, _) => NEWS_EVERY,
            (false, true) => OPEN_EVERY,
            (false, false) => UNTOLD_EVERY,
        };
        every.saturating_sub(self.open_probed_at.elapsed())
    }

    /// The time until the clock alone may change a status.
    pub(super) fn until_due(&self, now: Time) -> Duration {
        let Some(due_at) = self.due_at else { return Duration::MAX };
        let nanos = u64::try_from(due_at.nanos() - now.nanos()).unwrap_or(0);
        // Many may be due at nearly the same time.
        let least = SHOWN_EVERY.saturating_sub(self.shown_at.elapsed());
        Duration::from_nanos(nanos).max(least)
    }

    /// The time until it is asked whether a process has started or a session was deleted.
    pub(super) fn until_question(&self) -> Duration {
        ASK_EVERY.saturating_sub(self.asked_at.elapsed())
    }

    pub(super) fn add(&mut self, status: &SessionStatus) {
        let id = status.info.id.clone();
        if status.is_listed() {
            self.listed.insert(id);
        } else if status.verdict.status != Status::Exited {
            self.unlisted.insert(id);
        }
    }
}

impl StartScan {
    pub(super) fn is_due(&self, starts: Option<u32>, scan_took: Duration) -> bool {
        // Where the system has no such count, ended sessions are probed now and then.
        let has_started = starts.is_some() && (starts != self.starts || !self.is_repeated);
        has_started && self.scanned_at.elapsed() >= scan_took.saturating_mul(SCAN_PAUSE_FACTOR)
    }

    pub(super) fn note(&mut self, begun: Instant, starts: Option<u32>) {
        self.is_repeated = starts == self.starts;
        self.starts = starts;
        self.scanned_at = begun;
    }
}
