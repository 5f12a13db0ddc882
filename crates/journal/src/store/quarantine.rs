//! The quarantine: damaged data, moved out of the way and kept for the user to look at.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use crate::{StorageError, file, folder};

#[derive(Debug)]
pub(crate) struct Quarantine {
    dir: PathBuf,
}

impl Quarantine {
    pub(crate) const FOLDER: &str = "quarantine";

    pub(crate) fn new(dir: PathBuf) -> Quarantine {
        Quarantine { dir }
    }

    /// Saves bytes that are about to be cut from the end of `file`.
    pub(crate) fn keep(&self, file: &Path, bytes: &[u8]) -> Result<PathBuf, StorageError> {
        let path = self.free_name(file)?;
        file::write(&path, bytes)?;
        Ok(path)
    }

    /// Copies a file here, as it is.
    pub(crate) fn copy_here(&self, file: &Path) -> Result<PathBuf, StorageError> {
        let opened = File::open(file).map_err(|error| StorageError::new("copy", file, error))?;
        self.copy_opened(file, &opened)
    }

    /// The same through an open handle. Moves the position of the handle.
    pub(crate) fn copy_opened(
        &self,
        file: &Path,
        mut opened: &File,
    ) -> Result<PathBuf, StorageError> {
        let path = self.free_name(file)?;
        let mut copy = file::create(&path)?;
        // The handle may be shared, and its position anywhere.
        let copied = opened.rewind().and_then(|()| io::copy(&mut opened, &mut copy));
        copied
            .and_then(|_| copy.sync_all())
            .map_err(|error| StorageError::new("copy", file, error))?;
        // The name has to be durable before the caller overwrites the original.
        folder::sync(&self.dir)?;
        Ok(path)
    }

    /// Moves a file here.
    pub(crate) fn move_here(&self, file: &Path) -> Result<PathBuf, StorageError> {
        let path = self.free_name(file)?;
        // A rename keeps the bytes as they are, also those that cannot be read. The quarantine is
        // in the folder of the journal, so the file stays on its file system.
        fs::rename(file, &path).map_err(|error| StorageError::new("move", file, error))?;
        folder::sync(&self.dir)?;
        // Both ends of the rename are synced: after a power cut the file has one of the two names.
        if let Some(dir) = file.parent() {
            folder::sync(dir)?;
        }
        Ok(path)
    }

    /// Lists everything in the quarantine.
    pub(crate) fn list(&self) -> Result<Vec<PathBuf>, StorageError> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let failed = |error| StorageError::new("list", &self.dir, error);
        let entries = fs::read_dir(&self.dir).map_err(failed)?;
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
            .collect::<Result<_, _>>()?;
        paths.sort();
        Ok(paths)
    }

    /// Returns an unused name for bytes that come from `file`.
    fn free_name(&self, file: &Path) -> Result<PathBuf, StorageError> {
        folder::create_private(&self.dir)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // Names are counted up instead of replaced: a second repair must not overwrite what the
        // first one set aside.
        let named = (1u32..).map(|count| self.dir.join(format!("{name}.{count}")));
        Ok(named.into_iter().find(|path| !path.exists()).expect("numbers do not run out"))
    }
}
