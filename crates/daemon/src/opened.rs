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

    /// Closes it and opens it again.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut current = self.lock();
        current.journal.close();
        current.journal = Journal::open_or_create(&self.folder, &Options::default())?;
        current.reopened += 1;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
