//! `services.toml`: services, schedules, reactions, and what the bus may run.
//!
//! A file that another user could have written is refused, and so is one with a fault: nothing is
//! guessed. Errors name the line.
//!
//! Not here: doing any of it.

mod shape; // the file's syntax and its rules

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use shape::{Every, IfBusy, Restart, Stale, Weekday, check_words};

/// Bytes of the file. No file written by hand is longer.
const FILE_MAX: u64 = 1 << 20;

/// The contents of `services.toml`. Without a file nothing runs, and the bus may run only us.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServicesFile {
    pub(crate) allow: Vec<Allow>,
    pub(crate) tasks: TaskLimits,
    pub(crate) services: Vec<Service>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) reactions: Vec<Reaction>,
    pub handlers: Vec<Handler>,
    pub chain: Chain,
}

/// A program that `supervisor.request` may run, besides our own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Allow {
    pub program: String,
    /// The first arguments must be these.
    pub args: Vec<String>,
    /// The first argument names the task.
    pub has_subcommands: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskLimits {
    pub running_max: usize,
    pub waiting_max: usize,
    pub persist: bool,
}

impl Default for TaskLimits {
    fn default() -> TaskLimits {
        TaskLimits { running_max: 32, waiting_max: 1_000, persist: false }
    }
}

/// A program that is kept alive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Service {
    pub name: String,
    pub cmd: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: Option<PathBuf>,
    pub enabled: bool,
    pub stop: Duration,
    pub restart: Restart,
    pub stale: Stale,
}

/// A task that runs at set times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    pub name: String,
    pub every: Every,
    /// Hour and minute.
    pub at: (i8, i8),
    pub on: Weekday,
    pub cmd: Vec<String>,
}

/// A task that answers a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reaction {
    pub tract: String,
    pub event: String,
    pub cmd: Vec<String>,
    pub if_busy: IfBusy,
    /// A path below the journal's folder.
    pub unless_pid_file: Option<PathBuf>,
}

/// A program that processes the files of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handler {
    pub name: String,
    /// A pattern for file names.
    pub files: String,
    pub cmd: Vec<String>,
    pub timeout: Option<Duration>,
}

/// Commands that replace the built-in ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    pub segment: Option<Vec<String>>,
    pub activity: Option<Vec<String>>,
    pub flush: Option<Vec<String>>,
    pub daily: Option<Vec<String>>,
}

/// Why the file is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("`{path}` is not private: other users may write to it, or it belongs to another user")]
    NotPrivate { path: PathBuf },
    #[error("`{path}`, line {line}: {why}")]
    Faulty { path: PathBuf, line: usize, why: String },
    #[error("cannot read `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// A fault at a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileFault {
    pub line: usize,
    pub why: String,
}

impl ServicesFile {
    /// Reads the file at a path. A missing file is empty.
    pub(crate) fn read(path: &Path) -> Result<ServicesFile, FileError> {
        let io = |source| FileError::Io { path: path.to_owned(), source };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ServicesFile::default());
            }
            Err(error) => return Err(io(error)),
        };
        // Check the opened file, not its path, which may name another file by now.
        let found = file.metadata().map_err(io)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.mode() & 0o022 != 0 {
            return Err(FileError::NotPrivate { path: path.to_owned() });
        }
        let mut text = String::new();
        // One byte more than allowed is enough to see that it is too long.
        file.by_ref().take(FILE_MAX + 1).read_to_string(&mut text).map_err(io)?;
        let parsed = if text.len() as u64 > FILE_MAX {
            Err(FileFault { line: 1, why: format!("the file has more than {FILE_MAX} bytes") })
        } else {
            ServicesFile::parse(&text)
        };
        parsed.map_err(|FileFault { line, why }| FileError::Faulty {
            path: path.to_owned(),
            line,
            why,
        })
    }

    pub(crate) fn parse(text: &str) -> Result<ServicesFile, FileFault> {
        shape::parse(text)
    }
}

#[cfg(test)]
mod tests;
