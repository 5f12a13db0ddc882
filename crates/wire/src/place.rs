//! Where a daemon's sockets, locks and logs lie in the folder of its journal.

use std::path::{Path, PathBuf};

/// The folder for everything about a journal's running daemon, private to its owner.
pub fn health_dir(journal: &Path) -> PathBuf {
    journal.join("health")
}
