//! The journal that is open now. After a commit whose outcome is unknown a journal refuses
//! everything until it is opened again; whoever uses it here need not know.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Journal, OpenError, Options};

/// Shared by all parts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Opened {
    folder: PathBuf,
    current: Arc<Mutex<Journal>>,
}

impl Opened {
    /// Opens the journal in a folder, and makes it if there is none.
    pub(crate) fn open(folder: PathBuf) -> Result<Opened, OpenError> {
        let journal = Journal::open_or_create(&folder, &Options::default())?;
        Ok(Opened { folder, current: Arc::new(Mutex::new(journal)) })
    }

    /// The journal as it is open now.
    pub(crate) fn journal(&self) -> Journal {
        self.lock().clone()
    }

    /// Closes it and opens it again.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut current = self.lock();
        current.close();
        *current = Journal::open_or_create(&self.folder, &Options::default())?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
