//! Reads on while agents write: notifications say which sources to poll, a schedule polls the rest.
//!
//! Notifications are hints only. The system may drop them, and some file systems send none, so
//! active sources are polled anyway and everything is listed again every few minutes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use notify::{Config, RecommendedWatcher, RecursiveMode, Watcher};

use crate::database;
use crate::error::{CaptureError, Warning};
use crate::file_stamp::{FileStamp, FileStamps};
use crate::hints::{HINTS_MAX, Hints, Wake, missing_out, not_watched};
use crate::ingester::{IngestSummary, Ingester, Poll};
use crate::limit::TURN_BYTES;
use crate::missed_events::MissedEvents;
use crate::schedule::{Moment, Schedule};
use crate::sink::Sink;
use crate::stop_flag::StopFlag;
use crate::warning_dedup::WarningDedup;

/// How often all sources are listed again, whatever the notifications said.
const SWEEP: Duration = Duration::from_secs(10 * 60);
/// The same while some folder cannot be watched.
const SWEEP_UNWATCHED: Duration = Duration::from_secs(5);
/// How often missing root folders are looked for, whatever the notifications said.
const ROOTS: Duration = Duration::from_secs(60);
/// The same while some folder cannot be watched.
const ROOTS_UNWATCHED: Duration = Duration::from_secs(5);
/// How long the watcher waits before it tries again to watch a folder that the system refused.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// The same for a watched folder, if the system does not announce changes in it.
const DISTRUSTED_FOR: Duration = Duration::from_secs(10 * 60);
/// The longest time between two runs of the round task.
const ERRAND: Duration = Duration::from_secs(5);

/// A folder that appeared is listed again after this time: files may have been put there before the
/// system began to watch it.
const APPEARED: Duration = Duration::from_secs(1);
/// Folders that wait for that. With more, everything is listed again instead.
const APPEARED_MAX: usize = 1_024;

/// How long the backlog of a sweep is read before sources that were just written to have their
/// turn again.
const BACKLOG_TURN: Duration = Duration::from_millis(100);

/// Wakes that are taken in before the next round begins, so that an agent that writes without a
/// pause cannot hold the round up.
const WAKES_MAX: usize = 4_096;

/// Makes the watcher begin another round, from another thread.
#[derive(Clone)]
pub struct Waker {
    wakes: SyncSender<Wake>,
}

impl Waker {
    pub fn wake(&self) {
        // A full channel means that another round comes anyway.
        let _ = self.wakes.try_send(Wake::RoundTask);
    }
}

/// Stops the watcher from another thread.
#[derive(Clone)]
pub struct WatchStopper {
    stop: StopFlag,
    wakes: SyncSender<Wake>,
}

impl WatchStopper {
    pub fn stop(&self) {
        self.stop.request_stop();
        // A watcher that has ended needs no wake, nor does one with a full channel.
        let _ = self.wakes.try_send(Wake::Stop);
    }
}

/// Work of the caller that runs with every round, beside the polls.
pub type RoundTask<'e> =
    &'e mut dyn FnMut(&Ingester<'_>, &mut dyn Sink, &mut IngestSummary) -> Result<(), CaptureError>;

/// Follows all sources until it is stopped.
pub struct SourceWatcher<'a> {
    ingester: Ingester<'a>,
    /// Folders of the daemon; a file put into one of them begins another round.
    wake_folders: Vec<PathBuf>,
    wakes: Receiver<Wake>,
    sender: SyncSender<Wake>,
    /// Notifications were lost, by the system or because the channel was full.
    has_lost_events: Arc<AtomicBool>,
    watcher: Option<RecommendedWatcher>,
    /// Folders that are watched, and those that are not tried again before some moment.
    watched: BTreeSet<PathBuf>,
    refused: BTreeMap<PathBuf, Moment>,
    /// The nearest existing folders above roots that are missing: a root that is made shows there.
    watched_ancestors: BTreeSet<PathBuf>,
    schedule: Schedule,
    stamps: FileStamps,
    misses: MissedEvents,
    warning_dedup: WarningDedup,
    /// Sources with news that a sweep found, in the order they are read.
    backlog: VecDeque<PathBuf>,
    /// Folders that are listed again, and when.
    appeared: VecDeque<(Moment, PathBuf)>,
    begun: Instant,
}

impl<'a> SourceWatcher<'a> {
    /// A file that is put into one of `wake_folders` begins another round, unless its name is hidden.
    pub fn new(ingester: Ingester<'a>, wake_folders: Vec<PathBuf>) -> SourceWatcher<'a> {
        let (sender, wakes) = mpsc::sync_channel(HINTS_MAX);
        let has_lost_events = Arc::new(AtomicBool::new(false));
        let hints = Hints { sender: sender.clone(), has_lost_events: Arc::clone(&has_lost_events) };
        // The target of a link is watched if it lies below a root; other targets are not sources.
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(move |event| hints.take(event), config).ok();
        if let Some(watcher) = &mut watcher {
            for folder in &wake_folders {
                // A file there that is not announced is found by the next round.
                let _ = watcher.watch(folder, RecursiveMode::NonRecursive);
            }
        }
        SourceWatcher {
            ingester,
            wake_folders,
            wakes,
            sender,
            has_lost_events,
            watcher,
            watched: BTreeSet::new(),
            refused: BTreeMap::new(),
            watched_ancestors: BTreeSet::new(),
            schedule: Schedule::default(),
            stamps: FileStamps::default(),
            misses: MissedEvents::default(),
            warning_dedup: WarningDedup::default(),
            backlog: VecDeque::new(),
            appeared: VecDeque::new(),
            begun: Instant::now(),
        }
    }

    pub fn stopper(&self) -> WatchStopper {
        WatchStopper { stop: self.ingester.stop.clone(), wakes: self.sender.clone() }
    }

    pub fn waker(&self) -> Waker {
        Waker { wakes: self.sender.clone() }
    }

    /// Follows all sources until it is stopped. `errand` runs with every round, a few seconds apart at
    /// most; `tell` is called after every round that has a summary.
    pub fn run(
        &mut self,
        sink: &mut dyn Sink,
        errand: RoundTask<'_>,
        tell: &mut dyn FnMut(&IngestSummary),
    ) -> Result<(), CaptureError> {
        let mut warnings = Vec::new();
        self.watch_roots(&mut warnings);
        // Watch before the first pass, so that changes during the pass are announced.
        let mut summary = self.ingester.ingest_all(sink, &mut |_| {})?;
        self.poll_recent(&mut summary);
        let mut next_sweep = self.now() + self.sweep_pause();
        let mut next_roots = self.now() + self.roots_pause();
        loop {
            let now = self.now();
            if now >= next_roots {
                // A root that is watched from now on may hold sources that no notification named.
                if self.watch_roots(&mut warnings) {
                    next_sweep = now;
                }
                next_roots = now + self.roots_pause();
            }
            if now >= next_sweep || self.has_lost_events.swap(false, Ordering::Relaxed) {
                self.sweep_sources(sink, &mut summary)?;
                next_sweep = self.now() + self.sweep_pause();
            }
            self.list_again(&mut warnings);
            summary.warnings.append(&mut warnings);
            self.poll_due(sink, &mut summary)?;
            self.read_backlog(sink, &mut summary)?;
            self.count_missed_events(&mut summary);
            errand(&self.ingester, sink, &mut summary)?;
            self.warning_dedup.retain_new(&mut summary.warnings);
            if summary != IngestSummary::default() {
                summary.report_unknown();
                tell(&summary);
                summary = IngestSummary::default();
            }
            let due = self.next_due().min(next_sweep).min(next_roots);
            match self.wait_until(due, &mut warnings) {
                WaitOutcome::Continue => {}
                WaitOutcome::RootsChanged => next_roots = self.now(),
                WaitOutcome::Stop => return Ok(()),
            }
        }
    }

    /// When the next round is due without any notification.
    fn next_due(&self) -> Moment {
        if !self.backlog.is_empty() {
            return self.now();
        }
        let listing = self.appeared.front().map(|(due, _)| *due);
        let dues = [self.schedule.next_due(), listing, Some(self.now() + ERRAND)];
        dues.into_iter().flatten().min().unwrap_or(Moment::MAX)
    }

    /// Lists all sources; those with news are read from the backlog, between the polls.
    fn sweep_sources(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        // The new list replaces the old one: whatever was left of that still has news and is in it.
        self.backlog = self.ingester.sweep_sources(sink, summary)?.into();
        self.warning_dedup.forget_cured(&summary.warnings);
        self.poll_recent(summary);
        Ok(())
    }

    /// Schedules polls for sources that were written to a short while ago.
    fn poll_recent(&mut self, summary: &mut IngestSummary) {
        let now = self.now();
        for path in summary.recent.drain(..) {
            self.schedule.poll_now(&path, now);
        }
    }

    /// Lists folders once more that appeared a moment ago.
    fn list_again(&mut self, warnings: &mut Vec<Warning>) {
        let now = self.now();
        while let Some((_, folder)) = self.appeared.pop_front_if(|(due, _)| *due <= now) {
            self.poll_below(&folder, warnings);
        }
    }

    fn poll_below(&mut self, folder: &Path, warnings: &mut Vec<Warning>) {
        let now = self.now();
        for path in self.ingester.sources_below(folder, warnings) {
            self.note_change(&path, now);
        }
    }

    /// Polls every source that is due, up to the byte limit of a turn each.
    fn poll_due(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let now = self.now();
        // Outcomes are scheduled behind the loop: a source with more to read would come up again in
        // the same round and keep the others waiting.
        let mut looked = Vec::new();
        let mut has_looked = false;
        while let Some(path) =
            self.schedule.take_due(now).filter(|_| !self.ingester.stop.is_asked())
        {
            // Read before the poll: whatever is written during the poll makes the next stamp
            // differ.
            let stamp = FileStamp::read_from(&path, (self.ingester.clock)());
            if self.stamps.is_unchanged(&path, &stamp) {
                looked.push((path, Poll::Complete, false, false));
                continue;
            }
            let (bytes, warnings) = (summary.bytes, summary.warnings.len());
            let found = self.ingester.poll_source(&path, TURN_BYTES, sink, summary)?;
            let has_grown = summary.bytes > bytes;
            // Records that are flushed after a quiet period come without a change of the file, so no
            // notification announces them and none was missed.
            let is_news = has_grown && !self.stamps.only_fell_quiet(&path, &stamp);
            has_looked = true;
            // A source with a warning is polled in full next time: it may be readable then.
            let is_well = summary.warnings.len() == warnings;
            if is_well {
                self.warning_dedup.forget_path(&path);
            }
            if is_well && matches!(found, Poll::Complete | Poll::Deferred) {
                self.stamps.remember(&path, stamp);
            }
            looked.push((path, found, has_grown, is_news));
        }
        if has_looked {
            sink.settle().map_err(CaptureError::Unrecorded)?;
        }
        let now = self.now();
        for (path, found, has_grown, is_news) in looked {
            self.misses.note_poll(&path, is_news, now);
            let is_kept = match found {
                // Another file in an agent's folder.
                Poll::NoSource => self.schedule.forget_path(&path),
                Poll::Complete => self.schedule.note_poll(&path, has_grown, now),
                Poll::Deferred => {
                    // It is read later on purpose, so no notification was missed.
                    self.misses.note_notified(&path);
                    self.schedule.note_poll(&path, has_grown, now)
                }
                Poll::Partial => {
                    self.schedule.note_poll(&path, has_grown, now);
                    self.schedule.poll_now(&path, now);
                    self.misses.note_notified(&path);
                    true
                }
            };
            if !is_kept {
                self.stamps.forget_path(&path);
            }
        }
        Ok(())
    }

    /// Counts changes that the system did not announce. A folder with several of them is treated as
    /// one that cannot be watched, and is watched again after a while.
    fn count_missed_events(&mut self, summary: &mut IngestSummary) {
        let now = self.now();
        let missed = self.misses.count_missed(&self.watched, now);
        summary.misses += missed.count;
        for root in missed.roots {
            let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(&root));
            self.watched.remove(&root);
            let provider =
                self.ingester.watched_roots().into_iter().find_map(|(provider, its)| {
                    (its.canonicalize().ok()? == root).then_some(provider)
                });
            summary.warnings.push(missing_out(provider.unwrap_or_default(), &root));
            // Counts as refused, so that polls and sweeps come as often as where the system
            // refused.
            self.refused.insert(root, now + DISTRUSTED_FOR);
            self.schedule.is_watched = false;
        }
    }

    /// Reads from the backlog for a short while.
    fn read_backlog(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let until = self.now() + BACKLOG_TURN;
        let mut has_looked = false;
        while self.now() < until && !self.ingester.stop.is_asked() {
            let Some(path) = self.backlog.pop_front() else { break };
            has_looked = true;
            if self.ingester.poll_source(&path, TURN_BYTES, sink, summary)? == Poll::Partial {
                // It stays first: the newest source is read to its end before the next one begins.
                self.backlog.push_front(path);
            }
        }
        if has_looked {
            sink.settle().map_err(CaptureError::Unrecorded)?;
        }
        Ok(())
    }

    /// Waits until the next round is due or a wake comes, and takes in all wakes that wait.
    fn wait_until(&mut self, due: Moment, warnings: &mut Vec<Warning>) -> WaitOutcome {
        let mut pause = due.saturating_sub(self.now());
        let mut waited = WaitOutcome::Continue;
        let mut taken = 0;
        loop {
            taken += 1;
            if taken > WAKES_MAX {
                return waited;
            }
            if self.ingester.stop.is_asked() {
                return WaitOutcome::Stop;
            }
            let now = self.now();
            // The order of the arms counts: the daemon's own folders, then missing roots, then
            // sources.
            match self.wakes.recv_timeout(pause) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return WaitOutcome::Stop,
                Ok(Wake::RoundTask) => {}
                // A hidden file is still being written, or is a note of its writer.
                Ok(Wake::Changed(path)) if self.is_in_wake_folder(&path) && is_hidden(&path) => {
                    pause = pause.min(due.saturating_sub(now));
                    continue;
                }
                Ok(Wake::Changed(path)) if self.is_in_wake_folder(&path) => {}
                Ok(Wake::Folder(path)) if self.is_below_ancestor(&path) => {
                    waited = WaitOutcome::RootsChanged;
                }
                // Other changes beside a missing root mean nothing.
                Ok(Wake::Changed(path)) if self.is_below_ancestor(&path) => {
                    pause = pause.min(due.saturating_sub(now));
                    continue;
                }
                // The system no longer watches the folder, even if a new one has its name.
                Ok(Wake::Gone(path))
                    if self.watched.remove(&path) || self.watched_ancestors.remove(&path) =>
                {
                    // A folder that was moved is still watched at its new place.
                    let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(&path));
                    waited = WaitOutcome::RootsChanged;
                }
                // A database changes in its write-ahead log first.
                Ok(Wake::Changed(path) | Wake::Gone(path)) => {
                    self.note_change(&database::database_of_log(&path), now)
                }
                Ok(Wake::Folder(folder)) => {
                    self.poll_below(&folder, warnings);
                    match self.appeared.len() < APPEARED_MAX {
                        true => self.appeared.push_back((now + APPEARED, folder)),
                        false => self.has_lost_events.store(true, Ordering::Relaxed),
                    }
                }
                Err(RecvTimeoutError::Timeout) => return waited,
            }
            // Further wakes are taken in without waiting.
            pause = Duration::ZERO;
        }
    }

    /// A notification named the source: the next poll does not rely on its stamp.
    fn note_change(&mut self, path: &Path, now: Moment) {
        self.stamps.forget_path(path);
        self.misses.note_notified(path);
        self.schedule.poll_now(path, now);
    }

    fn is_in_wake_folder(&self, path: &Path) -> bool {
        self.wake_folders.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether a path lies directly below the ancestor of a missing root, and below no watched root.
    fn is_below_ancestor(&self, path: &Path) -> bool {
        let is_ours = || self.watched.iter().any(|root| path.starts_with(root));
        path.parent().is_some_and(|folder| self.watched_ancestors.contains(folder)) && !is_ours()
    }

    /// Watches root folders that exist and were not watched; returns whether anything changed.
    fn watch_roots(&mut self, warnings: &mut Vec<Warning>) -> bool {
        let mut has_news = false;
        for (provider, root) in self.ingester.watched_roots() {
            if !root.exists() {
                self.watch_ancestor(&root);
            }
            // Sources are listed below the resolved root, and notifications name paths below the
            // watched one, so both have to be the same.
            let Ok(root) = root.canonicalize() else { continue };
            let now = self.now();
            if self.watched.contains(&root) || self.refused.get(&root).is_some_and(|&to| now < to) {
                continue;
            }
            let was_refused = self.refused.remove(&root).is_some();
            let watched = match &mut self.watcher {
                Some(watcher) => watcher.watch(&root, RecursiveMode::Recursive),
                None => Err(notify::Error::generic("the system has no notifications left")),
            };
            match watched {
                Ok(()) => {
                    self.watched.insert(root);
                    has_news = true;
                }
                Err(error) => {
                    // The user reads the warning once, not with every attempt.
                    if !was_refused {
                        warnings.push(not_watched(provider, &root, &error));
                        has_news = true;
                    }
                    self.refused.insert(root, now + REFUSED_FOR);
                }
            }
        }
        // A root that is gone needs no polling as if it were refused.
        self.refused.retain(|root, _| root.exists());
        self.schedule.is_watched = self.refused.is_empty();
        has_news
    }

    /// Watches the nearest ancestor of a missing root. Where that fails, the roots are checked from
    /// time to time.
    fn watch_ancestor(&mut self, missing: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        let nearest = || missing.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
        // A nearer ancestor may be made between the look and the watch; then it is watched, too.
        while let Some(folder) = nearest().filter(|folder| !self.watched_ancestors.contains(folder))
        {
            if watcher.watch(&folder, RecursiveMode::NonRecursive).is_err() {
                return;
            }
            self.watched_ancestors.insert(folder);
        }
    }

    fn roots_pause(&self) -> Duration {
        let is_watched = self.watcher.is_some() && self.refused.is_empty();
        if is_watched { ROOTS } else { ROOTS_UNWATCHED }
    }

    fn sweep_pause(&self) -> Duration {
        if self.refused.is_empty() { SWEEP } else { SWEEP_UNWATCHED }
    }

    fn now(&self) -> Moment {
        self.begun.elapsed()
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

enum WaitOutcome {
    Continue,
    /// A missing root may have been made, or a watched one is gone.
    RootsChanged,
    Stop,
}

#[cfg(test)]
mod tests;
