//! Files of ours: read by nobody else, never half written, still there after a crash.
//!
//! Nothing here follows a symbolic link at the last step of a path: what a name of ours leads to
//! is a file of ours.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{StorageError, folder};

/// Opens a file for reading and writing; `None` if there is none.
pub(crate) fn open(path: &Path) -> Result<Option<File>, StorageError> {
    let failed = |error| StorageError::new("open", path, error);
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Asked after opening, so that nothing can be put in between.
    if !is_at(&file, path).map_err(failed)? {
        return Err(failed(io::Error::other("it is a link, not a file of the journal")));
    }
    Ok(Some(file))
}

/// What tells a file from all others, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Identity {
        Identity { device: metadata.dev(), number: metadata.ino() }
    }

    /// That of the file `path` leads to; `None` if there is none.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Identity>> {
        match path.metadata() {
            Ok(metadata) => Ok(Some(Identity::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether `path` leads to this file.
    pub(crate) fn is_at(self, path: &Path) -> io::Result<bool> {
        Ok(Identity::at(path)? == Some(self))
    }
}

/// Whether `path` itself, and not what a link there leads to, is the file that was opened.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let named = match fs::symlink_metadata(path) {
        Ok(named) => named,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let opened = file.metadata()?;
    Ok(named.is_file() && Identity::of(&named) == Identity::of(&opened))
}

/// Creates a file that must not be there, not even as a link.
pub(crate) fn create(path: &Path) -> Result<File, StorageError> {
    create_new(path).map_err(|error| StorageError::new("create", path, error))
}

/// Opens a file, or creates it.
pub(crate) fn open_or_create(path: &Path) -> Result<File, StorageError> {
    if let Some(file) = open(path)? {
        return Ok(file);
    }
    create_new(path).or_else(|error| {
        // Somebody was quicker, unless it is a link that leads nowhere.
        let is_there = error.kind() == io::ErrorKind::AlreadyExists;
        let made = if is_there { open(path)? } else { None };
        made.ok_or_else(|| StorageError::new("create", path, error))
    })
}

/// A file on its way to its name: written beside, moved there at the end, removed if dropped
/// before.
pub(crate) struct Beside {
    path: PathBuf,
    file: File,
}

impl Beside {
    /// Begins a file in `dir` under a name nobody else uses.
    pub(crate) fn new(dir: &Path) -> Result<Beside, StorageError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".{}-{count}.new", std::process::id()));
            match create_new(&path) {
                Ok(file) => return Ok(Beside { path, file }),
                // Left over from a process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StorageError::new("create", path, error)),
            }
        }
    }

    /// Removes what processes that died left beside in `dir`. Nobody else may write there.
    pub(crate) fn clean(dir: &Path) -> Result<(), StorageError> {
        let failed = |error| StorageError::new("clean", dir, error);
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(".new")) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        self.file.sync_all().map_err(|error| StorageError::new("sync", &self.path, error))
    }

    /// Moves the file to `path`, in place of what is there.
    pub(crate) fn replace(self, path: &Path) -> Result<(), StorageError> {
        fs::rename(&self.path, path).map_err(|error| StorageError::new("replace", path, error))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After `replace` there is nothing left under this name. A failure leaves a file that
        // the next clean-up removes.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a small file whole: beside, synced, renamed, folder synced.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let dir = path.parent().expect("a file of the journal is in a folder");
    let mut beside = Beside::new(dir)?;
    let written = beside.file().write_all(bytes);
    written.map_err(|error| StorageError::new("write", path, error))?;
    beside.sync()?;
    beside.replace(path)?;
    folder::sync(dir)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}
