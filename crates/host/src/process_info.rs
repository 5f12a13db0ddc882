//! What the kernel knows of one process.
//!
//! Linux has it in `/proc`; on macOS `sysinfo` asks the system. Where neither answers, a free pid
//! still proves that its process has ended.

use std::path::PathBuf;

use event::ProcessStart;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::command_line::CommandLine;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    ProcessHandle, inspect, read_ancestor, read_command_line, read_command_lines, read_descendants,
    read_open_files, started_at,
};

#[cfg(not(target_os = "macos"))]
mod procfs;
#[cfg(not(target_os = "macos"))]
pub(crate) use procfs::{
    ProcessHandle, inspect, read_ancestor, read_command_line, read_command_lines, read_descendants,
    read_open_files, started_at,
};

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

/// A process above this one, as far as it tells whether it is an agent.
pub(crate) struct Ancestor {
    pub(crate) started: ProcessStart,
    pub(crate) uid: u32,
    pub(crate) parent: Option<u32>,
    /// Its first words; absent if the system does not tell them.
    pub(crate) line: Option<CommandLine>,
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
