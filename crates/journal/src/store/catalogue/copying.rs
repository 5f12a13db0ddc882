//! The write-ahead log is copied into the database beside whoever commits.
//!
//! Copying takes as long as a hundred commits, and what an agent says next does not wait for it: a
//! thread with a connection of its own does it, and ends. What was committed meanwhile is little.
//! That is copied behind the next commit, so that the log is used from its beginning again.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::connection::{self, Flush};
use crate::file::Identity;

/// The log is copied when it has this many bytes: seldom enough to write pages of a busy session
/// once instead of many times, early enough for opening after a crash to stay quick.
const LOG_BYTES: u64 = 32 * 1024 * 1024;

/// Where somebody reads what the log began with, it cannot be begun anew. It is tried again each
/// time it has grown by this much.
const LOG_BYTES_MORE: u64 = 4 * 1024 * 1024;

/// Copies the log of one database. On drop it waits for what goes on.
#[derive(Debug, Default)]
pub(super) struct Copying(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    /// How long the log was when it was last copied; 0 since it began anew.
    copied: u64,
}

impl Copying {
    /// Looks after the log behind a commit. What goes wrong is tried again behind a later one.
    pub(super) fn look_after(
        &self,
        log_bytes: u64,
        file: &Path,
        identity: Identity,
        flush: Flush,
        writer: &Connection,
    ) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = state.thread.take_if(|thread| thread.is_finished()) {
            // One that panicked has copied less.
            let _ = done.join();
            let _ = copy(writer);
        } else if log_bytes < LOG_BYTES {
            state.copied = 0;
        } else if state.thread.is_none() && log_bytes >= state.copied + LOG_BYTES_MORE {
            let file = file.to_owned();
            let beside = move || {
                // Whoever opens another file beside this log would copy it into that one.
                if identity.is_at(&file).unwrap_or(false) {
                    let _ = connection::writer(&file, flush).and_then(|db| copy(&db));
                }
            };
            state.thread = Builder::new().name("journal copier".to_owned()).spawn(beside).ok();
            state.copied = log_bytes;
        }
    }

    /// Waits for what goes on.
    pub(super) fn join(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.join();
    }
}

/// Copies what can be copied without anybody waiting.
fn copy(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A database with something in its log.
    fn database(dir: &Path) -> (PathBuf, Connection) {
        let file = dir.join("journal.db");
        crate::folder::open_private(&file).unwrap();
        let writer = connection::writer(&file, Flush::Never).unwrap();
        writer.execute_batch("CREATE TABLE fact (number)").unwrap();
        (file, writer)
    }

    fn identity(file: &Path) -> Identity {
        Identity::at(file).unwrap().unwrap()
    }

    fn is_under_way(copying: &Copying) -> bool {
        let state = copying.0.lock().unwrap();
        state.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// How often a log was begun anew: its header counts.
    fn beginnings(file: &Path) -> u32 {
        let log = std::fs::read(file.with_extension("db-wal")).unwrap();
        u32::from_be_bytes(log[12..16].try_into().unwrap())
    }

    #[test]
    fn who_commits_does_not_wait_for_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (_, writer) = database(dir.path());
        // Whoever copies this one has to wait for its lock first.
        let file = dir.path().join("held.db");
        let holder = Connection::open(&file).unwrap();
        holder.execute_batch("CREATE TABLE fact (number); BEGIN EXCLUSIVE").unwrap();
        let copying = Copying::default();
        copying.look_after(LOG_BYTES, &file, identity(&file), Flush::Never, &writer);
        assert!(is_under_way(&copying));
        holder.execute_batch("COMMIT").unwrap();
        copying.join();
    }

    #[test]
    fn what_was_committed_meanwhile_is_copied_behind_the_next_commit() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = database(dir.path());
        let copying = Copying::default();
        copying.look_after(LOG_BYTES, &file, identity(&file), Flush::Never, &writer);
        while is_under_way(&copying) {
            std::thread::yield_now();
        }
        writer.execute_batch("INSERT INTO fact VALUES (1)").unwrap();
        let before = beginnings(&file);
        copying.look_after(LOG_BYTES, &file, identity(&file), Flush::Never, &writer);
        writer.execute_batch("INSERT INTO fact VALUES (2)").unwrap();
        assert_eq!(beginnings(&file), before + 1);
    }

    #[test]
    fn a_log_is_not_copied_into_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = database(dir.path());
        let identity = identity(&file);
        std::fs::rename(&file, dir.path().join("away.db")).unwrap();
        std::fs::write(&file, "").unwrap();
        let copying = Copying::default();
        copying.look_after(LOG_BYTES, &file, identity, Flush::Never, &writer);
        copying.join();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
    }
}
