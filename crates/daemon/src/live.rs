//! What sessions are doing, kept up to date for those who watch.
//!
//! While nobody watches, nothing is done. While somebody does, a session is weighed again when
//! something of it was recorded, at most every 100 ms; all of them every few seconds, as processes
//! end and time passes without a word. When the last one leaves, the board is wiped: nobody keeps
//! it true any more, and the next one must not be told what was so hours ago.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::Environment;
use event::{SessionId, Time};
use journal::{Ended, Followed, From, OnLag, ReadError, SessionInfo};
use serve::Board;

use crate::answers;
use crate::opened::Opened;
use crate::statuses::{SessionStatus, Statuses};
use crate::surroundings::Processes;

/// The least time between two values of what a session is doing.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// How often all are looked at while somebody watches.
const ALL_EVERY: Duration = Duration::from_secs(2);

/// How often it is looked whether anybody still watches.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is known of sessions, shared by all who ask and the thread that keeps it fresh.
pub(crate) struct Live {
    opened: Opened,
    environment: Environment,
    clock: fn() -> Time,
    board: Board,
    statuses: Mutex<Kept>,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

/// Statuses of the journal that was open when they were begun.
struct Kept {
    reopened: u64,
    statuses: Statuses,
}

#[derive(Default)]
struct Wanted {
    watchers: usize,
    /// How often the last one left.
    round: u64,
    is_over: bool,
}

impl Live {
    pub(crate) fn new(
        opened: Opened,
        environment: Environment,
        clock: fn() -> Time,
        board: Board,
    ) -> Live {
        let reopened = opened.reopened();
        let statuses = Statuses::new(opened.journal(), environment.clone());
        let statuses = Mutex::new(Kept { reopened, statuses });
        let (wanted, changed) = (Mutex::default(), Condvar::new());
        Live { opened, environment, clock, board, statuses, wanted, changed }
    }

    /// Keeps the board fresh on a thread of its own, until it is told to end.
    pub(crate) fn start(self: &Arc<Live>) -> io::Result<JoinHandle<()>> {
        let live = Arc::clone(self);
        std::thread::Builder::new().name("live".to_owned()).spawn(move || live.run())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.wanted().is_over = true;
        self.changed.notify_all();
    }

    pub(crate) fn watched_by(&self, watchers: usize) {
        let mut wanted = self.wanted();
        wanted.watchers = watchers;
        if watchers == 0 {
            wanted.round += 1;
            self.board.keep(|_| false);
        }
        drop(wanted);
        self.changed.notify_all();
    }

    /// Sessions that were active lately or are open, as people list them.
    pub(crate) fn lately(&self) -> Result<Vec<SessionStatus>, ReadError> {
        let mut kept = self.statuses();
        let listed = kept.statuses.lately(&Processes::default(), (self.clock)())?;
        Ok(listed.into_iter().filter(SessionStatus::is_listed).collect())
    }

    pub(crate) fn of(&self, info: SessionInfo) -> Result<SessionStatus, ReadError> {
        self.statuses().statuses.of(info, &Processes::default(), (self.clock)())
    }

    fn run(&self) {
        while let Some(round) = self.await_watchers() {
            // What cannot be read now is tried again while somebody watches.
            if self.keep_fresh(round).is_err() {
                let wanted = self.wanted();
                let waited = self.changed.wait_timeout(wanted, ALL_EVERY);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Waits until somebody watches, and which round it is then; nothing if it is over.
    fn await_watchers(&self) -> Option<u64> {
        let mut wanted = self.wanted();
        while wanted.watchers == 0 && !wanted.is_over {
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        (!wanted.is_over).then_some(wanted.round)
    }

    /// Shows what changes until nobody watches.
    fn keep_fresh(&self, round: u64) -> Result<(), ReadError> {
        let journal = self.opened.journal();
        // Before the first look: what is recorded during it is looked at again.
        let mut news = journal.follow(From::Now, OnLag::Skip)?;
        self.show_all(round)?;
        let mut shown_at = Instant::now();
        let mut all_at = shown_at;
        let mut is_all_due = false;
        let mut recorded = BTreeSet::new();
        while self.wanted().is_watched(round) {
            let patience = match recorded.is_empty() {
                true => LOOK_EVERY,
                false => SHOWN_EVERY.saturating_sub(shown_at.elapsed()),
            };
            match news.next_within(patience) {
                Ok(Some(Followed::Event(event))) => {
                    recorded.insert(event.event.session_id.clone());
                }
                // So much came at once that nobody knows what it was about.
                Ok(Some(Followed::Gap { .. })) => is_all_due = true,
                Ok(Some(_) | None) => {}
                Err(Ended::Closed) => return Ok(()),
                Err(Ended::Failed(error)) => return Err(error),
            }
            is_all_due |= all_at.elapsed() >= ALL_EVERY;
            if is_all_due && shown_at.elapsed() >= SHOWN_EVERY {
                self.show_all(round)?;
                is_all_due = false;
                recorded.clear();
                shown_at = Instant::now();
                all_at = shown_at;
            } else if !recorded.is_empty() && shown_at.elapsed() >= SHOWN_EVERY {
                self.show(round, &recorded)?;
                recorded.clear();
                shown_at = Instant::now();
            }
        }
        Ok(())
    }

    fn show_all(&self, round: u64) -> Result<(), ReadError> {
        let listed = self.lately()?;
        let ids: BTreeSet<&SessionId> = listed.iter().map(|status| &status.info.id).collect();
        // Whoever keeps this fresh is the one who reads their files.
        let statuses = listed.iter().map(answers::status).map(current);
        self.put(round, |id| ids.contains(id), statuses);
        Ok(())
    }

    fn show(&self, round: u64, recorded: &BTreeSet<SessionId>) -> Result<(), ReadError> {
        let mut kept = self.statuses();
        let processes = Processes::default();
        let statuses = kept.statuses.of_recorded(recorded, &processes, (self.clock)())?;
        drop(kept);
        let listed = || statuses.iter().filter(|status| status.is_listed());
        let ids: BTreeSet<&SessionId> = listed().map(|status| &status.info.id).collect();
        let is_kept = |id: &SessionId| !recorded.contains(id) || ids.contains(id);
        self.put(round, is_kept, listed().map(answers::status));
        Ok(())
    }

    /// Puts on the board what was worked out for those who watch, if any of them is still there.
    fn put(
        &self,
        round: u64,
        is_kept: impl Fn(&SessionId) -> bool,
        statuses: impl Iterator<Item = wire::Status>,
    ) {
        // Held meanwhile: a board that is wiped stays so.
        let wanted = self.wanted();
        if wanted.is_watched(round) {
            self.board.keep(is_kept);
            self.board.show(statuses);
        }
    }

    /// What is kept; begun anew if the journal was opened anew.
    fn statuses(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        let reopened = self.opened.reopened();
        if kept.reopened != reopened {
            let statuses = Statuses::new(self.opened.journal(), self.environment.clone());
            *kept = Kept { reopened, statuses };
        }
        kept
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    /// Whether those of a round still watch.
    fn is_watched(&self, round: u64) -> bool {
        self.watchers > 0 && self.round == round && !self.is_over
    }
}

fn current(status: wire::Status) -> wire::Status {
    wire::Status { behind: false, ..status }
}

#[cfg(test)]
mod tests;
