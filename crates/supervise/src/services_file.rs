//! `services.toml`: what the user wants to be kept alive, run in time, and allowed on the bus.
//!
//! A file that somebody else could have written is refused, and so is one with a fault: nothing is
//! guessed. Faults name their line.
//!
//! Not here: doing any of it.

mod shape; // the file as it is written

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use shape::{Every, IfBusy, Restart, Stale, Weekday, check_words};

/// Bytes of the file. More is not written by hand.
const FILE_MAX: u64 = 1 << 20;

/// Everything `services.toml` says. Without a file: nothing to run, and only ourselves allowed.
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

/// What `supervisor.request` may run beside ourselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Allow {
    pub program: String,
    /// Arguments must begin with these.
    pub args: Vec<String>,
    /// The first argument says what the task is called.
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

/// A task that is run at its time.
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
    /// Below the journal.
    pub unless_pid_file: Option<PathBuf>,
}

/// A program that makes something of the files of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handler {
    pub name: String,
    /// A pattern for names of files.
    pub files: String,
    pub cmd: Vec<String>,
    pub timeout: Option<Duration>,
}

/// Commands that take the place of ours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    pub segment: Option<Vec<String>>,
    pub activity: Option<Vec<String>>,
    pub flush: Option<Vec<String>>,
    pub daily: Option<Vec<String>>,
}

/// Why there is nothing to go by.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("`{path}` is not yours alone: others may write to it, or it belongs to somebody else")]
    NotPrivate { path: PathBuf },
    #[error("`{path}`, line {line}: {why}")]
    Faulty { path: PathBuf, line: usize, why: String },
    #[error("cannot read `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What is wrong at a place in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub line: usize,
    pub why: String,
}

impl ServicesFile {
    /// Reads the file at a path. One that is not there says nothing.
    pub(crate) fn read(path: &Path) -> Result<ServicesFile, FileError> {
        let io = |source| FileError::Io { path: path.to_owned(), source };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ServicesFile::default());
            }
            Err(error) => return Err(io(error)),
        };
        // The file that is open is asked, not its name: that may be another by now.
        let found = file.metadata().map_err(io)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.mode() & 0o022 != 0 {
            return Err(FileError::NotPrivate { path: path.to_owned() });
        }
        let mut text = String::new();
        file.by_ref().take(FILE_MAX + 1).read_to_string(&mut text).map_err(io)?;
        let parsed = if text.len() as u64 > FILE_MAX {
            Err(Fault { line: 1, why: format!("the file has more than {FILE_MAX} bytes") })
        } else {
            ServicesFile::parse(&text)
        };
        parsed.map_err(|Fault { line, why }| FileError::Faulty { path: path.to_owned(), line, why })
    }

    pub(crate) fn parse(text: &str) -> Result<ServicesFile, Fault> {
        shape::parse(text)
    }
}

#[cfg(test)]
mod tests;
