//! The supervisor's handle for the rest of the program.

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
use crate::keeper::Keeper;
use crate::keeper_input::{INPUTS_MAX, KeeperInput};
use crate::output::OutputSink;
use crate::run::{TaskRun, Watcher};
use crate::run_ref::Ref;
use crate::services_file::{FileError, ServicesFile};
use crate::settings::SupervisorSettings;

/// The supervisor's own name among services.
pub(crate) const NAME: &str = "supervisor";

/// The stream of our own log lines.
const OWN_STREAM: &str = "log";

/// Keeps services alive and runs queued tasks, on a thread of its own.
///
/// It takes requests from the bus and publishes what it does. Dropping it without
/// [`Supervisor::stop`] kills everything it started.
pub struct Supervisor {
    inputs: SyncSender<KeeperInput>,
    shared: Arc<SupervisorShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A task of the daemon itself. It is trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DaemonTask {
    /// The first word is `hansard` for our own program, a name in `PATH`, or an absolute path.
    pub cmd: Vec<String>,
    /// Its name; that of its program if there is none. One task of a name runs at a time.
    pub name: Option<String>,
    /// Its ref on the bus; generated if there is none.
    pub reference: Option<Ref>,
    /// The day that has the log in its folder.
    pub day: Option<Day>,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(String, String)>,
    pub timeout: Option<Duration>,
    /// It survives the end of the daemon, orderly or not, and runs again if it was interrupted.
    pub keep: bool,
}

impl DaemonTask {
    pub fn new(cmd: Vec<String>) -> DaemonTask {
        DaemonTask {
            cmd,
            name: None,
            reference: None,
            day: None,
            cwd: None,
            env: Vec::new(),
            timeout: None,
            keep: false,
        }
    }
}

/// Why the supervisor did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot keep state in `{path}`")]
    State { path: PathBuf, source: io::Error },
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Bus(#[from] PublishError),
}

/// Why a task was not queued.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("too many tasks are waiting")]
    Full,
    #[error("the supervisor is stopping")]
    Stopping,
    #[error("the command cannot be run: {0}")]
    BadCommand(&'static str),
    #[error("the task is queued, but could not be saved to `{path}`")]
    NotKept { path: PathBuf, source: io::Error },
}

/// State shared by the keeper and its handle.
pub(crate) struct SupervisorShared {
    file: Mutex<Arc<ServicesFile>>,
    health: Mutex<DaemonHealth>,
    log: OutputSink,
    log_lines: LineMaker,
}

/// What other parts report for `supervisor.status`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DaemonHealth {
    pub parts: BTreeMap<String, String>,
    pub disk_error: Option<String>,
}

impl Supervisor {
    /// Ends what an earlier daemon left running, reads `services.toml`, and starts. A faulty file is
    /// reported on the bus and does not keep the rest from running.
    pub fn start(settings: SupervisorSettings, bus: Handle) -> Result<Supervisor, StartError> {
        Supervisor::start_with(settings, bus, ())
    }

    /// Starts like [`Supervisor::start`]; `held` is dropped when the supervisor's thread ends.
    pub fn start_with(
        settings: SupervisorSettings,
        bus: Handle,
        held: impl Send + 'static,
    ) -> Result<Supervisor, StartError> {
        let (inputs, incoming) = sync_channel(INPUTS_MAX);
        let keeper = Keeper::open(settings, bus, inputs.clone(), Clock::system())?;
        let shared = Arc::clone(keeper.shared());
        let thread = std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || {
                let _held = held;
                keeper.run(&incoming);
            })
            .map_err(StartError::Thread)?;
        Ok(Supervisor { inputs, shared, thread: Mutex::new(Some(thread)) })
    }

    /// Reads `services.toml` again. A faulty file changes nothing, and is also reported on the bus.
    pub fn reload(&self) -> Result<(), FileError> {
        let (done, answer) = sync_channel(1);
        // A supervisor that has ended has nothing to reload.
        if self.inputs.send(KeeperInput::Reload { done }).is_err() {
            return Ok(());
        }
        answer.recv().unwrap_or(Ok(()))
    }

    /// Stops everything in order: answers requests, then ends tasks, then services in reverse. Returns
    /// when all have ended.
    pub fn stop(&self) {
        // The send fails if the supervisor has ended already.
        let _ = self.inputs.send(KeeperInput::Stop);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // A panicked thread has nothing to return.
            let _ = thread.join();
        }
    }

    /// Kills everything at once. [`Supervisor::stop`] then returns soon.
    pub fn kill_all(&self) {
        let _ = self.inputs.send(KeeperInput::KillAll);
    }

    /// Queues a task of the daemon. A task with `keep` is on disk afterwards. Its end is published as
    /// `supervisor.stopped` with this ref.
    pub fn enqueue(&self, task: DaemonTask) -> Result<Ref, EnqueueError> {
        self.send_task(task, None)
    }

    /// Queues a task and returns a handle to wait for its end.
    pub fn run(&self, task: DaemonTask) -> Result<TaskRun, EnqueueError> {
        TaskRun::begin(|watcher| self.send_task(task, Some(watcher)))
    }

    fn send_task(&self, task: DaemonTask, watcher: Option<Watcher>) -> Result<Ref, EnqueueError> {
        let (done, answer) = sync_channel(1);
        let sent = self.inputs.send(KeeperInput::Enqueue { task, watcher, done });
        sent.map_err(|_| EnqueueError::Stopping)?;
        // The keeper may end between the two; it drops the input and with it the sender.
        answer.recv().unwrap_or(Err(EnqueueError::Stopping))
    }

    /// Returns the present contents of `services.toml`.
    pub fn configuration(&self) -> Arc<ServicesFile> {
        self.shared.file()
    }

    /// Sets the state of a part of the daemon for `supervisor.status`.
    pub fn set_part(&self, name: &str, state: &str) {
        lock(&self.shared.health).parts.insert(name.to_owned(), state.to_owned());
    }

    /// Sets the state of the disk for `supervisor.status`.
    pub fn set_disk(&self, error: Option<String>) {
        lock(&self.shared.health).disk_error = error;
    }

    /// Adds a line to the daemon's log and publishes it.
    pub fn log(&self, text: &str) {
        self.shared.log(text);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if lock(&self.thread).is_some() {
            // Killed first, so that `stop` does not wait for grace times.
            self.kill_all();
            self.stop();
        }
    }
}

impl SupervisorShared {
    pub(crate) fn new(
        file: Arc<ServicesFile>,
        log: OutputSink,
        log_lines: LineMaker,
    ) -> SupervisorShared {
        SupervisorShared { file: Mutex::new(file), health: Mutex::default(), log, log_lines }
    }

    pub(crate) fn file(&self) -> Arc<ServicesFile> {
        Arc::clone(&lock(&self.file))
    }

    pub(crate) fn set_file(&self, file: Arc<ServicesFile>) {
        *lock(&self.file) = file;
    }

    pub(crate) fn health(&self) -> DaemonHealth {
        lock(&self.health).clone()
    }

    pub(crate) fn log(&self, text: &str) {
        self.log.add_text(&self.log_lines, OWN_STREAM, text);
    }

    /// Returns why our own log cannot be written, if so.
    pub(crate) fn log_error(&self) -> Option<String> {
        self.log.last_error()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while holding the lock, and the data would still be whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
