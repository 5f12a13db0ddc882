//! What was deleted leaves the file beside the log, too: its words, and the views of it.
//!
//! The log counts its deletions in the commit that makes them, and the file has its own count of
//! those it has followed. So a deletion that a crash cut off between the two files, or that another
//! process made, is followed by whoever feeds the index next.

use std::collections::BTreeSet;

use event::SessionId;
use rusqlite::Transaction;

use super::expression::Expression;
use super::index::{Direction, Index, State, part_positions, put_gone};
use super::{Corpus, stretch, tags};
use crate::ReadError;
use crate::derived::{Derived, Failure};

/// Forgets every session that was deleted since the last time.
pub(crate) fn forget(corpus: &dyn Corpus, derived: &Derived) -> Result<(), ReadError> {
    derived.write("forget a session in", |tx| {
        let mut state = Index::new(tx).state()?;
        follow_deletions(tx, corpus, &mut state)?;
        Ok(state.save(tx)?)
    })
}

/// The same, within a transaction that changes the index anyway. Asked at its end: what was deleted
/// while it was open is among the deletions, and what is deleted after it finds it committed.
pub(super) fn follow_deletions(
    tx: &Transaction<'_>,
    corpus: &dyn Corpus,
    state: &mut State,
) -> Result<(), Failure> {
    let deletions = corpus.deletions()?;
    if deletions == state.deletions {
        return Ok(());
    }
    let mut is_forgotten = tx.prepare_cached("SELECT 1 FROM forgotten WHERE session_id = ?1")?;
    let mut put = tx.prepare_cached("INSERT INTO forgotten VALUES (?1)")?;
    let mut parts = BTreeSet::new();
    for session_id in corpus.deleted()? {
        if !is_forgotten.exists([session_id.as_str()])? {
            forget_words(tx, corpus, &session_id, &mut parts)?;
            tx.prepare_cached("DELETE FROM views WHERE session_id = ?1")?
                .execute([session_id.as_str()])?;
            put.execute([session_id.as_str()])?;
        }
    }
    for part in parts {
        stretch::purge(tx, part)?;
    }
    state.deletions = deletions;
    Ok(())
}

/// Notes that the events of a session are gone, and which parts they were in.
fn forget_words(
    tx: &Transaction<'_>,
    corpus: &dyn Corpus,
    session_id: &SessionId,
    parts: &mut BTreeSet<u64>,
) -> Result<(), Failure> {
    let expression = Expression::word(&tags::session(session_id));
    for part in Index::new(tx).parts()? {
        let (range, direction) = (part_positions(part), Direction::OldestFirst);
        for position in
            Index::new(tx).positions(part, &expression, &range, direction, usize::MAX)?
        {
            // The name is kept as a hash: it may be somebody else's.
            if corpus.at(position)?.is_none() {
                put_gone(tx, position)?;
                parts.insert(part);
            }
        }
    }
    Ok(())
}
