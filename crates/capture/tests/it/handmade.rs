//! Homes made by hand, and what is told of them.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use capture::{Agent, IngestSummary};
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{NOW, read, told};

/// A home that a test writes into as an agent would.
pub(crate) struct Home {
    dir: TempDir,
    pub sink: Memory,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { dir: TempDir::new().unwrap(), sink: Memory::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file whole.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a file whole, at the moment everything is read.
    pub(crate) fn write_now(&self, path: &str, text: &str) {
        self.write(path, text);
        let file = fs::File::options().append(true).open(self.dir.path().join(path)).unwrap();
        let now = u64::try_from(NOW).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(now)).unwrap();
    }

    pub(crate) fn read(&mut self, agent: &dyn Agent) -> IngestSummary {
        read(agent, self.dir.path(), &mut self.sink)
    }

    /// Reads everything and renders it.
    pub(crate) fn told(&mut self, agent: &dyn Agent) -> String {
        let summary = self.read(agent);
        assert_eq!(summary.warnings, [], "there is something odd");
        told(&self.sink)
    }
}
