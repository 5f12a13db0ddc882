//! Handlers of messages: each has a queue and a thread of its own, so that a slow or failing one
//! delays neither the reader nor another handler.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::message::Message;

/// Messages that wait for one handler. A further one is dropped for this handler and counted.
const WAITING_MAX: usize = 256;

/// The name that fits any tract or event.
const ANY: &str = "*";

/// All handlers of a client.
#[derive(Default)]
pub(super) struct Handlers {
    entries: Mutex<Vec<HandlerEntry>>,
    next_number: AtomicU64,
}

struct HandlerEntry {
    number: u64,
    tract: String,
    event: String,
    queue: SyncSender<Message>,
    missed: Arc<AtomicU64>,
}

/// A handler of a client, until it is dropped. Dropping it waits for a call that is under way.
pub struct ClientHandler {
    registration: Option<Registration>,
    failed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// A queue of messages, which ends when this is dropped.
pub(super) struct Registration {
    number: u64,
    missed: Arc<AtomicU64>,
    handlers: Arc<Handlers>,
}

impl Handlers {
    /// Begins to queue messages of these names, `*` for any.
    pub(super) fn register(
        self: &Arc<Handlers>,
        tract: &str,
        event: &str,
    ) -> (Registration, Receiver<Message>) {
        let (queue, messages) = sync_channel(WAITING_MAX);
        let (number, missed) = (self.next_number.fetch_add(1, Ordering::Relaxed), Arc::default());
        let registration =
            Registration { number, missed: Arc::clone(&missed), handlers: Arc::clone(self) };
        let (tract, event) = (tract.to_owned(), event.to_owned());
        self.lock().push(HandlerEntry { number, tract, event, queue, missed });
        (registration, messages)
    }

    /// Queues a message for everything that it fits. Never waits.
    pub(super) fn deliver(&self, message: &Message) {
        let entries = self.lock();
        // Most clients have none, and then the names need not be read.
        if entries.is_empty() {
            return;
        }
        let fits = |wanted: &str, name: &str| wanted == ANY || wanted == name;
        let (tract, event) =
            (message.tract().unwrap_or_default(), message.event().unwrap_or_default());
        for entry in entries.iter() {
            if fits(&entry.tract, &tract)
                && fits(&entry.event, &event)
                && entry.queue.try_send(message.clone()).is_err()
            {
                entry.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the queues of all handlers.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HandlerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler {
    pub(super) fn start(
        handlers: &Arc<Handlers>,
        tract: &str,
        event: &str,
        mut handle: impl FnMut(&Message) + Send + 'static,
    ) -> io::Result<ClientHandler> {
        let (registration, messages) = handlers.register(tract, event);
        let failed = Arc::new(AtomicU64::new(0));
        let failures = Arc::clone(&failed);
        let thread =
            std::thread::Builder::new().name("bus-handler".to_owned()).spawn(move || {
                for message in messages {
                    // The next message may be handled all the same.
                    if catch_unwind(AssertUnwindSafe(|| handle(&message))).is_err() {
                        failures.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })?;
        Ok(ClientHandler { registration: Some(registration), failed, thread: Some(thread) })
    }

    /// Returns how many messages found no room because the handler was too slow.
    pub fn missed(&self) -> u64 {
        self.registration.as_ref().map_or(0, |it| it.missed.load(Ordering::Relaxed))
    }

    /// Returns how many calls panicked.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for ClientHandler {
    fn drop(&mut self) {
        // First: the thread ends when its queue does.
        self.registration = None;
        let thread = self.thread.take();
        // A handler may drop itself, and cannot wait for its own end.
        if let Some(thread) =
            thread.filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.handlers.lock().retain(|entry| entry.number != self.number);
    }
}
