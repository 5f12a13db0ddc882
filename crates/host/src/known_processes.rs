//! Processes that were seen to run. A handle of each tells its end, so that another look at it costs
//! one call of the system instead of several files.

use std::collections::HashMap;
use std::sync::Arc;

use event::Time;

use crate::host_watch::HostWatch;
use crate::process_info::{self, Inspection, ProcessHandle, ProcessInfo, started_at};

/// Handles that are held. Processes beyond them are read anew with each look.
const HANDLES_MAX: usize = 256;

/// Processes by their pids.
#[derive(Default)]
pub(crate) struct KnownProcesses {
    known: HashMap<u32, KnownProcess>,
    /// Those that have ended were dropped at the beginning of a look, which holds for all of it.
    is_checked: bool,
    /// What tells their ends without a look.
    watch: Option<Arc<HostWatch>>,
}

/// A process, and when it started by the clock of the first look: the clock may be set since.
struct KnownProcess {
    handle: ProcessHandle,
    info: ProcessInfo,
    started_at: Option<Time>,
}

impl KnownProcesses {
    pub(crate) fn watched_by(watch: Option<Arc<HostWatch>>) -> KnownProcesses {
        KnownProcesses { watch, ..KnownProcesses::default() }
    }

    /// Asks for the ends of all known processes at once.
    pub(crate) fn begin_look(&mut self) {
        let known = self.known.iter().map(|(pid, known)| (*pid, &known.handle));
        for pid in ProcessHandle::find_ended(known) {
            self.known.remove(&pid);
        }
        self.is_checked = true;
    }

    /// Looks at a process, and tells when it started. What may change while it runs, as its working
    /// directory, is that of the first look.
    pub(crate) fn inspect(&mut self, pid: u32) -> (Inspection, Option<Time>) {
        if !self.is_checked {
            self.begin_look();
            self.is_checked = false;
        }
        if let Some(known) = self.known.get(&pid) {
            return (Inspection::Running(known.info.clone()), known.started_at);
        }
        // Opened before the look: if another process has the pid by then, the handle tells the end
        // of the one before.
        let handle = ProcessHandle::open(pid).filter(|_| self.known.len() < HANDLES_MAX);
        let inspection = process_info::inspect(pid);
        let Inspection::Running(info) = &inspection else { return (inspection, None) };
        let (info, started_at) = (info.clone(), started_at(info.started));
        match (&self.watch, &handle) {
            (Some(watch), Some(handle)) => watch.add_process(handle),
            (Some(watch), None) => watch.note_unwatched(),
            (None, _) => {}
        }
        if let Some(handle) = handle {
            self.known.insert(pid, KnownProcess { handle, info, started_at });
        }
        (inspection, started_at)
    }
}
