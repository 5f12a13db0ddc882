//! Deletes a session and everything stored about it.

use event::{SessionId, Time};
use journal::{ForkPolicy, Journal, LineageError, ReadError, StorageError};

use ingest::remove_originals;
use segments::{SegmentError, forget_segments};

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

/// Deletes a session, its segments, and the originals that belong to no other session. What its agent
/// still writes to it is not recorded any more. Waits for a write that is under way.
///
/// The session goes first: after a crash in between, a second delete removes the rest. The next ingest
/// removes the originals, and the next start of the daemon the segments.
pub fn delete(
    journal: &Journal,
    session: &SessionId,
    at: Time,
    forks: ForkPolicy,
) -> Result<(), DeleteError> {
    // Deleted before means that a former call was interrupted; the steps below finish it.
    if journal.deleted_at(session)?.is_none() {
        journal.delete(session, at, forks)?;
    }
    // A journal in memory has neither segments nor a folder.
    if let Some(root) = journal.dir() {
        forget_segments(root, session)?;
    }
    Ok(remove_originals(journal)?)
}
