//! Paths for the supervisor.

use std::ffi::OsString;
use std::path::PathBuf;

/// Paths, read once at the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupervisorSettings {
    /// The journal's folder, absolute. It has `services.toml`, `health/` and the days' folders.
    pub journal: PathBuf,
    /// The file behind `hansard` in commands: our own, with links resolved.
    pub program: PathBuf,
    /// The socket of the bus, passed to children.
    pub socket: PathBuf,
    /// The `PATH` in which programs are looked up.
    pub search_path: Option<OsString>,
}

impl SupervisorSettings {
    /// Returns the settings for a journal, with the default socket and the `PATH` of this process.
    pub fn new(journal: PathBuf, program: PathBuf) -> SupervisorSettings {
        let socket = journal.join("health/callosum.sock");
        SupervisorSettings { journal, program, socket, search_path: std::env::var_os("PATH") }
    }
}
