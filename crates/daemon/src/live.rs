//! What sessions are doing, kept up to date for those who watch.
//!
//! While nobody watches, nothing is done. While somebody does, a session is weighed again when
//! something of it was recorded, at most every 100 ms. Processes end and time passes without a
//! word: so once a second those that somebody has open are looked at from outside, and weighed
//! again if something is different there, or if the clock alone changes something. When the last
//! one leaves, the board is wiped: nobody keeps it true any more, and the next one must not be told
//! what was so hours ago.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::Environment;
use event::{SessionId, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, SessionInfo, SubscriptionWaker,
};
use serve::Board;

use crate::answers;
use crate::opened::Opened;
use crate::statuses::{Again, SessionStatus, Statuses};
use host::Processes;
use projection::status::StatusState;

/// The least time between two values of what a session is doing.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// How often sessions that somebody has open are looked at: a process that has ended is noticed
/// within two seconds, on a machine that is busy with other things, too.
const OPEN_EVERY: Duration = Duration::from_secs(1);

/// How often those that have ended are, too: one that is opened again mostly says so.
const ENDED_EVERY: Duration = Duration::from_secs(30);

/// How often all are listed anew: who was not active for a day leaves then.
const ALL_EVERY: Duration = Duration::from_secs(5 * 60);

/// How long what cannot be read is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What is known of sessions, shared by all who ask and the thread that keeps it fresh.
pub(crate) struct Live {
    opened: Opened,
    environment: Environment,
    clock: fn() -> Time,
    board: Board,
    statuses: Mutex<Kept>,
    wanted: Mutex<Wanted>,
    changed: Condvar,
    waker: SubscriptionWaker,
}

/// Statuses of the journal that was open when they were begun.
struct Kept {
    reopened: u64,
    statuses: Statuses,
    processes: Processes,
}

/// What those who watch were shown, and when it was looked at.
struct Shown {
    ids: BTreeSet<SessionId>,
    /// Deletions that were seen.
    deletions: u64,
    at: Instant,
    open_at: Instant,
    ended_at: Instant,
    all_at: Instant,
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
        let processes = Processes::default();
        let statuses = Mutex::new(Kept { reopened, statuses, processes });
        let (wanted, changed, waker) =
            (Mutex::default(), Condvar::new(), SubscriptionWaker::default());
        Live { opened, environment, clock, board, statuses, wanted, changed, waker }
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
        self.waker.wake();
    }

    pub(crate) fn watched_by(&self, watchers: usize) {
        let mut wanted = self.wanted();
        wanted.watchers = watchers;
        if watchers == 0 {
            wanted.round += 1;
            self.board.wipe();
        }
        drop(wanted);
        self.changed.notify_all();
        self.waker.wake();
    }

    /// What those who watch are shown; `None` while nobody watches, or nothing is shown yet.
    pub(crate) fn shown(&self) -> Option<Vec<wire::Status>> {
        self.board.whole()
    }

    /// Sessions that were active lately or are open, as people list them.
    pub(crate) fn lately(&self) -> Result<Vec<SessionStatus>, ReadError> {
        let mut kept = self.statuses();
        let Kept { statuses, processes, .. } = &mut *kept;
        let listed = statuses.lately(processes, (self.clock)())?;
        Ok(listed.into_iter().filter(SessionStatus::is_listed).collect())
    }

    pub(crate) fn of(&self, info: SessionInfo) -> Result<SessionStatus, ReadError> {
        let is_near = self.statuses().statuses.is_near(&info);
        if !is_near {
            views::prepare::<StatusState>(&self.opened.journal(), &info)?;
        }
        let mut kept = self.statuses();
        let Kept { statuses, processes, .. } = &mut *kept;
        statuses.of(info, processes, (self.clock)())
    }

    fn run(&self) {
        while let Some(round) = self.await_watchers() {
            // What cannot be read now is tried again while somebody watches.
            if self.keep_fresh(round).is_err() {
                let wanted = self.wanted();
                let waited = self.changed.wait_timeout(wanted, RETRY_AFTER);
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
        let mut news = journal.follow(FollowFrom::Now, OnLag::Skip)?.with_waker(&self.waker);
        let mut shown = self.show_all(round, &journal)?;
        let mut is_all_due = false;
        let mut recorded = BTreeSet::new();
        while self.wanted().is_watched(round) {
            let patience = match recorded.is_empty() && !is_all_due {
                true => OPEN_EVERY.saturating_sub(shown.open_at.elapsed()),
                false => SHOWN_EVERY.saturating_sub(shown.at.elapsed()),
            };
            match news.next_within(patience) {
                Ok(Some(Delivery::Event(event))) => {
                    recorded.insert(event.event.session_id.clone());
                }
                // So much came at once that nobody knows what it was about.
                Ok(Some(Delivery::Gap { .. })) => is_all_due = true,
                Ok(Some(_) | None) => {}
                Err(FollowError::Closed) => return Ok(()),
                Err(FollowError::Failed(error)) => return Err(error),
            }
            if shown.open_at.elapsed() >= OPEN_EVERY {
                is_all_due |= shown.all_at.elapsed() >= ALL_EVERY
                    || journal.deletions()? != shown.deletions
                    || !self.show_changed(round, &mut shown)?;
            }
            if shown.at.elapsed() < SHOWN_EVERY {
                continue;
            }
            if is_all_due {
                shown = self.show_all(round, &journal)?;
                is_all_due = false;
                recorded.clear();
            } else if !recorded.is_empty() {
                self.show_recorded(round, &recorded, &mut shown)?;
                recorded.clear();
            }
        }
        Ok(())
    }

    fn show_all(&self, round: u64, journal: &Journal) -> Result<Shown, ReadError> {
        // Asked first: what is deleted meanwhile is found the next time.
        let deletions = journal.deletions()?;
        let listed = self.lately()?;
        let ids: BTreeSet<SessionId> = listed.iter().map(|status| status.info.id.clone()).collect();
        // Whoever keeps this fresh is the one who reads their files.
        let statuses = listed.iter().map(answers::status).map(current);
        self.put(round, |board| board.show_all(statuses));
        let at = Instant::now();
        Ok(Shown { ids, deletions, at, open_at: at, ended_at: at, all_at: at })
    }

    /// Shows what is different although nothing was recorded; `false` if all have to be listed.
    fn show_changed(&self, round: u64, shown: &mut Shown) -> Result<bool, ReadError> {
        shown.open_at = Instant::now();
        let which = match shown.ended_at.elapsed() >= ENDED_EVERY {
            true => Again::Every,
            false => Again::Open,
        };
        if which == Again::Every {
            shown.ended_at = shown.open_at;
        }
        let mut kept = self.statuses();
        let Kept { statuses, processes, .. } = &mut *kept;
        let changed = statuses.changed(&shown.ids, which, processes, (self.clock)())?;
        drop(kept);
        let Some(changed) = changed else { return Ok(false) };
        if !changed.is_empty() {
            let ids = changed.iter().map(|status| status.info.id.clone()).collect();
            self.show(round, &ids, &changed, shown);
        }
        Ok(true)
    }

    fn show_recorded(
        &self,
        round: u64,
        recorded: &BTreeSet<SessionId>,
        shown: &mut Shown,
    ) -> Result<(), ReadError> {
        let mut kept = self.statuses();
        let Kept { statuses, processes, .. } = &mut *kept;
        let statuses = statuses.of_recorded(recorded, processes, (self.clock)())?;
        drop(kept);
        self.show(round, recorded, &statuses, shown);
        Ok(())
    }

    /// Shows these sessions; those of which there is no status are taken off.
    fn show(
        &self,
        round: u64,
        ids: &BTreeSet<SessionId>,
        statuses: &[SessionStatus],
        shown: &mut Shown,
    ) {
        let listed = || statuses.iter().filter(|status| status.is_listed());
        shown.ids.retain(|id| !ids.contains(id));
        shown.ids.extend(listed().map(|status| status.info.id.clone()));
        self.put(round, |board| {
            board.keep(|id| shown.ids.contains(id));
            board.show(listed().map(answers::status).map(current));
        });
        shown.at = Instant::now();
    }

    /// Puts on the board what was worked out for those who watch, if any of them is still there.
    fn put(&self, round: u64, put: impl FnOnce(&Board)) {
        // Held meanwhile: a board that is wiped stays so.
        let wanted = self.wanted();
        if wanted.is_watched(round) {
            put(&self.board);
        }
    }

    /// What is kept; begun anew if the journal was opened anew.
    fn statuses(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        let reopened = self.opened.reopened();
        if kept.reopened != reopened {
            kept.statuses = Statuses::new(self.opened.journal(), self.environment.clone());
            kept.reopened = reopened;
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
