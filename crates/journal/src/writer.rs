//! The one writer thread: takes the requests that wait, commits them together, then publishes.
//!
//! Group commit without a timer: while one commit runs, the next group gathers in the queue. An
//! idle writer sleeps until a request arrives.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use event::{Draft, SessionId, Time};

use crate::AppendError;
use crate::batch::{AppendOutcome, Receipt};
use crate::commit::{CommitPlan, ForkCopy, WriterCache};
use crate::feed::Feed;
use crate::limit::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX, QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX};
use crate::options::Access;
use crate::prepare::PreparedBatch;
use crate::store::{CommitError, Store};

/// The queue in front of the writer thread, and the thread.
pub(crate) struct Writer {
    access: Access,
    shared: Arc<WriterShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// An append that is on its way, as a future would be.
///
/// Dropping it does not take the batch back.
pub struct PendingAppend {
    slot: Arc<ReplySlot>,
    /// The events of the batch, as they will be stored.
    drafts: Vec<Arc<Draft>>,
}

/// A request to the writer.
pub(crate) enum WriteRequest {
    Append(PreparedBatch),
    /// Record how far a named consumer has read.
    AdvanceConsumer {
        name: String,
        position: u64,
    },
    /// Remove a session, after its forks have got their own copies.
    DeleteSession {
        session_id: SessionId,
        at: Time,
        copies: Vec<ForkCopy>,
    },
}

/// What callers and the writer thread share.
struct WriterShared {
    store: Arc<dyn Store>,
    feed: Arc<Feed>,
    queue: Mutex<WriteQueue>,
    /// Signalled when a request arrives, and when the queue is closed.
    has_work: Condvar,
    /// Signalled when requests leave the queue.
    has_room: Condvar,
}

#[derive(Default)]
struct WriteQueue {
    waiting: VecDeque<QueuedWrite>,
    events: usize,
    bytes: usize,
    is_closed: bool,
    /// Set when a commit failed in a way that leaves its outcome unknown. The writer then refuses
    /// everything until the journal is opened again.
    broken: Option<Arc<str>>,
}

struct QueuedWrite {
    request: WriteRequest,
    reply: ReplySender,
}

/// The writer's end of a slot. Dropped without a reply, it tells the caller that the outcome is
/// unknown: a writer that panics inside a commit must not leave its callers waiting.
struct ReplySender(Option<Arc<ReplySlot>>);

type WriteReply = Result<Receipt, AppendError>;

/// Where the writer leaves the reply to one request.
#[derive(Default)]
struct ReplySlot {
    reply: Mutex<Option<WriteReply>>,
    replied: Condvar,
}

impl Writer {
    pub(crate) fn new(store: Arc<dyn Store>, feed: Arc<Feed>, access: Access) -> Writer {
        let shared = WriterShared {
            store,
            feed,
            queue: Mutex::default(),
            has_work: Condvar::new(),
            has_room: Condvar::new(),
        };
        Writer { access, shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Queues a request. Waits for room if the queue is full.
    pub(crate) fn submit(&self, request: WriteRequest) -> Result<PendingAppend, AppendError> {
        if self.access == Access::ReadOnly {
            return Err(AppendError::ReadOnly);
        }
        // Before the queue is locked: `start_thread` takes the thread's lock first and then the
        // queue's, and the opposite order could deadlock with it.
        self.start_thread();
        let mut queue = self.shared.lock_queue();
        // The limit is checked before adding, so one large request may exceed it. Otherwise an
        // import larger than the queue would wait for ever.
        while queue.is_full() && !queue.is_closed {
            queue = self.shared.has_room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_closed {
            return Err(AppendError::Closed);
        }
        if let Some(why) = &queue.broken {
            return Err(AppendError::NotDurable(Arc::clone(why)));
        }
        let slot = Arc::new(ReplySlot::default());
        queue.events += request.event_count();
        queue.bytes += request.byte_count();
        let drafts = request.drafts();
        let reply = ReplySender(Some(Arc::clone(&slot)));
        queue.waiting.push_back(QueuedWrite { request, reply });
        self.shared.has_work.notify_one();
        Ok(PendingAppend { slot, drafts })
    }

    /// Finishes what was accepted, then refuses everything. Closing twice is fine. Returns whether
    /// a writer thread had run.
    pub(crate) fn close(&self) -> bool {
        // Set under the lock: a submit has either queued its request, which the thread still
        // commits, or sees the flag.
        self.shared.lock_queue().is_closed = true;
        self.shared.has_work.notify_all();
        self.shared.has_room.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If the thread panicked, `CloseOnExit` has replied `Closed` to every caller that waited;
        // those of the group that was being committed got `NotDurable`.
        thread.map(JoinHandle::join).is_some()
    }

    /// Starts the thread with the first request: a process that only reads needs none.
    fn start_thread(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // After `close` no request can be queued, so a thread would have nothing to do.
        if thread.is_none() && !self.shared.lock_queue().is_closed {
            let shared = Arc::clone(&self.shared);
            let spawned =
                std::thread::Builder::new().name("journal writer".to_owned()).spawn(move || {
                    let _close = CloseOnExit(&shared);
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

impl PendingAppend {
    /// Waits until the batch is recorded or refused.
    pub fn wait(self) -> Result<Receipt, AppendError> {
        let mut reply = self.slot.reply.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(reply) = reply.take() {
                return reply;
            }
            reply = self.slot.replied.wait(reply).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, and returns the events of the batch that were not recorded before, each with its
    /// `seq`.
    pub fn wait_for_new(mut self) -> Result<Vec<(u64, Arc<Draft>)>, AppendError> {
        let drafts = std::mem::take(&mut self.drafts);
        // A receipt has one entry per event of the batch, in its order.
        let receipts = self.wait()?.events.into_iter().zip(drafts);
        let new = receipts.filter(|(receipt, _)| receipt.outcome == AppendOutcome::Recorded);
        Ok(new.map(|(receipt, draft)| (receipt.seq, draft)).collect())
    }

    /// Whether [`PendingAppend::wait`] would return at once.
    pub fn is_answered(&self) -> bool {
        self.slot.reply.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Closes the queue when the writer thread ends, also by a panic: callers that still wait get a
/// reply instead of waiting for ever.
struct CloseOnExit<'a>(&'a WriterShared);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock_queue();
        queue.is_closed = true;
        // Empty after a regular end, because the thread takes everything before it stops.
        for write in queue.waiting.drain(..) {
            write.reply.send(Err(AppendError::Closed));
        }
        self.0.has_room.notify_all();
    }
}

impl WriterShared {
    fn lock_queue(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut cache = WriterCache::default();
        while let Some(group) = self.next_group() {
            let replies = self.commit_group(&mut cache, &group);
            for (QueuedWrite { request, reply: sender }, reply) in group.into_iter().zip(replies) {
                // Freed before its caller goes on: two batches would stand in memory otherwise.
                drop(request);
                sender.send(reply);
            }
        }
    }

    /// Waits for requests and takes as many as one commit may hold; `None` when closed.
    fn next_group(&self) -> Option<Vec<QueuedWrite>> {
        let mut queue = self.lock_queue();
        while queue.waiting.is_empty() {
            if queue.is_closed {
                return None;
            }
            queue = self.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut events, mut bytes) = (0, 0);
        let mut group = Vec::new();
        while let Some(next) = queue.waiting.front() {
            events += next.request.event_count();
            bytes += next.request.byte_count();
            // A deletion gets a commit of its own: a batch of the same commit could still inherit
            // from the session that goes.
            let is_deletion = matches!(next.request, WriteRequest::DeleteSession { .. });
            let is_full = events > COMMIT_EVENTS_MAX || bytes > COMMIT_BYTES_MAX;
            // The first request is taken whatever its size; an import may exceed the limit.
            if !group.is_empty() && (is_full || is_deletion) {
                break;
            }
            group.extend(queue.waiting.pop_front());
            if is_deletion {
                break;
            }
        }
        for write in &group {
            queue.events -= write.request.event_count();
            queue.bytes -= write.request.byte_count();
        }
        self.has_room.notify_all();
        Some(group)
    }

    /// Commits a group and returns one reply per request.
    fn commit_group(&self, cache: &mut WriterCache, group: &[QueuedWrite]) -> Vec<WriteReply> {
        let (mut replies, error) = match self.try_commit(cache, group, false) {
            // Another session has one of the ids, or files of the store were changed by hand.
            // Plan again without the cache and look every id up: the batch with the taken id is
            // refused, and the others of the group are committed.
            Err((_, CommitError::IdTaken)) => {
                cache.clear();
                match self.try_commit(cache, group, true) {
                    Ok(replies) => (replies, None),
                    Err((replies, error)) => (replies, Some(error)),
                }
            }
            Ok(replies) => (replies, None),
            Err((replies, error)) => (replies, Some(error)),
        };
        if let Some(error) = error {
            cache.clear();
            let error = self.note_failure(&error);
            // Refused batches keep their own reason; the accepted ones share the failure.
            for reply in replies.iter_mut().filter(|reply| reply.is_ok()) {
                *reply = Err(error.clone());
            }
        }
        replies
    }

    fn try_commit(
        &self,
        cache: &mut WriterCache,
        group: &[QueuedWrite],
        check_ids: bool,
    ) -> Result<Vec<WriteReply>, (Vec<WriteReply>, CommitError)> {
        let refuse_all = |error: AppendError| group.iter().map(|_| Err(error.clone())).collect();
        // No commit was begun, so nothing is unknown: all callers may try again, and the cache
        // stays valid.
        let commit = match self.store.begin() {
            Ok(commit) => commit,
            Err(error) => return Ok(refuse_all(error)),
        };
        let mut plan = match CommitPlan::new(&*commit, cache, check_ids) {
            Ok(plan) => plan,
            Err(error) => return Ok(refuse_all(error)),
        };
        let replies: Vec<WriteReply> =
            group.iter().map(|write| write.request.stage_in(&mut plan)).collect();
        // Blocks that were packed ahead hold the events of one batch only. In a larger group they
        // would not line up with the plan's events.
        let packed_ahead = match group {
            [QueuedWrite { request: WriteRequest::Append(batch), .. }] => batch.packed.as_deref(),
            _ => None,
        };
        let changes = plan.into_changes(&*self.store, packed_ahead);
        // A group of duplicates or refusals costs no write and no sync.
        if changes.is_empty() {
            return Ok(replies);
        }
        match commit.apply(&changes) {
            Ok(()) => {
                cache.apply_commit(&changes);
                let is_deletion = |write: &QueuedWrite| {
                    matches!(write.request, WriteRequest::DeleteSession { .. })
                };
                if group.iter().any(is_deletion) {
                    // The backlog may hold events of the session that is gone.
                    self.feed.state().backlog().clear();
                }
                // Published only now: what a follower saw is durable.
                self.feed.publish(&changes.events);
                Ok(replies)
            }
            Err(error) => Err((replies, error)),
        }
    }

    /// Turns the failure of a commit into the reply, and stops the writer if the outcome of the
    /// commit is unknown.
    fn note_failure(&self, error: &CommitError) -> AppendError {
        match error {
            CommitError::OutOfSpace => AppendError::OutOfSpace,
            CommitError::Storage(error) => AppendError::Storage(error.clone()),
            // `IdTaken` arrives here only from the second try, which had looked every id up: the
            // store contradicts itself, and more writes could make it worse.
            CommitError::IdTaken | CommitError::NotDurable(_) => {
                let why: Arc<str> = error.to_string().into();
                self.lock_queue().broken = Some(Arc::clone(&why));
                AppendError::NotDurable(why)
            }
        }
    }
}

impl WriteQueue {
    fn is_full(&self) -> bool {
        self.events >= QUEUE_EVENTS_MAX || self.bytes >= QUEUE_BYTES_MAX
    }
}

impl ReplySender {
    fn send(mut self, reply: WriteReply) {
        if let Some(slot) = self.0.take() {
            slot.set_reply(reply);
        }
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.set_reply(Err(AppendError::NotDurable("the writer failed".into())));
        }
    }
}

impl ReplySlot {
    fn set_reply(&self, reply: WriteReply) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        self.replied.notify_all();
    }
}

impl WriteRequest {
    fn event_count(&self) -> usize {
        match self {
            WriteRequest::Append(batch) => batch.items.len(),
            WriteRequest::AdvanceConsumer { .. } => 1,
            WriteRequest::DeleteSession { copies, .. } => {
                // The copies are written by the same commit as any other event.
                1 + copies.iter().map(|copy| copy.inherited.len()).sum::<usize>()
            }
        }
    }

    fn drafts(&self) -> Vec<Arc<Draft>> {
        let WriteRequest::Append(batch) = self else { return Vec::new() };
        batch.drafts().cloned().collect()
    }

    fn byte_count(&self) -> usize {
        match self {
            WriteRequest::Append(batch) => batch.bytes,
            // Copies are not measured: a deletion is committed alone, whatever its size.
            WriteRequest::AdvanceConsumer { .. } | WriteRequest::DeleteSession { .. } => 0,
        }
    }

    fn stage_in(&self, plan: &mut CommitPlan<'_>) -> WriteReply {
        match self {
            WriteRequest::Append(batch) => return plan.stage_batch(batch),
            WriteRequest::AdvanceConsumer { name, position } => {
                plan.advance_consumer(name, *position);
            }
            WriteRequest::DeleteSession { session_id, at, copies } => {
                plan.delete_session(session_id, *at, copies)?;
            }
        }
        Ok(Receipt { events: Vec::new() })
    }
}
