//! A session and everything that was kept of it, gone for good.

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

/// Deletes a session, its segments, and the originals that told of nobody else. What its agent
/// still writes to it is not recorded any more. Whoever is writing about it now is waited for.
///
/// The session goes first: after a crash in between, to delete it again removes what is left, and
/// so does whoever reads what agents write next.
pub fn delete(
    journal: &Journal,
    session: &SessionId,
    at: Time,
    forks: ForkPolicy,
) -> Result<(), DeleteError> {
    if journal.deleted_at(session)?.is_none() {
        journal.delete(session, at, forks)?;
    }
    if let Some(root) = journal.dir() {
        forget_segments(root, session)?;
    }
    Ok(remove_originals(journal)?)
}
