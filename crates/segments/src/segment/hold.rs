//! Nobody writes about a session while its segments are removed, and nobody begins to afterwards.
//!
//! The lock is on the journal's own folder, so it holds between processes. A deletion is in the
//! journal before it takes the lock: a writer that had it before has left what is then removed, and
//! one that gets it later finds the session deleted.

use std::fs::File;
use std::path::Path;

use event::SessionId;
use journal::Journal;

use super::{SegmentError, failed};

/// For as long as it lives, nothing is removed, or nothing is written.
#[must_use]
pub(crate) struct Hold {
    /// The lock goes with it.
    _folder: File,
}

impl Hold {
    /// Lets somebody write what is made of many sessions. Those that are deleted by now are not to
    /// be among them; those that are deleted meanwhile are removed from it.
    pub(crate) fn to_write_of_all(root: &Path) -> Result<Hold, SegmentError> {
        Hold::take(root, File::lock_shared)
    }

    /// Lets somebody write about a session, unless it is deleted.
    pub(crate) fn to_write(journal: &Journal, session: &SessionId) -> Result<Hold, SegmentError> {
        let hold = Hold::to_write_of_all(journal.dir().ok_or(SegmentError::NoFolder)?)?;
        match journal.exists(session)? {
            true => Ok(hold),
            false => Err(SegmentError::Deleted(session.clone())),
        }
    }

    /// Waits until nobody writes any more.
    pub(super) fn to_forget(root: &Path) -> Result<Hold, SegmentError> {
        Hold::take(root, File::lock)
    }

    fn take(root: &Path, lock: fn(&File) -> std::io::Result<()>) -> Result<Hold, SegmentError> {
        let folder = File::open(root).map_err(|error| failed(root, error))?;
        lock(&folder).map_err(|error| failed(root, error))?;
        Ok(Hold { _folder: folder })
    }
}
