//! The door for pages and programs, as a part of the daemon. A daemon whose door cannot be opened
//! records all the same, and says so.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use capture::Environment;
use event::Time;
use serve::{Board, HttpServer, HttpServerConfig, OpenError};
pub use serve::{Keys, TokenError};

use crate::answering::Answering;
use crate::health::Health;
use crate::instance;
use crate::live::Live;
use crate::log::{Log, Part};
use crate::opened::Opened;
use crate::settings::Http;
use crate::telemetry::Telemeter;
use crate::work::Worked;
use ingest::HookQueue;
use views::ViewCache;

/// Sessions whose facts are held for questions, some 4 KiB each.
const FACTS_HELD: usize = 2_000;

/// Sessions whose turns are held, a few MB each for a very long session.
const TURNS_HELD: usize = 16;

/// Sessions whose newest part is held, some 200 KiB each.
const RECENT_HELD: usize = 128;

/// Where it listens unless somebody says otherwise: what one types for H A N S on a telephone.
const PORT: u16 = 4267;

/// The running part.
pub(crate) struct Front {
    door: HttpServer,
    live: Arc<Live>,
    live_thread: JoinHandle<()>,
}

/// What it works with.
pub(crate) struct Tools {
    pub opened: Opened,
    pub environment: Environment,
    pub clock: fn() -> Time,
    pub log: Log,
    pub health: Health,
    /// Where facts go that agents export.
    pub hook_queue: HookQueue,
}

/// The secrets of a journal's door, and its address.
pub fn keys(journal: &Path) -> Keys {
    Keys::in_folder(wire::health_dir(journal))
}

impl Front {
    /// Opens the door; `None` if it is not wanted or cannot be opened.
    pub(crate) fn open(tools: Tools, folder: &Path, wanted: &Http) -> Option<Front> {
        if !wanted.enabled {
            return None;
        }
        let (log, health) = (tools.log.clone(), tools.health.clone());
        match Front::try_open(tools, folder, wanted) {
            Ok(front) => {
                health.set_part("http", "running");
                log.info(Part::Http, format!("listening on http://{}", front.door.address()));
                Some(front)
            }
            Err(error) => {
                health.set_part("http", "failed");
                log.error(Part::Http, format!("nobody can ask over HTTP: {error}"));
                None
            }
        }
    }

    fn try_open(tools: Tools, folder: &Path, wanted: &Http) -> Result<Front, OpenError> {
        let Tools { opened, environment, clock, log, health, hook_queue } = tools;
        let telemeter = Telemeter::new(hook_queue);
        let for_answers = environment.clone();
        let board = Board::default();
        let live = Arc::new(Live::new(opened.clone(), environment, clock, board.clone()));
        let live_for_answers = Arc::clone(&live);
        let started_at = Instant::now();
        let answering = Answering {
            opened,
            live: live_for_answers,
            recent: ViewCache::with_capacity(RECENT_HELD),
            facts: ViewCache::with_capacity(FACTS_HELD),
            turns: ViewCache::with_capacity(TURNS_HELD),
            worked: Worked::default(),
            environment: for_answers,
            clock,
            health,
            telemeter,
            started_at,
            log,
            without_source: Mutex::default(),
        };
        let door = HttpServer::open(HttpServerConfig {
            listen: SocketAddr::new(wanted.listen, wanted.port.unwrap_or(PORT)),
            any_port: wanted.port.is_none(),
            keys: keys(folder),
            sources: Arc::new(answering),
            board,
            bus: instance::socket(folder),
        })?;
        let live_thread = match live.start() {
            Ok(thread) => thread,
            Err(error) => {
                door.close();
                return Err(OpenError::Thread(error));
            }
        };
        Ok(Front { door, live, live_thread })
    }

    pub(crate) fn close(self) {
        self.door.close();
        self.live.stop();
        // A thread that panicked has nothing more to say.
        let _ = self.live_thread.join();
    }
}
