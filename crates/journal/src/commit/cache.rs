//! What the writer remembers between commits.

use std::collections::HashMap;

use event::SessionId;

use crate::AppendError;
use crate::id_cache::IdCache;
use crate::limit::CACHED_SESSIONS_MAX;
use crate::store::{ChangeSet, SessionRow, StoreReader};

/// Session rows and event ids of recent commits. All of it can be read again from the store.
#[derive(Default)]
pub(crate) struct WriterCache {
    pub(super) tail: u64,
    deletions: u64,
    pub(super) sessions: HashMap<SessionId, SessionRow>,
    pub(super) ids: IdCache,
}

impl WriterCache {
    /// Drops what another process may have changed since the last commit here.
    pub(crate) fn catch_up(&mut self, reader: &dyn StoreReader) -> Result<(), AppendError> {
        let (tail, deletions) = (reader.tail()?, reader.deletions()?);
        // Every commit that changes a session moves one of the two numbers. Ids stay: the log
        // only grows, and `IdCache` reads on from where it stopped.
        if (tail, deletions) != (self.tail, self.deletions) {
            self.sessions.clear();
            (self.tail, self.deletions) = (tail, deletions);
        }
        Ok(())
    }

    /// Takes over what was just committed.
    pub(crate) fn apply_commit(&mut self, changes: &ChangeSet) {
        for row in &changes.events {
            self.ids.insert(row.session, &row.draft.id, row.seq);
            self.tail = self.tail.max(row.position);
        }
        // Before the new rows are added, so that the sessions in use now stay cached.
        if self.sessions.len() > CACHED_SESSIONS_MAX {
            self.sessions.clear();
        }
        for row in &changes.sessions {
            self.sessions.insert(row.id.clone(), row.clone());
        }
        for (row, _) in &changes.deleted {
            self.sessions.remove(&row.id);
            self.ids.forget_session(row.number);
            // As the store counts them. Otherwise `catch_up` would take the own deletion for one of
            // another process.
            self.deletions += 1;
        }
    }

    /// Forgets everything. After a failed commit nothing here can be trusted.
    pub(crate) fn clear(&mut self) {
        // Zeros differ from every journal that has events, so the next commit reads both numbers
        // again.
        (self.tail, self.deletions) = (0, 0);
        self.sessions.clear();
        self.ids.clear();
    }
}
