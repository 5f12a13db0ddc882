//! The log as search reads it.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use event::{EventId, SessionId};

use crate::backlog::UnindexedEvent;
use crate::event_search::Corpus;
use crate::feed::Feed;
use crate::read::Lineage;
use crate::recovery::salvage_event;
use crate::store::{Direction, SeqRange, Store, StoreReader, StoredEvent};
use crate::{ReadError, Recorded};

/// Unindexed events that are taken in one go.
const FRESH_MAX: usize = 256;

/// A store, event by event and by position. Damaged events are read as what is left of them.
pub(crate) struct StoreCorpus<'a> {
    pub store: &'a dyn Store,
    pub feed: &'a Feed,
}

impl Corpus for StoreCorpus<'_> {
    fn tail(&self) -> Result<u64, ReadError> {
        Ok(self.store.tail()?)
    }

    fn deletions(&self) -> Result<u64, ReadError> {
        Ok(self.store.reader()?.deletions()?)
    }

    fn deleted(&self) -> Result<Vec<SessionId>, ReadError> {
        Ok(self.store.reader()?.tombstones()?)
    }

    fn page(
        &self,
        range: RangeInclusive<u64>,
        direction: Direction,
    ) -> Result<Vec<Recorded>, ReadError> {
        let reader = self.store.reader()?;
        // The integers of SQLite have a sign, so the largest position is that of an `i64`.
        let (mut from, mut to) = (*range.start(), (*range.end()).min(i64::MAX as u64));
        loop {
            let rows = reader.positions(SeqRange { from, to, order: direction })?;
            let Some(last) = rows.last().map(|stored| stored.position) else {
                return Ok(Vec::new());
            };
            let mut page = Vec::with_capacity(rows.len());
            for stored in rows {
                page.extend(recorded(&*reader, stored)?);
            }
            if !page.is_empty() {
                return Ok(page);
            }
            // Rows of sessions that are gone; what is left lies behind them.
            match direction {
                Direction::NewestFirst => to = last.saturating_sub(1),
                Direction::OldestFirst => from = last + 1,
            }
        }
    }

    fn fresh(&self, from: u64) -> Vec<UnindexedEvent> {
        let fresh = self.feed.state().backlog().take(from, FRESH_MAX);
        // Another process may have deleted a session meanwhile; the store knows what is left.
        if self.has_all(&fresh) { fresh } else { Vec::new() }
    }

    fn position(&self, session_id: &SessionId, id: &EventId) -> Result<Option<u64>, ReadError> {
        let reader = self.store.reader()?;
        let Some(row) = reader.session(session_id)? else { return Ok(None) };
        // Only the session's own event: an id may be stored under another session, which this one
        // does not show.
        let place = reader.locate(id)?.filter(|(number, _)| *number == row.number);
        let Some((number, seq)) = place else { return Ok(None) };
        let range = SeqRange { from: seq, to: seq, order: Direction::OldestFirst };
        Ok(reader.events(number, range)?.pop().map(|stored| stored.position))
    }

    fn project(&self, session_id: &SessionId) -> Result<Option<String>, ReadError> {
        Ok(self.store.reader()?.session(session_id)?.and_then(|row| row.project))
    }

    fn lineage(&self, session_id: &SessionId) -> Result<Vec<(SessionId, u64)>, ReadError> {
        Ok(Lineage::load(&*self.store.reader()?, session_id)?.visible_ranges())
    }
}

impl StoreCorpus<'_> {
    /// Whether the sessions of all these events are still there, as far as that can be said.
    fn has_all(&self, fresh: &[UnindexedEvent]) -> bool {
        let Ok(reader) = self.store.reader() else { return false };
        let sessions: HashSet<&SessionId> = fresh.iter().map(|it| &it.draft.session_id).collect();
        sessions.into_iter().all(|id| reader.session(id).is_ok_and(|row| row.is_some()))
    }
}

/// The event of a row; `None` if its session is gone.
fn recorded(reader: &dyn StoreReader, stored: StoredEvent) -> Result<Option<Recorded>, ReadError> {
    let StoredEvent { position, session, seq, event } = stored;
    let event = match event {
        Ok(event) => event,
        Err(broken) => match reader.session_numbered(session)? {
            Some(row) => salvage_event(&row.id, seq, row.created_at, &broken),
            None => return Ok(None),
        },
    };
    Ok(Some(Recorded { position, event }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::payload::UserPrompt;
    use event::{Draft, Time};

    use super::*;
    use crate::limit::POLL_INTERVAL_READER;
    use crate::store::memory::MemoryStore;
    use crate::store::{EventRow, PackedEvent};

    #[test]
    fn what_is_in_memory_of_a_session_that_is_gone_is_not_indexed() {
        let (store, feed) = (MemoryStore::default(), Feed::new(POLL_INTERVAL_READER));
        let id: EventId = "01KJPX7FVT4ZZWPQ8RQK44AYVR".parse().unwrap();
        let session = SessionId::new("deleted").unwrap();
        let payload = UserPrompt::text("said once");
        let draft = Draft::new(id, session, Time::from_millis(0), &payload).unwrap();
        let packed = PackedEvent { rest: Vec::new(), payload: None };
        let row = EventRow { position: 1, session: 1, seq: 1, draft: Arc::new(draft), packed };
        feed.state().backlog().enable();
        feed.publish(&[row]);
        assert!(StoreCorpus { store: &store, feed: &feed }.fresh(1).is_empty());
    }
}
