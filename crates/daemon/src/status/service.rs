//! The one place in the daemon that says what each session is doing. Pages, notifications, the bus
//! and commands all read it, so that they cannot disagree.
//!
//! Without a [`BoardWatch`] the thread sleeps. With one, a session is assessed again when an event of it was
//! recorded, at most every 100 ms. The end of a process and the passing of time produce no event:
//! so the thread probes open sessions when the kernel tells of a change ([`HostWatch`]), when a
//! process has started, and else now and then, and assesses a session again if the probe differs or
//! the clock alone changes its status. When the last watcher leaves, the board is wiped, since
//! nothing keeps it current and the next watcher must not see old statuses.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::Environment;
use event::{SessionId, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, SessionInfo, SubscriptionWaker,
};
use serve::Board;

use super::changes::StatusChanges;
use super::shown::{SHOWN_EVERY, ShownSessions};
use super::tracker::{PAGE, Recheck, SessionStatus, StatusTracker};
use crate::answers;
use crate::journal_handle::JournalHandle;
use host::{HostWatch, ProcessTable, Processes};
use projection::Facts;
use projection::status::StatusState;

/// How often ended sessions are probed, too, where it is not known whether a process has started
/// since. A session that is opened again usually writes an event, so this may be rare.
const ENDED_EVERY: Duration = Duration::from_secs(30);

/// How often all sessions are listed again; those not active for a day then leave the board.
const ALL_EVERY: Duration = Duration::from_secs(5 * 60);

/// How long to wait after the journal could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The statuses of sessions, shared by callers and the thread that keeps the board current.
pub(crate) struct StatusService {
    journal: JournalHandle,
    environment: Environment,
    clock: fn() -> Time,
    board: Board,
    changes: StatusChanges,
    tracker: Mutex<TrackerSlot>,
    watch_state: Mutex<WatchState>,
    changed: Condvar,
    waker: SubscriptionWaker,
    /// Tells when a probe may differ; absent where the system does not tell that.
    host_watch: Option<Arc<HostWatch>>,
    /// It has told of a change that no probe has taken into account.
    has_host_news: AtomicBool,
}

/// Keeps the statuses current for as long as it is held.
pub(crate) struct BoardWatch(Arc<StatusService>);

/// The threads of the service. They have to be stopped.
pub(crate) struct StatusThread {
    service: Arc<StatusService>,
    thread: JoinHandle<()>,
    /// Waits for news of the kernel.
    watch_thread: Option<JoinHandle<()>>,
}

/// The tracker, and the number of the journal it reads.
struct TrackerSlot {
    reopen_count: u64,
    tracker: StatusTracker,
    processes: Processes,
}

#[derive(Default)]
struct WatchState {
    watchers: usize,
    /// Counts how often the last watcher left. Work that was begun for an earlier round is not
    /// shown.
    round: u64,
    is_over: bool,
}

impl StatusService {
    pub(crate) fn new(
        journal: JournalHandle,
        environment: Environment,
        clock: fn() -> Time,
    ) -> StatusService {
        let processes = Processes::watched();
        let host_watch = processes.watch().cloned();
        let tracker = Mutex::new(TrackerSlot {
            reopen_count: journal.reopen_count(),
            tracker: StatusTracker::new(journal.current(), environment.clone()),
            processes,
        });
        StatusService {
            journal,
            environment,
            clock,
            board: Board::default(),
            changes: StatusChanges::default(),
            tracker,
            watch_state: Mutex::default(),
            changed: Condvar::new(),
            waker: SubscriptionWaker::default(),
            host_watch,
            has_host_news: AtomicBool::new(false),
        }
    }

    /// Keeps the statuses current on a thread of its own, while they are watched.
    pub(crate) fn start(self: &Arc<StatusService>) -> io::Result<StatusThread> {
        let spawn = |name: &str, run: fn(&StatusService)| {
            let service = Arc::clone(self);
            std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&service))
        };
        let thread = spawn("status", StatusService::run)?;
        // Without this one nothing is told, and probes come as often as where the system cannot tell.
        let watch_thread = self.host_watch.as_ref().and_then(|watch| {
            spawn("status watch", StatusService::await_host_news)
                .inspect_err(|_| watch.close())
                .ok()
        });
        Ok(StatusThread { service: Arc::clone(self), thread, watch_thread })
    }

    /// Begins to keep the statuses current. The last watch to be dropped wipes the board.
    pub(crate) fn watch(self: &Arc<StatusService>) -> BoardWatch {
        self.watch_state().watchers += 1;
        self.changed.notify_all();
        BoardWatch(Arc::clone(self))
    }

    /// The board that the thread fills.
    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// The changes of statuses, also those of child sessions.
    pub(crate) fn changes(&self) -> &StatusChanges {
        &self.changes
    }

    /// The listed sessions that were recently active or are open.
    pub(crate) fn recent(&self) -> Result<Vec<SessionStatus>, ReadError> {
        self.prepare_recent()?;
        let mut slot = self.tracker();
        let TrackerSlot { tracker, processes, .. } = &mut *slot;
        let listed = tracker.recent(processes, (self.clock)())?;
        Ok(listed.into_iter().filter(SessionStatus::is_listed).collect())
    }

    /// The status of one session.
    pub(crate) fn for_session(&self, info: SessionInfo) -> Result<SessionStatus, ReadError> {
        self.prepare(&info)?;
        let mut slot = self.tracker();
        let TrackerSlot { tracker, processes, .. } = &mut *slot;
        tracker.for_session(info, processes, (self.clock)())
    }

    /// Reads a long session before the lock is taken, so that other callers do not wait for it.
    fn prepare(&self, info: &SessionInfo) -> Result<(), ReadError> {
        // The lock is free between the check and the read; the tracker reads whatever is still
        // missing.
        if self.tracker().tracker.is_near(info) {
            return Ok(());
        }
        let journal = self.journal.current();
        views::prepare_state::<StatusState>(&journal, info)?;
        views::prepare_state::<Facts>(&journal, info)
    }

    /// The same for all sessions of a list.
    fn prepare_recent(&self) -> Result<(), ReadError> {
        let which = StatusTracker::recently_active((self.clock)());
        let journal = self.journal.current();
        let mut after = None;
        loop {
            let page = journal.sessions(&which, after.as_deref(), PAGE)?;
            page.items.iter().try_for_each(|info| self.prepare(info))?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn run(&self) {
        while let Some(round) = self.await_watchers() {
            // A failed read is tried again while the board is watched.
            let kept = self.keep_current(round);
            // Nothing is shown, so nothing needs to be told.
            self.host_watch.iter().for_each(|watch| watch.forget_folders());
            if kept.is_err() {
                let watch_state = self.watch_state();
                // Waits on the condition variable, so that a stop or the last watcher's leave ends
                // the pause.
                let waited = self.changed.wait_timeout(watch_state, RETRY_AFTER);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Waits for a watcher and returns the round; `None` if the service stops.
    fn await_watchers(&self) -> Option<u64> {
        let mut watch_state = self.watch_state();
        while watch_state.watchers == 0 && !watch_state.is_over {
            watch_state = self.changed.wait(watch_state).unwrap_or_else(PoisonError::into_inner);
        }
        (!watch_state.is_over).then_some(watch_state.round)
    }

    /// Passes on what the kernel tells, until the watch is closed.
    fn await_host_news(&self) {
        let Some(watch) = &self.host_watch else { return };
        while watch.wait() {
            // The probe that is due already takes this into account, too.
            if !self.has_host_news.swap(true, Ordering::AcqRel) {
                self.waker.wake();
            }
        }
    }

    /// Keeps the board current until the last watcher of the round leaves.
    fn keep_current(&self, round: u64) -> Result<(), ReadError> {
        let journal = self.journal.current();
        // Subscribed before the first listing: events recorded during it are delivered afterwards.
        let mut subscription =
            journal.follow(FollowFrom::Now, OnLag::Skip)?.with_waker(&self.waker);
        let mut shown = self.show_all(round, &journal)?;
        let mut is_all_due = false;
        let mut recorded = BTreeSet::new();
        while self.watch_state().is_watched_in(round) {
            // With nothing to show, the next probe of open sessions is due; else the next update of
            // the board.
            let patience = match recorded.is_empty() && !is_all_due {
                true => shown
                    .until_probe(self.has_host_news())
                    .min(shown.until_question())
                    .min(shown.until_due((self.clock)())),
                false => SHOWN_EVERY.saturating_sub(shown.shown_at.elapsed()),
            };
            match subscription.next_within(patience) {
                Ok(Some(Delivery::Event(event))) => {
                    // Folded as it was committed, so that it is not read back from the journal.
                    self.tracker().tracker.apply_event(&event.event);
                    recorded.insert(event.event.session_id.clone());
                }
                // Events were skipped, so any session may have changed.
                Ok(Some(Delivery::Gap { .. })) => is_all_due = true,
                Ok(Some(_) | None) => {}
                Err(FollowError::Closed) => return Ok(()),
                Err(FollowError::Failed(error)) => return Err(error),
            }
            let mut is_probe_due = shown.until_probe(self.has_host_news()).is_zero();
            // Each of these means that the list itself may be wrong: it is old, sessions were
            // deleted, or other ones are open.
            if shown.until_question().is_zero() {
                shown.asked_at = Instant::now();
                is_all_due |= shown.listed_at.elapsed() >= ALL_EVERY
                    || journal.deletions()? != shown.deletions;
                is_probe_due |= self.has_start_news(&shown);
            }
            if is_probe_due {
                is_all_due |= !self.show_changed(round, &mut shown)?;
            }
            if shown.until_due((self.clock)()).is_zero() {
                self.show_due(round, &mut shown)?;
            }
            // Updates are bundled: an agent that writes fast would otherwise redraw every board
            // with each line.
            if shown.shown_at.elapsed() < SHOWN_EVERY {
                continue;
            }
            if is_all_due {
                shown = self.show_all(round, &journal)?;
                is_all_due = false;
                // A full listing has assessed them as well.
                recorded.clear();
            } else if !recorded.is_empty() {
                self.show_assessed(round, &recorded, &mut shown)?;
                // They may be of a process that no scan has found so far.
                shown.is_in_motion = true;
                recorded.clear();
            }
        }
        Ok(())
    }

    /// Whether a process has started, and a probe has to look for what it does.
    fn has_start_news(&self, shown: &ShownSessions) -> bool {
        let TrackerSlot { tracker, processes, .. } = &*self.tracker();
        let starts = processes.starts();
        // A command that was asked for may run.
        let may_run =
            starts.is_some() && starts != shown.starts && tracker.awaits_commands(shown.ids());
        may_run || shown.scan.is_due(starts, processes.scan_took())
    }

    /// Whether the kernel has told of a change that no probe has taken into account.
    fn has_host_news(&self) -> bool {
        self.has_host_news.load(Ordering::Acquire)
    }

    fn show_all(&self, round: u64, journal: &Journal) -> Result<ShownSessions, ReadError> {
        // Read before the list: a deletion in between then shows at the next check.
        let deletions = journal.deletions()?;
        // Folders that no look needs any more are not watched any more.
        self.host_watch.iter().for_each(|watch| watch.forget_folders());
        self.prepare_recent()?;
        let mut slot = self.tracker();
        let TrackerSlot { tracker, processes, .. } = &mut *slot;
        // Child sessions are among them.
        let statuses = tracker.recent_to_show(processes, (self.clock)())?;
        drop(slot);
        let mut shown = ShownSessions::new(&statuses, deletions);
        shown.due_at = self.next_due(&shown);
        // This process reads the files itself, so no status counts as behind.
        let listed = statuses.iter().filter(|status| status.is_listed());
        let listed = listed.map(answers::status).map(current);
        self.put(round, || {
            self.board.show_all(listed);
            self.changes.replace_all(&statuses);
        });
        Ok(shown)
    }

    /// Shows what changed without an event; `false` if all sessions have to be listed again.
    fn show_changed(&self, round: u64, shown: &mut ShownSessions) -> Result<bool, ReadError> {
        // Set before the probe: a failed one must not be repeated at once.
        shown.open_probed_at = Instant::now();
        // Taken before the probe: what is told from now on it may have missed.
        let has_news = self.has_host_news.swap(false, Ordering::AcqRel);
        let mut slot = self.tracker();
        let TrackerSlot { tracker, processes, .. } = &mut *slot;
        let starts = processes.starts();
        let which = match shown.ended_probed_at.elapsed() >= ENDED_EVERY {
            true => Recheck::Every,
            // A new process may have opened a session that had ended.
            false if shown.scan.is_due(starts, processes.scan_took()) => Recheck::Started,
            false => Recheck::Open,
        };
        let ids = shown.ids();
        let changed = tracker.changed(ids, which, processes, (self.clock)())?;
        if which == Recheck::Every {
            shown.ended_probed_at = shown.open_probed_at;
        }
        if which != Recheck::Open {
            shown.scan.note(shown.open_probed_at, starts);
        }
        let is_told = self.host_watch.as_ref().is_some_and(|watch| watch.is_complete());
        let has_changed = changed.as_ref().is_none_or(|changed| !changed.is_empty());
        // What has just happened may not be over: it is probed once more.
        shown.is_in_motion = !is_told
            || has_news
            || has_changed
            || starts != shown.starts
            || tracker.is_in_motion((self.clock)());
        shown.starts = starts;
        // Released before the board is updated, which takes the lock of the watchers.
        drop(slot);
        let Some(changed) = changed else { return Ok(false) };
        if !changed.is_empty() {
            let ids = changed.iter().map(|status| status.info.id.clone()).collect();
            self.show(round, &ids, &changed, shown);
        } else {
            shown.due_at = self.next_due(shown);
        }
        Ok(true)
    }

    /// Shows those whose status the clock alone may have changed.
    fn show_due(&self, round: u64, shown: &mut ShownSessions) -> Result<(), ReadError> {
        let ids = shown.ids();
        let due = self.tracker().tracker.due(ids, (self.clock)());
        self.show_assessed(round, &due, shown)
    }

    /// Assesses sessions and shows them.
    fn show_assessed(
        &self,
        round: u64,
        ids: &BTreeSet<SessionId>,
        shown: &mut ShownSessions,
    ) -> Result<(), ReadError> {
        let mut slot = self.tracker();
        let TrackerSlot { tracker, processes, .. } = &mut *slot;
        let statuses = tracker.assess_again(ids, processes, (self.clock)())?;
        drop(slot);
        self.show(round, ids, &statuses, shown);
        Ok(())
    }

    /// Shows these sessions; those without a status leave the board.
    fn show(
        &self,
        round: u64,
        ids: &BTreeSet<SessionId>,
        statuses: &[SessionStatus],
        shown: &mut ShownSessions,
    ) {
        // Removed and added again: a child session that no longer needs the user leaves the list.
        shown.listed.retain(|id| !ids.contains(id));
        shown.unlisted.retain(|id| !ids.contains(id));
        statuses.iter().for_each(|status| shown.add(status));
        let listed = statuses.iter().filter(|status| status.is_listed());
        self.put(round, || {
            self.board.keep(|id| shown.listed.contains(id));
            self.board.show(listed.map(answers::status).map(current));
            self.changes.add(statuses);
        });
        shown.due_at = self.next_due(shown);
        shown.shown_at = Instant::now();
    }

    /// When the clock alone may change the status of a session that is shown.
    fn next_due(&self, shown: &ShownSessions) -> Option<Time> {
        self.tracker().tracker.next_due(shown.ids())
    }

    /// Updates the board and the changes, unless the watchers of the round have left.
    fn put(&self, round: u64, update: impl FnOnce()) {
        // The lock is held during the update, or a board wiped meanwhile would be filled again.
        let watch_state = self.watch_state();
        if watch_state.is_watched_in(round) {
            update();
        }
    }

    /// The tracker, made anew if the journal was opened again.
    fn tracker(&self) -> MutexGuard<'_, TrackerSlot> {
        let mut slot = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        let reopen_count = self.journal.reopen_count();
        if slot.reopen_count != reopen_count {
            // What was tracked was read from the former journal, which is closed.
            slot.tracker = StatusTracker::new(self.journal.current(), self.environment.clone());
            slot.reopen_count = reopen_count;
        }
        slot
    }

    fn watch_state(&self) -> MutexGuard<'_, WatchState> {
        self.watch_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BoardWatch {
    fn drop(&mut self) {
        let BoardWatch(service) = self;
        let mut watch_state = service.watch_state();
        watch_state.watchers -= 1;
        if watch_state.watchers == 0 {
            watch_state.round += 1;
            service.board.wipe();
            service.changes.clear();
        }
        drop(watch_state);
        service.waker.wake();
    }
}

impl StatusThread {
    /// Ends the threads and waits for their end.
    pub(crate) fn stop(self) {
        let StatusThread { service, thread, watch_thread } = self;
        service.watch_state().is_over = true;
        service.changed.notify_all();
        service.waker.wake();
        service.host_watch.iter().for_each(|watch| watch.close());
        // A panic of a thread concerns only the board, which is of no use now.
        let _ = thread.join();
        let _ = watch_thread.map(JoinHandle::join);
    }
}

impl WatchState {
    /// Whether the watchers of the round are still there.
    fn is_watched_in(&self, round: u64) -> bool {
        // A round ends with its last watcher; a new watcher begins another, on a wiped board.
        self.watchers > 0 && self.round == round && !self.is_over
    }
}

fn current(status: wire::Status) -> wire::Status {
    wire::Status { behind: false, ..status }
}

#[cfg(test)]
mod tests;
