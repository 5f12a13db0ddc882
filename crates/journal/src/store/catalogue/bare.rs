//! The file of a database, read past SQLite.
//!
//! SQLite tells other processes by locks that a database is in use, and the system takes these from
//! a process that closes any other handle on the same file. So there is one such handle in a
//! process, shared by all who have the database open, and closed behind their last connection.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file::Identity;
use crate::{StorageError, folder};

/// A share in the handle. To be dropped behind the connections of whoever has it.
#[derive(Debug)]
pub(super) struct BareFile {
    /// `None` only while it is given back.
    file: Option<Arc<File>>,
    identity: Identity,
}

/// Every handle that is open.
static OPEN: Mutex<Vec<(Identity, Arc<File>)>> = Mutex::new(Vec::new());

impl BareFile {
    /// Opens the file; `None` if there is none.
    pub(super) fn open(path: &Path) -> Result<Option<BareFile>, StorageError> {
        let failed = |cause| StorageError::new("open", path, cause);
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

    /// Opens the file, and makes it if it is not there.
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

    /// What tells it from whatever else its name may lead to later.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    fn new(file: File, open: &mut Vec<(Identity, Arc<File>)>) -> io::Result<BareFile> {
        let identity = Identity::of(&file.metadata()?);
        let file = Arc::new(file);
        open.push((identity, Arc::clone(&file)));
        Ok(BareFile { file: Some(file), identity })
    }
}

impl Drop for BareFile {
    fn drop(&mut self) {
        let mut open = all();
        self.file = None;
        // Closed before anybody else opens it.
        open.retain(|(_, file)| Arc::strong_count(file) > 1);
    }
}

/// A share in the handle on what `path` leads to, if there is one.
fn shared(open: &[(Identity, Arc<File>)], path: &Path) -> io::Result<Option<BareFile>> {
    let named = Identity::at(path)?;
    let file = open.iter().find(|(identity, _)| Some(*identity) == named);
    Ok(file.map(|(identity, file)| BareFile { file: Some(Arc::clone(file)), identity: *identity }))
}

fn all() -> MutexGuard<'static, Vec<(Identity, Arc<File>)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
