//! One daemon for a journal: a lock that the process holds until it ends, and a file with its pid.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use wire::health_dir;

/// The lock that makes this process the daemon of a journal.
#[derive(Debug)]
pub(crate) struct Instance {
    pid_path: PathBuf,
    _lock: File,
}

/// Why this process could not become the daemon.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    #[error("already running{}", by_whom(*pid))]
    Running { pid: Option<u32> },
    #[error("cannot use `{path}`")]
    Io { path: PathBuf, source: io::Error },
}

/// The socket of a journal's bus.
pub fn socket(journal: &Path) -> PathBuf {
    health_dir(journal).join("callosum.sock")
}

impl Instance {
    pub(crate) fn take(journal: &Path) -> Result<Instance, InstanceError> {
        let lock_path = lock_path(journal);
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| InstanceError::Io { path, source }
        };
        let lock = open(&lock_path, true).map_err(failed(&lock_path))?;
        let holder = pid(journal);
        let lock = match bus::lock_for_life(lock, holder) {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => return Err(InstanceError::Running { pid: holder }),
            Err(TryLockError::Error(error)) => return Err(failed(&lock_path)(error)),
        };
        let pid_path = pid_path(journal);
        // Beside and renamed: a reader sees a whole pid or the former one, never an empty file.
        let beside = pid_path.with_extension("pid.tmp");
        let written = open(&beside, true).and_then(|mut file| {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            fs::rename(&beside, &pid_path)
        });
        written.map_err(failed(&pid_path))?;
        Ok(Instance { pid_path, _lock: lock })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The lock decides. A pid file that stays behind is ignored without it.
        let _ = fs::remove_file(&self.pid_path);
    }
}

/// The daemon of a journal, seen from another process.
#[derive(Debug)]
pub struct RunningDaemon {
    pub pid: u32,
    lock_path: PathBuf,
}

impl RunningDaemon {
    /// The daemon that runs on a journal; `None` if none does.
    pub fn find(journal: &Path) -> Option<RunningDaemon> {
        // The pid file is read first: trying the lock holds it for a moment, in which a daemon that
        // starts would be refused.
        let pid = pid(journal)?;
        let lock_path = lock_path(journal);
        let lock = open(&lock_path, false).ok()?;
        // A shared lock, so that two commands that look at once do not take each other for a
        // daemon.
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(RunningDaemon { pid, lock_path }),
            // The lock is free, or the file system has no locks.
            _ => None,
        }
    }

    /// Asks the daemon to stop.
    pub fn stop(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks the daemon to read its settings again.
    pub fn reload(&self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Waits without a limit until the daemon has ended.
    pub fn wait(&self) -> io::Result<()> {
        // The daemon holds the lock until its process ends, so getting it means that it has ended.
        open(&self.lock_path, false)?.lock_shared()
    }
}

fn lock_path(journal: &Path) -> PathBuf {
    health_dir(journal).join("supervisor.lock")
}

fn pid_path(journal: &Path) -> PathBuf {
    health_dir(journal).join("supervisor.pid")
}

fn pid(journal: &Path) -> Option<u32> {
    // The holder of the lock may not have written its pid yet.
    fs::read_to_string(pid_path(journal)).ok()?.trim().parse().ok()
}

fn open(path: &Path, make: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(make).truncate(false).mode(0o600).open(path)
}

fn by_whom(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
