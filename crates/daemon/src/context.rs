//! What every part of the daemon works with.

use std::sync::Arc;

use capture::Environment;
use event::Time;
use ingest::HookQueue;
use segments::Zone;

use crate::health::Health;
use crate::history_import::HistoryImport;
use crate::journal_handle::JournalHandle;
use crate::status::StatusService;

/// Built once at the start and handed to each part. Cheap to clone, except for the environment.
#[derive(Clone)]
pub(crate) struct DaemonContext {
    pub journal: JournalHandle,
    /// The user, with the agents to capture.
    pub environment: Environment,
    pub clock: fn() -> Time,
    /// The time zone of days, segments and quiet hours.
    pub zone: Zone,
    pub bus: bus::Handle,
    pub health: Health,
    /// What each session is doing.
    pub status: Arc<StatusService>,
    /// Messages of hooks and exported facts, on their way to capture.
    pub hook_queue: HookQueue,
    /// The account of history that is being read.
    pub import: HistoryImport,
}
