//! What was deleted leaves the file beside the log, too: its terms, and the views of it.
//!
//! The log counts its deletions in the commit that makes them, and the file has its own count of
//! those it has followed. So a deletion that a crash cut off between the two files, or that
//! another process made, is followed with the next change of the index.

use ::search::{IndexReader, delete_docs};
use event::SessionId;
use rusqlite::Transaction;

use super::sqlite_index::{IndexState, SqliteIndex};
use super::{Corpus, keywords};
use crate::ReadError;
use crate::derived::{Derived, DerivedError};

/// Forgets every session that was deleted since the last time.
pub(crate) fn forget_deleted(corpus: &dyn Corpus, derived: &Derived) -> Result<(), ReadError> {
    derived.write("forget a session in", |tx| {
        let mut index = SqliteIndex::new(tx);
        let mut state = index.state()?;
        follow_deletions(tx, corpus, &mut state)?;
        index.save_state(state)
    })
}

/// Forgets deleted sessions within a transaction that changes the index anyway.
///
/// It has to be called at the end of the transaction: a session that was deleted while the
/// transaction was open is then among the deletions, and one that is deleted later finds the
/// transaction committed.
pub(super) fn follow_deletions(
    tx: &Transaction<'_>,
    corpus: &dyn Corpus,
    state: &mut IndexState,
) -> Result<(), DerivedError> {
    // The count before the list: a deletion between the two is in the list already, and its count
    // brings the next caller here once more.
    let deletions = corpus.deletions()?;
    if deletions == state.deletions {
        return Ok(());
    }
    // The log lists every deletion ever made; the table has those that were followed.
    let mut is_forgotten = tx.prepare_cached("SELECT 1 FROM forgotten WHERE session_id = ?1")?;
    let mut put = tx.prepare_cached("INSERT INTO forgotten VALUES (?1)")?;
    let mut index = SqliteIndex::new(tx);
    let mut deleted = Vec::new();
    for session_id in corpus.deleted()? {
        if !is_forgotten.exists([session_id.as_str()])? {
            deleted.extend(deleted_positions(&index, corpus, &session_id)?);
            tx.prepare_cached("DELETE FROM views WHERE session_id = ?1")?
                .execute([session_id.as_str()])?;
            put.execute([session_id.as_str()])?;
        }
    }
    // All sessions at once: each call rewrites the segments that it touches.
    delete_docs(&mut index, &deleted)?;
    state.deletions = deletions;
    Ok(())
}

/// The positions of a deleted session that are still indexed.
fn deleted_positions(
    index: &SqliteIndex<'_>,
    corpus: &dyn Corpus,
    session_id: &SessionId,
) -> Result<Vec<u64>, DerivedError> {
    // The log has no rows of the session left to ask for its positions; the index still has its
    // keyword.
    let term = keywords::session(session_id);
    let positions =
        IndexReader::new(index).docs_with_keywords(vec![vec![term]], &(0..u64::MAX), usize::MAX)?;
    let mut deleted = Vec::new();
    for position in positions {
        // The index keeps the name as a hash, which another session may share.
        if corpus.event_at(position)?.is_none() {
            deleted.push(position);
        }
    }
    Ok(deleted)
}
