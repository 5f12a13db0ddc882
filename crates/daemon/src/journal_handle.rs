//! The journal, shared by all parts. After a commit with an unknown outcome a journal refuses every
//! append until it is opened again; the handle hides that from its users.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Journal, OpenError, Options};

/// The open journal of the daemon. Cheap to clone; all clones share one journal.
#[derive(Clone)]
pub(crate) struct JournalHandle {
    folder: PathBuf,
    current: Arc<Mutex<OpenJournal>>,
}

struct OpenJournal {
    journal: Journal,
    /// How often it was opened again.
    reopen_count: u64,
}

impl JournalHandle {
    /// Opens the journal in a folder and creates it if there is none.
    pub(crate) fn open(folder: PathBuf) -> Result<JournalHandle, OpenError> {
        let journal = Journal::open_or_create(&folder, &Options::default())?;
        Ok(JournalHandle {
            folder,
            current: Arc::new(Mutex::new(OpenJournal { journal, reopen_count: 0 })),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The journal that is open now. Callers do not keep it: after `reopen` it is closed.
    pub(crate) fn current(&self) -> Journal {
        self.lock().journal.clone()
    }

    /// How often the journal was opened again. A caller that finds another number than before has to
    /// rebuild what it made of the earlier journal.
    pub(crate) fn reopen_count(&self) -> u64 {
        self.lock().reopen_count
    }

    /// Opens the journal again and closes the former one. On failure the former one stays: it still
    /// reads, and refuses the next commit, after which the caller tries again.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut current = self.lock();
        // Opened before the former one is closed: on failure that one still reads.
        let journal = Journal::open_or_create(&self.folder, &Options::default())?;
        std::mem::replace(&mut current.journal, journal).close();
        current.reopen_count += 1;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, OpenJournal> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn journal_reads_on_after_failed_reopen() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("journal");
        let journal_handle = JournalHandle::open(folder.clone()).unwrap();
        let before = journal_handle.current();
        // A folder that other users can read is refused.
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(journal_handle.reopen().is_err());
        assert_eq!(journal_handle.reopen_count(), 0);
        assert_eq!(journal_handle.current().tail().unwrap(), 0);
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        journal_handle.reopen().unwrap();
        assert_eq!(journal_handle.reopen_count(), 1);
        assert!(before.append(journal::Batch::observed()).is_err(), "it is closed");
    }
}
