//! Appending to a session: a batch is checked against the state it will meet, queued, committed,
//! and only then folded into the state that readers see.
//!
//! Threads can queue appends on top of each other without waiting for the disk in between. Each
//! batch names the event it was checked behind. If an append fails, the journal therefore refuses
//! all appends that were checked on top of it; those without an expected `seq` are checked again
//! on the recorded state and retried.

use std::collections::VecDeque;

use event::payload::{
    ContextAdded, Payload, SessionMode, SessionParent, SessionStarted, SettingsChanged, UserPrompt,
};
use event::{Draft, Event, EventId, SessionId};
use journal::{AppendError, Batch, EventReceipt, PendingAppend};

use crate::lookup::QueuedLookup;
use crate::reader::SessionReader;
use crate::rules::{CheckedBatch, check_new};
use crate::{OpenWork, Session, SessionError, check_batch};

impl Session {
    /// Appends one event.
    pub fn append(&self, draft: Draft) -> Result<EventReceipt, SessionError> {
        // The journal gives one receipt for every draft of a batch, so a batch of one has exactly
        // one.
        let mut appended = self.append_batch(vec![draft])?;
        Ok(appended.remove(0))
    }

    /// Appends a batch: either all of its events become part of the session or none.
    pub fn append_batch(&self, drafts: Vec<Draft>) -> Result<Vec<EventReceipt>, SessionError> {
        self.append_beside(&drafts, None)
    }

    /// Appends only if the session ends at `seq`.
    pub fn append_after(
        &self,
        seq: u64,
        drafts: Vec<Draft>,
    ) -> Result<Vec<EventReceipt>, SessionError> {
        self.try_append(&drafts, Some(seq), None)
    }

    /// Appends an event that happens now.
    pub fn record<P: Payload>(&self, payload: &P) -> Result<EventReceipt, SessionError> {
        self.append(self.draft(payload)?)
    }

    /// Appends a prompt of the user.
    pub fn append_prompt(&self, text: impl Into<String>) -> Result<EventReceipt, SessionError> {
        self.record(&UserPrompt::text(text))
    }

    /// Appends context for the model.
    pub fn append_context(&self, context: &ContextAdded) -> Result<EventReceipt, SessionError> {
        self.record(context)
    }

    /// Sets the title of the session.
    pub fn rename(&self, title: impl Into<String>) -> Result<EventReceipt, SessionError> {
        self.record(&SettingsChanged { title: Some(title.into()), ..SettingsChanged::default() })
    }

    /// Creates a draft of this session with the current time and a new id.
    pub fn draft<P: Payload>(&self, payload: &P) -> Result<Draft, SessionError> {
        let at = self.host().now();
        Ok(Draft::new(self.host().new_event_id(at), self.session_id().clone(), at, payload)?)
    }

    /// Appends and begins a new session in the same transaction.
    pub(crate) fn append_beside(
        &self,
        drafts: &[Draft],
        beside: Option<&NewSession<'_>>,
    ) -> Result<Vec<EventReceipt>, SessionError> {
        loop {
            match self.try_append(drafts, None, beside) {
                // Another writer was faster. The batch is checked again on the new state. The loop
                // ends because every conflict means that another writer has made progress.
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
    ) -> Result<Vec<EventReceipt>, SessionError> {
        let submitted = self.submit_batch(drafts, expected, beside)?;
        match submitted.ticket.wait() {
            Ok(receipt) => {
                let mut appended = receipt.events;
                // Behind the receipts of this batch stand those of a session that began beside it.
                appended.truncate(drafts.len());
                self.fold_committed(submitted.generation, &appended);
                Ok(appended)
            }
            Err(error) => {
                // The queue still holds events that were not recorded. The next append must start
                // from the recorded state.
                self.append_state().mark_stale(submitted.generation);
                Err(error.into())
            }
        }
    }

    /// Checks a batch and submits it to the journal.
    ///
    /// Both happen under one lock: the next batch must be checked on top of this one.
    fn submit_batch(
        &self,
        drafts: &[Draft],
        expected: Option<u64>,
        beside: Option<&NewSession<'_>>,
    ) -> Result<SubmittedBatch, SessionError> {
        if self.is_past() {
            return Err(SessionError::ReadOnly(self.session_id().clone()));
        }
        // Every append passes here, so none is without the scope. A retry gets the same stamp.
        let stamped: Vec<Draft>;
        let drafts = if self.scope().is_empty() {
            drafts
        } else {
            stamped = drafts.iter().map(|draft| self.scope().stamp(draft.clone())).collect();
            &stamped
        };
        let mut state = self.append_state();
        // A state that was just reloaded has nothing to gain from a second reload below.
        let mut is_fresh = state.is_stale;
        if is_fresh {
            self.reload_queue(&mut state)?;
        }
        let checked = loop {
            match self.check_batch(&state, drafts, expected) {
                // Another process may have appended the event that this batch needs. One reload is
                // enough: a refusal on the recorded state is final.
                Err(SessionError::Refused(_) | SessionError::Append(_)) if !is_fresh => {
                    is_fresh = true;
                    self.reload_queue(&mut state)?;
                }
                checked => break checked?,
            }
        };

        let tail = state.queued_tail();
        let reader = self.reader();
        let mut batch = Batch::hosted().with_all(drafts.iter().cloned());
        batch = match state.queued.back() {
            // A number alone is not enough behind a queued event: if its batch fails, another
            // writer can record a different event under the same number.
            Some(last) => batch.expecting_event(self.session_id().clone(), tail, last.id),
            None => batch.expecting(self.session_id().clone(), tail),
        };
        if let Some(beside) = beside {
            let last = match state.queued.back() {
                Some(last) => Some(last.id),
                None => reader.event(tail)?.map(|last| last.id),
            };
            // A child names the event of the parent that it begins behind, which may be queued
            // and not committed yet.
            let first = (beside.first_events)(SessionTail { seq: tail, event_id: last })?;
            let before = OpenWork::new(beside.session_id.clone());
            let past = SessionReader::new(self.journal().clone(), beside.session_id.clone());
            // The new session obeys the same rules. Tail 0 makes the journal refuse an id that is
            // in use.
            check_batch(&before, &first, &past)?;
            batch = batch.with_all(first).expecting(beside.session_id.clone(), 0);
        }
        // Only a batch that the journal accepted may be built upon: an early return leaves the
        // state as it was.
        let ticket = self.journal().submit(batch)?;
        if fork_parent(tail, drafts).is_some() {
            // What a fork inherits is folded from the log, under the ids that the fork shows.
            state.is_stale = true;
        } else {
            state.open_work = checked.state;
            state.queued.extend(checked.new);
        }
        Ok(SubmittedBatch { ticket, generation: state.generation })
    }

    /// Checks a batch against the recorded and the queued events.
    fn check_batch(
        &self,
        state: &AppendState,
        drafts: &[Draft],
        expected: Option<u64>,
    ) -> Result<CheckedBatch, SessionError> {
        let actual = state.queued_tail();
        if let Some(expected) = expected.filter(|expected| *expected != actual) {
            let session_id = self.session_id().clone();
            return Err(AppendError::Conflict { session_id, expected, actual }.into());
        }
        let inherited = match fork_parent(actual, drafts) {
            Some(parent) => Some(self.inherited_work(parent)?),
            None => None,
        };
        let before = inherited.as_ref().unwrap_or(&state.open_work);
        let reader = self.reader();
        let mut past = QueuedLookup::new(&reader);
        // The reader sees committed events only. A result may answer a call that is still queued.
        state.queued.iter().for_each(|event| past.push(event.clone()));
        Ok(check_new(before, drafts, &past)?)
    }

    /// Returns the open work of a fork at its beginning, before its first event is recorded.
    fn inherited_work(&self, parent: SessionParent) -> Result<OpenWork, SessionError> {
        let id = self.session_id().clone();
        if parent.session_id == id {
            return Err(SessionError::SameSession(id));
        }
        let parent = Session::at_seq(self.host(), parent.session_id, parent.seq)?;
        // The rules find calls by their own ids, so the parent's event ids do for this one check.
        Ok(parent.open_work().inherit(id, &|event_id| event_id))
    }

    /// Replaces the queue by the recorded state. Batches that are queued now and turn out to be
    /// behind unknown events get a conflict and are checked again.
    fn reload_queue(&self, state: &mut AppendState) -> Result<(), SessionError> {
        // The caller holds `append_state`; taking `state` second keeps the lock order.
        let mut current = self.state();
        current.catch_up(&self.reader())?;
        state.reset_queue(current.live.open_work.clone());
        Ok(())
    }

    /// Folds the committed events. They are recorded even if this fails: `known_tail` then makes
    /// the next reader catch up from the log.
    fn fold_committed(&self, generation: u64, appended: &[EventReceipt]) {
        let last = appended.iter().map(|appended| appended.seq).max().unwrap_or(0);
        let mut state = self.append_state();
        // All events queued before a committed one are committed too, so this thread takes and
        // folds them as well. If another thread took the events of this one, it must not return
        // before they are folded: it waits here for the lock of the folded state, which the other
        // thread acquired before it released the queue.
        let committed = state.take_up_to(generation, last);
        let mut current = self.state();
        drop(state);
        // Threads arrive here in any order, so an earlier commit must not move the tail back.
        current.known_tail = current.known_tail.max(last);
        let reader = self.reader();
        // Saved before these events are folded: a fork that begins with them inherits the state
        // before them.
        current.save_if_due(&reader);
        // The append has succeeded. An error here would make the caller append the same events
        // again.
        let _ = current.fold_all(&committed, &reader);
    }
}

/// Returns the parent of a session that these drafts begin as a fork.
fn fork_parent(tail: u64, drafts: &[Draft]) -> Option<SessionParent> {
    let first = drafts.first().filter(|_| tail == 0)?;
    let started = first.readable::<SessionStarted>()?;
    // The journal takes a session without a mode for a fork too.
    started.parent.filter(|_| matches!(started.mode, None | Some(SessionMode::Fork)))
}

/// A session that begins in the same transaction as an append.
pub(crate) struct NewSession<'a> {
    pub(crate) session_id: SessionId,
    /// Builds its first events, given the tail of the appending session.
    pub(crate) first_events: &'a dyn Fn(SessionTail) -> Result<Vec<Draft>, SessionError>,
}

/// The end of a session when a batch was checked.
pub(crate) struct SessionTail {
    pub(crate) seq: u64,
    /// The last event; `None` in an empty session.
    pub(crate) event_id: Option<EventId>,
}

/// A batch that the journal has accepted for commit.
struct SubmittedBatch {
    ticket: PendingAppend,
    generation: u64,
}

/// The state that the next append will meet: the committed one and the queue on top of it.
pub(crate) struct AppendState {
    open_work: OpenWork,
    /// Events that were submitted and are not known to be committed.
    queued: VecDeque<Event>,
    /// Counts the reloads. A batch of an older generation belongs to a queue that is gone.
    generation: u64,
    /// The state is out of date and must be reloaded before the next check.
    is_stale: bool,
}

impl AppendState {
    pub(crate) fn new(open_work: OpenWork, is_stale: bool) -> AppendState {
        AppendState { open_work, queued: VecDeque::new(), generation: 0, is_stale }
    }

    fn queued_tail(&self) -> u64 {
        self.open_work.up_to_seq()
    }

    fn reset_queue(&mut self, open_work: OpenWork) {
        self.open_work = open_work;
        self.queued.clear();
        self.generation += 1;
        self.is_stale = false;
    }

    fn mark_stale(&mut self, generation: u64) {
        // A batch of an older generation failed because of a queue that a reload has replaced
        // since.
        self.is_stale |= generation == self.generation;
    }

    fn take_up_to(&mut self, generation: u64, seq: u64) -> Vec<Event> {
        if generation != self.generation {
            return Vec::new();
        }
        // Events are queued in the order of their numbers.
        let count = self.queued.partition_point(|event| event.seq <= seq);
        self.queued.drain(..count).collect()
    }
}
