//! Folders and files of segments: made step by step, put in place whole, removed for good.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{SegmentError, SegmentKey, failed};

/// How the name of a file ends that is being written.
const HALF_WRITTEN: &str = ".tmp";

/// How often a folder is emptied in which somebody goes on writing.
const REMOVE_TRIES: usize = 100;

/// Makes the folder of a segment step by step, so that no link leads elsewhere.
pub(super) fn make_folder(journal: &Path, key: &SegmentKey) -> Result<PathBuf, SegmentError> {
    let mut path = journal.to_owned();
    for step in key.path().iter() {
        path.push(step);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed(&path, error));
            }
            _ => {}
        }
        if !is_folder(&path) {
            return Err(SegmentError::NotAFolder { path });
        }
    }
    Ok(path)
}

/// The folder of a segment, if it is there and no link leads elsewhere on the way.
pub(crate) fn folder_of(journal: &Path, key: &SegmentKey) -> Option<PathBuf> {
    let mut path = journal.to_owned();
    for step in key.path().iter() {
        path.push(step);
        if !is_folder(&path) {
            return None;
        }
    }
    Some(path)
}

/// Whether it is a folder itself, not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Whether a folder has nothing but perhaps this file, and what a crash left half written.
pub(super) fn is_empty_but_for(folder: &Path, name: &str) -> Result<bool, SegmentError> {
    let entries = folder.read_dir().map_err(|error| failed(folder, error))?;
    for entry in entries {
        let found = entry.map_err(|error| failed(folder, error))?.file_name();
        let is_half = found.to_str().is_some_and(|found| {
            found.strip_prefix('.').is_some_and(|found| found.ends_with(HALF_WRITTEN))
        });
        if found != name && !is_half {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The folders in a folder, in order; none in one that is not there.
pub(super) fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, SegmentError> {
    let entries = match folder.read_dir() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|error| failed(folder, error))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if is_folder(&path) {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// Removes a file or a folder with all it holds, if it is there. It does not come back after a
/// power cut.
pub(super) fn remove(path: &Path) -> Result<(), SegmentError> {
    for _ in 0..REMOVE_TRIES {
        let removed = match is_folder(path) {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
        match removed {
            Ok(()) => return path.parent().map_or(Ok(()), sync),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A program of the user's that runs in it.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(failed(path, error)),
        }
    }
    Err(failed(path, ErrorKind::DirectoryNotEmpty.into()))
}

/// Puts a file in place whole: whoever looks sees the old one or the new one. It is there after a
/// power cut.
pub fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    put_whole(folder, name, bytes)?;
    sync(folder)
}

/// The same for what can be made again: a power cut may bring back what was there before.
pub fn put_whole(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    let (path, beside) = (folder.join(name), folder.join(format!(".{name}{HALF_WRITTEN}")));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&beside, &path)
    };
    write().map_err(|error| failed(&path, error))
}

/// What was made, renamed or removed in a folder stays so.
fn sync(folder: &Path) -> Result<(), SegmentError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed(folder, error))
}
