//! The way into a session: a batch is checked against the state it will meet, queued, committed,
//! and only then folded into what readers see.
//!
//! Appends of many threads are queued on top of each other without waiting for the disk between
//! them. Each names the event it was checked behind, so that one that did not make it takes with
//! it what was built on it; who expected nothing in particular is checked again on what is there.

use std::collections::VecDeque;

use event::payload::{ContextAdded, Payload, SettingsChanged, UserPrompt};
use event::{Draft, Event, EventId, SessionId};
use journal::{AppendError, Appended, Batch, Ticket};

use crate::lookup::QueuedLookup;
use crate::reader::SessionReader;
use crate::rules::{CheckedBatch, check_new};
use crate::{OpenWork, Scope, Session, SessionError, check_batch};

impl Session {
    /// Appends one event.
    pub fn append(&self, draft: Draft) -> Result<Appended, SessionError> {
        let mut appended = self.append_batch(vec![draft])?;
        Ok(appended.remove(0))
    }

    /// Appends events that become part of the session together or not at all.
    pub fn append_batch(&self, drafts: Vec<Draft>) -> Result<Vec<Appended>, SessionError> {
        self.append_beside(&drafts, None)
    }

    /// Appends only if the session ends at `seq`.
    pub fn append_after(
        &self,
        seq: u64,
        drafts: Vec<Draft>,
    ) -> Result<Vec<Appended>, SessionError> {
        self.try_append(&drafts, Some(seq), None)
    }

    /// Appends with the scope's metadata and turn on every event.
    pub fn append_in(
        &self,
        scope: &Scope,
        drafts: Vec<Draft>,
    ) -> Result<Vec<Appended>, SessionError> {
        self.append_batch(drafts.into_iter().map(|draft| scope.stamp(draft)).collect())
    }

    /// Appends a fact that happens now.
    pub fn record<P: Payload>(&self, payload: &P) -> Result<Appended, SessionError> {
        self.append(self.draft(payload)?)
    }

    /// Appends what a person says.
    pub fn append_prompt(&self, text: impl Into<String>) -> Result<Appended, SessionError> {
        self.record(&UserPrompt::text(text))
    }

    /// Appends what the model is to be shown beside the talk.
    pub fn append_context(&self, context: &ContextAdded) -> Result<Appended, SessionError> {
        self.record(context)
    }

    /// Gives the session the name people call it by.
    pub fn rename(&self, title: impl Into<String>) -> Result<Appended, SessionError> {
        self.record(&SettingsChanged { title: Some(title.into()), ..SettingsChanged::default() })
    }

    /// A draft of this session, stamped now.
    pub fn draft<P: Payload>(&self, payload: &P) -> Result<Draft, SessionError> {
        let at = self.host().now();
        Ok(Draft::new(self.host().new_event_id(at), self.session_id().clone(), at, payload)?)
    }

    /// Appends, and begins another session in the same transaction.
    pub(crate) fn append_beside(
        &self,
        drafts: &[Draft],
        beside: Option<&NewSession<'_>>,
    ) -> Result<Vec<Appended>, SessionError> {
        loop {
            match self.try_append(drafts, None, beside) {
                // Somebody else was faster; the rules are checked on what is there now.
                Err(SessionError::Append(AppendError::Conflict { session_id, .. }))
                    if session_id == *self.session_id() => {}
                other => return other,
            }
        }
    }

    fn try_append(
        &self,
        drafts: &[Draft],
        expected: Option<u64>,
        beside: Option<&NewSession<'_>>,
    ) -> Result<Vec<Appended>, SessionError> {
        let submitted = self.submit(drafts, expected, beside)?;
        match submitted.ticket.wait() {
            Ok(receipt) => {
                let mut appended = receipt.events;
                appended.truncate(drafts.len());
                self.fold_committed(submitted.generation, &appended);
                Ok(appended)
            }
            Err(error) => {
                self.append_state().mark_stale(submitted.generation);
                Err(error.into())
            }
        }
    }

    /// Checks a batch and hands it to the journal, both while nobody else does.
    fn submit(
        &self,
        drafts: &[Draft],
        expected: Option<u64>,
        beside: Option<&NewSession<'_>>,
    ) -> Result<SubmittedBatch, SessionError> {
        if self.is_past() {
            return Err(SessionError::ReadOnly(self.session_id().clone()));
        }
        let mut state = self.append_state();
        let mut is_fresh = state.is_stale;
        if is_fresh {
            self.reload(&mut state)?;
        }
        let checked = loop {
            match self.check(&state, drafts, expected) {
                // Perhaps somebody else has appended what this one needs.
                Err(SessionError::Refused(_) | SessionError::Append(_)) if !is_fresh => {
                    is_fresh = true;
                    self.reload(&mut state)?;
                }
                checked => break checked?,
            }
        };

        let tail = state.tail();
        let reader = self.reader();
        let mut batch = Batch::hosted().with_all(drafts.iter().cloned());
        batch = match state.queued.back() {
            Some(last) => batch.behind(self.session_id().clone(), tail, last.id),
            None => batch.expecting(self.session_id().clone(), tail),
        };
        if let Some(beside) = beside {
            let last = match state.queued.back() {
                Some(last) => Some(last.id),
                None => reader.event(tail)?.map(|last| last.id),
            };
            let first = (beside.first_events)(SessionTail { seq: tail, event_id: last })?;
            let before = OpenWork::new(beside.session_id.clone());
            let past = SessionReader::new(self.journal().clone(), beside.session_id.clone());
            check_batch(&before, &first, &past)?;
            batch = batch.with_all(first).expecting(beside.session_id.clone(), 0);
        }
        let ticket = self.journal().submit(batch)?;
        state.open_work = checked.state;
        state.queued.extend(checked.new);
        Ok(SubmittedBatch { ticket, generation: state.generation })
    }

    /// Checks a batch against what it will meet.
    fn check(
        &self,
        state: &AppendState,
        drafts: &[Draft],
        expected: Option<u64>,
    ) -> Result<CheckedBatch, SessionError> {
        let actual = state.tail();
        if let Some(expected) = expected.filter(|expected| *expected != actual) {
            let session_id = self.session_id().clone();
            return Err(AppendError::Conflict { session_id, expected, actual }.into());
        }
        let reader = self.reader();
        let mut past = QueuedLookup::new(&reader);
        state.queued.iter().for_each(|event| past.push(event.clone()));
        Ok(check_new(&state.open_work, drafts, &past)?)
    }

    /// Makes the state forget what is queued and know what is recorded. Whoever is let in now and
    /// comes behind what was queued meets a conflict, and is checked again.
    fn reload(&self, state: &mut AppendState) -> Result<(), SessionError> {
        let mut current = self.state();
        current.catch_up(&self.reader())?;
        state.reload(current.live.open_work.clone());
        Ok(())
    }

    /// Folds what was committed. It is recorded whatever happens here: what cannot be folded now
    /// is read again when somebody asks.
    fn fold_committed(&self, generation: u64, appended: &[Appended]) {
        let last = appended.iter().map(|appended| appended.seq).max().unwrap_or(0);
        let mut state = self.append_state();
        // Whatever is queued before a committed event is committed too. Whoever finds its own
        // events gone from the queue waits here until the one who took them has folded them.
        let committed = state.take_up_to(generation, last);
        let mut current = self.state();
        drop(state);
        current.known_tail = current.known_tail.max(last);
        let reader = self.reader();
        let _ = current.fold_all(&committed, &reader);
        current.save_if_due(&reader);
    }
}

/// Another session that begins with an append.
pub(crate) struct NewSession<'a> {
    pub(crate) session_id: SessionId,
    /// Makes its first events, given where the first one ended before.
    pub(crate) first_events: &'a dyn Fn(SessionTail) -> Result<Vec<Draft>, SessionError>,
}

/// Where a session ended when a batch was checked.
pub(crate) struct SessionTail {
    pub(crate) seq: u64,
    /// The event there; none before the first.
    pub(crate) event_id: Option<EventId>,
}

struct SubmittedBatch {
    ticket: Ticket,
    generation: u64,
}

/// What the next append will meet: the committed state and what is queued on top of it.
pub(crate) struct AppendState {
    open_work: OpenWork,
    /// SubmittedBatch, and not yet known to be committed.
    queued: VecDeque<Event>,
    /// Counts how often the state was read anew; who was let in before speaks of another queue.
    generation: u64,
    /// Something happened that this side does not know; it has to be read again.
    is_stale: bool,
}

impl AppendState {
    pub(crate) fn new(open_work: OpenWork, is_stale: bool) -> AppendState {
        AppendState { open_work, queued: VecDeque::new(), generation: 0, is_stale }
    }

    fn tail(&self) -> u64 {
        self.open_work.up_to_seq()
    }

    fn reload(&mut self, open_work: OpenWork) {
        self.open_work = open_work;
        self.queued.clear();
        self.generation += 1;
        self.is_stale = false;
    }

    fn mark_stale(&mut self, generation: u64) {
        self.is_stale |= generation == self.generation;
    }

    fn take_up_to(&mut self, generation: u64, seq: u64) -> Vec<Event> {
        if generation != self.generation {
            return Vec::new();
        }
        let count = self.queued.partition_point(|event| event.seq <= seq);
        self.queued.drain(..count).collect()
    }
}
