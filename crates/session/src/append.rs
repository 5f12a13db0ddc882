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

use crate::past::Ahead;
use crate::reader::SessionReader;
use crate::rules::{Checked, check_new};
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
        Ok(Draft::new(self.host().id(at), self.id().clone(), at, payload)?)
    }

    /// Appends, and begins another session in the same transaction.
    pub(crate) fn append_beside(
        &self,
        drafts: &[Draft],
        beside: Option<&Beside<'_>>,
    ) -> Result<Vec<Appended>, SessionError> {
        loop {
            match self.try_append(drafts, None, beside) {
                // Somebody else was faster; the rules are checked on what is there now.
                Err(SessionError::Append(AppendError::Conflict { session_id, .. }))
                    if session_id == *self.id() => {}
                other => return other,
            }
        }
    }

    fn try_append(
        &self,
        drafts: &[Draft],
        expected: Option<u64>,
        beside: Option<&Beside<'_>>,
    ) -> Result<Vec<Appended>, SessionError> {
        let submitted = self.submit(drafts, expected, beside)?;
        match submitted.ticket.wait() {
            Ok(receipt) => {
                let mut appended = receipt.events;
                appended.truncate(drafts.len());
                self.take_over(submitted.generation, &appended);
                Ok(appended)
            }
            Err(error) => {
                self.gate().distrust(submitted.generation);
                Err(error.into())
            }
        }
    }

    /// Checks a batch and hands it to the journal, both while nobody else does.
    fn submit(
        &self,
        drafts: &[Draft],
        expected: Option<u64>,
        beside: Option<&Beside<'_>>,
    ) -> Result<Submitted, SessionError> {
        if self.is_past() {
            return Err(SessionError::ReadOnly(self.id().clone()));
        }
        let mut gate = self.gate();
        let mut is_fresh = gate.is_stale;
        if is_fresh {
            self.renew(&mut gate)?;
        }
        let checked = loop {
            match self.check(&gate, drafts, expected) {
                // Perhaps somebody else has appended what this one needs.
                Err(SessionError::Refused(_) | SessionError::Append(_)) if !is_fresh => {
                    is_fresh = true;
                    self.renew(&mut gate)?;
                }
                checked => break checked?,
            }
        };

        let tail = gate.tail();
        let reader = self.reader();
        let mut batch = Batch::hosted().with_all(drafts.iter().cloned());
        batch = match gate.queued.back() {
            Some(last) => batch.behind(self.id().clone(), tail, last.id),
            None => batch.expecting(self.id().clone(), tail),
        };
        if let Some(beside) = beside {
            let last = match gate.queued.back() {
                Some(last) => Some(last.id),
                None => reader.event(tail)?.map(|last| last.id),
            };
            let first = (beside.begin)(Point { seq: tail, event_id: last })?;
            let before = OpenWork::new(beside.session_id.clone());
            let past = SessionReader::of(self.journal().clone(), beside.session_id.clone());
            check_batch(&before, &first, &past)?;
            batch = batch.with_all(first).expecting(beside.session_id.clone(), 0);
        }
        let ticket = self.journal().submit(batch)?;
        gate.open_work = checked.state;
        gate.queued.extend(checked.new);
        Ok(Submitted { ticket, generation: gate.generation })
    }

    /// Checks a batch against what it will meet.
    fn check(
        &self,
        gate: &Gate,
        drafts: &[Draft],
        expected: Option<u64>,
    ) -> Result<Checked, SessionError> {
        let actual = gate.tail();
        if let Some(expected) = expected.filter(|expected| *expected != actual) {
            let session_id = self.id().clone();
            return Err(AppendError::Conflict { session_id, expected, actual }.into());
        }
        let reader = self.reader();
        let mut past = Ahead::of(&reader);
        gate.queued.iter().for_each(|event| past.push(event.clone()));
        Ok(check_new(&gate.open_work, drafts, &past)?)
    }

    /// Makes the gate forget what is queued and know what is recorded. Whoever is let in now and
    /// comes behind what was queued meets a conflict, and is checked again.
    fn renew(&self, gate: &mut Gate) -> Result<(), SessionError> {
        let mut current = self.current();
        current.catch_up(&self.reader())?;
        gate.renew(current.live.open_work.clone());
        Ok(())
    }

    /// Folds what was committed. It is recorded whatever happens here: what cannot be folded now
    /// is read again when somebody asks.
    fn take_over(&self, generation: u64, appended: &[Appended]) {
        let last = appended.iter().map(|appended| appended.seq).max().unwrap_or(0);
        let mut gate = self.gate();
        // Whatever is queued before a committed event is committed too. Whoever finds its own
        // events gone from the queue waits here until the one who took them has folded them.
        let committed = gate.take_up_to(generation, last);
        let mut current = self.current();
        drop(gate);
        current.known_tail = current.known_tail.max(last);
        let reader = self.reader();
        let _ = current.fold_all(&committed, &reader);
        current.save_if_due(&reader);
    }
}

/// Another session that begins with an append.
pub(crate) struct Beside<'a> {
    pub(crate) session_id: SessionId,
    /// Makes its first events, given where the first one ended before.
    pub(crate) begin: &'a dyn Fn(Point) -> Result<Vec<Draft>, SessionError>,
}

/// Where a session ended when a batch was checked.
pub(crate) struct Point {
    pub(crate) seq: u64,
    /// The event there; none before the first.
    pub(crate) event_id: Option<EventId>,
}

struct Submitted {
    ticket: Ticket,
    generation: u64,
}

/// What the next append will meet: the committed state and what is queued on top of it.
pub(crate) struct Gate {
    open_work: OpenWork,
    /// Submitted, and not yet known to be committed.
    queued: VecDeque<Event>,
    /// Counts how often the state was read anew; who was let in before speaks of another queue.
    generation: u64,
    /// Something happened that this side does not know; it has to be read again.
    is_stale: bool,
}

impl Gate {
    pub(crate) fn new(open_work: OpenWork, is_stale: bool) -> Gate {
        Gate { open_work, queued: VecDeque::new(), generation: 0, is_stale }
    }

    fn tail(&self) -> u64 {
        self.open_work.up_to_seq()
    }

    fn renew(&mut self, open_work: OpenWork) {
        self.open_work = open_work;
        self.queued.clear();
        self.generation += 1;
        self.is_stale = false;
    }

    fn distrust(&mut self, generation: u64) {
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
