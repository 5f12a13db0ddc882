//! The writers' lock among processes, and the other advisory locks of a journal.
//!
//! The writers' lock is two lock files. `writer` is held during a commit. `turnstile` is held by
//! the one process that waits for `writer`, and every process has to pass through it:
//!
//! ```text
//! process A   holds writer ─────────┐ commits again: waits at the turnstile
//! process B   holds turnstile ──────┴► gets writer, opens the turnstile
//! ```
//!
//! A process that commits in a tight loop finds the turnstile closed behind the one that waits,
//! and so cannot starve it. Locks belong to open files, so a crash releases them.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limit::LOCK_WAIT_MAX;
use crate::{AppendError, OpenError, StorageError, folder};

/// Pauses between two tries of a lock that another process holds. The first is as long as a short
/// commit; the longest still does not show beside the commit's own time.
const POLL_MIN: Duration = Duration::from_micros(50);
const POLL_MAX: Duration = Duration::from_millis(2);

/// The writers' lock of one journal.
#[derive(Debug)]
pub(crate) struct WriterLock {
    /// The mutex keeps threads of this process apart: to the system they are one holder.
    files: Mutex<LockFiles>,
    dir: PathBuf,
    wait_max: Duration,
}

#[derive(Debug)]
struct LockFiles {
    turnstile: File,
    writer: File,
}

/// A shared lock that says: this process has the journal open. Released on drop.
#[derive(Debug)]
pub(crate) struct PresenceLock {
    file: File,
    path: PathBuf,
    /// No other process has the journal open. The first process may come after a crash, perhaps
    /// of the whole machine, and verifies everything while the others wait.
    pub is_first: bool,
}

/// The right to do a task that only one process may do at a time, such as tailing the agents'
/// files. Released on drop.
#[derive(Debug)]
pub struct Claim {
    _file: Option<File>,
}

/// The task cannot be claimed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClaimError {
    #[error("process {} does so already", holder_name(*.holder))]
    Held { holder: Option<u32> },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The right to write. Released on drop.
#[derive(Debug)]
pub(crate) struct WriterGuard<'a>(MutexGuard<'a, LockFiles>);

/// The writers' lock could not be taken.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LockError {
    #[error("process {} has held the journal for {waited_ms} ms", holder_name(*holder))]
    Busy { waited_ms: u64, holder: Option<u32> },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl WriterLock {
    /// Opens the lock of the journal in `dir`. Its files have a folder of their own.
    pub(crate) fn open(dir: &Path) -> Result<WriterLock, StorageError> {
        let dir = dir.join("lock");
        folder::create_private(&dir)?;
        let turnstile = folder::open_private(&dir.join("turnstile"))?;
        let writer = folder::open_private(&dir.join("writer"))?;
        let files = Mutex::new(LockFiles { turnstile, writer });
        Ok(WriterLock { files, dir, wait_max: LOCK_WAIT_MAX })
    }

    /// Waits for the right to write, up to the limit.
    pub(crate) fn acquire(&self) -> Result<WriterGuard<'_>, LockError> {
        // The clock starts behind the mutex: `wait_max` limits the wait for other processes, not
        // for threads of this one.
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        self.wait_for_file(&files.turnstile, &files.writer, began)?;
        let passed = self.wait_for_file(&files.writer, &files.writer, began);
        // The turnstile opens whether or not the wait was successful: the next process may try.
        let reopened = files.turnstile.unlock();
        passed?;
        // From here on the guard releases `writer`, also when one of the next steps fails.
        let guard = WriterGuard(files);
        reopened.map_err(|cause| self.failed(cause))?;
        write_holder(&guard.0.writer).map_err(|cause| self.failed(cause))?;
        Ok(guard)
    }

    fn wait_for_file(&self, wanted: &File, writer: &File, began: Instant) -> Result<(), LockError> {
        match wait_for(wanted, began, self.wait_max).map_err(|cause| self.failed(cause))? {
            true => Ok(()),
            false => {
                let waited_ms = began.elapsed().as_millis() as u64;
                Err(LockError::Busy { waited_ms, holder: read_holder(writer) })
            }
        }
    }

    fn failed(&self, cause: io::Error) -> StorageError {
        StorageError::new("lock", &self.dir, cause)
    }
}

impl PresenceLock {
    /// Joins the processes that have the journal in `dir` open. The first one has it alone until
    /// it calls [`PresenceLock::share`].
    pub(crate) fn join(dir: &Path) -> Result<PresenceLock, StorageError> {
        let path = dir.join("lock").join("presence");
        let file = folder::open_private(&path)?;
        // Exclusive first: it is granted only if no process has the journal open.
        let is_first = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                // Waits while the first process verifies.
                let shared = file.lock_shared();
                shared.map_err(|cause| StorageError::new("lock", &path, cause))?;
                false
            }
            Err(TryLockError::Error(cause)) => return Err(StorageError::new("lock", path, cause)),
        };
        Ok(PresenceLock { file, path, is_first })
    }

    /// Turns the exclusive lock of the first process into a shared one.
    pub(crate) fn share(&self) -> Result<(), StorageError> {
        self.file.lock_shared().map_err(|cause| StorageError::new("lock", &self.path, cause))
    }
}

impl Claim {
    /// Claims `task` for this process, for the journal in `dir`.
    pub(crate) fn take(dir: &Path, task: &str) -> Result<Claim, ClaimError> {
        let path = dir.join("lock").join(task);
        // The file is never removed: a new file of the same name could be locked by a second
        // process while the first still holds the old one.
        let file = folder::open_private(&path)?;
        let failed = |cause| StorageError::new("lock", &path, cause);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ClaimError::Held { holder: read_holder(&file) });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause).into()),
        }
        write_holder(&file).map_err(failed)?;
        Ok(Claim { _file: Some(file) })
    }

    /// A claim on a journal that no other process can open.
    pub(crate) fn unshared() -> Claim {
        Claim { _file: None }
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        // Unlocking a lock that is held cannot fail; if it does, closing the file releases it.
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
    /// The same as an error of opening the journal at `path`.
    pub(crate) fn into_open_error(self, path: &Path) -> OpenError {
        match self {
            LockError::Busy { holder, .. } => {
                let by = format!("process {}", holder_name(holder));
                OpenError::Locked { path: path.to_owned(), by }
            }
            LockError::Storage(error) => error.into(),
        }
    }
}

/// Takes the lock of a file; returns whether it got it within `wait_max` after `began`.
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
        // The pause doubles: a short commit is noticed early, and a long one costs few wake-ups.
        pause_for(pause.min(wait_max - waited));
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// Waits before the next try of what another process holds.
#[expect(
    clippy::disallowed_methods,
    reason = "no system wakes a process when a lock of a file is free within a limit of time"
)]
pub(crate) fn pause_for(pause: Duration) {
    thread::sleep(pause);
}

fn holder_name(holder: Option<u32>) -> String {
    holder.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}

/// Writes the id of this process into a lock file it holds: for error messages, nothing more.
fn write_holder(held: &File) -> io::Result<()> {
    // Padded to one length, so that a shorter id overwrites all of a longer one.
    held.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0)
}

/// Reads the process that wrote its id last: the holder, if the lock is held.
fn read_holder(held: &File) -> Option<u32> {
    let mut text = [0; 16];
    let len = held.read_at(&mut text, 0).ok()?;
    // A new lock file is empty, and another process may write at this moment: what is not a number
    // is an unknown holder.
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impatient(dir: &Path) -> WriterLock {
        WriterLock { wait_max: Duration::ZERO, ..WriterLock::open(dir).unwrap() }
    }

    #[test]
    fn busy_lock_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (impatient(dir.path()), impatient(dir.path()));
        let guard = first.acquire().unwrap();
        match second.acquire() {
            Err(LockError::Busy { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(guard);
        second.acquire().unwrap();
        first.acquire().unwrap();
    }

    #[test]
    fn waiter_in_turnstile_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (impatient(dir.path()), impatient(dir.path()));
        let waiter = WriterLock::open(dir.path()).unwrap();
        let files = waiter.files.lock().unwrap();
        files.turnstile.try_lock().unwrap();
        // The writer's file is free, but another process waits in the turnstile.
        assert!(matches!(first.acquire(), Err(LockError::Busy { .. })));
        files.turnstile.unlock().unwrap();
        first.acquire().unwrap();
        second.acquire().unwrap();
    }

    #[test]
    fn threads_of_one_process_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let lock = WriterLock::open(dir.path()).unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let guard = lock.acquire().unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(guard);
                    }
                });
            }
        });
    }
}
