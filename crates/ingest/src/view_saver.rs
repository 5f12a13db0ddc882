//! Views that are saved beside the log while agents write, and originals that are synced to disk.
//!
//! A thread of its own does both. The recorder hands over what it has folded and goes on: a line
//! that an agent writes never waits for a view that only makes later looks cheaper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::{Draft, SessionId, Time};
use journal::{Journal, ReadError, SessionInfo, StorageError};
use projection::Facts;
use projection::status::StatusState;
use views::{FreshViews, save_current};

/// The state behind a status is saved for sessions that were active this lately; of older ones it
/// is hardly ever asked for.
const STATUS_NANOS: i128 = 24 * 60 * 60 * 1_000_000_000;

/// Originals are synced at most this often: a sync for every source with a line would be as many
/// waits for the disk. What a power cut takes of them, the agent's own file most likely still has.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// The pause between two of them: a row of syncs would keep the disk from commits. Even as many as
/// are ever open at once are synced in less than the time above.
const SYNC_PAUSE: Duration = Duration::from_millis(50);

/// What the recorder folds from the events it commits.
#[derive(Default)]
pub(crate) struct RecordedViews {
    facts: FreshViews<Facts>,
    /// Folded only while agents are followed: history is not asked for its status.
    status: Option<FreshViews<StatusState>>,
}

/// The views of one session as far as they were folded.
#[derive(Default)]
pub(crate) struct SessionViews {
    facts: Option<Facts>,
    status: Option<StatusState>,
}

impl RecordedViews {
    /// Also folds the state behind each status.
    pub(crate) fn with_status() -> RecordedViews {
        RecordedViews { status: Some(FreshViews::default()), ..RecordedViews::default() }
    }

    /// Takes an event that was just committed.
    pub(crate) fn apply(&mut self, journal: &Journal, seq: u64, event: &Draft) {
        self.facts.apply(journal, seq, event);
        if let Some(status) = &mut self.status {
            status.apply(journal, seq, event);
        }
    }

    /// Saves and forgets views if there are too many of them.
    pub(crate) fn save_excess(&mut self, journal: &Journal) -> Result<(), ReadError> {
        let saved = self.facts.save_excess(journal);
        // Only recent sessions are saved with a status, which the saver knows; it also has the time.
        self.status.iter_mut().for_each(FreshViews::forget_excess);
        saved
    }

    /// Brings the facts of these sessions up to date and saves them.
    pub(crate) fn save_facts<'a>(
        &mut self,
        journal: &Journal,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Result<(), ReadError> {
        self.facts.save(journal, sessions)
    }

    /// Copies the views of these sessions and forgets all others.
    pub(crate) fn snapshot(&mut self, sessions: &BTreeSet<SessionId>) -> ChangedSessions {
        let mut changed = ChangedSessions::new();
        for (session, facts) in self.facts.snapshot(sessions) {
            changed.insert(session, SessionViews { facts, status: None });
        }
        let status = self.status.as_mut().map(|status| status.snapshot(sessions));
        for (session, status) in status.unwrap_or_default() {
            changed.entry(session).or_default().status = status;
        }
        changed
    }
}

/// The thread that saves views, and where the recorder hands them over.
pub(crate) struct ViewSaver<'a> {
    journal: &'a Journal,
    clock: &'a (dyn Fn() -> Time + Sync),
    waiting: Mutex<WaitingViews>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingViews {
    /// Views of a session that is handed over again before it was saved replace those that wait.
    sessions: ChangedSessions,
    is_over: bool,
}

type ChangedSessions = BTreeMap<SessionId, SessionViews>;

impl<'a> ViewSaver<'a> {
    pub(crate) fn new(journal: &'a Journal, clock: &'a (dyn Fn() -> Time + Sync)) -> ViewSaver<'a> {
        ViewSaver { journal, clock, waiting: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the views of sessions that have changed.
    pub(crate) fn hand_over(&self, sessions: ChangedSessions) {
        self.waiting().sessions.extend(sessions);
        self.changed.notify_all();
    }

    /// Ends the thread once everything that waits is saved.
    pub(crate) fn finish(&self) {
        self.waiting().is_over = true;
        self.changed.notify_all();
    }

    /// Saves what is handed over until [`ViewSaver::finish`]. Only an original that cannot be synced
    /// is a failure: a view that is not saved is folded again by its next reader.
    pub(crate) fn run(&self) -> Result<(), StorageError> {
        let originals = self.journal.originals();
        let mut begun = Instant::now();
        let (mut unsynced, mut due) = (Vec::new(), begun + SYNC_EVERY);
        loop {
            let (sessions, is_over) = self.next(due);
            if !sessions.is_empty() {
                // A view that is not saved is folded again by its next reader.
                let _ = self.save(sessions);
            }
            // The originals last: what the recorder handed over before its end is on disk then.
            if is_over {
                return originals.sync();
            }
            let now = Instant::now();
            // Woken for views only; a sync is not due yet.
            if now < due {
                continue;
            }
            if unsynced.is_empty() {
                // The list is taken once per round: files that change meanwhile belong to the next.
                (unsynced, begun) = (originals.unsynced(), now);
            }
            if let Some(name) = unsynced.pop() {
                originals.sync_file(&name)?;
            }
            due = match unsynced.is_empty() {
                // From the start of the round, so that long rounds do not stretch the interval.
                true => begun + SYNC_EVERY,
                false => Instant::now() + SYNC_PAUSE,
            };
        }
    }

    fn save(&self, sessions: ChangedSessions) -> Result<(), ReadError> {
        let (mut facts, mut status) = (Vec::new(), Vec::new());
        for (session, views) in sessions {
            facts.push((session.clone(), views.facts));
            status.push((session, views.status));
        }
        let now = (self.clock)();
        let is_recent =
            |session: &SessionInfo| now.nanos() - session.last_event_at.nanos() <= STATUS_NANOS;
        // A damaged log may fail one of them; the other is saved all the same.
        let facts = save_current(self.journal, facts, |_| true);
        save_current(self.journal, status, is_recent).and(facts)
    }

    /// Waits for sessions or the end. At `until` it returns without either, if an original may
    /// still have to be synced then.
    fn next(&self, until: Instant) -> (ChangedSessions, bool) {
        let mut waiting = self.waiting();
        while waiting.sessions.is_empty() && !waiting.is_over {
            // With nothing to sync the thread sleeps until it is needed: an idle daemon does not
            // wake.
            let is_synced = self.journal.originals().is_synced();
            let left = until.saturating_duration_since(Instant::now());
            if !is_synced && left.is_zero() {
                break;
            }
            waiting = match is_synced {
                true => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                false => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        (std::mem::take(&mut waiting.sessions), waiting.is_over)
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingViews> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
