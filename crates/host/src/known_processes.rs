//! Processes that were seen to run. A handle of each tells its end, so that another look at it costs
//! one call of the system instead of several files.

use std::collections::HashMap;

use event::Time;

use crate::process_info::{self, Inspection, ProcessHandle, ProcessInfo, started_at};

/// Handles that are held. Processes beyond them are read anew with each look.
const HANDLES_MAX: usize = 256;

/// Processes by their pids.
#[derive(Default)]
pub(crate) struct KnownProcesses(HashMap<u32, KnownProcess>);

/// A process, and when it started by the clock of the first look: the clock may be set since.
struct KnownProcess {
    handle: ProcessHandle,
    info: ProcessInfo,
    started_at: Option<Time>,
}

impl KnownProcesses {
    /// Looks at a process, and tells when it started. What may change while it runs, as its working
    /// directory, is that of the first look.
    pub(crate) fn inspect(&mut self, pid: u32) -> (Inspection, Option<Time>) {
        let known = self.0.get(&pid).filter(|known| known.handle.is_running());
        if let Some(known) = known {
            return (Inspection::Running(known.info.clone()), known.started_at);
        }
        self.0.remove(&pid);
        if self.0.len() >= HANDLES_MAX {
            self.0.retain(|_, known| known.handle.is_running());
        }
        // Opened before the look: if another process has the pid by then, the handle tells the end
        // of the one before.
        let handle = ProcessHandle::open(pid).filter(|_| self.0.len() < HANDLES_MAX);
        let inspection = process_info::inspect(pid);
        let Inspection::Running(info) = &inspection else { return (inspection, None) };
        let (info, started_at) = (info.clone(), started_at(info.started));
        if let Some(handle) = handle {
            self.0.insert(pid, KnownProcess { handle, info, started_at });
        }
        (inspection, started_at)
    }
}
