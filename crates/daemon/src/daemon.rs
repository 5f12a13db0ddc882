//! The daemon: one process that holds capture, journal, bus and supervisor of a journal together.
//!
//! It owns start, loop and stop. The bus answers first; capture catches up beside it.
//! `Subsystems::stop` has the order of the stop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bus::{BindError, Handle, Notice, RunError, Server, make_private};
use capture::Environment;
use event::Time;
use ingest::{HookListener, HookQueue};
use journal::{OpenError, ReadError};
use segments::Zone;
use supervise::Supervisor;
use wire::health_dir;

use crate::api::{HttpService, keys};
use crate::capture_thread::CaptureThread;
use crate::chain_thread::{ChainThread, ChainThreadError};
use crate::context::DaemonContext;
use crate::health::Health;
use crate::history_import::HistoryImport;
use crate::instance::{Instance, InstanceError, socket};
use crate::journal_handle::JournalHandle;
use crate::log::{DaemonLog, Echo, LogFilter, part};
use crate::model_worker::{HistoryEnd, ModelWorker};
use crate::notify::Notifier;
use crate::publish::{BusPublisher, BusReplay, RequestsError, answer_all};
use crate::rules::RuleStore;
use crate::settings::{Settings, SettingsError};
use crate::status::{StatusService, StatusThread};
use crate::threads::ExitGuard;

/// How long all parts together are waited for after a second request to stop. Those that can end do
/// so; the others end with the process.
const HURRIED_WITHIN: Duration = Duration::from_secs(2);

/// How long one part is waited for then in any case: tasks have to be killed by the supervisor.
const HURRIED_EACH: Duration = Duration::from_millis(200);

/// How long capture may take to end. What it has not recorded by then it reads again at the next
/// start.
const CAPTURE_WITHIN: Duration = Duration::from_secs(5);

/// Messages that wait for the loop. When it is full, further ones are dropped: the loop has the
/// same wish before it already.
const INCOMING_MAX: usize = 64;

/// Notices of the bus that wait for the log. Beyond that, further ones are dropped.
const NOTICES_MAX: usize = 64;

/// How often a stop checks whether the present part has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a daemon needs to start.
pub struct DaemonConfig {
    /// The folder of the journal.
    pub journal: PathBuf,
    /// This program, for tasks that run it.
    pub program: PathBuf,
    /// The user, with the agents to capture.
    pub environment: Environment,
    pub clock: fn() -> Time,
    pub log_filter: LogFilter,
    /// Receives the lines of the log that the user should see.
    pub echo: Echo,
}

/// A daemon that has started.
pub struct Daemon {
    subsystems: Subsystems,
    incoming: Receiver<Incoming>,
    handle: DaemonHandle,
}

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartDaemonError {
    #[error(transparent)]
    Instance(#[from] InstanceError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Supervise(#[from] supervise::StartError),
    #[error(transparent)]
    Chain(#[from] ChainThreadError),
    #[error(transparent)]
    Requests(#[from] RequestsError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// Why a running daemon ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum ExitError {
    #[error(transparent)]
    Bus(#[from] RunError),
    #[error("{part} ended by itself")]
    Lost { part: &'static str },
}

/// Controls a running daemon from any thread.
#[derive(Clone)]
pub struct DaemonHandle {
    incoming: SyncSender<Incoming>,
}

/// Everything the loop waits for.
enum Incoming {
    Stop,
    Reload,
    Ended(CriticalPart),
    /// A part was closed while the daemon stops.
    Closed,
}

/// A part without which the daemon stops: it would look as if it recorded, and would not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CriticalPart {
    Supervisor,
    Chain,
    Capture,
    Bus,
}

impl CriticalPart {
    fn name(self) -> &'static str {
        match self {
            CriticalPart::Supervisor => "the supervisor",
            CriticalPart::Chain => "the chain",
            CriticalPart::Capture => "capture",
            CriticalPart::Bus => "the bus",
        }
    }
}

impl DaemonHandle {
    /// Asks the daemon to stop. The second call kills tasks and services, and no part is waited for
    /// any longer than a moment.
    pub fn stop(&self) {
        // The loop reads the first one, `StopWait` the second.
        self.send(Incoming::Stop);
    }

    /// Asks the daemon to read its settings again.
    pub fn reload(&self) {
        self.send(Incoming::Reload);
    }

    /// A guard that the thread of a part holds: when it is dropped, the loop learns of the end.
    fn exit_guard(&self, part: CriticalPart) -> ExitGuard {
        let handle = self.clone();
        ExitGuard(Box::new(move || handle.send(Incoming::Ended(part))))
    }

    fn send(&self, incoming: Incoming) {
        // A full queue holds the same wish already; a closed one belongs to a daemon that has ended.
        let _ = self.incoming.try_send(incoming);
    }
}

/// The parts of a running daemon. [`Subsystems::stop`] has the order in which they end.
struct Subsystems {
    folder: PathBuf,
    settings: Settings,
    http: Option<HttpService>,
    notifier: Option<Notifier>,
    status_thread: StatusThread,
    model_worker: ModelWorker,
    chain: ChainThread,
    supervisor: Arc<Supervisor>,
    hook_listener: HookListener,
    capture: CaptureThread,
    journal: JournalHandle,
    bus: Handle,
    bus_thread: JoinHandle<Result<(), RunError>>,
    /// Released last.
    _instance: Instance,
}

impl Daemon {
    /// Starts every part, in this order. The bus answers when this returns.
    pub fn start(config: DaemonConfig) -> Result<Daemon, StartDaemonError> {
        let DaemonConfig { journal: folder, program, environment, clock, log_filter, echo } =
            config;
        // Bounded, so that a burst of signals cannot grow it; `send` drops what does not fit.
        let (sender, incoming) = mpsc::sync_channel(INCOMING_MAX);
        let handle = DaemonHandle { incoming: sender };

        // First: all that follows relies on this being the only daemon of the journal.
        let instance = lock_journal(&folder)?;
        // Before capture: with settings it cannot read, it could record what the user excluded.
        let settings = Settings::load(&folder)?;
        let journal = JournalHandle::open(folder.clone())?;
        // Before anything new is recorded: what is there now is history to the model.
        let history_end = HistoryEnd { position: journal.current().tail()?, at: clock() };

        // Before its readers: the publisher, the notifications and the HTTP server.
        let status = StatusService::new(journal.clone(), environment.clone(), clock);
        let status = Arc::new(status);
        let status_thread = status.start().map_err(StartDaemonError::Thread)?;

        // The bus before the log, which publishes its lines; it buffers until it is served.
        let (server, notices) = bind_bus(&folder, &journal)?;
        let bus = server.handle();
        let log = DaemonLog::open(&health_dir(&folder), bus.clone(), clock, echo);
        // A process runs one daemon. A second one would write into the log of the first.
        let _ = tracing::subscriber::set_global_default(log.subscriber(log_filter));
        // Before the bus is served: the first subscriber needs the journal's position.
        let publisher =
            BusPublisher::open(journal.clone(), bus.clone(), clock, Arc::clone(&status))?;
        let bus_thread = serve_bus(server, &handle)?;
        log_notices(notices)?;
        answer_all(bus.clone(), &folder, clock)?;
        log_start(&journal);
        hand_out_rules(&journal);

        // What the parts share; from here on each start takes a copy.
        let hook_queue = open_hook_queue(&folder);
        let health = open_health(&folder);
        let zone = Zone::system();
        let context = DaemonContext {
            journal,
            environment,
            clock,
            zone,
            bus,
            health,
            status,
            hook_queue,
            import: HistoryImport::default(),
        };

        // Capture before the listener of hooks: it empties the queue that the listener fills.
        let guard = handle.exit_guard(CriticalPart::Capture);
        let capture = CaptureThread::start(context.clone(), publisher, settings.clone(), guard)
            .map_err(StartDaemonError::Thread)?;
        let hook_listener =
            HookListener::open(&wire::hook::hook_socket(&folder), context.hook_queue.clone())?;
        // Behind capture, so that recording does not wait: after a crash the supervisor first ends
        // the processes that the former daemon left.
        let supervisor = start_supervisor(&context, &folder, program, &handle)?;
        log.publish_by(&supervisor);

        // The parts that run tasks need the supervisor.
        let guard = handle.exit_guard(CriticalPart::Chain);
        let chain = ChainThread::start(context.clone(), Arc::clone(&supervisor), guard)?;
        let notifier = Notifier::start(context.clone(), Arc::clone(&supervisor), &settings)
            .map_err(StartDaemonError::Thread)?;
        let model_worker = ModelWorker::start(context.clone(), history_end, settings.model.clone())
            .map_err(StartDaemonError::Thread)?;
        // Last, and optional: without it the daemon records all the same.
        let http = HttpService::open(context.clone(), &folder, &settings.http);

        let DaemonContext { journal, bus, .. } = context;
        let subsystems = Subsystems {
            folder,
            settings,
            http,
            notifier: Some(notifier),
            status_thread,
            model_worker,
            chain,
            supervisor,
            hook_listener,
            capture,
            journal,
            bus,
            bus_thread,
            _instance: instance,
        };
        Ok(Daemon { subsystems, incoming, handle })
    }

    pub fn handle(&self) -> DaemonHandle {
        self.handle.clone()
    }

    /// The socket of its bus.
    pub fn socket(&self) -> PathBuf {
        socket(&self.subsystems.folder)
    }

    /// Runs until it is asked to stop, or until a part that it cannot do without ends.
    pub fn run(self) -> Result<(), ExitError> {
        let Daemon { mut subsystems, incoming, handle } = self;
        let lost = loop {
            match incoming.recv() {
                Ok(Incoming::Reload) => subsystems.reload(),
                Ok(Incoming::Ended(part)) => break Some(part),
                // Parts are closed behind this loop.
                Ok(Incoming::Closed) => {}
                // An error means that the last handle is gone, so no caller can ever ask for a
                // stop.
                Ok(Incoming::Stop) | Err(_) => break None,
            }
        };
        // Stops the other parts in both cases: also after a lost part, events that are committed
        // have to be published.
        subsystems.stop(&incoming, handle)?;
        lost.map_or(Ok(()), |part| Err(ExitError::Lost { part: part.name() }))
    }
}

/// Makes the folder of the daemon's files and takes the lock of the journal.
fn lock_journal(folder: &Path) -> Result<Instance, StartDaemonError> {
    // Private before the lock file is in it: other users must not be able to hold the lock.
    make_private(&health_dir(folder))?;
    let instance = Instance::take(folder)?;
    // A killed daemon leaves its address behind, where another program may listen by now: a command
    // must not send it the token.
    let keys = keys(folder);
    for left_behind in [keys.address_path(), keys.page_path()] {
        let _ = std::fs::remove_file(left_behind);
    }
    Ok(instance)
}

/// Binds the bus, with the journal as its record of the past. What the bus notices about its
/// clients comes out of the channel.
fn bind_bus(
    folder: &Path,
    journal: &JournalHandle,
) -> Result<(Server, Receiver<Notice>), StartDaemonError> {
    let (sender, notices) = mpsc::sync_channel(NOTICES_MAX);
    let notice = Box::new(move |notice| {
        // The bus must not wait for the log. With so many notices one more says nothing new.
        let _ = sender.try_send(notice);
    });
    let record = Arc::new(BusReplay::new(journal.clone()));
    let settings =
        bus::ServerSettings { record: Some(record), notice, ..bus::ServerSettings::default() };
    Ok((Server::bind(&socket(folder), settings)?, notices))
}

/// Runs the bus on a thread of its own.
fn serve_bus(
    server: Server,
    handle: &DaemonHandle,
) -> Result<JoinHandle<Result<(), RunError>>, StartDaemonError> {
    let thread = std::thread::Builder::new().name("bus".to_owned());
    let guard = handle.exit_guard(CriticalPart::Bus);
    let serve = move || {
        // The guard drops with the thread, also by a panic: a daemon without a bus must not go on.
        let _guard = guard;
        server.run()
    };
    thread.spawn(serve).map_err(StartDaemonError::Thread)
}

/// Logs what the bus notices, on a thread that ends with the bus.
fn log_notices(notices: Receiver<Notice>) -> Result<(), StartDaemonError> {
    let thread = std::thread::Builder::new().name("notices".to_owned());
    let run = move || {
        // Ends by itself: the bus owns the only sender and drops it when it stops.
        for notice in notices {
            tracing::warn!(target: part::BUS, "{notice}");
        }
    };
    thread.spawn(run).map(drop).map_err(StartDaemonError::Thread)
}

/// Logs the start, and what was found damaged when the journal was opened.
fn log_start(journal: &JournalHandle) {
    // The process id lets the user tell this daemon from one that did not stop.
    tracing::info!(target: part::DAEMON, "up, pid {}", std::process::id());
    for finding in journal.current().open_findings() {
        tracing::warn!(target: part::JOURNAL, "{}; {}", finding.damage, finding.remedy);
    }
}

/// Compiles the rules for hooks: the process that changed them may have been killed before it did.
fn hand_out_rules(journal: &JournalHandle) {
    if let Err(error) = RuleStore::new(&journal.current()).compile() {
        tracing::error!(target: part::DAEMON, "hooks may read older rules: {error}");
    }
}

/// Opens the queue of hook messages. Without its log the queue acknowledges none, and hooks store
/// their messages themselves.
fn open_hook_queue(folder: &Path) -> HookQueue {
    HookQueue::open(&health_dir(folder)).unwrap_or_else(|error| {
        tracing::warn!(target: part::DAEMON, "hooks store their messages themselves: {error}");
        HookQueue::default()
    })
}

/// Opens the record of the parts' states, with the two that run already.
fn open_health(folder: &Path) -> Health {
    let health = Health::open(&health_dir(folder));
    health.set_part("bus", "running");
    health.set_part("journal", "running");
    health
}

/// Starts the supervisor, which from now on publishes health as well.
fn start_supervisor(
    context: &DaemonContext,
    folder: &Path,
    program: PathBuf,
    handle: &DaemonHandle,
) -> Result<Arc<Supervisor>, StartDaemonError> {
    let settings = supervise::SupervisorSettings::new(folder.to_owned(), program);
    let guard = handle.exit_guard(CriticalPart::Supervisor);
    let supervisor = Arc::new(Supervisor::start_with(settings, context.bus.clone(), guard)?);
    context.health.publish_by(Arc::clone(&supervisor));
    Ok(supervisor)
}

impl Subsystems {
    fn reload(&mut self) {
        match Settings::load(&self.folder) {
            Ok(settings) if settings == self.settings => {
                tracing::info!(target: part::DAEMON, "settings read again: nothing has changed");
            }
            Ok(settings) => {
                self.settings = settings.clone();
                // Each part takes its own section. HTTP has none here: its address changes only
                // with a restart.
                if let Some(notifier) = &self.notifier {
                    notifier.reload(&settings);
                }
                self.model_worker.reload(settings.model.clone());
                hand_out_rules(&self.journal);
                self.capture.reload(settings);
                tracing::info!(target: part::DAEMON, "settings read again");
            }
            Err(error) => {
                tracing::error!(target: part::DAEMON, "the former settings stay: {error}");
            }
        }
        // In any case: services are in `services.toml`, which may have changed alone.
        if let Err(error) = self.supervisor.reload() {
            tracing::error!(target: part::DAEMON, "the former services stay: {error}");
        }
    }

    /// Stops the parts in their order. A second request to stop kills tasks and services, and ends
    /// every wait soon: what is not committed then is read again at the next start.
    fn stop(self, incoming: &Receiver<Incoming>, handle: DaemonHandle) -> Result<(), ExitError> {
        tracing::info!(target: part::DAEMON, "stopping");
        let Subsystems { http, notifier, model_worker, status_thread, chain, .. } = self;
        let Subsystems { supervisor, hook_listener, capture, journal, bus, bus_thread, .. } = self;
        let mut wait = StopWait { incoming, handle, hurried_until: None };
        // Readers and askers first: they must not meet a closed journal.
        if let Some(http) = http {
            wait.end_part("HTTP", Duration::MAX, move || http.close());
        }
        if let Some(notifier) = notifier {
            wait.end_part("notifications", Duration::MAX, move || notifier.close());
        }
        wait.end_part("model", Duration::MAX, move || model_worker.stop());
        // The chain before the supervisor, or it would start tasks that are ended at once.
        wait.end_part("chain", Duration::MAX, move || chain.stop());
        // Each task and service has a time limit of its own; a second request kills them.
        let stopping = Arc::clone(&supervisor);
        wait.end_or_hurry("services", Duration::MAX, move || stopping.stop(), &|| {
            supervisor.kill_all();
        });
        // The listener before capture: a message it accepts is either recorded or stored.
        wait.end_part("hooks", Duration::MAX, move || hook_listener.close());
        wait.end_part("capture", CAPTURE_WITHIN, move || {
            capture.stop();
            capture.join();
        });
        // Its last reader, the publisher, ended with capture.
        wait.end_part("status", Duration::MAX, move || status_thread.stop());
        wait.end_part("journal", Duration::MAX, move || journal.current().close());
        tracing::info!(target: part::DAEMON, "stopped");
        // The bus last: the lines above are published on it.
        bus.stop();
        // A bus that panicked has no result.
        let (send, ended) = mpsc::sync_channel(1);
        wait.end_part("bus", Duration::MAX, move || {
            let _ = send.send(bus_thread.join().unwrap_or(Ok(())));
        });
        ended.try_recv().unwrap_or(Ok(()))?;
        Ok(())
    }
}

/// Waits for the ends of parts, until the user asks for the stop a second time.
struct StopWait<'a> {
    incoming: &'a Receiver<Incoming>,
    /// Tells this wait that a part has ended.
    handle: DaemonHandle,
    /// Set by the second request: nothing is waited for any longer than this.
    hurried_until: Option<Instant>,
}

impl StopWait<'_> {
    /// Ends a part and waits for that, at most for a limit.
    fn end_part(
        &mut self,
        name: &'static str,
        limit: Duration,
        end: impl FnOnce() + Send + 'static,
    ) {
        self.end_or_hurry(name, limit, end, &|| {});
    }

    /// Does the same, and calls `hurry` if the user has asked a second time.
    fn end_or_hurry(
        &mut self,
        name: &'static str,
        limit: Duration,
        end: impl FnOnce() + Send + 'static,
        hurry: &dyn Fn(),
    ) {
        let handle = self.handle.clone();
        let thread = std::thread::Builder::new().name("stop".to_owned());
        let ending = thread.spawn(move || {
            end();
            handle.send(Incoming::Closed);
        });
        // Without a thread the part ends with the process.
        let Ok(ending) = ending else { return };
        let begun = Instant::now();
        if self.hurried_until.is_some() {
            hurry();
        }
        // The message may find no room, so the thread itself is checked, too.
        while !ending.is_finished() {
            let left = limit.saturating_sub(begun.elapsed());
            // A moment for each part, also behind one that has used up the time of all.
            let until = self.hurried_until.map(|until| until.max(begun + HURRIED_EACH));
            let hurried = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = hurried.map_or(left, |hurried| hurried.min(left));
            if left.is_zero() {
                tracing::warn!(target: part::DAEMON, "{name} is left behind: it does not end");
                return;
            }
            if let Ok(Incoming::Stop) = self.incoming.recv_timeout(left.min(LOOK_EVERY))
                && self.hurried_until.is_none()
            {
                self.hurried_until = Some(Instant::now() + HURRIED_WITHIN);
                hurry();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_stop_ends_every_wait() {
        let (sender, incoming) = mpsc::sync_channel(INCOMING_MAX);
        let handle = DaemonHandle { incoming: sender };
        let mut wait =
            StopWait { incoming: &incoming, handle: handle.clone(), hurried_until: None };
        let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let end = Arc::clone(&ended);
        wait.end_part("quick", Duration::MAX, move || {
            end.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        assert!(ended.load(std::sync::atomic::Ordering::SeqCst));
        handle.stop();
        let hurried = std::cell::Cell::new(false);
        // Parts that never end.
        let (hold, held) = mpsc::sync_channel::<()>(0);
        let held = Arc::new(std::sync::Mutex::new(held));
        let first = Arc::clone(&held);
        wait.end_or_hurry(
            "first",
            Duration::MAX,
            move || drop(first.lock().map(|it| it.recv())),
            &|| {
                hurried.set(true);
            },
        );
        assert!(hurried.get() && wait.hurried_until.is_some());
        wait.end_part("second", Duration::MAX, move || drop(held.lock().map(|it| it.recv())));
        drop(hold);
    }

    #[test]
    fn panic_of_a_part_is_reported() {
        let (sender, incoming) = mpsc::sync_channel(INCOMING_MAX);
        let handle = DaemonHandle { incoming: sender };
        let guard = handle.exit_guard(CriticalPart::Supervisor);
        let part = std::thread::spawn(move || {
            let _guard = guard;
            panic!("on purpose");
        });
        assert!(part.join().is_err());
        let received = incoming.try_recv();
        assert!(matches!(received, Ok(Incoming::Ended(CriticalPart::Supervisor))));
    }
}
