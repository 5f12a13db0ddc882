//! Folders and files that only their owner can read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::{OpenError, StorageError};

/// Permission bits that must not be set: all of the group and of others.
const FOREIGN_BITS: u32 = 0o077;

/// Creates the folder and those above it, unless it exists.
pub(crate) fn create_private(dir: &Path) -> Result<(), StorageError> {
    if dir.is_dir() {
        return Ok(());
    }
    let failed = |cause| StorageError::new("create the folder", dir, cause);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    // The new name is an entry of the folder above, which has to reach the disk too.
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => sync(parent),
        None => Ok(()),
    }
}

/// Refuses a folder that other users can read, enter or change.
pub(crate) fn require_private(dir: &Path) -> Result<(), OpenError> {
    let metadata = dir.metadata().map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => OpenError::JournalNotFound { path: dir.to_owned() },
        _ => StorageError::new("look at", dir, cause).into(),
    })?;
    let mode = metadata.mode() & 0o777;
    if mode & FOREIGN_BITS != 0 {
        return Err(OpenError::NotPrivate { path: dir.to_owned(), mode });
    }
    Ok(())
}

/// Opens a file for reading and writing, and creates it if it is missing.
pub(crate) fn open_private(path: &Path) -> Result<File, StorageError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        // A lock file keeps the id of its holder while another process opens it.
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|cause| StorageError::new("open", path, cause))
}

/// Syncs a folder, so that names created, renamed or removed in it survive a crash.
pub(crate) fn sync(dir: &Path) -> Result<(), StorageError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|cause| StorageError::new("sync the folder", dir, cause))
}
