//! A journal of plain files: one of JSON lines per session, to be read with any tool.
//!
//! ```text
//! sessions/<name>.jsonl    the events of a session, one per line
//! payloads/<sha256>.zst    large `data`, once
//! ledger.jsonl             what is recorded and is no event
//! commit.log               commits that are not yet synced in their files
//! catalogue.db             an index of all of it; can be deleted
//! quarantine/              what could not be believed, and was moved out of the way
//! ```
//!
//! The files are the truth. A commit is durable when it stands in the commit log, and visible
//! when the catalogue has it; in between it goes to its files. Whoever opens the journal, or
//! commits next, finishes what a crash left undone.

mod line; // an event as a line
mod scan; // the lines of a file
mod session_file; // the file of a session
mod payload_file; // large data
mod ledger; // what is no event
mod commit_log; // where a commit becomes durable
mod lines; // from a place in a file to the event
mod commit; // from changes to files
mod recover; // what is left to do after a crash
mod index; // from files to the catalogue
mod pass; // which rows the lines of a file are
mod remembered; // what the ledger says
mod check; // is everything as it should be

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::Draft;

use self::commit_log::CommitLog;
use self::ledger::Ledger;
use self::lines::Lines;
use self::payload_file::PayloadFiles;
use self::session_file::SessionFiles;
use super::catalogue::{Catalogue, Flush, View, Writing, remove_unfinished};
use super::quarantine::Quarantine;
use super::{Capabilities, Commit, CommitError, Finding, Packed, Reader, Store};
use crate::lock::{Lock, Presence};
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
    _presence: Presence,
    /// Whether this process committed since the last checkpoint it made.
    has_news: AtomicBool,
    /// Set when a file could not be synced: what the system remembers of it may be lost, so it
    /// is written again before the log is cut.
    is_in_doubt: AtomicBool,
    /// What opening found, for the next check to tell.
    found: Mutex<Vec<Finding>>,
}

/// The right to commit, with the newest state.
type WriteView<'a> = View<'a, Writing<'a>, Lines<'a>>;

impl FilesStore {
    /// Opens the journal in `dir`, and makes one if there is none.
    pub(crate) fn open_or_create(dir: &Path) -> Result<FilesStore, OpenError> {
        folder::create_private(dir)?;
        folder::require_private(dir)?;
        let sessions = SessionFiles::new(dir.join(SessionFiles::FOLDER));
        let payloads = PayloadFiles::new(dir.join(PayloadFiles::FOLDER));
        let quarantine = Quarantine::new(dir.join(Quarantine::FOLDER));
        let lock = Lock::open(dir)?;
        // Nobody makes a file while another one does: the later would take the place of the
        // earlier, with what is in it.
        let presence = Presence::enter(dir)?;
        let is_first = presence.is_first;
        // The log before the rest: it tells whether this program may touch it.
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
            has_news: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            found: Mutex::default(),
        };
        if is_first {
            store.recover()?;
            store._presence.share()?;
        }
        Ok(store)
    }

    /// Whether there is a journal of this store in `dir`.
    pub(crate) fn is_at(dir: &Path) -> bool {
        dir.join(Ledger::FILE_NAME).is_file() || dir.join(SessionFiles::FOLDER).is_dir()
    }

    /// The right to commit, after finishing what somebody who died left undone.
    fn write(&self) -> Result<WriteView<'_>, AppendError> {
        loop {
            let view = self.catalogue.write(Lines::of(self))?;
            if self.is_current(&view)? {
                return Ok(view);
            }
            self.catch_up(&view).map_err(|error| match error {
                CommitError::OutOfSpace => AppendError::OutOfSpace,
                CommitError::Storage(error) => error.into(),
                other => AppendError::NotDurable(other.to_string().into()),
            })?;
        }
    }

    fn found_so_far(&self) -> MutexGuard<'_, Vec<Finding>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FilesStore {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn pack(&self, draft: &Draft) -> Packed {
        line::pack(draft)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, StorageError> {
        Ok(Box::new(self.catalogue.read(Lines::of(self))?))
    }

    fn begin(&self) -> Result<Box<dyn Commit + '_>, AppendError> {
        Ok(Box::new(self.write()?))
    }

    fn tail(&self) -> Result<u64, StorageError> {
        self.catalogue.tail()
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>, StorageError> {
        self.verify(repair)
    }

    fn found(&self) -> Vec<Finding> {
        self.found_so_far().clone()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        self.settle()
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}

impl Drop for FilesStore {
    fn drop(&mut self) {
        if self.has_news.load(Ordering::Relaxed) {
            // What cannot be settled now stands in the commit log, for the next who opens.
            let _ = self.settle();
        }
    }
}

/// Opens the catalogue. One that is damaged or of another format is set aside: it can be made
/// again from the files.
fn open_catalogue(
    dir: &Path,
    lock: Lock,
    quarantine: &Quarantine,
    is_first: bool,
) -> Result<Catalogue, OpenError> {
    let path = dir.join(CATALOGUE_NAME);
    if is_first {
        remove_unfinished(&path)?;
    }
    // Consistent after a power cut, at the cost of a sync now and then: the files say what is
    // missing at its end, and only that is read again.
    let open = |lock| Catalogue::open(&path, NAME, lock, Flush::Checkpoints);
    match open(lock) {
        Err(OpenError::Corrupt(_) | OpenError::NewerFormat { .. }) if is_first => {
            quarantine.move_here(&path)?;
            for end in ["-wal", "-shm"] {
                let beside = dir.join(format!("{CATALOGUE_NAME}{end}"));
                if beside.exists() {
                    quarantine.move_here(&beside)?;
                }
            }
            open(Lock::open(dir)?)
        }
        opened => opened,
    }
}

/// Damage of a file as a whole, or at a byte of it.
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
