//! The one writer: takes whatever waits, commits it, then tells.
//!
//! Batches form by themselves: while one commit runs, the next gathers. Nothing ticks; an idle
//! writer sleeps until somebody appends.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use event::{Draft, SessionId, Time};

use crate::AppendError;
use crate::batch::{Receipt, Recording};
use crate::commit::{Copied, Memory, Plan};
use crate::feed::Feed;
use crate::intake::Prepared;
use crate::limit::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX};
use crate::options::Access;
use crate::store::{CommitError, Store};

/// The queue in front of the writer's thread, and the thread.
pub(crate) struct Writer {
    access: Access,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A promise of the writer: the answer to one submission, once it is known.
///
/// Dropping it does not take the submission back.
pub struct Ticket {
    slot: Arc<Slot>,
    /// What was submitted, as it will be stored.
    drafts: Vec<Arc<Draft>>,
}

/// What the writer can be asked to do.
pub(crate) enum Work {
    Append(Prepared),
    /// A named consumer has got this far.
    Advance {
        name: String,
        position: u64,
    },
    /// Remove a session, after giving its forks their own copies.
    Delete {
        session_id: SessionId,
        at: Time,
        copies: Vec<Copied>,
    },
}

struct Shared {
    store: Arc<dyn Store>,
    feed: Arc<Feed>,
    queue: Mutex<Queue>,
    /// Signalled when there is work, and when the queue is closed.
    work: Condvar,
    /// Signalled when there is room.
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Submission>,
    events: usize,
    bytes: usize,
    closed: bool,
    /// Set when a commit failed in a way that leaves its outcome unknown.
    broken: Option<Arc<str>>,
}

struct Submission {
    work: Work,
    slot: Arc<Slot>,
}

type Answer = Result<Receipt, AppendError>;

#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
}

impl Writer {
    pub(crate) fn new(store: Arc<dyn Store>, feed: Arc<Feed>, access: Access) -> Writer {
        let shared = Shared {
            store,
            feed,
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        };
        Writer { access, shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Queues the work, waiting for room if too much waits already.
    pub(crate) fn submit(&self, work: Work) -> Result<Ticket, AppendError> {
        if self.access == Access::ReadOnly {
            return Err(AppendError::ReadOnly);
        }
        self.ensure_thread();
        let mut queue = self.shared.queue();
        while queue.is_full() && !queue.closed {
            queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed {
            return Err(AppendError::Closed);
        }
        if let Some(why) = &queue.broken {
            return Err(AppendError::NotDurable(Arc::clone(why)));
        }
        let slot = Arc::new(Slot::default());
        queue.events += work.events();
        queue.bytes += work.bytes();
        let drafts = work.drafts();
        queue.waiting.push_back(Submission { work, slot: Arc::clone(&slot) });
        self.shared.work.notify_one();
        Ok(Ticket { slot, drafts })
    }

    /// Finishes what was accepted, then refuses everything. Closing twice is fine. Tells whether
    /// there was something to finish.
    pub(crate) fn close(&self) -> bool {
        self.shared.queue().closed = true;
        self.shared.work.notify_all();
        self.shared.room.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A writer that panicked has already answered everybody with `Closed`.
        thread.map(JoinHandle::join).is_some()
    }

    /// The thread starts with the first append: who only reads needs none.
    fn ensure_thread(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.shared.queue().closed {
            let shared = Arc::clone(&self.shared);
            let spawned =
                std::thread::Builder::new().name("journal writer".to_owned()).spawn(move || {
                    let _farewell = Farewell(&shared);
                    shared.run();
                });
            *thread = Some(spawned.expect("a thread can be started"));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ticket {
    /// Waits until the batch is recorded or refused.
    pub fn wait(self) -> Result<Receipt, AppendError> {
        let mut answer = self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            answer = self.slot.answered.wait(answer).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, and returns the events of the batch that were not recorded before, each with its
    /// `seq`.
    pub fn wait_for_news(mut self) -> Result<Vec<(u64, Arc<Draft>)>, AppendError> {
        let drafts = std::mem::take(&mut self.drafts);
        let appended = self.wait()?.events.into_iter().zip(drafts);
        let news = appended.filter(|(appended, _)| appended.outcome == Recording::Recorded);
        Ok(news.map(|(appended, draft)| (appended.seq, draft)).collect())
    }

    /// Whether there is nothing to wait for.
    pub fn is_answered(&self) -> bool {
        self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Answers everybody who still waits when the writer ends, however it ends.
struct Farewell<'a>(&'a Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        for submission in queue.waiting.drain(..) {
            submission.slot.answer(Err(AppendError::Closed));
        }
        self.0.room.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut memory = Memory::default();
        while let Some(group) = self.next_group() {
            let answers = self.commit(&mut memory, &group);
            for (Submission { work, slot }, answer) in group.into_iter().zip(answers) {
                drop(work);
                slot.answer(answer);
            }
        }
    }

    /// Waits for work and takes as much of it as one commit may hold; `None` when closed.
    fn next_group(&self) -> Option<Vec<Submission>> {
        let mut queue = self.queue();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut events, mut bytes) = (0, 0);
        let mut group = Vec::new();
        while let Some(next) = queue.waiting.front() {
            events += next.work.events();
            bytes += next.work.bytes();
            let is_alone = matches!(next.work, Work::Delete { .. });
            let is_full = events > COMMIT_EVENTS_MAX || bytes > COMMIT_BYTES_MAX;
            if !group.is_empty() && (is_full || is_alone) {
                break;
            }
            group.extend(queue.waiting.pop_front());
            // Nothing in the same commit may still count on what is being removed.
            if is_alone {
                break;
            }
        }
        for submission in &group {
            queue.events -= submission.work.events();
            queue.bytes -= submission.work.bytes();
        }
        self.room.notify_all();
        Some(group)
    }

    fn commit(&self, memory: &mut Memory, group: &[Submission]) -> Vec<Answer> {
        let (mut answers, error) = match self.try_commit(memory, group, false) {
            // An id is taken by another session, or a store was changed by hand: forget what was
            // known, look every id up and leave the batch of a taken one out.
            Err((_, CommitError::IdTaken)) => {
                memory.clear();
                match self.try_commit(memory, group, true) {
                    Ok(answers) => (answers, None),
                    Err((answers, error)) => (answers, Some(error)),
                }
            }
            Ok(answers) => (answers, None),
            Err((answers, error)) => (answers, Some(error)),
        };
        if let Some(error) = error {
            memory.clear();
            let error = self.failed(&error);
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(error.clone());
            }
        }
        answers
    }

    fn try_commit(
        &self,
        memory: &mut Memory,
        group: &[Submission],
        check_ids: bool,
    ) -> Result<Vec<Answer>, (Vec<Answer>, CommitError)> {
        let refuse_all = |error: AppendError| group.iter().map(|_| Err(error.clone())).collect();
        let commit = match self.store.begin() {
            Ok(commit) => commit,
            Err(error) => return Ok(refuse_all(error)),
        };
        let mut plan = match Plan::new(&*commit, memory, check_ids) {
            Ok(plan) => plan,
            Err(error) => return Ok(refuse_all(error)),
        };
        let answers: Vec<Answer> =
            group.iter().map(|submission| submission.work.plan(&mut plan)).collect();
        let ahead = match group {
            [Submission { work: Work::Append(prepared), .. }] => prepared.packed.as_deref(),
            _ => None,
        };
        let changes = plan.into_changes(&*self.store, ahead);
        if changes.is_empty() {
            return Ok(answers);
        }
        match commit.apply(&changes) {
            Ok(()) => {
                memory.committed(&changes);
                if group.iter().any(|submission| matches!(submission.work, Work::Delete { .. })) {
                    self.feed.state().backlog().clear();
                }
                self.feed.publish(&changes.events);
                Ok(answers)
            }
            Err(error) => Err((answers, error)),
        }
    }

    fn failed(&self, error: &CommitError) -> AppendError {
        match error {
            CommitError::OutOfSpace => AppendError::OutOfSpace,
            CommitError::Storage(error) => AppendError::Storage(error.clone()),
            CommitError::IdTaken | CommitError::NotDurable(_) => {
                let why: Arc<str> = error.to_string().into();
                self.queue().broken = Some(Arc::clone(&why));
                AppendError::NotDurable(why)
            }
        }
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.events >= QUEUE_EVENTS_MAX || self.bytes >= QUEUE_BYTES_MAX
    }
}

impl Slot {
    fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.answered.notify_all();
    }
}

impl Work {
    fn events(&self) -> usize {
        match self {
            Work::Append(prepared) => prepared.items.len(),
            Work::Advance { .. } => 1,
            Work::Delete { copies, .. } => {
                1 + copies.iter().map(|copy| copy.inherited.len()).sum::<usize>()
            }
        }
    }

    fn drafts(&self) -> Vec<Arc<Draft>> {
        let Work::Append(prepared) = self else { return Vec::new() };
        prepared.drafts().cloned().collect()
    }

    fn bytes(&self) -> usize {
        match self {
            Work::Append(prepared) => prepared.bytes,
            Work::Advance { .. } | Work::Delete { .. } => 0,
        }
    }

    fn plan(&self, plan: &mut Plan<'_>) -> Answer {
        match self {
            Work::Append(prepared) => return plan.add(prepared),
            Work::Advance { name, position } => plan.advance(name, *position),
            Work::Delete { session_id, at, copies } => plan.delete(session_id, *at, copies)?,
        }
        Ok(Receipt { events: Vec::new() })
    }
}
