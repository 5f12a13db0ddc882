//! What the kernel knows of one process.
//!
//! Linux has it in `/proc`; on macOS `sysinfo` asks the system. Where neither answers, a free pid
//! still proves that its process has ended.

use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{inspect, read_command_lines, read_descendants};

#[cfg(not(target_os = "macos"))]
mod procfs;
#[cfg(not(target_os = "macos"))]
pub(crate) use procfs::{inspect, read_command_lines, read_descendants};

/// A running process.
///
/// The kernel reuses pids, so a pid alone names no process. Together with the start it does, until
/// the machine is started again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    pub started: ProcessStart,
    /// The effective user.
    pub uid: u32,
    /// The process that started it, or the one that adopted it. The first process has none.
    pub parent: Option<u32>,
    /// The name that the kernel shows. Linux cuts it after 15 bytes, and a program may change it.
    pub name: String,
    /// The working directory, if the system tells it: of other users' processes it does not.
    pub cwd: Option<PathBuf>,
}

/// When a process started, as its kernel counts. Only starts of the same kind can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessStart {
    /// Linux: clock ticks since the boot.
    Ticks(u64),
    /// macOS: seconds since 1970.
    UnixSecs(u64),
}

/// The result of a look at one pid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inspection {
    Running(ProcessInfo),
    /// No process has this pid, or only one that has ended and was not collected yet.
    Gone,
    /// The system did not answer. The process may run.
    Unknown,
}

impl Inspection {
    /// Tests whether a pid is free. Signal 0 is never delivered.
    fn by_signal(pid: u32) -> Inspection {
        // Pid 0 would mean a whole group of processes; `from_raw` refuses it.
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match pid.map(test_kill_process) {
            Some(Err(Errno::SRCH)) => Inspection::Gone,
            // The pid is in use, perhaps by another process.
            _ => Inspection::Unknown,
        }
    }
}
