//! The HTTP server as a part of the daemon. Without it the daemon records all the same, and logs
//! the failure.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serve::{AddressLife, HttpServer, HttpServerConfig, Moved, OpenError};
pub use serve::{Keys, TokenError};
use views::ViewCache;

use super::backend::ApiBackend;
use super::preferences::PreferenceFile;
use super::telemetry::Telemeter;
use super::work::WorkStats;
use crate::context::DaemonContext;
use crate::instance;
use crate::log::part;
use crate::settings::HttpSettings;

/// Cached facts of sessions, some 4 KiB each.
const FACTS_HELD: usize = 2_000;

/// Cached turns of sessions, a few MB each for a very long session.
const TURNS_HELD: usize = 16;

/// Cached newest parts of sessions, some 200 KiB each.
const RECENT_HELD: usize = 128;

/// The port unless the settings name one: H A N S on the keys of a telephone.
const PORT: u16 = 4267;

/// The running HTTP server.
pub(crate) struct HttpService {
    server: HttpServer,
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
        let health = context.health.clone();
        match HttpService::try_open(context, folder, settings) {
            Ok(service) => {
                health.set_part("http", "running");
                let address = service.server.address();
                tracing::info!(target: part::HTTP, "listening on http://{address}");
                if let Some(moved) = service.server.moved() {
                    tracing::warn!(target: part::HTTP, "{}", describe_move(moved));
                }
                Some(service)
            }
            Err(error) => {
                health.set_part("http", "failed");
                tracing::error!(target: part::HTTP, "the HTTP server could not start: {error}");
                None
            }
        }
    }

    fn try_open(
        context: DaemonContext,
        folder: &Path,
        settings: &HttpSettings,
    ) -> Result<HttpService, OpenError> {
        let DaemonContext { journal, environment, clock, zone, health, status, hook_queue, .. } =
            context;
        let board = status.board().clone();
        let backend = ApiBackend {
            journal,
            status,
            watch: Mutex::default(),
            recent: ViewCache::with_capacity(RECENT_HELD),
            facts: ViewCache::with_capacity(FACTS_HELD),
            turns: ViewCache::with_capacity(TURNS_HELD),
            work_stats: WorkStats::default(),
            environment,
            clock,
            zone,
            health,
            telemeter: Telemeter::new(hook_queue),
            preferences: PreferenceFile::in_folder(folder),
            started_at: Instant::now(),
            without_source: Mutex::default(),
        };
        // Opened last: the first request may come before this returns.
        let server = HttpServer::open(HttpServerConfig {
            listen: SocketAddr::new(settings.listen, settings.port.unwrap_or(PORT)),
            // A port that the user chose is used or refused: a page that was bookmarked would not
            // find another.
            any_port: settings.port.is_none(),
            // Another person could listen at the port while the daemon is down, and would have what
            // browsers keep under an address that stays.
            address_life: match settings.shared_machine.unwrap_or_else(host::has_other_people) {
                true => AddressLife::Start,
                false => AddressLife::Journal,
            },
            keys: keys(folder),
            sources: Arc::new(backend),
            board,
            bus: instance::socket(folder),
        })?;
        Ok(HttpService { server })
    }

    pub(crate) fn close(self) {
        self.server.close();
    }
}

fn describe_move(moved: Moved) -> String {
    match moved {
        Moved::PortTaken { port } => format!(
            "another program listens on port {port}, so bookmarks of the page do not work until it \
             is free and the daemon is restarted"
        ),
        Moved::PortTakenByUser { port, uid } => format!(
            "a program of user {uid} listens on port {port}; the page has a new address and all \
             browsers are signed out, because that program may have seen what they sent"
        ),
    }
}
