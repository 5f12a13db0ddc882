//! A session and everything that was kept of it, gone for good.

use event::{SessionId, Time};
use journal::{Forks, Journal, LineageError, ReadError, StorageError};

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error(transparent)]
    Lineage(#[from] LineageError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Deletes a session, and the originals that told of nobody else. What its agent still writes to it
/// is not recorded any more.
///
/// The session goes first: after a crash in between, to delete it again removes what is left.
pub fn delete(
    journal: &Journal,
    session: &SessionId,
    at: Time,
    forks: Forks,
) -> Result<(), DeleteError> {
    if journal.deleted_at(session)?.is_none() {
        journal.delete(session, at, forks)?;
    }
    for (source, told) in capture::sessions_by_source(&journal.sources()?) {
        if !told.contains(session) {
            continue;
        }
        let mut is_left = false;
        for other in &told {
            is_left |= journal.exists(other)?;
        }
        if !is_left {
            journal.originals().remove(&source)?;
        }
    }
    Ok(())
}
