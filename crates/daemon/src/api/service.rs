//! The HTTP server as a part of the daemon. Without it the daemon records all the same, and logs
//! the failure.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use serve::{Board, HttpServer, HttpServerConfig, OpenError};
pub use serve::{Keys, TokenError};
use views::ViewCache;

use super::backend::ApiBackend;
use super::telemetry::Telemeter;
use super::work::WorkStats;
use crate::context::DaemonContext;
use crate::instance;
use crate::log::Component;
use crate::settings::HttpSettings;
use crate::status::StatusService;

/// Cached facts of sessions, some 4 KiB each.
const FACTS_HELD: usize = 2_000;

/// Cached turns of sessions, a few MB each for a very long session.
const TURNS_HELD: usize = 16;

/// Cached newest parts of sessions, some 200 KiB each.
const RECENT_HELD: usize = 128;

/// The port unless the settings name one: H A N S on the keys of a telephone.
const PORT: u16 = 4267;

/// The running HTTP server, and the thread that keeps its board of statuses current.
pub(crate) struct HttpService {
    server: HttpServer,
    status: Arc<StatusService>,
    status_thread: JoinHandle<()>,
}

/// The tokens of a journal's HTTP server, and its address.
pub fn keys(journal: &Path) -> Keys {
    Keys::in_folder(wire::health_dir(journal))
}

impl HttpService {
    /// Starts the server; `None` if the settings turn it off or it cannot start.
    pub(crate) fn open(
        context: DaemonContext,
        folder: &Path,
        settings: &HttpSettings,
    ) -> Option<HttpService> {
        if !settings.enabled {
            return None;
        }
        let (log, health) = (context.log.clone(), context.health.clone());
        match HttpService::try_open(context, folder, settings) {
            Ok(service) => {
                health.set_part("http", "running");
                log.info(
                    Component::Http,
                    format!("listening on http://{}", service.server.address()),
                );
                Some(service)
            }
            Err(error) => {
                health.set_part("http", "failed");
                log.error(Component::Http, format!("the HTTP server could not start: {error}"));
                None
            }
        }
    }

    fn try_open(
        context: DaemonContext,
        folder: &Path,
        settings: &HttpSettings,
    ) -> Result<HttpService, OpenError> {
        let DaemonContext { journal, environment, clock, log, health, hook_queue, .. } = context;
        let board = Board::default();
        let status = StatusService::new(journal.clone(), environment.clone(), clock, board.clone());
        let status = Arc::new(status);
        let backend = ApiBackend {
            journal,
            status: Arc::clone(&status),
            recent: ViewCache::with_capacity(RECENT_HELD),
            facts: ViewCache::with_capacity(FACTS_HELD),
            turns: ViewCache::with_capacity(TURNS_HELD),
            work_stats: WorkStats::default(),
            environment,
            clock,
            health,
            telemeter: Telemeter::new(hook_queue),
            started_at: Instant::now(),
            log,
            without_source: Mutex::default(),
        };
        // Opened last: the first request may come before this returns.
        let server = HttpServer::open(HttpServerConfig {
            listen: SocketAddr::new(settings.listen, settings.port.unwrap_or(PORT)),
            // A port that the user chose is used or refused: a page that was bookmarked would not
            // find another.
            any_port: settings.port.is_none(),
            keys: keys(folder),
            sources: Arc::new(backend),
            board,
            bus: instance::socket(folder),
        })?;
        let status_thread = match status.start() {
            Ok(thread) => thread,
            Err(error) => {
                // Without that thread the server would show statuses that never change.
                server.close();
                return Err(OpenError::Thread(error));
            }
        };
        Ok(HttpService { server, status, status_thread })
    }

    /// Closes the server first, so that no watcher is left when the statuses stop.
    pub(crate) fn close(self) {
        self.server.close();
        self.status.stop();
        // A panic of the thread concerns only the board, which is gone now.
        let _ = self.status_thread.join();
    }
}
