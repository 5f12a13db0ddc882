//! Starts a process: in a group of its own, without input, without inherited descriptors.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct LaunchSpec<'a> {
    pub program: &'a Path,
    /// The command as given; its first word becomes `argv[0]`.
    pub cmd: &'a [String],
    pub cwd: Option<&'a Path>,
    pub env: &'a [(&'a str, &'a OsStr)],
}

/// Starts a process without a shell. The child inherits no descriptors, because everything that
/// we open is close-on-exec.
pub(crate) fn spawn(launch: &LaunchSpec<'_>) -> io::Result<Child> {
    let (name, args) = launch.cmd.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(launch.program);
    command.arg0(name).args(args).envs(launch.env.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that a signal reaches the children of the process too, and Ctrl-C in
    // the daemon's terminal reaches none of them.
    command.process_group(0);
    if let Some(cwd) = launch.cwd {
        command.current_dir(cwd);
    }
    command.spawn()
}

/// Returns the exit code as published: negative for a signal.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

/// Finds an executable in the search path.
pub(crate) fn find_in_path(word: &str, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = search_path.into_iter().flat_map(std::env::split_paths);
    // A relative folder would mean another place in each working directory.
    let mut files = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(word));
    files.find(|file| {
        let found = file.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
