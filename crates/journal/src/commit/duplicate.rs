//! Is this fact recorded already?
//!
//! Two events are the same fact if their ids agree in everything but the time. A fact is looked
//! for in the session it belongs to: among the events staged in this commit, among the stored
//! ones, and among those a fork inherits. The unique index over ids in the store notices an id
//! that another session has; only then are ids looked up in all sessions.

use event::{Draft, EventId};

use super::{CommitPlan, StagedBatch, StagedEvent};
use crate::batch::{AppendMode, AppendOutcome, EventReceipt};
use crate::prepare::{NewEvent, PreparedBatch};
use crate::read::Lineage;
use crate::store::{Direction, SeqRange, SessionRow, SightingRow, StoredEvent};
use crate::{AppendError, ReadError};

/// An event that is recorded already.
struct RecordedFact {
    /// The number of the session that stores it.
    session: u32,
    seq: u64,
    position: u64,
    first: Draft,
}

impl RecordedFact {
    /// `None` for a damaged event: it cannot be compared.
    fn from_stored(stored: StoredEvent) -> Option<RecordedFact> {
        let StoredEvent { session, seq, position, event } = stored;
        Some(RecordedFact { session, seq, position, first: event.ok()?.draft })
    }

    fn from_staged(staged: &StagedEvent) -> RecordedFact {
        let StagedEvent { session, seq, position, .. } = *staged;
        RecordedFact { session, seq, position, first: Draft::clone(&staged.draft) }
    }
}

impl CommitPlan<'_> {
    /// Answers for an event that repeats a recorded fact; `None` if it is new.
    ///
    /// A hosted event with other content is refused. An observed one adds a sighting.
    pub(super) fn find_duplicate(
        &mut self,
        staged: &mut StagedBatch,
        batch: &PreparedBatch,
        new: &NewEvent,
        row: &SessionRow,
    ) -> Result<Option<EventReceipt>, AppendError> {
        let draft = &*new.draft;
        let Some(fact) = self.find_fact(staged, draft, row)? else { return Ok(None) };
        let RecordedFact { session, seq, position, first } = fact;
        let differs = !first.has_same_content(draft);
        // An event that brings its `seq` is part of a history that is imported. The event of
        // another session cannot stand for it: the history would have a hole.
        let is_misplaced = new.seq.is_some() && first.session_id != draft.session_id;
        if (differs && batch.mode == AppendMode::Hosted) || is_misplaced {
            let session_id = first.session_id.clone();
            return Err(AppendError::DuplicateId { id: draft.id, session_id, seq });
        }
        // Reading the same source again repeats everything, also `observed_at`. That is no
        // second sighting.
        let is_other_sighting =
            differs || first.source != draft.source || first.observed_at != draft.observed_at;
        if batch.mode == AppendMode::Observed && is_other_sighting {
            staged.sightings.push(SightingRow {
                session,
                seq,
                source: draft.source.as_str().to_owned(),
                observed_at: draft.observed_at,
                source_position: batch.source.as_ref().map(|source| source.to.clone()),
                differs,
            });
        }
        let outcome = AppendOutcome::AlreadyRecorded { differs };
        Ok(Some(EventReceipt { id: first.id, seq, position, outcome }))
    }

    fn find_fact(
        &mut self,
        staged: &StagedBatch,
        draft: &Draft,
        row: &SessionRow,
    ) -> Result<Option<RecordedFact>, AppendError> {
        let key = (row.number, draft.id.tail());
        // A transcript and a hook may report the same fact, and both accounts may wait for one
        // commit or stand in one batch.
        let staged_event = staged
            .staged_ids
            .get(&key)
            .map(|index| &staged.events[*index])
            .or_else(|| self.staged_ids.get(&key).map(|index| &self.events[*index]));
        if let Some(staged_event) = staged_event {
            return Ok(Some(RecordedFact::from_staged(staged_event)));
        }
        // The cached row, not `row`: that one counts staged events, which the store does not have.
        let stored_tail = self.cache.sessions.get(&row.id).map_or(0, |row| row.tail_seq);
        // A session without own events in the store has no ids to find: asking would only leave an
        // empty entry in the cache.
        if stored_tail > row.base_seq {
            let seq = self.cache.ids.find(self.reader, row.number, stored_tail, &draft.id)?;
            // A damaged event cannot be compared, so the search goes on. If the new event has the
            // very same id, the store refuses it as taken.
            if let Some(seq) = seq
                && let Some(fact) = self.read_fact(row.number, seq)?
            {
                return Ok(Some(fact));
            }
        }
        if let Some(fact) = self.find_inherited(row, &draft.id)? {
            return Ok(Some(fact));
        }
        if self.check_ids { self.find_in_all_sessions(staged, draft) } else { Ok(None) }
    }

    /// Returns the `seq` under which a session shows an event.
    pub(super) fn seq_of_event(
        &mut self,
        row: &SessionRow,
        id: EventId,
    ) -> Result<Option<u64>, AppendError> {
        // The batch that asks has staged nothing yet: its expected tails are checked first.
        if let Some(index) = self.staged_ids.get(&(row.number, id.tail())) {
            return Ok(Some(self.events[*index].seq));
        }
        let stored_tail = self.cache.sessions.get(&row.id).map_or(0, |row| row.tail_seq);
        match self.cache.ids.find(self.reader, row.number, stored_tail, &id)? {
            Some(seq) => Ok(Some(seq)),
            None => Ok(self.find_inherited(row, &id)?.map(|fact| fact.seq)),
        }
    }

    /// Looks for this exact id in all sessions, staged events first.
    fn find_in_all_sessions(
        &self,
        staged: &StagedBatch,
        draft: &Draft,
    ) -> Result<Option<RecordedFact>, AppendError> {
        // A scan and no index: this path runs only after the store has refused a commit.
        let mut events = self.events.iter().chain(&staged.events);
        if let Some(event) = events.find(|event| event.draft.id == draft.id) {
            return Ok(Some(RecordedFact::from_staged(event)));
        }
        let Some((number, seq)) = self.reader.locate(&draft.id)? else { return Ok(None) };
        if let Some(fact) = self.read_fact(number, seq)? {
            return Ok(Some(fact));
        }
        // A damaged event cannot be compared, but its id stays taken.
        let owner = self.reader.session_numbered(number)?;
        let session_id = owner.map_or_else(|| draft.session_id.clone(), |row| row.id);
        Err(AppendError::DuplicateId { id: draft.id, session_id, seq })
    }

    fn read_fact(&self, number: u32, seq: u64) -> Result<Option<RecordedFact>, AppendError> {
        let range = SeqRange { from: seq, to: seq, order: Direction::OldestFirst };
        Ok(self.reader.events(number, range)?.pop().and_then(RecordedFact::from_stored))
    }

    /// Looks for an event that a fork inherits and shows under this id.
    fn find_inherited(
        &mut self,
        row: &SessionRow,
        id: &EventId,
    ) -> Result<Option<RecordedFact>, AppendError> {
        if row.base_seq == 0 {
            return Ok(None);
        }
        // Loaded once per commit, because a capture that reads a fork's transcript again asks for
        // every inherited event.
        if !self.lineages.contains_key(&row.number) {
            let lineage = match Lineage::from_row(self.reader, row.clone()) {
                Ok(lineage) => Some(lineage),
                Err(ReadError::Storage(error)) => return Err(error.into()),
                // An ancestor that is part of the same commit has no stored events to find.
                Err(_) => None,
            };
            self.lineages.insert(row.number, lineage);
        }
        let Some(lineage) = &self.lineages[&row.number] else { return Ok(None) };
        // The lineage begins with the fork's own events, which were looked for before.
        let seq = lineage.seq_of(self.reader, *id)?.filter(|seq| *seq <= row.base_seq);
        let Some(seq) = seq else { return Ok(None) };
        let range = SeqRange { from: seq, to: seq, order: Direction::OldestFirst };
        Ok(lineage.page(self.reader, range)?.pop().and_then(RecordedFact::from_stored))
    }
}
