//! Access to the bus from inside its process: publish, listen and stop without a socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::Waker;

use crate::class::Class;
use crate::error::PublishError;
use crate::filter::Filter;
use crate::message::Message;
use crate::replay::PageResult;

/// Messages from inside that wait for the server thread. Beyond that, publishing returns `Full`,
/// because publishers must never block.
const INBOX_MAX: usize = 65_536;

/// Bytes of those messages; the same happens beyond it.
const INBOX_BYTES_MAX: usize = 64 << 20;

/// Bulk messages (output lines, live deltas) may fill one part in this many of the inbox, so that
/// a flood of them leaves room for the messages that clients wait for.
const BULK_SHARE: usize = 2;

/// Messages that wait for one listener. Beyond that, the newest are dropped and counted.
const LISTENER_MAX: usize = 65_536;

/// Access to a running server. Clones share it between threads.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<HandleShared>,
}

/// Receives messages inside the process.
pub struct Listener {
    queue: Arc<ListenerQueue>,
    /// Set if this listener is counted in `line_listeners`.
    shared: Option<Arc<HandleShared>>,
}

impl Handle {
    pub(crate) fn new(waker: Waker) -> Handle {
        Handle {
            shared: Arc::new(HandleShared {
                waker,
                inbox: Mutex::default(),
                taken: Condvar::new(),
                is_woken: AtomicBool::new(false),
                clients: AtomicUsize::new(0),
                line_listeners: AtomicUsize::new(0),
                has_line_clients: AtomicBool::new(false),
            }),
        }
    }

    /// Sends a message to all clients and listeners. Never blocks.
    pub fn publish(&self, message: Message) -> Result<(), PublishError> {
        self.enqueue(InboxItem::Publish(message))
    }

    /// Publishes like [`Handle::publish`], but retries within the limit when the inbox is full, each
    /// time the server has emptied it.
    pub fn publish_within(&self, message: Message, limit: Duration) -> Result<(), PublishError> {
        let until = Instant::now() + limit;
        loop {
            let published = self.publish(message.clone());
            let left = until.saturating_duration_since(Instant::now());
            if published != Err(PublishError::Full) || left.is_zero() {
                return published;
            }
            self.wait_taken(left);
        }
    }

    /// Publishes the messages of a journal position; a client that misses them can read them there.
    /// Positions rise. Positions in between have no messages on the bus.
    pub fn publish_recorded(
        &self,
        messages: Vec<Message>,
        position: u64,
    ) -> Result<(), PublishError> {
        self.enqueue(InboxItem::Recorded { messages, position })
    }

    /// Announces how far the journal goes, so that subscribers with a start position read on.
    pub fn announce_position(&self, position: u64) -> Result<(), PublishError> {
        self.enqueue(InboxItem::Recorded { messages: Vec::new(), position })
    }

    /// Waits until the server has taken everything published; returns whether it did in time.
    pub fn wait_taken(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut inbox = self.shared.lock();
        while !inbox.queue.is_empty() && !inbox.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.taken.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        inbox.queue.is_empty()
    }

    /// Starts a listener for the messages that match the filter from now on.
    pub fn listen(&self, filter: Filter) -> Result<Listener, PublishError> {
        self.listen_with_overflow(filter, |_| ())
    }

    /// Starts a listener. When its queue is full, its messages go to `overflow`, which runs on
    /// the server's thread and must not block.
    pub fn listen_with_overflow(
        &self,
        filter: Filter,
        overflow: impl Fn(&Message) + Send + Sync + 'static,
    ) -> Result<Listener, PublishError> {
        let shared = filter.may_match("logs", "line").then(|| Arc::clone(&self.shared));
        let queue = Arc::new(ListenerQueue {
            filter,
            state: Mutex::default(),
            news: Condvar::new(),
            overflow: Box::new(overflow),
        });
        // Through the inbox: the listener hears exactly what is published behind this call.
        self.enqueue(InboxItem::Listen(Arc::clone(&queue)))?;
        if let Some(shared) = &shared {
            // Only a listener that was taken is counted, because only that one counts down when
            // dropped.
            shared.line_listeners.fetch_add(1, Ordering::AcqRel);
        }
        Ok(Listener { queue, shared })
    }

    /// Asks the server to stop. Messages published before still go out.
    pub fn stop(&self) {
        self.shared.lock().is_stopping = true;
        self.wake_server();
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.shared.clients.load(Ordering::Relaxed)
    }

    /// Returns whether a client or listener may want `logs.line`. Programs print so many lines that
    /// the publisher should not build messages that have no reader.
    pub fn wants_log_lines(&self) -> bool {
        self.shared.has_line_clients.load(Ordering::Acquire)
            || self.shared.line_listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn set_line_clients(&self, are_there: bool) {
        self.shared.has_line_clients.store(are_there, Ordering::Release);
    }

    pub(crate) fn set_clients(&self, count: usize) {
        self.shared.clients.store(count, Ordering::Relaxed);
    }

    /// Takes everything from the inbox, and whether to stop.
    pub(crate) fn take_inbox(&self) -> InboxBatch {
        // Reset before taking: a publisher that comes in between wakes the server once too often,
        // never once too little.
        self.shared.is_woken.store(false, Ordering::Release);
        let mut inbox = self.shared.lock();
        inbox.bytes = 0;
        self.shared.taken.notify_all();
        InboxBatch {
            inside: std::mem::take(&mut inbox.queue),
            pages: std::mem::take(&mut inbox.pages),
            is_stopping: inbox.is_stopping,
        }
    }

    pub(crate) fn close(&self) {
        self.shared.lock().is_closed = true;
        self.shared.taken.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.lock().is_closed
    }

    /// Hands a replay page to the server. The inbox needs no limit: each client waits for one page.
    pub(crate) fn hand_over(&self, answer: PageResult) {
        self.shared.lock().pages.push(answer);
        self.wake_server();
    }

    fn enqueue(&self, inside: InboxItem) -> Result<(), PublishError> {
        let share = if inside.is_bulk() { BULK_SHARE } else { 1 };
        let mut inbox = self.shared.lock();
        if inbox.is_closed || inbox.is_stopping {
            return Err(PublishError::Stopped);
        }
        let len = inside.len();
        if inbox.queue.len() >= INBOX_MAX / share || inbox.bytes + len > INBOX_BYTES_MAX / share {
            return Err(PublishError::Full);
        }
        inbox.bytes += len;
        inbox.queue.push_back(inside);
        // Unlocked first, or the woken server would wait for this thread at once.
        drop(inbox);
        self.wake_server();
        Ok(())
    }

    /// Wakes the server, at most once until it empties the inbox.
    fn wake_server(&self) {
        if !self.shared.is_woken.swap(true, Ordering::AcqRel) {
            // Waking fails only after the server is gone.
            let _ = self.shared.waker.wake();
        }
    }
}

impl Listener {
    /// Returns the next message; `None` after the limit or once the server has stopped.
    pub fn next(&self, limit: Duration) -> Option<Message> {
        let until = Instant::now() + limit;
        let mut state = self.queue.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                return Some(message);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.is_closed || left.is_zero() {
                return None;
            }
            let waited = self.queue.news.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the listener: a thread that waits in [`Listener::next`] returns.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Returns whether more messages may come.
    pub fn is_open(&self) -> bool {
        let state = self.queue.lock();
        !state.is_closed || !state.messages.is_empty()
    }

    /// Returns how many messages were dropped since the last call.
    pub fn missed(&self) -> u64 {
        std::mem::take(&mut self.queue.lock().missed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The server lets go of the queue when the next message comes.
        self.queue.lock().is_closed = true;
        if let Some(shared) = &self.shared {
            shared.line_listeners.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

struct HandleShared {
    waker: Waker,
    inbox: Mutex<Inbox>,
    /// Notified when the server has emptied the inbox, and when it stops.
    taken: Condvar,
    is_woken: AtomicBool,
    clients: AtomicUsize,
    /// Listeners that may want `logs.line`, and whether a client may.
    line_listeners: AtomicUsize,
    has_line_clients: AtomicBool,
}

impl HandleShared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No code panics while holding the lock, and the inbox would still be whole.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Inbox {
    queue: VecDeque<InboxItem>,
    bytes: usize,
    pages: Vec<PageResult>,
    is_stopping: bool,
    is_closed: bool,
}

/// Everything that came in since the server last looked.
pub(crate) struct InboxBatch {
    pub(crate) inside: VecDeque<InboxItem>,
    pub(crate) pages: Vec<PageResult>,
    pub(crate) is_stopping: bool,
}

/// A request from inside the process.
pub(crate) enum InboxItem {
    Publish(Message),
    Recorded { messages: Vec<Message>, position: u64 },
    Listen(Arc<ListenerQueue>),
}

impl InboxItem {
    fn len(&self) -> usize {
        match self {
            InboxItem::Publish(message) => message.line().len(),
            InboxItem::Recorded { messages, .. } => {
                messages.iter().map(|message| message.line().len()).sum()
            }
            InboxItem::Listen(_) => 0,
        }
    }

    fn is_bulk(&self) -> bool {
        match self {
            InboxItem::Publish(message) => {
                let tract = message.tract().unwrap_or_default();
                let event = message.event().unwrap_or_default();
                Class::for_event(&tract, &event) == Class::Bulk
            }
            InboxItem::Recorded { .. } | InboxItem::Listen(_) => false,
        }
    }
}

/// The queue of one listener.
pub(crate) struct ListenerQueue {
    pub(crate) filter: Filter,
    state: Mutex<ListenerState>,
    news: Condvar,
    overflow: Box<dyn Fn(&Message) + Send + Sync>,
}

#[derive(Default)]
struct ListenerState {
    messages: VecDeque<Message>,
    missed: u64,
    is_closed: bool,
}

impl ListenerQueue {
    /// Queues a message; returns whether the listener is still open.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        if state.messages.len() < LISTENER_MAX {
            state.messages.push_back(message);
        } else {
            state.missed += 1;
            // Unlock first: `overflow` may publish and must not hold up this listener.
            drop(state);
            (self.overflow)(&message);
        }
        self.news.notify_one();
        true
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.lock().is_closed
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
