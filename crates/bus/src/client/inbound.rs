//! What was heard and not yet taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Item;

/// Messages that wait for the caller. With more, the oldest are given up, and it is told; or
/// nothing more is read from the server until there is room.
const MESSAGES_MAX: usize = 10_000;

/// Bytes of them.
const BYTES_MAX: usize = 16 << 20;

pub(super) struct Inbound {
    state: Mutex<Waiting>,
    news: Condvar,
    room: Condvar,
    /// Whether whoever puts something in waits until there is room.
    is_patient: bool,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    messages: usize,
    bytes: usize,
    /// Given up since the caller was told last.
    lagged: u64,
    is_closed: bool,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.messages >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    fn is_overfull(&self) -> bool {
        self.messages > MESSAGES_MAX || (self.bytes > BYTES_MAX && self.messages > 1)
    }
}

impl Inbound {
    pub(super) fn new(is_patient: bool) -> Inbound {
        Inbound { state: Mutex::default(), news: Condvar::new(), room: Condvar::new(), is_patient }
    }

    pub(super) fn put(&self, item: Item) {
        let mut state = self.lock();
        while self.is_patient && state.is_full() && !state.is_closed {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Item::Message(message) = &item {
            state.messages += 1;
            state.bytes += message.line().len();
        }
        state.items.push_back(item);
        // The one that was just put in stays, however long it is.
        while !self.is_patient && state.is_overfull() {
            let is_message = |item: &Item| matches!(item, Item::Message(_));
            let Some(oldest) = state.items.iter().position(is_message) else { break };
            if let Some(Item::Message(message)) = state.items.remove(oldest) {
                state.messages -= 1;
                state.bytes -= message.line().len();
                state.lagged += 1;
            }
        }
        self.news.notify_all();
    }

    /// The next item; `None` when the time is over or the client was stopped.
    pub(super) fn next(&self, limit: Option<Duration>) -> Option<Item> {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        loop {
            if state.lagged > 0 {
                return Some(Item::Lagged { dropped: std::mem::take(&mut state.lagged) });
            }
            if let Some(item) = state.items.pop_front() {
                if let Item::Message(message) = &item {
                    state.messages -= 1;
                    state.bytes -= message.line().len();
                    self.room.notify_one();
                }
                return Some(item);
            }
            if state.is_closed {
                return None;
            }
            state = match until {
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let waited = self.news.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.news.notify_all();
        self.room.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits for the client to be stopped; whether it was.
    pub(super) fn wait_closed(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.is_closed || left.is_zero() {
                return state.is_closed;
            }
            let waited = self.news.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
