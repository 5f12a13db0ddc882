//! The queue of received events that the caller has not taken yet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ClientEvent;

/// Messages that wait for the caller. Beyond that, a lossy queue drops the oldest and counts
/// them; a blocking one stops reading from the server until there is room.
pub(super) const MESSAGES_MAX: usize = 10_000;

/// Bytes of those messages; the same happens beyond it.
const BYTES_MAX: usize = 16 << 20;

pub(super) struct Inbound {
    state: Mutex<InboundState>,
    news: Condvar,
    room: Condvar,
    /// Whether `put` blocks until there is room instead of dropping the oldest.
    is_patient: bool,
}

#[derive(Default)]
struct InboundState {
    items: VecDeque<ClientEvent>,
    messages: usize,
    bytes: usize,
    /// Messages dropped since the last report to the caller.
    lagged: u64,
    /// Queued outgoing messages that could not be written, since the last report.
    lost: u64,
    is_closed: bool,
}

impl InboundState {
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

    pub(super) fn put(&self, item: ClientEvent) {
        let mut state = self.lock();
        // The reader thread waits here. The socket fills up, and the server takes note of a slow
        // client and serves it from the journal later.
        while self.is_patient && state.is_full() && !state.is_closed {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let ClientEvent::Message(message) = &item {
            state.messages += 1;
            state.bytes += message.line().len();
        }
        state.items.push_back(item);
        // The newest message stays even if it alone exceeds the limit: dropping it would lose it
        // although the queue is empty otherwise.
        while !self.is_patient && state.is_overfull() {
            let is_message = |item: &ClientEvent| matches!(item, ClientEvent::Message(_));
            // Only messages are dropped. `Connected`, `CaughtUp` and the like are few, and the
            // caller relies on each of them.
            let Some(oldest) = state.items.iter().position(is_message) else { break };
            if let Some(ClientEvent::Message(message)) = state.items.remove(oldest) {
                state.messages -= 1;
                state.bytes -= message.line().len();
                state.lagged += 1;
            }
        }
        self.news.notify_all();
    }

    /// Counts messages that could not be written. Never blocks: the caller may be waiting for the
    /// writer thread that calls this.
    pub(super) fn lose(&self, count: u64) {
        self.lock().lost += count;
        self.news.notify_all();
    }

    /// Returns the next event; `None` after the limit or once the client is stopped.
    pub(super) fn next(&self, limit: Option<Duration>) -> Option<ClientEvent> {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        loop {
            // Losses first: they happened before what is still queued.
            if state.lagged > 0 {
                return Some(ClientEvent::Lagged { dropped: std::mem::take(&mut state.lagged) });
            }
            if state.lost > 0 {
                return Some(ClientEvent::Lost(std::mem::take(&mut state.lost)));
            }
            if let Some(item) = state.items.pop_front() {
                if let ClientEvent::Message(message) = &item {
                    state.messages -= 1;
                    state.bytes -= message.line().len();
                    self.room.notify_one();
                }
                return Some(item);
            }
            // Behind the queue: what was received before the stop is still delivered.
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

    /// Waits for the client to be stopped; returns whether it was.
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

    fn lock(&self) -> MutexGuard<'_, InboundState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Draft;

    fn message(number: usize, len: usize) -> ClientEvent {
        let draft = Draft::new("test", "note").with("n", number).with("text", "x".repeat(len));
        ClientEvent::Message(draft.build().unwrap())
    }

    #[test]
    fn inbound_is_limited_by_bytes() {
        let inbound = Inbound::new(false);
        for number in 0..3 {
            inbound.put(message(number, 7 << 20));
        }
        let next = || inbound.next(Some(Duration::ZERO));
        assert_eq!(next(), Some(ClientEvent::Lagged { dropped: 1 }));
        assert_eq!(next(), Some(message(1, 7 << 20)));
        assert_eq!(next(), Some(message(2, 7 << 20)));
        // The newest message stays, however long it is.
        let longest = message(3, (16 << 20) - 100);
        inbound.put(message(4, 1_000));
        inbound.put(longest.clone());
        assert_eq!(next(), Some(ClientEvent::Lagged { dropped: 1 }));
        assert_eq!(next(), Some(longest));
        assert_eq!(next(), None);
    }
}
