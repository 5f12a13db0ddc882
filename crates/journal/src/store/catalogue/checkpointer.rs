//! Checkpoints of the write-ahead log (WAL) that no commit waits for.
//!
//! A checkpoint takes as long as a hundred commits. SQLite's own would run inside a commit, so it
//! is switched off. A thread with a connection of its own runs a passive checkpoint instead:
//!
//! ```text
//! WAL reaches WAL_BYTES ─► thread: checkpoint, beside commits ─► ends
//!                          the next commit: checkpoints the little that came meanwhile
//!                          the commit after that: SQLite begins the WAL anew
//! ```

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::connection::{self, Synchronous};
use crate::file::FileIdentity;

/// The WAL is checkpointed when it has this many bytes: seldom enough to write the pages of a busy
/// session once instead of many times, early enough for opening after a crash to stay quick.
const WAL_BYTES: u64 = 32 * 1024 * 1024;

/// A reader on an old state keeps SQLite from beginning the WAL anew. The checkpoint is tried again
/// each time the WAL has grown by this much.
const WAL_BYTES_MORE: u64 = 4 * 1024 * 1024;

/// Checkpoints the WAL of one database. Waits on drop for a checkpoint that runs.
#[derive(Debug, Default)]
pub(super) struct Checkpointer(Mutex<CheckpointerState>);

#[derive(Debug, Default)]
struct CheckpointerState {
    thread: Option<JoinHandle<()>>,
    /// The length of the WAL when the last checkpoint began; 0 since the WAL began anew.
    checkpointed: u64,
}

impl Checkpointer {
    /// Begins or completes a checkpoint after a commit. Errors are ignored: the next commits try
    /// again.
    pub(super) fn after_commit(
        &self,
        wal_bytes: u64,
        file: &Path,
        identity: FileIdentity,
        synchronous: Synchronous,
        writer: &Connection,
    ) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = state.thread.take_if(|thread| thread.is_finished()) {
            // A thread that panicked has copied less, which the next checkpoint makes up for.
            let _ = done.join();
            // The commits since the thread began are few. With them copied too, all of the WAL is
            // in the database, and SQLite begins it anew with the next commit.
            let _ = run_checkpoint(writer);
        } else if wal_bytes < WAL_BYTES {
            state.checkpointed = 0;
        } else if state.thread.is_none() && wal_bytes >= state.checkpointed + WAL_BYTES_MORE {
            let file = file.to_owned();
            let beside = move || {
                // If another file has the name by now, SQLite would copy our WAL into that one.
                if identity.is_at(&file).unwrap_or(false) {
                    let _ =
                        connection::writer(&file, synchronous).and_then(|db| run_checkpoint(&db));
                }
            };
            state.thread = Builder::new().name("journal copier".to_owned()).spawn(beside).ok();
            // Also if the thread could not be started: the next try comes when the log has grown.
            state.checkpointed = wal_bytes;
        }
    }

    /// Waits for a checkpoint that runs.
    pub(super) fn join(&self) {
        // Taken out first: joining under the lock would make the next commit wait for the
        // checkpoint.
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).thread.take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.join();
    }
}

/// Copies what can be copied without waiting for readers or writers.
fn run_checkpoint(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A database with a table in its WAL.
    fn database(dir: &Path) -> (PathBuf, Connection) {
        let file = dir.join("journal.db");
        crate::folder::open_private(&file).unwrap();
        let writer = connection::writer(&file, Synchronous::Off).unwrap();
        writer.execute_batch("CREATE TABLE fact (number)").unwrap();
        (file, writer)
    }

    fn identity(file: &Path) -> FileIdentity {
        FileIdentity::from_path(file).unwrap().unwrap()
    }

    fn is_running(checkpointer: &Checkpointer) -> bool {
        let state = checkpointer.0.lock().unwrap();
        state.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// How often the WAL began anew: its header counts.
    fn wal_restarts(file: &Path) -> u32 {
        let log = std::fs::read(file.with_extension("db-wal")).unwrap();
        u32::from_be_bytes(log[12..16].try_into().unwrap())
    }

    #[test]
    fn commit_does_not_wait_for_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let (_, writer) = database(dir.path());
        // A checkpoint of this database has to wait for its lock first.
        let file = dir.path().join("held.db");
        let holder = Connection::open(&file).unwrap();
        holder.execute_batch("CREATE TABLE fact (number); BEGIN EXCLUSIVE").unwrap();
        let checkpointer = Checkpointer::default();
        checkpointer.after_commit(WAL_BYTES, &file, identity(&file), Synchronous::Off, &writer);
        assert!(is_running(&checkpointer));
        holder.execute_batch("COMMIT").unwrap();
        checkpointer.join();
    }

    #[test]
    fn next_commit_completes_the_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = database(dir.path());
        let checkpointer = Checkpointer::default();
        checkpointer.after_commit(WAL_BYTES, &file, identity(&file), Synchronous::Off, &writer);
        while is_running(&checkpointer) {
            std::thread::yield_now();
        }
        writer.execute_batch("INSERT INTO fact VALUES (1)").unwrap();
        let before = wal_restarts(&file);
        checkpointer.after_commit(WAL_BYTES, &file, identity(&file), Synchronous::Off, &writer);
        writer.execute_batch("INSERT INTO fact VALUES (2)").unwrap();
        assert_eq!(wal_restarts(&file), before + 1);
    }

    #[test]
    fn wal_stays_out_of_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = database(dir.path());
        let identity = identity(&file);
        std::fs::rename(&file, dir.path().join("away.db")).unwrap();
        std::fs::write(&file, "").unwrap();
        let checkpointer = Checkpointer::default();
        checkpointer.after_commit(WAL_BYTES, &file, identity, Synchronous::Off, &writer);
        checkpointer.join();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
    }
}
