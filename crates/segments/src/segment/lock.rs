//! The lock between writers of segments and the removal of a session's segments.
//!
//! It is a file lock on the journal's folder, so it also works between processes. Writers share it,
//! a removal has it alone. A deletion is recorded in the journal before the removal takes the lock:
//! files of a writer that had the lock earlier are removed, and a writer that gets it later sees
//! that the session is deleted.

use std::fs::File;
use std::path::Path;

use event::SessionId;
use journal::Journal;

use super::{SegmentError, storage_error};

/// A held lock, released on drop.
#[must_use]
pub(crate) struct SegmentLock {
    /// Closing the file releases the lock.
    _folder: File,
}

impl SegmentLock {
    /// Locks for writing data of many sessions. The caller leaves out sessions that are deleted
    /// already; the removal of a session deleted meanwhile waits for the lock and cleans up.
    pub(crate) fn for_all_sessions(root: &Path) -> Result<SegmentLock, SegmentError> {
        SegmentLock::acquire(root, File::lock_shared)
    }

    /// Locks for writing data of one session. Fails with `Deleted` if the session is gone.
    pub(crate) fn for_session(
        journal: &Journal,
        session: &SessionId,
    ) -> Result<SegmentLock, SegmentError> {
        let hold = SegmentLock::for_all_sessions(journal.dir().ok_or(SegmentError::NoFolder)?)?;
        // Only under the lock: a deletion between the check and the lock would be missed.
        match journal.exists(session)? {
            true => Ok(hold),
            false => Err(SegmentError::Deleted(session.clone())),
        }
    }

    /// Waits for all writers to finish, then locks them out.
    pub(super) fn for_removal(root: &Path) -> Result<SegmentLock, SegmentError> {
        SegmentLock::acquire(root, File::lock)
    }

    fn acquire(
        root: &Path,
        lock: fn(&File) -> std::io::Result<()>,
    ) -> Result<SegmentLock, SegmentError> {
        let folder = File::open(root).map_err(|error| storage_error(root, error))?;
        lock(&folder).map_err(|error| storage_error(root, error))?;
        Ok(SegmentLock { _folder: folder })
    }
}
