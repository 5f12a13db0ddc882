//! Goes on as agents write: notifications say where to look, polling makes sure.

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

/// Everything is listed again this often, whatever was noticed meanwhile.
const SWEEP: Duration = Duration::from_secs(10 * 60);
/// The same while some folder cannot be watched.
const SWEEP_UNWATCHED: Duration = Duration::from_secs(5);
/// How often folders that were not there are looked for, whatever was noticed meanwhile.
const ROOTS: Duration = Duration::from_secs(60);
/// The same while some folder cannot be watched.
const ROOTS_UNWATCHED: Duration = Duration::from_secs(5);
/// How long a folder that cannot be watched is left at that.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// The same for one whose changes are not told, though it is watched.
const DISTRUSTED_FOR: Duration = Duration::from_secs(10 * 60);
/// The longest time between two errands.
const ERRAND: Duration = Duration::from_secs(5);

/// A folder that appeared is listed again after this time: the system may have begun to watch it
/// only after something was put there.
const APPEARED: Duration = Duration::from_secs(1);
/// Folders that wait for that. With more, everything is listed again instead.
const APPEARED_MAX: usize = 1_024;

/// How long sources that a sweep found are read, before those that were just written to have
/// their turn again.
const BACKLOG_TURN: Duration = Duration::from_millis(100);

/// Hints that are taken in before something is done about them.
const WAKES_MAX: usize = 4_096;

/// Has a watch make another round, from another thread.
#[derive(Clone)]
pub struct Waker {
    wakes: SyncSender<Wake>,
}

impl Waker {
    pub fn wake(&self) {
        // One that has so much to do makes another round anyway.
        let _ = self.wakes.try_send(Wake::RoundTask);
    }
}

/// Ends a watch from another thread.
#[derive(Clone)]
pub struct WatchStopper {
    stop: StopFlag,
    wakes: SyncSender<Wake>,
}

impl WatchStopper {
    pub fn stop(&self) {
        self.stop.ask();
        // A watch that has ended needs no waking, nor does one that has so much to do.
        let _ = self.wakes.try_send(Wake::Stop);
    }
}

/// What is done with every round beside looking at sources.
pub type RoundTask<'e> =
    &'e mut dyn FnMut(&Ingester<'_>, &mut dyn Sink, &mut IngestSummary) -> Result<(), CaptureError>;

/// Follows all sources until it is stopped.
pub struct SourceWatcher<'a> {
    ingester: Ingester<'a>,
    /// Folders of ours; whatever is put into one is a reason for another round.
    bells: Vec<PathBuf>,
    wakes: Receiver<Wake>,
    sender: SyncSender<Wake>,
    /// The system, or we, lost count of what happened.
    has_lost_count: Arc<AtomicBool>,
    watcher: Option<RecommendedWatcher>,
    /// Folders that are watched, and those that cannot be, until when.
    watched: BTreeSet<PathBuf>,
    refused: BTreeMap<PathBuf, Moment>,
    /// Where a folder that is not there would be seen to come: the nearest one above it that is.
    doorsteps: BTreeSet<PathBuf>,
    schedule: Schedule,
    stamps: FileStamps,
    misses: MissedEvents,
    warning_dedup: WarningDedup,
    /// Sources with news that nobody told of, in the order they are read.
    backlog: VecDeque<PathBuf>,
    /// Folders that are listed again, and when.
    appeared: VecDeque<(Moment, PathBuf)>,
    begun: Instant,
}

impl<'a> SourceWatcher<'a> {
    /// `bells` are folders in which anything may be put to have another round, unless its name is
    /// hidden.
    pub fn new(ingester: Ingester<'a>, bells: Vec<PathBuf>) -> SourceWatcher<'a> {
        let (sender, wakes) = mpsc::sync_channel(HINTS_MAX);
        let has_lost_count = Arc::new(AtomicBool::new(false));
        let hints = Hints { sender: sender.clone(), has_lost_count: Arc::clone(&has_lost_count) };
        // What a link leads to within a root is watched there; what it leads to elsewhere is not ours.
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(move |event| hints.take(event), config).ok();
        if let Some(watcher) = &mut watcher {
            for bell in &bells {
                // One that is not heard is noticed a little later.
                let _ = watcher.watch(bell, RecursiveMode::NonRecursive);
            }
        }
        SourceWatcher {
            ingester,
            bells,
            wakes,
            sender,
            has_lost_count,
            watcher,
            watched: BTreeSet::new(),
            refused: BTreeMap::new(),
            doorsteps: BTreeSet::new(),
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

    /// Follows until it is stopped. `errand` is run with every round, a few seconds apart at most;
    /// `tell` hears of every round that brought something.
    pub fn run(
        &mut self,
        sink: &mut dyn Sink,
        errand: RoundTask<'_>,
        tell: &mut dyn FnMut(&IngestSummary),
    ) -> Result<(), CaptureError> {
        let mut warnings = Vec::new();
        self.watch_roots(&mut warnings);
        // Watched first: what is written meanwhile is told. Nobody is kept waiting yet.
        let mut summary = self.ingester.once(sink, &mut |_| {})?;
        self.hint_recent(&mut summary);
        let mut next_sweep = self.now() + self.sweep_pause();
        let mut next_roots = self.now() + self.roots_pause();
        loop {
            let now = self.now();
            if now >= next_roots {
                if self.watch_roots(&mut warnings) {
                    next_sweep = now;
                }
                next_roots = now + self.roots_pause();
            }
            if now >= next_sweep || self.has_lost_count.swap(false, Ordering::Relaxed) {
                self.sweep(sink, &mut summary)?;
                next_sweep = self.now() + self.sweep_pause();
            }
            self.list_again(&mut warnings);
            summary.warnings.append(&mut warnings);
            self.look(sink, &mut summary)?;
            self.catch_up(sink, &mut summary)?;
            self.settle_misses(&mut summary);
            errand(&self.ingester, sink, &mut summary)?;
            self.warning_dedup.keep_new(&mut summary.warnings);
            if summary != IngestSummary::default() {
                summary.conclude();
                tell(&summary);
                summary = IngestSummary::default();
            }
            let due = self.next_due().min(next_sweep).min(next_roots);
            match self.wait_until(due, &mut warnings) {
                WaitOutcome::GoOn => {}
                WaitOutcome::AtTheDoor => next_roots = self.now(),
                WaitOutcome::Stop => return Ok(()),
            }
        }
    }

    /// When there is something to do, if nobody tells of anything.
    fn next_due(&self) -> Moment {
        if !self.backlog.is_empty() {
            return self.now();
        }
        let listing = self.appeared.front().map(|(due, _)| *due);
        let dues = [self.schedule.next_due(), listing, Some(self.now() + ERRAND)];
        dues.into_iter().flatten().min().unwrap_or(Moment::MAX)
    }

    /// Lists everything; what has news is read as others leave time for it.
    fn sweep(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        self.backlog = self.ingester.sweep(sink, summary)?.into();
        self.warning_dedup.forget_past(&summary.warnings);
        self.hint_recent(summary);
        Ok(())
    }

    /// Goes on looking at what somebody wrote to a short while ago.
    fn hint_recent(&mut self, summary: &mut IngestSummary) {
        let now = self.now();
        for path in summary.recent.drain(..) {
            self.schedule.hint(&path, now);
        }
    }

    /// Looks once more into folders that have appeared.
    fn list_again(&mut self, warnings: &mut Vec<Warning>) {
        let now = self.now();
        while let Some((_, folder)) = self.appeared.pop_front_if(|(due, _)| *due <= now) {
            self.hint_below(&folder, warnings);
        }
    }

    fn hint_below(&mut self, folder: &Path, warnings: &mut Vec<Warning>) {
        let now = self.now();
        for path in self.ingester.sources_below(folder, warnings) {
            self.hint(&path, now);
        }
    }

    /// Looks at every source that is due, a turn each.
    fn look(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let now = self.now();
        let mut looked = Vec::new();
        let mut has_looked = false;
        while let Some(path) =
            self.schedule.take_due(now).filter(|_| !self.ingester.stop.is_asked())
        {
            let stamp = FileStamp::at(&path, (self.ingester.clock)());
            if self.stamps.has(&path, &stamp) {
                looked.push((path, Poll::Complete, false, false));
                continue;
            }
            let (bytes, warnings) = (summary.bytes, summary.warnings.len());
            let found = self.ingester.look(&path, TURN_BYTES, sink, summary)?;
            let has_grown = summary.bytes > bytes;
            // Of what counts only because nobody goes on with it, nobody tells.
            let is_news = has_grown && !self.stamps.only_fell_silent(&path, &stamp);
            has_looked = true;
            // What could not be read may be readable next time.
            let is_well = summary.warnings.len() == warnings;
            if is_well {
                self.warning_dedup.forget(&path);
            }
            if is_well && matches!(found, Poll::Complete | Poll::Deferred) {
                self.stamps.put(&path, stamp);
            }
            looked.push((path, found, has_grown, is_news));
        }
        if has_looked {
            sink.settle().map_err(CaptureError::Unrecorded)?;
        }
        let now = self.now();
        for (path, found, has_grown, is_news) in looked {
            self.misses.looked(&path, is_news, now);
            let is_kept = match found {
                // Whatever else somebody keeps there.
                Poll::NoSource => self.schedule.forget(&path),
                Poll::Complete => self.schedule.looked(&path, has_grown, now),
                Poll::Deferred => {
                    // That it is read later is nobody's miss.
                    self.misses.tell(&path);
                    self.schedule.looked(&path, has_grown, now)
                }
                Poll::Partial => {
                    self.schedule.looked(&path, has_grown, now);
                    self.schedule.hint(&path, now);
                    self.misses.tell(&path);
                    true
                }
            };
            if !is_kept {
                self.stamps.forget(&path);
            }
        }
        Ok(())
    }

    /// Counts what the system should have told and did not. A folder where that happens again and
    /// again is looked at as if it could not be watched, and watched anew after a while.
    fn settle_misses(&mut self, summary: &mut IngestSummary) {
        let now = self.now();
        let missed = self.misses.settle(&self.watched, now);
        summary.misses += missed.count;
        for root in missed.roots {
            let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(&root));
            self.watched.remove(&root);
            let provider =
                self.ingester.roots().into_iter().find_map(|(provider, its)| {
                    (its.canonicalize().ok()? == root).then_some(provider)
                });
            summary.warnings.push(missing_out(provider.unwrap_or_default(), &root));
            self.refused.insert(root, now + DISTRUSTED_FOR);
            self.schedule.is_watched = false;
        }
    }

    /// Reads on in what a sweep has found, for a while.
    fn catch_up(
        &mut self,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        let until = self.now() + BACKLOG_TURN;
        let mut has_looked = false;
        while self.now() < until && !self.ingester.stop.is_asked() {
            let Some(path) = self.backlog.pop_front() else { break };
            has_looked = true;
            if self.ingester.look(&path, TURN_BYTES, sink, summary)? == Poll::Partial {
                self.backlog.push_front(path);
            }
        }
        if has_looked {
            sink.settle().map_err(CaptureError::Unrecorded)?;
        }
        Ok(())
    }

    /// Waits for something to do, and takes in everything that was told meanwhile.
    fn wait_until(&mut self, due: Moment, warnings: &mut Vec<Warning>) -> WaitOutcome {
        let mut pause = due.saturating_sub(self.now());
        let mut waited = WaitOutcome::GoOn;
        let mut taken = 0;
        loop {
            taken += 1;
            // Whoever writes without a pause keeps nobody else waiting.
            if taken > WAKES_MAX {
                return waited;
            }
            if self.ingester.stop.is_asked() {
                return WaitOutcome::Stop;
            }
            let now = self.now();
            match self.wakes.recv_timeout(pause) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return WaitOutcome::Stop,
                Ok(Wake::RoundTask) => {}
                // What is hidden is not put there yet, or is a note of whoever puts things there.
                Ok(Wake::Changed(path)) if self.is_on_a_bell(&path) && is_hidden(&path) => {
                    pause = pause.min(due.saturating_sub(now));
                    continue;
                }
                Ok(Wake::Changed(path)) if self.is_on_a_bell(&path) => {}
                Ok(Wake::Folder(path)) if self.is_at_the_door(&path) => {
                    waited = WaitOutcome::AtTheDoor;
                }
                // Whatever else happens there is nothing to us.
                Ok(Wake::Changed(path)) if self.is_at_the_door(&path) => {
                    pause = pause.min(due.saturating_sub(now));
                    continue;
                }
                // The system watches it no longer, whatever has its name now.
                Ok(Wake::Gone(path))
                    if self.watched.remove(&path) || self.doorsteps.remove(&path) =>
                {
                    // One that was moved is still watched where it is now.
                    let _ = self.watcher.as_mut().map(|watcher| watcher.unwatch(&path));
                    waited = WaitOutcome::AtTheDoor;
                }
                // What happens to a database happens in its log first.
                Ok(Wake::Changed(path) | Wake::Gone(path)) => {
                    self.hint(&database::of_log(&path), now)
                }
                Ok(Wake::Folder(folder)) => {
                    self.hint_below(&folder, warnings);
                    match self.appeared.len() < APPEARED_MAX {
                        true => self.appeared.push_back((now + APPEARED, folder)),
                        false => self.has_lost_count.store(true, Ordering::Relaxed),
                    }
                }
                Err(RecvTimeoutError::Timeout) => return waited,
            }
            // Whatever else waits is taken in at once.
            pause = Duration::ZERO;
        }
    }

    /// Something was told of a source: it is looked at, whatever it looks like.
    fn hint(&mut self, path: &Path, now: Moment) {
        self.stamps.forget(path);
        self.misses.tell(path);
        self.schedule.hint(path, now);
    }

    fn is_on_a_bell(&self, path: &Path) -> bool {
        self.bells.iter().any(|bell| path.starts_with(bell))
    }

    /// Whether something happened where a folder may come that is not there yet.
    fn is_at_the_door(&self, path: &Path) -> bool {
        let is_ours = || self.watched.iter().any(|root| path.starts_with(root));
        path.parent().is_some_and(|folder| self.doorsteps.contains(folder)) && !is_ours()
    }

    /// Watches the folders that are there and were not watched; whether there are any.
    fn watch_roots(&mut self, warnings: &mut Vec<Warning>) -> bool {
        let mut has_news = false;
        for (provider, root) in self.ingester.roots() {
            if !root.exists() {
                self.watch_doorstep(&root);
            }
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
                    if !was_refused {
                        warnings.push(not_watched(provider, &root, &error));
                        has_news = true;
                    }
                    self.refused.insert(root, now + REFUSED_FOR);
                }
            }
        }
        // What is gone is no folder that cannot be watched.
        self.refused.retain(|root, _| root.exists());
        self.schedule.is_watched = self.refused.is_empty();
        has_news
    }

    /// Watches for a folder to come. Where that cannot be done it is looked for now and then.
    fn watch_doorstep(&mut self, missing: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        let nearest = || missing.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
        // One that comes meanwhile, nearer, is not told by the doorstep further away.
        while let Some(folder) = nearest().filter(|folder| !self.doorsteps.contains(folder)) {
            if watcher.watch(&folder, RecursiveMode::NonRecursive).is_err() {
                return;
            }
            self.doorsteps.insert(folder);
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
    GoOn,
    /// Something happened where a folder is missing.
    AtTheDoor,
    Stop,
}

#[cfg(test)]
mod tests;
