//! Small files of our own: written beside, renamed into place, read whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a file has to survive the machine, or only us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    Yes,
    No,
}

/// Replaces a file, for us alone.
pub(crate) fn write(path: &Path, value: &impl Serialize, sync: Sync) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    if sync == Sync::Yes {
        file.sync_all()?;
    }
    fs::rename(&beside, path)?;
    if let (Sync::Yes, Some(folder)) = (sync, path.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// What a file says; nothing if it is not there.
pub(crate) fn read<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}
