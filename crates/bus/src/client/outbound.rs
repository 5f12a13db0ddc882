//! The queue of messages that are not written yet, and the thread that writes them.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::inbound::Inbound;
use crate::relay::LINE_MAX;

/// Messages that wait to be written. Beyond that, `emit` returns `Full`.
const MESSAGES_MAX: usize = 1_000;

/// Bytes of those messages. One longer message is accepted if the queue is empty.
const BYTES_MAX: usize = 4 << 20;

/// How long a message is held without a connection. Then it is dropped and reported as lost.
const HELD_MAX: Duration = Duration::from_secs(10);

/// Why a message was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    #[error("too many messages wait to be written")]
    Full,
    #[error("there is no connection to the bus")]
    Down,
    #[error("a message may have at most {LINE_MAX} bytes")]
    TooLong,
    #[error("the client was stopped")]
    Stopped,
}

pub(super) struct Outbound {
    holds: bool,
    state: Mutex<OutboundState>,
    news: Condvar,
}

#[derive(Default)]
struct OutboundState {
    lines: VecDeque<(Vec<u8>, Instant)>,
    bytes: usize,
    /// The writer has taken a line off the queue and has not finished writing it.
    is_writing: bool,
    stream: Option<UnixStream>,
    /// Counts connections. A write that failed on an old one must not close the new one.
    connection: u64,
    is_closed: bool,
}

impl Outbound {
    pub(super) fn new(holds: bool) -> Outbound {
        Outbound { holds, state: Mutex::default(), news: Condvar::new() }
    }

    pub(super) fn put(&self, line: &[u8]) -> Result<(), EmitError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(EmitError::Stopped);
        }
        if state.stream.is_none() && !self.holds {
            return Err(EmitError::Down);
        }
        let is_long = !state.lines.is_empty() && state.bytes + line.len() > BYTES_MAX;
        if state.lines.len() >= MESSAGES_MAX || is_long {
            return Err(EmitError::Full);
        }
        let mut line = line.to_vec();
        line.push(b'\n');
        state.bytes += line.len();
        state.lines.push_back((line, Instant::now()));
        self.news.notify_all();
        Ok(())
    }

    pub(super) fn connect(&self, stream: UnixStream) {
        let mut state = self.lock();
        state.stream = Some(stream);
        state.connection += 1;
        drop(state);
        self.news.notify_all();
    }

    pub(super) fn disconnect(&self) {
        self.lock().stream = None;
        self.news.notify_all();
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.news.notify_all();
    }

    /// Waits until everything is written; returns how many lines are not after the limit.
    pub(super) fn flush(&self, limit: Duration) -> usize {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            let waiting = state.lines.len() + usize::from(state.is_writing);
            let left = until.saturating_duration_since(Instant::now());
            if waiting == 0 || left.is_zero() || state.is_closed {
                return waiting;
            }
            let waited = self.news.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes one line after another until the client is stopped.
    pub(super) fn write_all(&self, told: &Inbound) {
        loop {
            let mut state = self.lock();
            let (line, mut stream) = loop {
                if state.is_closed {
                    return;
                }
                let lost = state.give_up_old();
                if lost > 0 {
                    told.lose(lost);
                    self.news.notify_all();
                }
                // A clone of the stream, so that the lock is free while the write blocks.
                let ready = state.stream.as_ref().and_then(|stream| stream.try_clone().ok());
                if let Some(stream) = ready
                    && let Some((line, _)) = state.lines.pop_front()
                {
                    state.bytes -= line.len();
                    state.is_writing = true;
                    break (line, stream);
                }
                state = self.wait(state);
            };
            let connection = state.connection;
            drop(state);
            let is_written = stream.write_all(&line).is_ok();
            let mut state = self.lock();
            state.is_writing = false;
            if !is_written {
                // Half of the line may have been sent. The server discards an unfinished line, so
                // the message is lost.
                told.lose(1);
                if state.connection == connection {
                    state.stream = None;
                }
            }
            self.news.notify_all();
        }
    }

    /// Waits for a change, or until the oldest line has been held for its full time.
    fn wait<'a>(&self, state: MutexGuard<'a, OutboundState>) -> MutexGuard<'a, OutboundState> {
        let Some((_, queued)) = state.lines.front() else {
            return self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let left = HELD_MAX.saturating_sub(queued.elapsed());
        let waited = self.news.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, OutboundState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboundState {
    /// Drops lines that were held too long without a connection; returns how many.
    fn give_up_old(&mut self) -> u64 {
        let mut count = 0;
        // Lines are in the order of their age, so the first young one ends the search.
        while self.stream.is_none()
            && let Some((line, queued)) = self.lines.front()
            && queued.elapsed() >= HELD_MAX
        {
            self.bytes -= line.len();
            self.lines.pop_front();
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::client::ClientEvent;
    use crate::client::inbound::MESSAGES_MAX as INBOUND_MAX;
    use crate::message::Draft;

    #[test]
    fn writer_never_waits_for_full_inbound() {
        let message = Draft::new("test", "note").build().unwrap();
        let inbound = Arc::new(Inbound::new(true));
        for _ in 0..INBOUND_MAX {
            inbound.put(ClientEvent::Message(message.clone()));
        }
        let outbound = Arc::new(Outbound::new(true));
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        outbound.connect(ours);
        let (told, writer) = (Arc::clone(&inbound), Arc::clone(&outbound));
        std::thread::spawn(move || writer.write_all(&told));
        // The caller takes nothing off the inbound queue meanwhile.
        let (done, is_done) = mpsc::sync_channel(1);
        let caller = Arc::clone(&outbound);
        std::thread::spawn(move || {
            caller.put(message.line()).unwrap();
            let left = caller.flush(Duration::from_secs(60));
            done.send((left, caller.put(message.line()))).unwrap();
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok((0, Ok(()))));
        assert_eq!(inbound.next(Some(Duration::ZERO)), Some(ClientEvent::Lost(1)));
        outbound.close();
    }
}
