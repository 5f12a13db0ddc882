//! Capture inside the daemon: catches up with what agents wrote while it did not run, then follows
//! as they write, until it is stopped. A failure to record stops nothing else: it is logged, shown in
//! `health`, and tried again.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::{DatabaseGuard, IngestSummary, SourceIndex, StopFlag, WatchStopper};
use ingest::{Caught, HookIngest, Import, Ingest, IngestError, store_queue};
use journal::{AppendError, ClaimError};
use wire::Backlog;

use crate::context::DaemonContext;
use crate::log::part;
use crate::publish::BusPublisher;
use crate::settings::Settings;
use crate::threads::{ExitGuard, lower_priority};

/// Time between two tries when nothing can be recorded; it doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// History is read in slices of this length, each beginning with the files written last. What agents
/// write meanwhile is therefore recorded at most this late.
const SLICE: Duration = Duration::from_secs(2);

/// A history that is read within this time is logged, but not shown to the user.
const QUICK: Duration = Duration::from_secs(5);

/// The thread that records what agents write.
pub(crate) struct CaptureThread {
    control: Arc<CaptureControl>,
    thread: JoinHandle<()>,
}

impl CaptureThread {
    /// Begins to record. The guard is dropped when the thread ends, however it ends.
    pub(crate) fn start(
        context: DaemonContext,
        publisher: BusPublisher,
        settings: Settings,
        exit_guard: ExitGuard,
    ) -> io::Result<CaptureThread> {
        let control = Arc::new(CaptureControl::new(settings));
        let worker = CaptureWorker {
            recorder: Recorder { context, publisher },
            control: Arc::clone(&control),
            last_failure: None,
            guard: DatabaseGuard::default(),
        };
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn(move || {
            let _exit_guard = exit_guard;
            worker.run();
        })?;
        Ok(CaptureThread { control, thread })
    }

    /// Continues with other settings.
    pub(crate) fn reload(&self, settings: Settings) {
        self.control.change(|state| {
            state.settings = settings;
            state.edition += 1;
        });
    }

    /// Asks the thread to end. What it has read by then is recorded and published.
    pub(crate) fn stop(&self) {
        self.control.change(|state| state.is_ending = true);
    }

    /// Waits for the end.
    pub(crate) fn join(self) {
        // The exit guard has reported a panic; what was committed stays committed.
        let _ = self.thread.join();
    }
}

/// Tells the thread to stop, or to start over with other settings.
struct CaptureControl {
    state: Mutex<ControlState>,
    changed: Condvar,
}

struct ControlState {
    is_ending: bool,
    settings: Settings,
    /// Counts the changes of the settings.
    edition: u64,
    /// Interrupts the current work.
    interrupt: Option<Box<dyn Fn() + Send>>,
}

impl CaptureControl {
    fn new(settings: Settings) -> CaptureControl {
        let state = ControlState { is_ending: false, settings, edition: 0, interrupt: None };
        CaptureControl { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings and their edition.
    fn settings(&self) -> (Settings, u64) {
        let state = self.lock();
        (state.settings.clone(), state.edition)
    }

    /// Changes the state and interrupts the current work, so that the thread sees the change.
    fn change(&self, change: impl FnOnce(&mut ControlState)) {
        let mut state = self.lock();
        change(&mut state);
        if let Some(interrupt) = &state.interrupt {
            interrupt();
        }
        // Also a worker that waits after a failure has to see the change.
        self.changed.notify_all();
    }

    /// Sets how the current work, done with the settings of this edition, is interrupted. Interrupts
    /// it at once if the thread is to end or the settings have changed already.
    fn interrupt_with(&self, edition: u64, interrupt: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        // Under the same lock as `change`: a change between the start of the work and this call is
        // not missed.
        if state.is_over(edition) {
            interrupt();
        }
        state.interrupt = Some(Box::new(interrupt));
    }

    fn is_ending(&self) -> bool {
        self.lock().is_ending
    }

    /// Whether work with the settings of this edition has to end.
    fn is_over(&self, edition: u64) -> bool {
        self.lock().is_over(edition)
    }

    /// Waits until the thread is to end, at most for this time.
    fn wait(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        // The work that it would interrupt has ended.
        state.interrupt = None;
        // A reload does not end this wait: the settings are not why recording failed.
        while !state.is_ending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl ControlState {
    fn is_over(&self, edition: u64) -> bool {
        self.is_ending || self.edition != edition
    }
}

struct CaptureWorker {
    recorder: Recorder,
    control: Arc<CaptureControl>,
    /// The words of the last failure, to log the same failure once.
    last_failure: Option<String>,
    guard: DatabaseGuard,
}

/// Publishes what was recorded and reports on it. Apart from the worker, so that the thread of
/// history can borrow it alone.
struct Recorder {
    context: DaemonContext,
    publisher: BusPublisher,
}

impl CaptureWorker {
    fn run(mut self) {
        let mut pause = RETRY_FIRST;
        while !self.control.is_ending() {
            let begun = Instant::now();
            match self.record() {
                Ok(()) => pause = RETRY_FIRST,
                Err(error) => {
                    // It had recorded for a while, so this is a new failure.
                    if begun.elapsed() > RETRY_LAST {
                        pause = RETRY_FIRST;
                    }
                    self.fail(&error);
                    self.store_hook_messages();
                    self.control.wait(pause);
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
        // Also at the end: the hooks keep no copy of what was accepted.
        self.store_hook_messages();
        self.recorder.context.health.set_part("capture", "stopped");
    }

    /// Stores the queued hook messages on disk: the hooks were told that they are accepted, and
    /// nothing records them now.
    fn store_hook_messages(&self) {
        if let Some(folder) = self.recorder.context.journal.current().dir() {
            store_queue(&self.recorder.context.hook_queue, folder);
        }
    }

    /// Records until it is interrupted or fails.
    fn record(&mut self) -> Result<(), IngestError> {
        // Taken anew in each round: a failed commit may have reopened the journal.
        let journal = self.recorder.context.journal.current();
        let environment = self.recorder.context.environment.clone();
        let clock = self.recorder.context.clock;
        let (settings, edition) = self.control.settings();
        let policy = settings.recording();
        let ingest = Ingest {
            journal: &journal,
            environment: &environment,
            clock: &clock,
            policy,
            guard: self.guard.clone(),
        };
        // Before anything is read: another process that reads would store each original twice.
        let _claim = ingest.claim_reading()?;
        self.recorder.context.health.set_part("capture", "catching_up");
        let mut hook_ingest = HookIngest::new(&journal, self.recorder.context.hook_queue.clone());
        self.catch_up(&ingest, edition, &mut hook_ingest)?;
        // Interrupted while catching up; the next round begins with the new settings.
        if self.control.is_over(edition) {
            return Ok(());
        }
        self.recover();
        self.recorder.context.health.set_part("capture", "running");
        self.follow(&ingest, edition, &mut hook_ingest)
    }

    /// Reads what agents wrote before, in slices and with low priority.
    fn catch_up(
        &mut self,
        ingest: &Ingest<'_>,
        edition: u64,
        hook_ingest: &mut HookIngest,
    ) -> Result<(), IngestError> {
        let stop = StopFlag::default();
        let asked = stop.clone();
        self.control.interrupt_with(edition, move || asked.request_stop());
        let CaptureWorker { recorder, last_failure, .. } = self;
        let DaemonContext { bus, clock, import, journal, .. } = recorder.context.clone();
        import.begin(Import::of_agents(clock(), move |message| {
            // A bus without room only misses the progress of the import.
            let _ = bus.publish(message);
        }));
        let read = std::thread::scope(|scope| {
            // A thread cannot raise its priority again, so history gets a thread of its own.
            let thread = std::thread::Builder::new().name("history".to_owned());
            let history = thread.spawn_scoped(scope, || {
                lower_priority();
                let mut known = SourceIndex::default();
                loop {
                    // Called from inside a slice: a slice of a large file takes long enough for the
                    // user to wonder.
                    let tell = &mut |progress: &capture::IngestProgress| {
                        let backlog = import.with(|import| import.progress(progress)).flatten();
                        if let Some(backlog) = backlog {
                            recorder.report_backlog(backlog);
                        }
                    };
                    let caught = ingest.catch_up(hook_ingest, &mut known, &stop, SLICE, tell)?;
                    // One slice was committed, so the disk takes writes again.
                    if last_failure.take().is_some() {
                        recorder.recover();
                    }
                    recorder.report_waiting(&ingest.guard);
                    import.with(|import| import.finish_slice(caught.slice));
                    // Between slices, so that subscribers see recent events long before all of
                    // history is read.
                    recorder.publish_slice(&caught, &stop);
                    if caught.is_current || stop.is_asked() {
                        return Ok(());
                    }
                }
            });
            match history {
                // A panic of the reader is a panic of capture: its guard then tells the daemon's
                // loop.
                Ok(history) => history.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(error) => Err(IngestError::Thread(error)),
            }
        });
        // Also after an error: a backlog left in the health file would look like progress.
        self.recorder.context.health.set_backlog(None);
        match &read {
            // The next round begins another import with the rest.
            Ok(()) if stop.is_asked() => import.interrupt(),
            Ok(()) => {
                if let Some((events, took)) = import.with(|import| import.recorded()).flatten() {
                    // The user sees only the end of an import that was long enough to notice.
                    let (echo, secs) = (took >= QUICK, took.as_secs());
                    let words = format!("history is read: {events} events, {secs} s");
                    tracing::info!(target: part::CAPTURE, echo, "{words}");
                }
                import.finish_reading(journal.current().tail()?);
            }
            Err(error) => import.fail_reading(&error.to_string()),
        }
        read
    }

    /// Records as agents write.
    fn follow(
        &mut self,
        ingest: &Ingest<'_>,
        edition: u64,
        hook_ingest: &mut HookIngest,
    ) -> Result<(), IngestError> {
        let CaptureWorker { recorder, control, .. } = self;
        let Recorder { context, publisher } = recorder;
        let DaemonContext { hook_queue, health, .. } = context;
        // One flag and one waker end the publisher; the watcher of files has its own stopper.
        let (is_over, waker) = (StopFlag::default(), publisher.waker());
        std::thread::scope(|scope| {
            //    ingest.follow_with (this thread)            "news"
            //    files ── commit ──▶ journal ── subscription ──▶ bus
            // Either of them ends the other.
            let thread = std::thread::Builder::new().name("news".to_owned());
            let (stopping, stoppable) = mpsc::sync_channel::<WatchStopper>(1);
            let is_over = &is_over;
            let publishing = thread.spawn_scoped(scope, move || {
                // When publishing ends, also by a panic, recording stops too: otherwise the journal
                // would grow and no subscriber would learn of it.
                let _exit_guard = ExitGuard(Box::new(move || {
                    // Waits for the stopper: publishing may end before the watch has begun.
                    if let Ok(stopper) = stoppable.recv() {
                        stopper.stop();
                    }
                }));
                publisher.follow(is_over)
            });
            let publishing = publishing.map_err(IngestError::Thread)?;
            let begun = move |stopper: WatchStopper, ringer| {
                // The channel has room for one, and one is sent.
                let _ = stopping.send(stopper.clone());
                control.interrupt_with(edition, move || stopper.stop());
                hook_queue.wake_with(ringer);
            };
            let tell = &mut |summary: &IngestSummary| {
                health.add_misses(summary.misses);
                health.set_waiting(waiting_lines(&ingest.guard));
                log_pass(summary);
            };
            let followed = ingest.follow_with(hook_ingest, begun, tell);
            // Only now: the publisher publishes all that was committed before it ends.
            is_over.request_stop();
            waker.wake();
            let published = publishing.join().unwrap_or_else(|panic| resume_unwind(panic));
            followed.and(published.map_err(IngestError::Read))
        })
    }

    fn fail(&mut self, error: &IngestError) {
        let (words, state) = match error {
            // Another process holds the claim, as `hansard ingest` does: the disk is fine.
            IngestError::Claim(ClaimError::Held { holder }) => {
                let holder = holder.map_or_else(String::new, |pid| format!(" {pid}"));
                (format!("process{holder} reads what agents write; waiting for its end"), "waiting")
            }
            error => (format!("nothing is recorded now: {}", error_chain(error)), "failing"),
        };
        let DaemonContext { health, journal, .. } = &self.recorder.context;
        health.set_part("capture", state);
        // `set_disk` makes `status` say that nothing is recorded; while waiting, the holder
        // records.
        if state == "failing" {
            health.set_disk(Some(error_chain(error)));
        }
        // Retries come every 1 to 30 s; the same failure is logged once.
        if self.last_failure.as_ref() != Some(&words) {
            tracing::error!(target: part::CAPTURE, "{words}");
            self.last_failure = Some(words);
        }
        // After a commit of unknown outcome this journal refuses all writes. Opening it again reads
        // what is really on disk.
        if is_broken(error)
            && let Err(error) = journal.reopen()
        {
            let error = error_chain(&error);
            tracing::error!(target: part::JOURNAL, "the journal cannot be opened again: {error}");
        }
    }

    fn recover(&mut self) {
        if self.last_failure.take().is_some() {
            self.recorder.recover();
        }
    }
}

impl Recorder {
    fn recover(&self) {
        self.context.health.set_disk(None);
        tracing::warn!(target: part::CAPTURE, "recording again");
    }

    /// Names databases that are tried later. While history is read, no pass is logged.
    fn report_waiting(&self, guard: &DatabaseGuard) {
        for line in self.context.health.set_waiting(waiting_lines(guard)) {
            tracing::warn!(target: part::CAPTURE, "{line}");
        }
    }

    /// Reports how far history has been read. The user sees it once the remaining time is known.
    fn report_backlog(&self, backlog: Backlog) {
        self.context.health.set_backlog(Some(backlog));
        tracing::info!(target: part::CAPTURE, echo = backlog.seconds_left.is_some(), "{backlog}");
    }

    /// Publishes the recent events of a slice. A slice of old events is skipped without reading it.
    fn publish_slice(&mut self, caught: &Caught, stop: &StopFlag) {
        // A span covers the slice: if even its newest event is old, none of it is recent.
        let has_recent =
            caught.slice.span.is_some_and(|(_, newest)| self.publisher.is_recent(newest));
        // A run that was published goes on in old events too; its end must not be skipped.
        let published = match has_recent || caught.goes_on {
            true => self.publisher.catch_up(stop),
            false => self.publisher.skip_history(stop),
        };
        if let Err(error) = published {
            tracing::error!(target: part::JOURNAL, "new events cannot be published: {error}");
        }
    }
}

/// The databases that are tried later, a line each.
fn waiting_lines(guard: &DatabaseGuard) -> Vec<String> {
    let line = |warning: capture::Warning| {
        let path = warning.path.map(|path| format!("{}: ", path.display()));
        path.unwrap_or_default() + &warning.message
    };
    guard.waiting().into_iter().map(line).collect()
}

fn log_pass(summary: &IngestSummary) {
    let IngestSummary { events, bytes, sources, .. } = summary;
    tracing::debug!(
        target: part::CAPTURE,
        "a pass read {bytes} bytes of {sources} sources and recorded {events} events"
    );
    for path in &summary.cured {
        tracing::info!(target: part::CAPTURE, "{}: it is read again", path.display());
    }
    for warning in &summary.warnings {
        let source = warning.path.as_ref().map(|path| path.display().to_string());
        let place = source.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        let source = source.map(tracing::field::display);
        tracing::warn!(target: part::CAPTURE, source, "{place}{}", warning.message);
    }
}

/// Whether nothing can be recorded until the journal is opened again.
fn is_broken(error: &IngestError) -> bool {
    // The append error may lie under errors of capture and sink, so every cause is checked.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(AppendError::NotDurable(_))) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes, on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors repeat their cause in their own words; the line would say it twice.
        if !words.contains(&more) {
            words.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_with_old_settings_ends_at_once() {
        let control = Arc::new(CaptureControl::new(Settings::default()));
        let thread = std::thread::spawn(|| {});
        let capture = CaptureThread { control: Arc::clone(&control), thread };
        let is_ended_at_once = |edition| {
            let stop = StopFlag::default();
            let asked = stop.clone();
            control.interrupt_with(edition, move || asked.request_stop());
            stop.is_asked()
        };
        let (_, first) = control.settings();
        assert!(!is_ended_at_once(first));
        capture.reload(Settings::default());
        assert!(is_ended_at_once(first) && control.is_over(first));
        let (_, second) = control.settings();
        assert!(!is_ended_at_once(second));
        capture.stop();
        assert!(is_ended_at_once(second));
        capture.join();
    }
}
