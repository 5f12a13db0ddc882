//! The journal that is open now. After a commit whose outcome is unknown a journal refuses
//! everything until it is opened again; whoever uses it here need not know.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Journal, OpenError, Options};

/// Shared by all parts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Opened {
    folder: PathBuf,
    current: Arc<Mutex<Current>>,
}

struct Current {
    journal: Journal,
    /// How often it was opened again.
    reopened: u64,
}

impl Opened {
    /// Opens the journal in a folder, and makes it if there is none.
    pub(crate) fn open(folder: PathBuf) -> Result<Opened, OpenError> {
        let journal = Journal::open_or_create(&folder, &Options::default())?;
        Ok(Opened { folder, current: Arc::new(Mutex::new(Current { journal, reopened: 0 })) })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The journal as it is open now.
    pub(crate) fn journal(&self) -> Journal {
        self.lock().journal.clone()
    }

    /// How often it was opened again: what was made of an earlier handle is to be made anew.
    pub(crate) fn reopened(&self) -> u64 {
        self.lock().reopened
    }

    /// Opens it again and closes the one before. One that cannot be opened leaves the other as it
    /// is: that still reads, and refuses the next commit, after which this is tried again.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut current = self.lock();
        let journal = Journal::open_or_create(&self.folder, &Options::default())?;
        std::mem::replace(&mut current.journal, journal).close();
        current.reopened += 1;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_that_cannot_be_opened_again_still_reads_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("journal");
        let opened = Opened::open(folder.clone()).unwrap();
        let before = opened.journal();
        // Others could read it, so nobody opens it.
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(opened.reopen().is_err());
        assert_eq!(opened.reopened(), 0);
        assert_eq!(opened.journal().tail().unwrap(), 0);
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        opened.reopen().unwrap();
        assert_eq!(opened.reopened(), 1);
        assert!(before.append(journal::Batch::observed()).is_err(), "it is closed");
    }
}
