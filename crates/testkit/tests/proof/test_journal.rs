//! A journal in a temporary folder. Dropping it removes the folder.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use journal::{Journal, OpenError, Options, StoreKind};
use tempfile::TempDir;

pub(crate) struct TestJournal {
    pub(crate) store: StoreKind,
    dir: TempDir,
}

impl TestJournal {
    /// Creates an empty folder.
    pub(crate) fn new(store: StoreKind) -> TestJournal {
        let mode = PermissionsExt::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("proof").permissions(mode).tempdir().unwrap();
        TestJournal { store, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the name of the store for the worker.
    pub(crate) fn store_name(&self) -> &'static str {
        match self.store {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Files => "files",
        }
    }

    pub(crate) fn try_open(&self) -> Result<Journal, OpenError> {
        let options = Options { store: self.store, ..Options::default() };
        Journal::open_or_create(self.dir(), &options)
    }

    #[track_caller]
    pub(crate) fn open(&self) -> Journal {
        self.try_open().unwrap_or_else(|error| panic!("the journal does not open: {error:?}"))
    }

    /// Copies the files to another folder. Lock files are left out.
    pub(crate) fn copy(&self) -> TestJournal {
        let copy = TestJournal::new(self.store);
        copy_files(self.dir(), copy.dir());
        copy
    }

    /// The files of the journal, the largest last.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut dirs = vec![self.dir().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true if path.ends_with("lock") => {}
                    true => dirs.push(path),
                    false => files.push(path),
                }
            }
        }
        files.sort();
        files
    }
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if !entry.path().is_dir() {
            std::fs::copy(entry.path(), target).unwrap();
        } else if entry.file_name() != "lock" {
            std::fs::create_dir(&target).unwrap();
            std::fs::set_permissions(&target, PermissionsExt::from_mode(0o700)).unwrap();
            copy_files(&entry.path(), &target);
        }
    }
}
