//! A session and everything that was kept of it, gone for good.

use event::{SessionId, Time};
use journal::{Forks, Journal, LineageError, ReadError, StorageError};

use crate::segment::{SegmentError, forget_segments};

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error(transparent)]
    Lineage(#[from] LineageError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Deletes a session, its segments, and the originals that told of nobody else. What its agent
/// still writes to it is not recorded any more. Whoever is writing about it now is waited for.
///
/// The session goes first: after a crash in between, to delete it again removes what is left, and
/// so does whoever reads what agents write next.
pub fn delete(
    journal: &Journal,
    session: &SessionId,
    at: Time,
    forks: Forks,
) -> Result<(), DeleteError> {
    if journal.deleted_at(session)?.is_none() {
        journal.delete(session, at, forks)?;
    }
    if let Some(root) = journal.dir() {
        forget_segments(root, session)?;
    }
    remove_originals(journal)
}

/// Removes the originals that tell of nobody but deleted sessions.
pub(crate) fn remove_originals(journal: &Journal) -> Result<(), DeleteError> {
    for (source, told) in capture::sessions_by_source(&journal.sources()?) {
        let (mut is_left, mut is_deleted) = (false, false);
        for session in &told {
            is_left |= journal.exists(session)?;
            is_deleted |= journal.deleted_at(session)?.is_some();
        }
        if is_deleted && !is_left {
            journal.originals().remove(&source)?;
        }
    }
    Ok(())
}
