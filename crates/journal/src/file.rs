//! Private files that are written atomically and survive a crash.
//!
//! No function follows a symbolic link at the last step of a path: a link in the journal's folder
//! must not make the journal read or write a file elsewhere.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{StorageError, folder};

/// Opens a file for reading and writing; `None` if there is none.
pub(crate) fn open(path: &Path) -> Result<Option<File>, StorageError> {
    open_with(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file for reading only, as on a disk that cannot be written to; `None` if there is none.
pub(crate) fn open_to_read(path: &Path) -> Result<Option<File>, StorageError> {
    open_with(path, OpenOptions::new().read(true))
}

fn open_with(path: &Path, options: &OpenOptions) -> Result<Option<File>, StorageError> {
    let failed = |error| StorageError::new("open", path, error);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Checked after opening: a link that is put there in between is noticed.
    if !is_at(&file, path).map_err(failed)? {
        return Err(failed(io::Error::other("it is a link, not a file of the journal")));
    }
    Ok(Some(file))
}

/// Device and inode: tells a file from all others, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    number: u64,
}

impl FileIdentity {
    pub(crate) fn from_metadata(metadata: &Metadata) -> FileIdentity {
        FileIdentity { device: metadata.dev(), number: metadata.ino() }
    }

    /// The identity of the file at `path`; `None` if there is none.
    pub(crate) fn from_path(path: &Path) -> io::Result<Option<FileIdentity>> {
        match path.metadata() {
            Ok(metadata) => Ok(Some(FileIdentity::from_metadata(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether `path` leads to this file.
    pub(crate) fn is_at(self, path: &Path) -> io::Result<bool> {
        Ok(FileIdentity::from_path(path)? == Some(self))
    }
}

/// Whether `path` is the file that was opened, and no link to it.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    // `symlink_metadata` describes a link itself, so a link is never the file it leads to.
    let named = match fs::symlink_metadata(path) {
        Ok(named) => named,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let opened = file.metadata()?;
    Ok(named.is_file()
        && FileIdentity::from_metadata(&named) == FileIdentity::from_metadata(&opened))
}

/// Creates a file. Fails if the name exists, also as a link.
pub(crate) fn create(path: &Path) -> Result<File, StorageError> {
    create_new(path).map_err(|error| StorageError::new("create", path, error))
}

/// Opens a file, or creates it.
pub(crate) fn open_or_create(path: &Path) -> Result<File, StorageError> {
    if let Some(file) = open(path)? {
        return Ok(file);
    }
    create_new(path).or_else(|error| {
        // Another process created it meanwhile, unless it is a link that leads nowhere.
        let is_there = error.kind() == io::ErrorKind::AlreadyExists;
        let made = if is_there { open(path)? } else { None };
        made.ok_or_else(|| StorageError::new("create", path, error))
    })
}

/// A temporary file beside its target: renamed over the target at the end, removed if dropped
/// before.
pub(crate) struct TempFile {
    path: PathBuf,
    file: File,
}

impl TempFile {
    /// Creates a file in `dir` under a unique name.
    pub(crate) fn new(dir: &Path) -> Result<TempFile, StorageError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            // The dot keeps it out of every listing that reads files by their names; process and
            // count keep writers apart.
            let path = dir.join(format!(".{}-{count}.new", std::process::id()));
            match create_new(&path) {
                Ok(file) => return Ok(TempFile { path, file }),
                // Left over from a dead process with the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StorageError::new("create", path, error)),
            }
        }
    }

    /// Removes the temporary files of dead processes in `dir`. No other process may write there.
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        self.file.sync_all().map_err(|error| StorageError::new("sync", &self.path, error))
    }

    /// Renames the file to `path`, replacing what is there.
    pub(crate) fn replace(self, path: &Path) -> Result<(), StorageError> {
        fs::rename(&self.path, path).map_err(|error| StorageError::new("replace", path, error))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // After `replace` the name is gone. A file that cannot be removed is left to the next
        // `clean`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a small file atomically: temporary file, sync, rename, sync of the folder.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let dir = path.parent().expect("a file of the journal is in a folder");
    let mut beside = TempFile::new(dir)?;
    let written = beside.file().write_all(bytes);
    written.map_err(|error| StorageError::new("write", path, error))?;
    // Synced before it is renamed: after a crash the name must not lead to a file that is still
    // empty.
    beside.sync()?;
    beside.replace(path)?;
    folder::sync(dir)
}

fn create_new(path: &Path) -> io::Result<File> {
    // `create_new` fails for any existing name, so a link that was put there is not followed.
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}
