//! The daemon: one process that holds capture, journal, bus and supervisor of a journal together.
//!
//! It owns start, loop and stop. The bus answers first; capture catches up beside it. The end goes
//! the other way: tasks and services, capture, what it recorded told, journal, bus, lock.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bus::{BindError, Handle, Notice, RunError, Server, make_private};
use capture::Environment;
use event::Time;
use journal::{OpenError, ReadError};
use supervise::Supervisor;
use wire::health_dir;

use crate::asking::{self, Asking};
use crate::capturing::{Capturing, Farewell, Tools};
use crate::chaining::{self, Chaining, ChainingError};
use crate::front::{self, Front};
use crate::health::Health;
use crate::instance::{Instance, InstanceError, socket};
use crate::log::{Echo, Log, Part};
use crate::news::News;
use crate::notifications::{self, Notifying};
use crate::opened::Opened;
use crate::past::Past;
use crate::requests::{self, RequestsError};
use crate::settings::{Settings, SettingsError};
use ingest::{HookListener, HookQueue};
use segments::Zone;

/// How long capture may take to end; what it has not recorded by then is read again next time.
const CAPTURE_WITHIN: Duration = Duration::from_secs(5);

/// Wishes that wait for the loop. More than a few at once are the same wish again.
const INCOMING_MAX: usize = 64;

/// How often it is looked whether tasks and services have ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a daemon needs to know.
pub struct Up {
    /// The folder of the journal.
    pub journal: PathBuf,
    /// This program, for tasks that run it.
    pub program: PathBuf,
    /// Whose agents are captured.
    pub environment: Environment,
    pub clock: fn() -> Time,
    /// Hears what a person should know.
    pub echo: Echo,
}

/// A daemon that answers.
pub struct Daemon {
    up: Ready,
    incoming: Receiver<Incoming>,
    remote: Remote,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
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
    Chain(#[from] ChainingError),
    #[error(transparent)]
    Requests(#[from] RequestsError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// How a daemon that ran has ended.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    #[error(transparent)]
    Bus(#[from] RunError),
    #[error("{part} ended by itself")]
    Lost { part: &'static str },
}

/// A way to tell a running daemon something, from any thread.
#[derive(Clone)]
pub struct Remote {
    incoming: SyncSender<Incoming>,
}

/// Everything the loop waits for.
enum Incoming {
    Stop,
    Reload,
    Ended(Lost),
}

/// A part without which the daemon is not what somebody takes it for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    Supervisor,
    Chain,
    Capture,
    Bus,
}

impl Lost {
    fn name(self) -> &'static str {
        match self {
            Lost::Supervisor => "the supervisor",
            Lost::Chain => "the chain",
            Lost::Capture => "capture",
            Lost::Bus => "the bus",
        }
    }
}

impl Remote {
    /// Asks for the end. Asked a second time, tasks and services are killed and nothing else is
    /// waited for.
    pub fn stop(&self) {
        self.send(Incoming::Stop);
    }

    /// Asks to read the settings again.
    pub fn reload(&self) {
        self.send(Incoming::Reload);
    }

    /// What a part has to leave behind so that its end is told, also if it panics.
    fn farewell_of(&self, part: Lost) -> Farewell {
        let remote = self.clone();
        Farewell(Box::new(move || remote.send(Incoming::Ended(part))))
    }

    fn send(&self, incoming: Incoming) {
        // So many wishes wait that this one is among them, or nobody is there any more.
        let _ = self.incoming.try_send(incoming);
    }
}

/// The parts of a running daemon, in the order they were started.
struct Ready {
    folder: PathBuf,
    settings: Settings,
    log: Log,
    front: Option<Front>,
    notifying: Option<Notifying>,
    chaining: Chaining,
    asking: Asking,
    supervisor: Arc<Supervisor>,
    capturing: Capturing,
    /// Where hooks hand over their calls.
    hook_listener: HookListener,
    opened: Opened,
    bus: Handle,
    bus_thread: JoinHandle<Result<(), RunError>>,
    /// Given back last.
    _instance: Instance,
}

impl Daemon {
    /// Starts everything; the bus answers when this returns.
    pub fn start(up: Up) -> Result<Daemon, UpError> {
        let Up { journal: folder, program, environment, clock, echo } = up;
        make_private(&health_dir(&folder))?;
        let instance = Instance::take(&folder)?;
        let settings = Settings::load(&folder)?;
        let opened = Opened::open(folder.clone())?;
        let begin_at = (opened.journal().tail()?, clock());
        let (sender, incoming) = mpsc::sync_channel(INCOMING_MAX);
        let remote = Remote { incoming: sender };

        let (notices, told) = mpsc::sync_channel(INCOMING_MAX);
        let record = Arc::new(Past::new(opened.clone()));
        let notice = Box::new(move |notice| {
            // So much is wrong that one more of it is no news.
            let _ = notices.try_send(notice);
        });
        let bus_settings =
            bus::ServerSettings { record: Some(record), notice, ..bus::ServerSettings::default() };
        let server = Server::bind(&socket(&folder), bus_settings)?;
        let bus = server.handle();
        let log = Log::open(&health_dir(&folder), bus.clone(), clock, echo);
        let news = News::open(opened.clone(), bus.clone(), clock)?;
        let bus_thread = serve(server, &remote)?;
        note(told, log.clone())?;
        requests::answer_all(bus.clone())?;
        log.info(Part::Daemon, format!("up, pid {}", std::process::id()));
        for finding in opened.journal().open_findings() {
            log.warn(Part::Journal, format!("{}; {}", finding.damage, finding.remedy));
        }

        let hook_queue = HookQueue::open(&health_dir(&folder)).unwrap_or_else(|error| {
            log.warn(Part::Daemon, format!("calls of hooks cannot be written down: {error}"));
            HookQueue::default()
        });
        let health = Health::open(&health_dir(&folder));
        health.set_part("bus", "running");
        health.set_part("journal", "running");
        let tools = Tools {
            opened: opened.clone(),
            environment,
            clock,
            news,
            bus: bus.clone(),
            log: log.clone(),
            health: health.clone(),
            hook_queue: hook_queue.clone(),
        };
        let at_front = front::Tools {
            opened: opened.clone(),
            environment: tools.environment.clone(),
            clock,
            log: log.clone(),
            health: health.clone(),
            hook_queue: tools.hook_queue.clone(),
        };
        let capturing =
            Capturing::start(tools, settings.clone(), remote.farewell_of(Lost::Capture))
                .map_err(UpError::Thread)?;
        let hook_listener = HookListener::open(&wire::hook::socket(&folder), hook_queue)?;
        // Last: after a crash it ends what the former daemon left running first.
        let supervisor = supervise::SupervisorSettings::new(folder.clone(), program);
        let farewell = remote.farewell_of(Lost::Supervisor);
        let supervisor = Arc::new(Supervisor::start_with(supervisor, bus.clone(), farewell)?);
        health.tell_by(Arc::clone(&supervisor));
        log.tell_by(&supervisor);
        let at_chain = chaining::Tools {
            opened: opened.clone(),
            bus: bus.clone(),
            supervisor: Arc::clone(&supervisor),
            clock,
            zone: Zone::system(),
            log: log.clone(),
            health: health.clone(),
        };
        let chaining = Chaining::start(at_chain, remote.farewell_of(Lost::Chain))?;
        let notifying = notifications::Tools {
            opened: opened.clone(),
            environment: at_front.environment.clone(),
            clock,
            zone: Zone::system(),
            bus: bus.clone(),
            supervisor: Arc::clone(&supervisor),
            log: log.clone(),
        };
        let notifying =
            Notifying::start(notifying, settings.notifications.clone()).map_err(UpError::Thread)?;
        let asking = asking::Tools {
            opened: opened.clone(),
            environment: at_front.environment.clone(),
            clock,
            zone: Zone::system(),
            log: log.clone(),
            health: health.clone(),
            begin_at,
        };
        let asking = Asking::start(asking, settings.model.clone()).map_err(UpError::Thread)?;
        let front = Front::open(at_front, &folder, &settings.http);
        let up = Ready {
            folder,
            settings,
            log,
            front,
            notifying: Some(notifying),
            chaining,
            asking,
            supervisor,
            capturing,
            hook_listener,
            opened,
            bus,
            bus_thread,
            _instance: instance,
        };
        Ok(Daemon { up, incoming, remote })
    }

    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Where its bus listens.
    pub fn socket(&self) -> PathBuf {
        socket(&self.up.folder)
    }

    /// Runs until it is told to end.
    pub fn run(self) -> Result<(), EndError> {
        let Daemon { mut up, incoming, .. } = self;
        let lost = loop {
            match incoming.recv() {
                Ok(Incoming::Reload) => up.reload(),
                Ok(Incoming::Ended(part)) => break Some(part),
                Ok(Incoming::Stop) | Err(_) => break None,
            }
        };
        up.stop(&incoming)?;
        lost.map_or(Ok(()), |part| Err(EndError::Lost { part: part.name() }))
    }
}

impl Ready {
    fn reload(&mut self) {
        match Settings::load(&self.folder) {
            Ok(settings) if settings == self.settings => {
                self.log.info(Part::Daemon, "settings read again: nothing has changed");
            }
            Ok(settings) => {
                self.settings = settings.clone();
                if let Some(notifying) = &self.notifying {
                    notifying.reload(settings.notifications.clone());
                }
                self.asking.reload(settings.model.clone());
                self.capturing.reload(settings);
                self.log.info(Part::Daemon, "settings read again");
            }
            Err(error) => {
                let words = format!("the former settings stay: {error}");
                self.log.error(Part::Daemon, words);
            }
        }
        if let Err(error) = self.supervisor.reload() {
            self.log.error(Part::Daemon, format!("the former services stay: {error}"));
        }
    }

    /// Ends the parts in their order. A second wish to end is granted at once.
    fn stop(mut self, incoming: &Receiver<Incoming>) -> Result<(), EndError> {
        self.log.info(Part::Daemon, "stopping");
        if let Some(front) = self.front.take() {
            front.close();
        }
        if let Some(notifying) = self.notifying.take() {
            notifying.close();
        }
        self.asking.stop();
        self.chaining.stop();
        self.stop_supervisor(incoming);
        self.hook_listener.close();
        self.capturing.stop();
        let until = Instant::now() + CAPTURE_WITHIN;
        while !self.capturing.is_over() {
            match incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Incoming::Ended(Lost::Capture)) => {
                    self.capturing.join();
                    break;
                }
                // What it has not committed it reads again at the next start.
                Ok(Incoming::Stop) => break,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.opened.journal().close();
        self.log.info(Part::Daemon, "stopped");
        self.bus.stop();
        // A bus that panicked has nothing more to say.
        self.bus_thread.join().unwrap_or(Ok(()))?;
        Ok(())
    }

    /// Ends tasks and services. They have their own limits, unless somebody cannot wait for them.
    fn stop_supervisor(&self, incoming: &Receiver<Incoming>) {
        let supervisor = &self.supervisor;
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| supervisor.stop());
            // Its own word may have found no room among wishes, so it is looked at as well.
            while !ending.is_finished() {
                if let Ok(Incoming::Stop) = incoming.recv_timeout(LOOK_EVERY) {
                    supervisor.kill_all();
                }
            }
        });
    }
}

/// Runs the bus on a thread of its own; its end is told.
fn serve(server: Server, remote: &Remote) -> Result<JoinHandle<Result<(), RunError>>, UpError> {
    let thread = std::thread::Builder::new().name("bus".to_owned());
    let farewell = remote.farewell_of(Lost::Bus);
    let serve = move || {
        let _farewell = farewell;
        server.run()
    };
    thread.spawn(serve).map_err(UpError::Thread)
}

/// Writes down what the bus notices. It ends with the bus.
fn note(told: Receiver<Notice>, log: Log) -> Result<(), UpError> {
    let thread = std::thread::Builder::new().name("notices".to_owned());
    let note = move || {
        for notice in told {
            log.warn(Part::Bus, notice.to_string());
        }
    };
    thread.spawn(note).map(drop).map_err(UpError::Thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_panics_is_missed() {
        let (sender, incoming) = mpsc::sync_channel(INCOMING_MAX);
        let remote = Remote { incoming: sender };
        let farewell = remote.farewell_of(Lost::Supervisor);
        let part = std::thread::spawn(move || {
            let _farewell = farewell;
            panic!("on purpose");
        });
        assert!(part.join().is_err());
        let told = incoming.try_recv();
        assert!(matches!(told, Ok(Incoming::Ended(Lost::Supervisor))));
    }
}
