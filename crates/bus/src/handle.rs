//! The bus from inside the process: publish and listen without a socket, and stop.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::Waker;

use crate::class::Class;
use crate::error::PublishError;
use crate::filter::Filter;
use crate::message::Message;
use crate::record::Answer;

/// Messages from inside that wait for the server's turn. With more, the publisher is told `Full`:
/// it must never wait.
const INBOX_MAX: usize = 65_536;

/// Bytes of them.
const INBOX_BYTES_MAX: usize = 64 << 20;

/// The part of both that lines of output and live deltas may fill, as a divisor: a flood of them
/// leaves room for what somebody waits for.
const BULK_SHARE: usize = 2;

/// Messages that wait for one listener inside. With more, the newest are given up and counted.
const LISTENER_MAX: usize = 65_536;

/// A way to a running server, for as many threads as want one.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What somebody inside the process hears.
pub struct Listener {
    queue: Arc<Queue>,
    /// Where it is counted among those who may want lines of output, if it is.
    shared: Option<Arc<Shared>>,
}

impl Handle {
    pub(crate) fn new(waker: Waker) -> Handle {
        Handle {
            shared: Arc::new(Shared {
                waker,
                inbox: Mutex::default(),
                taken: Condvar::new(),
                is_called: AtomicBool::new(false),
                clients: AtomicUsize::new(0),
                line_listeners: AtomicUsize::new(0),
                has_line_clients: AtomicBool::new(false),
            }),
        }
    }

    /// Gives everybody a message. Never waits.
    pub fn publish(&self, message: Message) -> Result<(), PublishError> {
        self.put(Inside::Publish(message))
    }

    /// The same for one who may wait: it is tried again when the server has taken what was there
    /// before, for as long as that takes or the limit allows.
    pub fn publish_within(&self, message: Message, limit: Duration) -> Result<(), PublishError> {
        let until = Instant::now() + limit;
        loop {
            let published = self.publish(message.clone());
            let left = until.saturating_duration_since(Instant::now());
            if published != Err(PublishError::Full) || left.is_zero() {
                return published;
            }
            self.settle(left);
        }
    }

    /// Gives everybody what is in the record at a position: who misses it can read it there.
    /// Positions rise; what lies between two of them is in the record and not on the bus.
    pub fn publish_recorded(
        &self,
        messages: Vec<Message>,
        position: u64,
    ) -> Result<(), PublishError> {
        self.put(Inside::Recorded { messages, position })
    }

    /// Says how far the record goes: those who began in the past read on by themselves.
    pub fn recorded_up_to(&self, position: u64) -> Result<(), PublishError> {
        self.put(Inside::Recorded { messages: Vec::new(), position })
    }

    /// Waits until the server has taken everything that was published; whether it has in time.
    pub fn settle(&self, limit: Duration) -> bool {
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

    /// Hears what passes the filter, from now on.
    pub fn listen(&self, filter: Filter) -> Result<Listener, PublishError> {
        self.listen_or(filter, |_| ())
    }

    /// The same; a message that finds no room is given to `overflow`, on the server's own thread,
    /// where nobody may wait.
    pub fn listen_or(
        &self,
        filter: Filter,
        overflow: impl Fn(&Message) + Send + Sync + 'static,
    ) -> Result<Listener, PublishError> {
        let shared = filter.may_take("logs", "line").then(|| Arc::clone(&self.shared));
        let queue = Arc::new(Queue {
            filter,
            state: Mutex::default(),
            news: Condvar::new(),
            overflow: Box::new(overflow),
        });
        self.put(Inside::Listen(Arc::clone(&queue)))?;
        if let Some(shared) = &shared {
            shared.line_listeners.fetch_add(1, Ordering::AcqRel);
        }
        Ok(Listener { queue, shared })
    }

    /// Asks the server to stop: what was published before goes out first.
    pub fn stop(&self) {
        self.shared.lock().is_stopping = true;
        self.call();
    }

    /// Clients that are connected now.
    pub fn clients(&self) -> usize {
        self.shared.clients.load(Ordering::Relaxed)
    }

    /// Whether somebody may want `logs.line`. Programs print so many of them that they need not be
    /// made for nobody.
    pub fn hears_lines(&self) -> bool {
        self.shared.has_line_clients.load(Ordering::Acquire)
            || self.shared.line_listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn set_line_clients(&self, are_there: bool) {
        self.shared.has_line_clients.store(are_there, Ordering::Release);
    }

    pub(crate) fn set_clients(&self, count: usize) {
        self.shared.clients.store(count, Ordering::Relaxed);
    }

    /// What came in since the last time, and whether to stop.
    pub(crate) fn take(&self) -> Taken {
        self.shared.is_called.store(false, Ordering::Release);
        let mut inbox = self.shared.lock();
        inbox.bytes = 0;
        self.shared.taken.notify_all();
        Taken {
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

    /// Gives the server a page that somebody waits for: one for each client at most.
    pub(crate) fn hand_over(&self, answer: Answer) {
        self.shared.lock().pages.push(answer);
        self.call();
    }

    fn put(&self, inside: Inside) -> Result<(), PublishError> {
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
        drop(inbox);
        self.call();
        Ok(())
    }

    /// Wakes the server, once for everything it has not looked at yet.
    fn call(&self) {
        if !self.shared.is_called.swap(true, Ordering::AcqRel) {
            // It fails only if the server is gone, and then nobody is to be woken.
            let _ = self.shared.waker.wake();
        }
    }
}

impl Listener {
    /// The next message; `None` when the time is over or the server has stopped.
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

    /// Hears nothing more: whoever waits in [`Listener::next`] waits no longer.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Whether more may come.
    pub fn is_open(&self) -> bool {
        let state = self.queue.lock();
        !state.is_closed || !state.messages.is_empty()
    }

    /// How many messages found no room since the last call.
    pub fn missed(&self) -> u64 {
        std::mem::take(&mut self.queue.lock().missed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        if let Some(shared) = &self.shared {
            shared.line_listeners.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

struct Shared {
    waker: Waker,
    inbox: Mutex<Inbox>,
    /// Signalled when the server has taken what was there, and when it ends.
    taken: Condvar,
    is_called: AtomicBool,
    clients: AtomicUsize,
    /// Those inside the process who may want lines of output, and whether a client may.
    line_listeners: AtomicUsize,
    has_line_clients: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Nobody panics while holding it; if somebody did, what is there is still whole.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Inbox {
    queue: VecDeque<Inside>,
    bytes: usize,
    pages: Vec<Answer>,
    is_stopping: bool,
    is_closed: bool,
}

/// What came in since the server looked last.
pub(crate) struct Taken {
    pub(crate) inside: VecDeque<Inside>,
    pub(crate) pages: Vec<Answer>,
    pub(crate) is_stopping: bool,
}

/// What comes from inside the process.
pub(crate) enum Inside {
    Publish(Message),
    Recorded { messages: Vec<Message>, position: u64 },
    Listen(Arc<Queue>),
}

impl Inside {
    fn len(&self) -> usize {
        match self {
            Inside::Publish(message) => message.line().len(),
            Inside::Recorded { messages, .. } => {
                messages.iter().map(|message| message.line().len()).sum()
            }
            Inside::Listen(_) => 0,
        }
    }

    fn is_bulk(&self) -> bool {
        match self {
            Inside::Publish(message) => {
                let tract = message.tract().unwrap_or_default();
                let event = message.event().unwrap_or_default();
                Class::of(&tract, &event) == Class::Bulk
            }
            Inside::Recorded { .. } | Inside::Listen(_) => false,
        }
    }
}

/// What waits for a listener inside the process.
pub(crate) struct Queue {
    pub(crate) filter: Filter,
    state: Mutex<Waiting>,
    news: Condvar,
    overflow: Box<dyn Fn(&Message) + Send + Sync>,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    missed: u64,
    is_closed: bool,
}

impl Queue {
    /// Gives it a message; whether it still listens.
    pub(crate) fn push(&self, message: Message) -> bool {
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        if state.messages.len() < LISTENER_MAX {
            state.messages.push_back(message);
        } else {
            state.missed += 1;
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

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
