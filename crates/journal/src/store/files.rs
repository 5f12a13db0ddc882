//! A journal of plain files: JSON lines, one file per session, to be read with any tool.
//!
//! ```text
//! sessions/<name>.jsonl    the events of a session, one per line
//! payloads/<sha256>.zst    large `data`, once
//! ledger.jsonl             everything recorded that is no event
//! commit.log               write-ahead log: commits that are not yet synced in their files
//! catalogue.db             an index over all of it; can be deleted
//! quarantine/              damaged pieces that were moved out of the way
//! ```
//!
//! The files are the truth. A commit is durable when it is in the commit log, and visible when the
//! catalogue has it; in between it is written to its files. After a crash the next process that
//! opens the journal, or commits, finishes what is left.

mod event_line; // an event as one line of JSON
mod line_scanner; // the lines of a file
mod session_file; // the file of a session
mod payload_file; // large data in files of their own
mod ledger; // positions of sources, sightings, deletions
mod commit_log; // where a commit becomes durable
mod line_bodies; // from a span in a file to the event
mod commit; // from a change set to log, files and catalogue
mod recover; // recovery after a crash
mod reindex; // from the files to the catalogue
mod pass; // gives the lines of a file their rows
mod ledger_state; // the ledger folded into memory
mod check; // verification and repair

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::Draft;

use self::commit_log::CommitLog;
use self::ledger::Ledger;
use self::line_bodies::LineBodies;
use self::payload_file::PayloadFiles;
use self::session_file::SessionFiles;
use super::catalogue::{
    Catalogue, CatalogueTx, Synchronous, WriteConnection, remove_unfinished_copies,
};
use super::quarantine::Quarantine;
use super::{
    Capabilities, CheckFinding, CommitError, PackedEvent, Store, StoreReader, StoreWriter,
};
use crate::lock::{PresenceLock, WriterLock};
use crate::recovery::Recovery;
use crate::{AppendError, Damage, OpenError, StorageError, folder};

const NAME: &str = "files";

const CAPABILITIES: Capabilities =
    Capabilities { name: NAME, durable: true, shared: true, indexed: true };

const CATALOGUE_NAME: &str = "catalogue.db";

/// A folder of files.
#[derive(Debug)]
pub(crate) struct FilesStore {
    dir: PathBuf,
    catalogue: Catalogue,
    log: CommitLog,
    ledger: Ledger,
    sessions: SessionFiles,
    payloads: PayloadFiles,
    quarantine: Quarantine,
    _presence: PresenceLock,
    /// Whether this process committed since its last checkpoint.
    has_commits: AtomicBool,
    /// Set when a sync failed: the system may have dropped the written pages, so the records of the
    /// log are written to their files again before the log is cut.
    needs_rewrite: AtomicBool,
    /// What recovery found, for the next check to report.
    found: Mutex<Vec<CheckFinding>>,
}

/// The write transaction of the catalogue. Holds the writers' lock.
type WriteTx<'a> = CatalogueTx<'a, WriteConnection<'a>, LineBodies<'a>>;

impl FilesStore {
    /// Opens the journal in `dir`, and creates it if there is none.
    pub(crate) fn open_or_create(dir: &Path) -> Result<FilesStore, OpenError> {
        folder::create_private(dir)?;
        folder::require_private(dir)?;
        let sessions = SessionFiles::new(dir.join(SessionFiles::FOLDER));
        let payloads = PayloadFiles::new(dir.join(PayloadFiles::FOLDER));
        let quarantine = Quarantine::new(dir.join(Quarantine::FOLDER));
        let lock = WriterLock::open(dir)?;
        // The first process is alone from here on: two that create the same file at once would
        // replace each other's.
        let presence = PresenceLock::join(dir)?;
        let is_first = presence.is_first;
        // The log first: its header says whether this program may touch the journal at all.
        let log = CommitLog::open(dir)?;
        let ledger = Ledger::open(dir)?;
        folder::create_private(sessions.dir())?;
        folder::create_private(payloads.dir())?;
        let catalogue = open_catalogue(dir, lock, &quarantine, is_first)?;
        let store = FilesStore {
            dir: dir.to_owned(),
            catalogue,
            log,
            ledger,
            sessions,
            payloads,
            quarantine,
            _presence: presence,
            has_commits: AtomicBool::new(false),
            needs_rewrite: AtomicBool::new(false),
            found: Mutex::default(),
        };
        // Recovered before the lock is shared: another process would see files and catalogue that
        // do not agree yet.
        if is_first {
            store.recover()?;
            store._presence.share()?;
        }
        Ok(store)
    }

    /// Whether `dir` holds a journal of this store.
    pub(crate) fn is_at(dir: &Path) -> bool {
        // Either is enough: a user may have copied only the sessions, and the rest is made again.
        dir.join(Ledger::FILE_NAME).is_file() || dir.join(SessionFiles::FOLDER).is_dir()
    }

    /// Begins the write transaction, after finishing the commits of a process that died.
    fn write(&self) -> Result<WriteTx<'_>, AppendError> {
        // The transaction that caught up is committed, so the lock is free for a moment and another
        // process may die in it. The loop ends with a transaction that holds the lock over a
        // current catalogue.
        loop {
            let tx = self.catalogue.write(LineBodies::new(self))?;
            if self.is_current(&tx)? {
                return Ok(tx);
            }
            self.catch_up(&tx).map_err(|error| match error {
                CommitError::OutOfSpace => AppendError::OutOfSpace,
                CommitError::Storage(error) => error.into(),
                other => AppendError::NotDurable(other.to_string().into()),
            })?;
        }
    }

    fn lock_findings(&self) -> MutexGuard<'_, Vec<CheckFinding>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FilesStore {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn pack(&self, draft: &Draft) -> PackedEvent {
        event_line::pack(draft)
    }

    fn reader(&self) -> Result<Box<dyn StoreReader + '_>, StorageError> {
        Ok(Box::new(self.catalogue.read(LineBodies::new(self))?))
    }

    fn begin(&self) -> Result<Box<dyn StoreWriter + '_>, AppendError> {
        Ok(Box::new(self.write()?))
    }

    fn tail(&self) -> Result<u64, StorageError> {
        self.catalogue.tail()
    }

    fn check(
        &self,
        repair: bool,
        // Lines are never rewritten: what is told again is appended behind them.
        _recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError> {
        self.verify(repair)
    }

    fn open_findings(&self) -> Vec<CheckFinding> {
        self.lock_findings().clone()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        self.run_checkpoint()
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}

impl Drop for FilesStore {
    fn drop(&mut self) {
        if self.has_commits.load(Ordering::Relaxed) {
            // On an error everything is still in the commit log, for the next process that opens.
            let _ = self.run_checkpoint();
        }
    }
}

/// Opens the catalogue. One that is damaged or of a newer format is moved to the quarantine, and
/// rebuilt from the files.
fn open_catalogue(
    dir: &Path,
    lock: WriterLock,
    quarantine: &Quarantine,
    is_first: bool,
) -> Result<Catalogue, OpenError> {
    let path = dir.join(CATALOGUE_NAME);
    if is_first {
        remove_unfinished_copies(&path)?;
    }
    // Synced with checkpoints only: after a power cut the catalogue is consistent and a little
    // behind, and only what is missing is read again from the files.
    let open = |lock| Catalogue::open(&path, NAME, lock, Synchronous::Normal);
    match open(lock) {
        // The first process is alone; a later one would move a file that others have open. A newer
        // format is no reason to refuse either, because the files hold everything.
        Err(OpenError::Corrupt(_) | OpenError::NewerFormat { .. }) if is_first => {
            quarantine.move_here(&path)?;
            // SQLite would apply the log of the moved file to the new one.
            for end in ["-wal", "-shm"] {
                let beside = dir.join(format!("{CATALOGUE_NAME}{end}"));
                if beside.exists() {
                    quarantine.move_here(&beside)?;
                }
            }
            open(WriterLock::open(dir)?)
        }
        opened => opened,
    }
}

/// Makes the damage of a file as a whole, or at a byte of it.
fn damage(file: &Path, byte: Option<u64>, why: impl Into<String>) -> Damage {
    Damage {
        store: NAME,
        file: file.to_owned(),
        line: None,
        byte,
        session_id: None,
        seq: None,
        why: why.into(),
    }
}

#[cfg(test)]
mod tests;
