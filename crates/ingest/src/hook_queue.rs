//! The queue of messages that the daemon took from hooks and has not ingested yet.
//!
//! A message is in the `HookLog` before the hook is told that it was taken, so it survives a crash.
//! A hook that is not told so stores its message itself.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capture::Waker;
use event::HookMessage;

use crate::hook_log::HookLog;

/// The most messages in the queue, and the most bytes. Beyond that none is taken.
const MESSAGES_MAX: usize = 10_000;
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Messages that wait to be ingested. Clones share one queue.
#[derive(Clone, Default)]
pub struct HookQueue {
    state: Arc<Mutex<QueueState>>,
}

#[derive(Default)]
struct QueueState {
    /// Each message with its encoded bytes.
    messages: VecDeque<(HookMessage, usize)>,
    bytes: usize,
    /// `None` where it could not be opened, and for a pass without a daemon.
    log: Option<HookLog>,
    /// Wakes the thread that ingests.
    waker: Option<Waker>,
    /// The waker was called for the messages that wait.
    is_woken: bool,
}

impl HookQueue {
    /// A queue with its log in this folder. Messages that an earlier daemon left there wait again.
    pub fn open(folder: &Path) -> io::Result<HookQueue> {
        let (log, messages) = HookLog::open(folder)?;
        let messages: VecDeque<(HookMessage, usize)> =
            messages.into_iter().map(with_bytes).collect();
        let bytes = messages.iter().map(|(_, bytes)| bytes).sum();
        let log = Some(log);
        let state = QueueState { messages, bytes, log, waker: None, is_woken: false };
        Ok(HookQueue { state: Arc::new(Mutex::new(state)) })
    }

    /// Takes out all messages, oldest first. They stay in the log until `finish`.
    pub fn take_all(&self) -> Vec<HookMessage> {
        let mut state = self.lock();
        // The messages leave the limits here, so new ones are taken while these are ingested.
        state.bytes = 0;
        state.is_woken = false;
        let messages: Vec<HookMessage> =
            state.messages.drain(..).map(|(message, _)| message).collect();
        if let Some(log) = state.log.as_mut().filter(|_| !messages.is_empty()) {
            log.rotate();
        }
        messages
    }

    /// Ends what `take_all` began: all messages are recorded or stored elsewhere but the `rest`.
    ///
    /// The rest waits again, in front of newer messages and beyond the limits: most of it was
    /// acknowledged and must not be lost. The log is cleared only if there is no rest.
    pub fn finish(&self, rest: Vec<HookMessage>) {
        let mut state = self.lock();
        if rest.is_empty() {
            // Cleared only when nothing of the file is needed any more.
            if let Some(log) = &mut state.log {
                log.clear_ingested();
            }
            return;
        }
        // From the last to the first, so that the oldest is in front again.
        for (message, bytes) in rest.into_iter().rev().map(with_bytes) {
            state.bytes += bytes;
            state.messages.push_front((message, bytes));
        }
    }

    /// Sets what wakes the thread that ingests, and wakes it if messages wait already.
    pub fn wake_with(&self, waker: Waker) {
        let mut state = self.lock();
        // Under the lock: a message that comes meanwhile either is counted here or wakes by itself.
        state.is_woken = !state.messages.is_empty();
        if state.is_woken {
            waker.wake();
        }
        state.waker = Some(waker);
    }

    /// Adds a message that came another way than the socket; returns what `push_line` does.
    pub fn push(&self, message: HookMessage) -> bool {
        let line = message.encode();
        self.push_line(message, &line)
    }

    /// Adds a message with its encoded line, and returns whether the message is in the log: only
    /// then may the sender forget it.
    ///
    /// A full queue does not take it. A message that the log did not take waits here all the same:
    /// on a full disk the hook cannot store it either, and one that comes twice has no second effect.
    pub(crate) fn push_line(&self, message: HookMessage, line: &[u8]) -> bool {
        let bytes = line.len();
        let mut state = self.lock();
        if state.messages.len() >= MESSAGES_MAX || state.bytes + bytes > BYTES_MAX {
            return false;
        }
        let is_logged = state.log.as_mut().is_some_and(|log| log.append(line).is_ok());
        state.bytes += bytes;
        state.messages.push_back((message, bytes));
        // One wake-up is enough for all messages until they are taken out.
        let is_woken = std::mem::replace(&mut state.is_woken, true);
        if let Some(waker) = state.waker.as_ref().filter(|_| !is_woken) {
            waker.wake();
        }
        is_logged
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn with_bytes(message: HookMessage) -> (HookMessage, usize) {
    let bytes = message.encode().len();
    (message, bytes)
}
