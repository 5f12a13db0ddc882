//! What was heard and not yet taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Item;

/// Messages that wait for the caller. With more, the oldest are given up, and it is told; or
/// nothing more is read from the server until there is room.
pub(super) const MESSAGES_MAX: usize = 10_000;

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
    /// Queued messages that could not be written, since then.
    lost: u64,
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

    /// Notes messages that could not be written. Never waits: whoever says so may be what the caller
    /// waits for.
    pub(super) fn lose(&self, count: u64) {
        self.lock().lost += count;
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
            if state.lost > 0 {
                return Some(Item::Lost(std::mem::take(&mut state.lost)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Draft;

    fn message(number: usize, len: usize) -> Item {
        let draft = Draft::new("test", "note").with("n", number).with("text", "x".repeat(len));
        Item::Message(draft.build().unwrap())
    }

    #[test]
    fn too_many_bytes_for_a_slow_taker_are_given_up() {
        let inbound = Inbound::new(false);
        for number in 0..3 {
            inbound.put(message(number, 7 << 20));
        }
        let next = || inbound.next(Some(Duration::ZERO));
        assert_eq!(next(), Some(Item::Lagged { dropped: 1 }));
        assert_eq!(next(), Some(message(1, 7 << 20)));
        assert_eq!(next(), Some(message(2, 7 << 20)));
        // The newest stays, however long it is.
        let longest = message(3, (16 << 20) - 100);
        inbound.put(message(4, 1_000));
        inbound.put(longest.clone());
        assert_eq!(next(), Some(Item::Lagged { dropped: 1 }));
        assert_eq!(next(), Some(longest));
        assert_eq!(next(), None);
    }
}
