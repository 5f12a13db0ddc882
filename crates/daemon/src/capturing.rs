//! Capture inside the daemon: catches up with what was written while nobody looked, then goes on
//! as agents write, until it is told to end. What stops recording stops nothing else: it is said,
//! and tried again.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture::{Environment, IngestSummary, SourceIndex, StopFlag, WatchStopper};
use event::Time;
use journal::{AppendError, ClaimError, SubscriptionWaker};
use wire::Backlog;

use crate::health::Health;
use crate::log::{Log, Part};
use crate::news::News;
use crate::opened::Opened;
use crate::settings::Settings;
use ingest::HookQueue;
use ingest::Import;
use ingest::{Caught, Ingest, IngestError};
use ingest::{HookIngest, store_queue};

/// Time between two tries when nothing can be recorded; it doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// History is read in slices of this length, each beginning with what was written last: so what
/// agents write meanwhile is at most this late.
const SLICE: Duration = Duration::from_secs(2);

/// History that is read so quickly is not worth a word to anybody.
const QUICK: Duration = Duration::from_secs(5);

/// How much history gives way to everybody else's work.
const NICE: i32 = 10;

/// The running part.
pub(crate) struct Capturing {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

/// What it works with.
pub(crate) struct Tools {
    pub opened: Opened,
    pub environment: Environment,
    pub clock: fn() -> Time,
    pub news: News,
    pub bus: bus::Handle,
    pub log: Log,
    pub health: Health,
    /// What hooks hand over.
    pub hook_queue: HookQueue,
}

/// Says something when it goes.
pub(crate) struct Farewell(pub Box<dyn Fn() + Send>);

impl Drop for Farewell {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Capturing {
    /// Begins to record. `farewell` is said when it is over, however it ended.
    pub(crate) fn start(
        tools: Tools,
        settings: Settings,
        farewell: Farewell,
    ) -> io::Result<Capturing> {
        let control = Arc::new(Control::new(settings));
        let worker = Worker { tools, control: Arc::clone(&control), told: None };
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn(move || {
            let _farewell = farewell;
            worker.run();
        })?;
        Ok(Capturing { control, thread })
    }

    /// Goes on with other settings.
    pub(crate) fn reload(&self, settings: Settings) {
        self.control.change(|state| {
            state.settings = settings;
            state.edition += 1;
        });
    }

    /// Asks for the end; what was read by then is recorded and told.
    pub(crate) fn stop(&self) {
        self.control.change(|state| state.is_ending = true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end.
    pub(crate) fn join(self) {
        // A thread that panicked has said so; what it recorded is recorded.
        let _ = self.thread.join();
    }
}

/// How the thread is told to stop or to begin anew.
struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    is_ending: bool,
    settings: Settings,
    /// How often the settings were changed.
    edition: u64,
    /// Ends what is being done now.
    interrupt: Option<Box<dyn Fn() + Send>>,
}

impl Control {
    fn new(settings: Settings) -> Control {
        let state = State { is_ending: false, settings, edition: 0, interrupt: None };
        Control { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings, and which edition they are.
    fn settings(&self) -> (Settings, u64) {
        let state = self.lock();
        (state.settings.clone(), state.edition)
    }

    /// Changes something and ends what is being done, so that it is noticed.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if let Some(interrupt) = &state.interrupt {
            interrupt();
        }
        self.changed.notify_all();
    }

    /// From now on this is how to end what is being done with the settings of an edition; at once,
    /// if the end was asked for, or there are others.
    fn interrupt_with(&self, edition: u64, interrupt: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        if state.is_over(edition) {
            interrupt();
        }
        state.interrupt = Some(Box::new(interrupt));
    }

    fn is_ending(&self) -> bool {
        self.lock().is_ending
    }

    /// Whether what is done with the settings of an edition is to end.
    fn is_over(&self, edition: u64) -> bool {
        self.lock().is_over(edition)
    }

    /// Waits for a change, or for some time.
    fn wait(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        state.interrupt = None;
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

impl State {
    fn is_over(&self, edition: u64) -> bool {
        self.is_ending || self.edition != edition
    }
}

struct Worker {
    tools: Tools,
    control: Arc<Control>,
    /// What was said of the last failure, to say it once.
    told: Option<String>,
}

impl Worker {
    fn run(mut self) {
        let mut pause = RETRY_FIRST;
        while !self.control.is_ending() {
            let begun = Instant::now();
            match self.record() {
                Ok(()) => pause = RETRY_FIRST,
                Err(error) => {
                    if begun.elapsed() > RETRY_LAST {
                        pause = RETRY_FIRST;
                    }
                    self.fail(&error);
                    self.leave_calls();
                    self.control.wait(pause);
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
        self.leave_calls();
        self.tools.health.set_part("capture", "stopped");
    }

    /// What hooks were told is taken has to outlive the time in which nobody hears it.
    fn leave_calls(&self) {
        if let Some(folder) = self.tools.opened.journal().dir() {
            store_queue(&self.tools.hook_queue, folder);
        }
    }

    /// Records until it is interrupted, or cannot go on.
    fn record(&mut self) -> Result<(), IngestError> {
        let journal = self.tools.opened.journal();
        let environment = self.tools.environment.clone();
        let clock = self.tools.clock;
        let (settings, edition) = self.control.settings();
        let policy = settings.recording();
        let ingest = Ingest { journal: &journal, environment: &environment, clock: &clock, policy };
        let _claim = ingest.claim()?;
        self.tools.health.set_part("capture", "catching_up");
        let mut hook_ingest = HookIngest::new(&journal, self.tools.hook_queue.clone());
        self.catch_up(&ingest, edition, &mut hook_ingest)?;
        if self.control.is_over(edition) {
            return Ok(());
        }
        self.recover();
        self.tools.health.set_part("capture", "running");
        self.follow(&ingest, edition, &mut hook_ingest)
    }

    /// Reads what is there, in slices, giving way to others.
    fn catch_up(
        &mut self,
        ingest: &Ingest<'_>,
        edition: u64,
        hook_ingest: &mut HookIngest,
    ) -> Result<(), IngestError> {
        let stop = StopFlag::default();
        let asked = stop.clone();
        self.control.interrupt_with(edition, move || asked.ask());
        let Worker { tools, told, .. } = self;
        let bus = tools.bus.clone();
        let mut import = Import::of_agents((tools.clock)(), move |message| {
            // Nobody to tell: what is read is read.
            let _ = bus.publish(message);
        });
        let read = std::thread::scope(|scope| {
            // A thread that has become nice stays so: history has one of its own.
            let thread = std::thread::Builder::new().name("history".to_owned());
            let history = thread.spawn_scoped(scope, || {
                give_way();
                let mut known = SourceIndex::default();
                loop {
                    let tell = &mut |progress: &capture::IngestProgress| {
                        if let Some(backlog) = import.progress(progress) {
                            tools.show(backlog);
                        }
                    };
                    let caught = ingest.catch_up(hook_ingest, &mut known, &stop, SLICE, tell)?;
                    if told.take().is_some() {
                        tools.recover();
                    }
                    import.slice(caught.slice);
                    tools.tell(&caught, &stop);
                    if caught.is_current || stop.is_asked() {
                        return Ok(());
                    }
                }
            });
            match history {
                Ok(history) => history.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(error) => Err(IngestError::Thread(error)),
            }
        });
        self.tools.health.set_backlog(None);
        match &read {
            // Somebody wants something else first: it goes on then.
            Ok(()) if stop.is_asked() => {}
            Ok(()) => {
                if let Some((events, took)) = import.complete() {
                    let words = format!("history is read: {events} events, {} s", took.as_secs());
                    let log = &self.tools.log;
                    match took < QUICK {
                        true => log.info(Part::Capture, words),
                        false => log.tell(Part::Capture, words),
                    }
                }
            }
            Err(error) => import.fail(&error.to_string()),
        }
        read
    }

    /// Goes on as agents write.
    fn follow(
        &mut self,
        ingest: &Ingest<'_>,
        edition: u64,
        hook_ingest: &mut HookIngest,
    ) -> Result<(), IngestError> {
        let Worker { tools, control, .. } = self;
        let Tools { news, log, hook_queue, health, .. } = tools;
        let (is_over, waker) = (StopFlag::default(), SubscriptionWaker::default());
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("news".to_owned());
            let (stopping, stoppable) = mpsc::sync_channel::<WatchStopper>(1);
            let (is_over, waker) = (&is_over, &waker);
            let told = thread.spawn_scoped(scope, move || {
                // Nobody goes on recording what is told to nobody.
                let _farewell = Farewell(Box::new(move || {
                    if let Ok(stopper) = stoppable.recv() {
                        stopper.stop();
                    }
                }));
                news.follow(is_over, waker)
            });
            let told = told.map_err(IngestError::Thread)?;
            let begun = move |stopper: WatchStopper, ringer| {
                // There is room for one, and there is one.
                let _ = stopping.send(stopper.clone());
                control.interrupt_with(edition, move || stopper.stop());
                hook_queue.wake_with(ringer);
            };
            let tell = &mut |summary: &IngestSummary| {
                health.add_misses(summary.misses);
                warn(log, summary);
            };
            let followed = ingest.follow_with(hook_ingest, begun, tell);
            is_over.ask();
            waker.wake();
            let told = told.join().unwrap_or_else(|panic| resume_unwind(panic));
            followed.and(told.map_err(IngestError::Read))
        })
    }

    fn fail(&mut self, error: &IngestError) {
        let (words, state) = match error {
            IngestError::Claim(ClaimError::Held { holder }) => {
                let holder = holder.map_or_else(String::new, |pid| format!(" {pid}"));
                (format!("process{holder} reads what agents write; waiting for its end"), "waiting")
            }
            error => (format!("nothing is recorded now: {}", chain(error)), "failing"),
        };
        let Tools { log, health, opened, .. } = &self.tools;
        health.set_part("capture", state);
        if state == "failing" {
            health.set_disk(Some(chain(error)));
        }
        if self.told.as_ref() != Some(&words) {
            log.error(Part::Capture, &words);
            self.told = Some(words);
        }
        if is_broken(error)
            && let Err(error) = opened.reopen()
        {
            log.error(Part::Journal, format!("it cannot be opened again: {}", chain(&error)));
        }
    }

    fn recover(&mut self) {
        if self.told.take().is_some() {
            self.tools.recover();
        }
    }
}

impl Tools {
    fn recover(&self) {
        self.health.set_disk(None);
        self.log.warn(Part::Capture, "recording again");
    }

    /// Says how far history has been read; to a person as soon as it takes a while.
    fn show(&self, backlog: Backlog) {
        self.health.set_backlog(Some(backlog));
        match backlog.seconds_left {
            None => self.log.info(Part::Capture, backlog.to_string()),
            Some(_) => self.log.tell(Part::Capture, backlog.to_string()),
        }
    }

    /// Tells what of a slice is news.
    fn tell(&mut self, caught: &Caught, stop: &StopFlag) {
        let has_recent = caught.slice.span.is_some_and(|(_, newest)| self.news.is_recent(newest));
        let told = match has_recent || caught.goes_on {
            true => self.news.catch_up(stop),
            false => self.news.skip(),
        };
        if let Err(error) = told {
            self.log.error(Part::Journal, format!("what is new cannot be told: {error}"));
        }
    }
}

fn warn(log: &Log, summary: &IngestSummary) {
    for warning in &summary.warnings {
        let place = warning.path.as_ref().map(|path| format!("{}: ", path.display()));
        log.warn(Part::Capture, format!("{}{}", place.unwrap_or_default(), warning.message));
    }
}

/// Lets everybody else go first, where the system knows of it.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    {
        // One that may not is a little less polite.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}

/// Whether nothing can be recorded until the journal is opened again.
fn is_broken(error: &IngestError) -> bool {
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
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
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
    fn what_is_begun_with_settings_that_are_not_the_newest_ends_at_once() {
        let control = Arc::new(Control::new(Settings::default()));
        let thread = std::thread::spawn(|| {});
        let capturing = Capturing { control: Arc::clone(&control), thread };
        let is_ended_at_once = |edition| {
            let stop = StopFlag::default();
            let asked = stop.clone();
            control.interrupt_with(edition, move || asked.ask());
            stop.is_asked()
        };
        let (_, first) = control.settings();
        assert!(!is_ended_at_once(first));
        capturing.reload(Settings::default());
        assert!(is_ended_at_once(first) && control.is_over(first));
        let (_, second) = control.settings();
        assert!(!is_ended_at_once(second));
        capturing.stop();
        assert!(is_ended_at_once(second));
        capturing.join();
    }
}
