//! Creates folders without following links, replaces files atomically and removes them durably.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{SegmentError, SegmentKey, storage_error};

/// Suffix of a file that is being written.
const HALF_WRITTEN: &str = ".tmp";

/// Attempts to remove a folder while another program keeps writing into it.
const REMOVE_TRIES: usize = 100;

/// Creates the folder of a segment, one level at a time, and fails at a symbolic link.
pub(super) fn make_folder(journal: &Path, key: &SegmentKey) -> Result<PathBuf, SegmentError> {
    let mut path = journal.to_owned();
    for step in key.path().iter() {
        path.push(step);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(storage_error(&path, error));
            }
            _ => {}
        }
        // Checked at each level, also after `AlreadyExists`: a link planted in place of a day or a
        // stream would lead the writer out of the journal.
        if !is_folder(&path) {
            return Err(SegmentError::NotAFolder { path });
        }
    }
    Ok(path)
}

/// Returns the folder of a segment if it exists and no part of its path is a symbolic link.
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

/// Returns whether the path is a folder and not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Returns whether a folder has no files but this one and those that a crash left half written.
pub(super) fn is_empty_but_for(folder: &Path, name: &str) -> Result<bool, SegmentError> {
    let entries = folder.read_dir().map_err(|error| storage_error(folder, error))?;
    for entry in entries {
        let found = entry.map_err(|error| storage_error(folder, error))?.file_name();
        let is_half = found.to_str().is_some_and(|found| {
            found.strip_prefix('.').is_some_and(|found| found.ends_with(HALF_WRITTEN))
        });
        if found != name && !is_half {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the folders in a folder by name. A folder that does not exist has none.
pub(super) fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, SegmentError> {
    let entries = match folder.read_dir() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|error| storage_error(folder, error))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| storage_error(folder, error))?.path();
        if is_folder(&path) {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// Removes a file or a folder with its contents, if it exists. The removal survives a power cut.
pub(super) fn remove_path(path: &Path) -> Result<(), SegmentError> {
    for _ in 0..REMOVE_TRIES {
        let removed = match is_folder(path) {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
        match removed {
            // Synced, so that a power cut does not bring the session's text back.
            Ok(()) => return path.parent().map_or(Ok(()), sync_folder),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A handler of the user is still writing in this folder: remove its new files, too.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(storage_error(path, error)),
        }
    }
    Err(storage_error(path, ErrorKind::DirectoryNotEmpty.into()))
}

/// Replaces a file atomically, and the new contents survive a power cut.
pub fn write_durably(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    write_atomic(folder, name, bytes)?;
    sync_folder(folder)
}

/// Replaces a file atomically: readers see the old contents or the new ones.
///
/// For data that can be rebuilt: after a power cut the old file may be back. That saves the sync of
/// the folder.
pub fn write_atomic(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    replace_file(&folder.join(name), &folder.join(format!(".{name}{HALF_WRITTEN}")), bytes)
}

/// Replaces a file atomically that another process or thread may replace at the same time, as the
/// daemon and `hansard import` do with the files of a segment. Each write goes beside under a name of
/// its own.
pub(super) fn write_contested(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let beside = format!(".{name}.{}.{number}{HALF_WRITTEN}", std::process::id());
    replace_file(&folder.join(name), &folder.join(beside), bytes)
}

fn replace_file(path: &Path, beside: &Path, bytes: &[u8]) -> Result<(), SegmentError> {
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(beside)?;
        file.write_all(bytes)?;
        // Before the rename: otherwise a power cut could leave the new name with no contents.
        file.sync_data()?;
        std::fs::rename(beside, path)
    };
    write().map_err(|error| storage_error(path, error))
}

/// Makes creations, renames and removals in a folder durable.
fn sync_folder(folder: &Path) -> Result<(), SegmentError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| storage_error(folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_replace_one_file_at_once() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let start = std::sync::Barrier::new(4);
        let write = &|byte: u8| {
            start.wait();
            for _ in 0..50 {
                write_contested(folder.path(), "talk.md", &[byte; 4_096]).expect("it is written");
            }
        };
        std::thread::scope(|scope| {
            for byte in b"abcd" {
                scope.spawn(move || write(*byte));
            }
        });
        let held = std::fs::read(folder.path().join("talk.md")).expect("it is there");
        assert_eq!(held, [held[0]; 4_096]);
        assert!(is_empty_but_for(folder.path(), "talk.md").expect("it is listed"));
        assert_eq!(folder.path().read_dir().expect("it is listed").count(), 1);
    }
}
