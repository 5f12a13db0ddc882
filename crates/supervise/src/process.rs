//! A process of ours: its own group, nothing to read, nothing inherited.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Everything that is needed to start a process.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'a> {
    pub program: &'a Path,
    /// The words as they were given; the first is what the process is called.
    pub cmd: &'a [String],
    pub cwd: Option<&'a Path>,
    pub env: &'a [(&'a str, &'a OsStr)],
}

/// Starts a process. No shell stands between, and what we have open stays ours: everything that
/// is opened here is closed in a child.
pub(crate) fn spawn(launch: &Launch<'_>) -> io::Result<Child> {
    let (name, args) = launch.cmd.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(launch.program);
    command.arg0(name).args(args).envs(launch.env.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    if let Some(cwd) = launch.cwd {
        command.current_dir(cwd);
    }
    command.spawn()
}

/// The exit code as it is told: negative for a signal.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

/// The file that a word means.
pub(crate) fn find(word: &str, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = search_path.into_iter().flat_map(std::env::split_paths);
    // A folder named relatively would be another one in each working directory.
    let mut files = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(word));
    files.find(|file| {
        let found = file.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
