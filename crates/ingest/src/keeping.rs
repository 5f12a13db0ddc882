//! What is kept beside the log while agents write: the facts and the signs of sessions, and
//! originals on the disk.
//!
//! A thread of its own does it. Whoever records hands over what has changed and goes on: a line
//! that an agent writes never waits for what is only kept so that later looks cost less.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::{SessionId, Time};
use journal::{Journal, StorageError};
use projection::Facts;

use views::FreshStatuses;
use views::keep_facts;

/// Originals are synced at most this often: a sync for every source with a line would be as many
/// waits for the disk. What a power cut takes of them, the agent's own file most likely still has.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// The pause between two of them: a row of syncs keeps the disk from whoever commits meanwhile.
/// Even as many as are ever open at once are synced in less than the time above.
const SYNC_PAUSE: Duration = Duration::from_millis(50);

/// Where what has changed is handed over, and the thread that keeps it.
pub(crate) struct Keeping<'a> {
    journal: &'a Journal,
    clock: &'a (dyn Fn() -> Time + Sync),
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Sessions that something was recorded of, with their facts as far as they were folded. One
    /// that is handed over again before it was kept takes the place of what waits.
    sessions: Changed,
    is_over: bool,
}

type Changed = BTreeMap<SessionId, Option<Facts>>;

impl<'a> Keeping<'a> {
    pub(crate) fn new(journal: &'a Journal, clock: &'a (dyn Fn() -> Time + Sync)) -> Keeping<'a> {
        Keeping { journal, clock, waiting: Mutex::default(), changed: Condvar::new() }
    }

    /// These have changed.
    pub(crate) fn hand_over(&self, sessions: impl IntoIterator<Item = (SessionId, Option<Facts>)>) {
        self.waiting().sessions.extend(sessions);
        self.changed.notify_all();
    }

    /// Nothing more comes: what waits is kept, then it ends.
    pub(crate) fn finish(&self) {
        self.waiting().is_over = true;
        self.changed.notify_all();
    }

    /// Keeps what is handed over, until nothing more comes. Only what stays unsynced is a failure:
    /// all else is folded again by whoever asks for it.
    pub(crate) fn run(&self) -> Result<(), StorageError> {
        let originals = self.journal.originals();
        let mut signs = FreshStatuses::default();
        let mut begun = Instant::now();
        let (mut unsynced, mut due) = (Vec::new(), begun + SYNC_EVERY);
        loop {
            let (sessions, is_over) = self.next(due);
            if !sessions.is_empty() {
                let ids: Vec<SessionId> = sessions.keys().cloned().collect();
                let _ = keep_facts(self.journal, sessions);
                let _ = signs.keep(self.journal, &ids, (self.clock)());
            }
            if is_over {
                return originals.sync();
            }
            let now = Instant::now();
            if now < due {
                continue;
            }
            if unsynced.is_empty() {
                (unsynced, begun) = (originals.unsynced(), now);
            }
            if let Some(name) = unsynced.pop() {
                originals.sync_file(&name)?;
            }
            due = match unsynced.is_empty() {
                true => begun + SYNC_EVERY,
                false => Instant::now() + SYNC_PAUSE,
            };
        }
    }

    /// What was handed over, as soon as there is something or the end; nothing at `until`, if
    /// something may still have to be synced then.
    fn next(&self, until: Instant) -> (Changed, bool) {
        let mut waiting = self.waiting();
        while waiting.sessions.is_empty() && !waiting.is_over {
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

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
