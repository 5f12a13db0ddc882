//! The file of a database, read past SQLite.
//!
//! SQLite tells other processes by POSIX locks that a database is in use. POSIX releases all locks
//! of a process on a file when the process closes *any* handle on it. A second handle that is
//! opened and closed would therefore take SQLite's locks from the whole process. So the process
//! has one extra handle per file, shared by every catalogue, and closed after the last connection.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file::FileIdentity;
use crate::{StorageError, folder};

/// A share in the handle. Has to be dropped after the connections of its owner.
#[derive(Debug)]
pub(super) struct BareFile {
    /// `None` only during the drop.
    file: Option<Arc<File>>,
    identity: FileIdentity,
}

/// All handles of the process.
static OPEN: Mutex<Vec<(FileIdentity, Arc<File>)>> = Mutex::new(Vec::new());

impl BareFile {
    /// Opens the file; `None` if there is none.
    pub(super) fn open(path: &Path) -> Result<Option<BareFile>, StorageError> {
        let failed = |cause| StorageError::new("open", path, cause);
        // The lock is held until the handle is in the list: two threads must not open two handles.
        let mut open = all();
        if let Some(shared) = shared(&open, path).map_err(failed)? {
            return Ok(Some(shared));
        }
        match File::open(path) {
            Ok(file) => BareFile::new(file, &mut open).map(Some).map_err(failed),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Opens the file, and creates it if it is missing.
    pub(super) fn open_or_create(path: &Path) -> Result<BareFile, StorageError> {
        let failed = |cause| StorageError::new("open", path, cause);
        let mut open = all();
        match shared(&open, path).map_err(failed)? {
            Some(shared) => Ok(shared),
            None => BareFile::new(folder::open_private(path)?, &mut open).map_err(failed),
        }
    }

    pub(super) fn file(&self) -> &File {
        self.file.as_ref().expect("it is open until it is dropped")
    }

    /// Device and inode: tells it from another file that gets its name later.
    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn new(file: File, open: &mut Vec<(FileIdentity, Arc<File>)>) -> io::Result<BareFile> {
        let identity = FileIdentity::from_metadata(&file.metadata()?);
        let file = Arc::new(file);
        open.push((identity, Arc::clone(&file)));
        Ok(BareFile { file: Some(file), identity })
    }
}

impl Drop for BareFile {
    fn drop(&mut self) {
        let mut open = all();
        self.file = None;
        // Closed under the lock: a thread that opens the same file now waits, and gets either this
        // handle while it is open or a new one after it is closed.
        open.retain(|(_, file)| Arc::strong_count(file) > 1);
    }
}

/// Returns a share in the handle on the file at `path`, if one is open.
fn shared(open: &[(FileIdentity, Arc<File>)], path: &Path) -> io::Result<Option<BareFile>> {
    let named = FileIdentity::from_path(path)?;
    let file = open.iter().find(|(identity, _)| Some(*identity) == named);
    Ok(file.map(|(identity, file)| BareFile { file: Some(Arc::clone(file)), identity: *identity }))
}

fn all() -> MutexGuard<'static, Vec<(FileIdentity, Arc<File>)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
