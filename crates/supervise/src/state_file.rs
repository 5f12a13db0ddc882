//! Small JSON files, replaced by renaming.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a file has to survive a crash of the machine, or only one of the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncMode {
    Synced,
    Unsynced,
}

/// Replaces a private file.
pub(crate) fn write_json(path: &Path, value: &impl Serialize, sync: SyncMode) -> io::Result<()> {
    // Written beside and renamed: a crash leaves the old file or the new one, never half of one.
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    if sync == SyncMode::Synced {
        file.sync_all()?;
    }
    fs::rename(&beside, path)?;
    // The rename itself is only on disk when the folder is.
    if let (SyncMode::Synced, Some(folder)) = (sync, path.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Reads a file; returns the default if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}
