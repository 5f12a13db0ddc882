//! The supervisor as the rest of the program sees it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{Handle, PublishError};

use crate::announce::LineMaker;
use crate::clock::Clock;
use crate::day::Day;
use crate::incoming::{INCOMING_MAX, Incoming};
use crate::keeper::Keeper;
use crate::output::Output;
use crate::run::{Run, Watcher};
use crate::run_ref::Ref;
use crate::services_file::{FileError, ServicesFile};
use crate::settings::Settings;

/// What the supervisor is called where services are named.
pub(crate) const NAME: &str = "supervisor";

/// The stream that our own words are on.
const OWN_STREAM: &str = "log";

/// Keeps services alive and runs tasks in turn, on a thread of its own.
///
/// It hears requests from the bus and tells the bus what it does. Dropped without
/// [`Supervisor::stop`] it kills what it has started.
pub struct Supervisor {
    news: SyncSender<Incoming>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A task of the daemon itself: trusted, and kept if it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// The first word is `hansard` for our own program, a word in `PATH` or an absolute path.
    pub cmd: Vec<String>,
    /// What it is called on the bus; made up if there is none.
    pub reference: Option<Ref>,
    /// The day whose folder has the log.
    pub day: Option<Day>,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(String, String)>,
    pub timeout: Option<Duration>,
    /// It survives the end of the daemon, orderly or not, and is run again if it was cut off.
    pub keep: bool,
}

impl Task {
    pub fn new(cmd: Vec<String>) -> Task {
        Task {
            cmd,
            reference: None,
            day: None,
            cwd: None,
            env: Vec::new(),
            timeout: None,
            keep: false,
        }
    }
}

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot keep state in `{path}`")]
    State { path: PathBuf, source: io::Error },
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Bus(#[from] PublishError),
}

/// Why a task was not taken.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("too many tasks wait already")]
    Full,
    #[error("the supervisor is stopping")]
    Stopping,
    #[error("the command cannot be run: {0}")]
    BadCommand(&'static str),
    #[error("the task waits, and could not be written to `{path}`")]
    NotKept { path: PathBuf, source: io::Error },
}

/// What the supervisor and its handle both look at.
pub(crate) struct Shared {
    file: Mutex<Arc<ServicesFile>>,
    health: Mutex<Health>,
    log: Output,
    log_lines: LineMaker,
}

/// What other parts say for `supervisor.status`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub parts: BTreeMap<String, String>,
    pub disk_error: Option<String>,
}

impl Supervisor {
    /// Ends what an earlier daemon has left, reads `services.toml`, and begins. A file with a
    /// fault is told on the bus and does not keep the rest from running.
    pub fn start(settings: Settings, bus: Handle) -> Result<Supervisor, StartError> {
        Supervisor::start_with(settings, bus, ())
    }

    /// The same; `held` is dropped when it has ended, however it ended.
    pub fn start_with(
        settings: Settings,
        bus: Handle,
        held: impl Send + 'static,
    ) -> Result<Supervisor, StartError> {
        let (news, incoming) = sync_channel(INCOMING_MAX);
        let keeper = Keeper::open(settings, bus, news.clone(), Clock::system())?;
        let shared = Arc::clone(keeper.shared());
        let thread = std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || {
                let _held = held;
                keeper.run(&incoming);
            })
            .map_err(StartError::Thread)?;
        Ok(Supervisor { news, shared, thread: Mutex::new(Some(thread)) })
    }

    /// Reads `services.toml` again. With a fault the former stays, and the bus is told too.
    pub fn reload(&self) -> Result<(), FileError> {
        let (done, answer) = sync_channel(1);
        // One that has ended has nothing to load.
        if self.news.send(Incoming::Reload { done }).is_err() {
            return Ok(());
        }
        answer.recv().unwrap_or(Ok(()))
    }

    /// Ends everything in order: requests are answered, then tasks, then services in reverse.
    /// Returns when all is ended.
    pub fn stop(&self) {
        // It has ended already if nobody takes this.
        let _ = self.news.send(Incoming::Stop);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // One that panicked has nothing more to end.
            let _ = thread.join();
        }
    }

    /// Kills everything at once. [`Supervisor::stop`] then returns soon.
    pub fn kill_all(&self) {
        let _ = self.news.send(Incoming::KillAll);
    }

    /// Puts a task of the daemon's own into the queue. One to be kept is on disk afterwards. Its
    /// end is told on the bus as `supervisor.stopped` with this ref.
    pub fn enqueue(&self, task: Task) -> Result<Ref, EnqueueError> {
        self.put(task, None)
    }

    /// The same for one who waits for its end.
    pub fn run(&self, task: Task) -> Result<Run, EnqueueError> {
        Run::begin(|watcher| self.put(task, Some(watcher)))
    }

    fn put(&self, task: Task, watcher: Option<Watcher>) -> Result<Ref, EnqueueError> {
        let (done, answer) = sync_channel(1);
        let sent = self.news.send(Incoming::Enqueue { task, watcher, done });
        sent.map_err(|_| EnqueueError::Stopping)?;
        answer.recv().unwrap_or(Err(EnqueueError::Stopping))
    }

    /// What `services.toml` says now.
    pub fn configuration(&self) -> Arc<ServicesFile> {
        self.shared.file()
    }

    /// Says how a part of the daemon is, for `supervisor.status`.
    pub fn set_part(&self, name: &str, state: &str) {
        lock(&self.shared.health).parts.insert(name.to_owned(), state.to_owned());
    }

    /// Says how the disk is, for `supervisor.status`.
    pub fn set_disk(&self, error: Option<String>) {
        lock(&self.shared.health).disk_error = error;
    }

    /// Says something in the daemon's own log, and on the bus.
    pub fn log(&self, text: &str) {
        self.shared.log(text);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if lock(&self.thread).is_some() {
            self.kill_all();
            self.stop();
        }
    }
}

impl Shared {
    pub(crate) fn new(file: Arc<ServicesFile>, log: Output, log_lines: LineMaker) -> Shared {
        Shared { file: Mutex::new(file), health: Mutex::default(), log, log_lines }
    }

    pub(crate) fn file(&self) -> Arc<ServicesFile> {
        Arc::clone(&lock(&self.file))
    }

    pub(crate) fn set_file(&self, file: Arc<ServicesFile>) {
        *lock(&self.file) = file;
    }

    pub(crate) fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    pub(crate) fn log(&self, text: &str) {
        self.log.say(&self.log_lines, OWN_STREAM, text);
    }

    /// Why our own log cannot be written, if it is so.
    pub(crate) fn log_trouble(&self) -> Option<String> {
        self.log.trouble()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics while holding it; if somebody did, what is there is still whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
