//! What the supervisor is told at the start.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where things are. Read once, at the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The folder of the journal, absolute: `services.toml`, `health/` and the days are in it.
    pub journal: PathBuf,
    /// What `hansard` means in a command: our own file, links resolved.
    pub program: PathBuf,
    /// The socket of the bus, for children.
    pub socket: PathBuf,
    /// The `PATH` that words in commands are looked for in.
    pub search_path: Option<OsString>,
}

impl Settings {
    /// Settings for a journal: the bus at its usual place, and the `PATH` of this process.
    pub fn new(journal: PathBuf, program: PathBuf) -> Settings {
        let socket = journal.join("health/callosum.sock");
        Settings { journal, program, socket, search_path: std::env::var_os("PATH") }
    }
}
