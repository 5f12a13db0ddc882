//! Whose turn it is to write, among processes.
//!
//! Two lock files. `writer` is held during a commit. `turnstile` is held by the one process that
//! waits for it, and everybody passes through it: a process that commits in a tight loop finds
//! the turnstile closed behind whoever waits, and so cannot starve anybody.
//!
//! Locks belong to open files, so a crash releases them.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limit::LOCK_WAIT_MAX;
use crate::{AppendError, OpenError, StorageError, folder};

/// Between two looks at a lock somebody else holds: from the length of a short commit to one
/// that cannot be told from the commit's own time.
const POLL_MIN: Duration = Duration::from_micros(50);
const POLL_MAX: Duration = Duration::from_millis(2);

/// The writers' lock of one journal.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Locks of files do not tell threads of one process apart; the mutex does.
    files: Mutex<Files>,
    dir: PathBuf,
    wait_max: Duration,
}

#[derive(Debug)]
struct Files {
    turnstile: File,
    writer: File,
}

/// One of those who have the journal open. Ends with its life.
#[derive(Debug)]
pub(crate) struct Presence {
    file: File,
    path: PathBuf,
    /// Nobody else has it open: whoever comes first comes after a crash, perhaps of the whole
    /// machine, and looks at everything while the others wait.
    pub is_first: bool,
}

/// The right to do what only one process may do at a time, such as reading what agents write.
/// Ends with its life.
#[derive(Debug)]
pub struct Claim {
    _file: Option<File>,
}

/// Somebody else does it already.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClaimError {
    #[error("process {} does so already", name(*.holder))]
    Held { holder: Option<u32> },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The right to write. Ends with its life.
#[derive(Debug)]
pub(crate) struct Held<'a>(MutexGuard<'a, Files>);

/// The lock was not to be had.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LockError {
    #[error("process {} has held the journal for {waited_ms} ms", name(*holder))]
    Busy { waited_ms: u64, holder: Option<u32> },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Lock {
    /// The lock of the journal in `dir`, kept in a folder of its own.
    pub(crate) fn open(dir: &Path) -> Result<Lock, StorageError> {
        let dir = dir.join("lock");
        folder::create_private(&dir)?;
        let turnstile = folder::open_private(&dir.join("turnstile"))?;
        let writer = folder::open_private(&dir.join("writer"))?;
        Ok(Lock { files: Mutex::new(Files { turnstile, writer }), dir, wait_max: LOCK_WAIT_MAX })
    }

    /// Waits for its turn, up to the limit.
    pub(crate) fn acquire(&self) -> Result<Held<'_>, LockError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        self.poll(&files.turnstile, &files.writer, began)?;
        let passed = self.poll(&files.writer, &files.writer, began);
        let reopened = files.turnstile.unlock();
        passed?;
        let held = Held(files);
        reopened.map_err(|cause| self.failed(cause))?;
        write_holder(&held.0.writer).map_err(|cause| self.failed(cause))?;
        Ok(held)
    }

    fn poll(&self, wanted: &File, writer: &File, began: Instant) -> Result<(), LockError> {
        match wait_for(wanted, began, self.wait_max).map_err(|cause| self.failed(cause))? {
            true => Ok(()),
            false => {
                let waited_ms = began.elapsed().as_millis() as u64;
                Err(LockError::Busy { waited_ms, holder: holder(writer) })
            }
        }
    }

    fn failed(&self, cause: io::Error) -> StorageError {
        StorageError::new("lock", &self.dir, cause)
    }
}

impl Presence {
    /// Joins those who have the journal in `dir` open. The first one has it alone until it says
    /// [`Presence::share`].
    pub(crate) fn enter(dir: &Path) -> Result<Presence, StorageError> {
        let path = dir.join("lock").join("presence");
        let file = folder::open_private(&path)?;
        let is_first = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                let shared = file.lock_shared();
                shared.map_err(|cause| StorageError::new("lock", &path, cause))?;
                false
            }
            Err(TryLockError::Error(cause)) => return Err(StorageError::new("lock", path, cause)),
        };
        Ok(Presence { file, path, is_first })
    }

    /// Lets the others in.
    pub(crate) fn share(&self) -> Result<(), StorageError> {
        self.file.lock_shared().map_err(|cause| StorageError::new("lock", &self.path, cause))
    }
}

impl Claim {
    /// Claims `task` for this process, for the journal in `dir`.
    pub(crate) fn take(dir: &Path, task: &str) -> Result<Claim, ClaimError> {
        let path = dir.join("lock").join(task);
        let file = folder::open_private(&path)?;
        let failed = |cause| StorageError::new("lock", &path, cause);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ClaimError::Held { holder: holder(&file) });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause).into()),
        }
        write_holder(&file).map_err(failed)?;
        Ok(Claim { _file: Some(file) })
    }

    /// For a journal no other process can open.
    pub(crate) fn free() -> Claim {
        Claim { _file: None }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Cannot fail for a lock that is held; if it does, closing the file releases it.
        let _ = self.0.writer.unlock();
    }
}

impl From<LockError> for AppendError {
    fn from(error: LockError) -> AppendError {
        match error {
            LockError::Busy { waited_ms, .. } => AppendError::Busy { waited_ms },
            LockError::Storage(error) => error.into(),
        }
    }
}

impl LockError {
    /// As an answer to somebody who opens the journal at `path`.
    pub(crate) fn on_open(self, path: &Path) -> OpenError {
        match self {
            LockError::Busy { holder, .. } => {
                let by = format!("process {}", name(holder));
                OpenError::Locked { path: path.to_owned(), by }
            }
            LockError::Storage(error) => error.into(),
        }
    }
}

/// Takes the lock of a file; says whether it was to be had until `wait_max` behind `began`.
pub(crate) fn wait_for(wanted: &File, began: Instant, wait_max: Duration) -> io::Result<bool> {
    let mut pause = POLL_MIN;
    loop {
        match wanted.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(cause)) => return Err(cause),
            Err(TryLockError::WouldBlock) => {}
        }
        let waited = began.elapsed();
        if waited >= wait_max {
            return Ok(false);
        }
        pause_for(pause.min(wait_max - waited));
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// Waits before another look at what another process holds.
#[expect(
    clippy::disallowed_methods,
    reason = "no system wakes a process when a lock of a file is free within a limit of time"
)]
pub(crate) fn pause_for(pause: Duration) {
    thread::sleep(pause);
}

fn name(holder: Option<u32>) -> String {
    holder.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}

/// For people who wonder who it is; nothing depends on it.
fn write_holder(held: &File) -> io::Result<()> {
    held.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0)
}

/// The process that wrote its number last: the one that holds the lock, if anybody does.
fn holder(held: &File) -> Option<u32> {
    let mut text = [0; 16];
    let len = held.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impatient(dir: &Path) -> Lock {
        Lock { wait_max: Duration::ZERO, ..Lock::open(dir).unwrap() }
    }

    #[test]
    fn a_held_lock_is_busy_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (impatient(dir.path()), impatient(dir.path()));
        let held = first.acquire().unwrap();
        match second.acquire() {
            Err(LockError::Busy { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(held);
        second.acquire().unwrap();
        first.acquire().unwrap();
    }

    #[test]
    fn a_waiter_in_the_turnstile_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (impatient(dir.path()), impatient(dir.path()));
        let waiter = Lock::open(dir.path()).unwrap();
        let files = waiter.files.lock().unwrap();
        files.turnstile.try_lock().unwrap();
        // Nobody writes, but somebody stands in the turnstile.
        assert!(matches!(first.acquire(), Err(LockError::Busy { .. })));
        files.turnstile.unlock().unwrap();
        first.acquire().unwrap();
        second.acquire().unwrap();
    }

    #[test]
    fn threads_of_one_process_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::open(dir.path()).unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let held = lock.acquire().unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
    }
}
