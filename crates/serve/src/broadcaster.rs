//! The one reader of the journal for all followers: it fills the replay buffer and wakes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, SubscriptionWaker};
use tokio::sync::watch;

use crate::follow::Followers;
use crate::replay_buffer::{ReplayBuffer, StreamEvent};

/// The pause before a journal that cannot be read is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The longest single wait; the waker ends it earlier.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The maximum number of events that are read before followers are woken.
const AT_ONCE_MAX: usize = 256;

/// The newest events and a signal for new ones, shared by all followers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Broadcaster {
    recent: Arc<Mutex<ReplayBuffer>>,
    moved: watch::Sender<u64>,
}

/// The handle of the reader thread.
pub(crate) struct ReaderThread {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    waker: SubscriptionWaker,
}

impl Broadcaster {
    /// Starts the reader at the present end of the journal.
    pub(crate) fn start(
        journal: impl Fn() -> Journal + Send + 'static,
        followers: Followers,
    ) -> Result<(Broadcaster, ReaderThread), BroadcastError> {
        // Before the thread starts: what is committed in between comes through its subscription.
        let tail = journal().tail()?;
        let (moved, _) = watch::channel(tail);
        let broadcaster =
            Broadcaster { recent: Arc::new(Mutex::new(ReplayBuffer::new(tail))), moved };
        let stop = Arc::new(AtomicBool::new(false));
        let waker = SubscriptionWaker::default();
        let reader = JournalReader {
            broadcaster: broadcaster.clone(),
            followers,
            at: tail,
            stop: Arc::clone(&stop),
            waker: waker.clone(),
        };
        let builder = thread::Builder::new().name("broadcaster".to_owned());
        let thread = builder.spawn(move || reader.run(&journal)).map_err(BroadcastError::Thread)?;
        Ok((broadcaster, ReaderThread { thread, stop, waker }))
    }

    pub(crate) fn recent(&self) -> MutexGuard<'_, ReplayBuffer> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that changes with every new event.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }
}

impl ReaderThread {
    pub(crate) fn stop(self) {
        // The flag first. The reader looks at it when it wakes from a subscription or from a pause.
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.thread().unpark();
        // A panic of the reader is not reported again.
        let _ = self.thread.join();
    }
}

/// The broadcaster cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BroadcastError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

struct JournalReader {
    broadcaster: Broadcaster,
    followers: Followers,
    at: u64,
    stop: Arc<AtomicBool>,
    waker: SubscriptionWaker,
}

impl JournalReader {
    /// Reads until it is stopped. The daemon opens a journal that closes or fails again, and the
    /// reader continues at its position.
    fn run(mut self, journal: &dyn Fn() -> Journal) {
        while !self.is_over() {
            // A read error is tried again; followers wait in the meantime.
            let _ = self.read_new(&journal());
            if !self.is_over() {
                thread::park_timeout(RETRY_AFTER);
            }
        }
    }

    fn read_new(&mut self, journal: &Journal) -> Result<(), ReadError> {
        let subscription = journal.follow(FollowFrom::At(self.at + 1), OnLag::CatchUp)?;
        let mut subscription = subscription.with_waker(&self.waker);
        loop {
            if self.is_over() {
                return Ok(());
            }
            let mut patience = PATIENCE;
            let mut news = Vec::new();
            while news.len() < AT_ONCE_MAX && !self.is_over() {
                match subscription.next_within(patience) {
                    Ok(Some(Delivery::Event(recorded))) => {
                        match self.followers.is_empty() {
                            // No follower is left. What was gathered before this event must not be
                            // pushed behind it.
                            true => {
                                self.publish(std::mem::take(&mut news));
                                self.skip_to(recorded.position);
                            }
                            false => news.push(StreamEvent::from_recorded(&recorded)),
                        }
                        // The rest of a burst is gathered without waiting, and followers are woken
                        // once for all of it.
                        patience = Duration::ZERO;
                    }
                    // A live event, or a lag notice: `CatchUp` reads the missed events anyway.
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    // Published first, so that the next subscription begins behind it.
                    Err(ended) => {
                        self.publish(news);
                        return match ended {
                            FollowError::Closed => Ok(()),
                            FollowError::Failed(error) => Err(error),
                        };
                    }
                }
            }
            self.publish(news);
        }
    }

    fn publish(&mut self, news: Vec<StreamEvent>) {
        let Some(last) = news.last() else { return };
        self.at = last.position;
        {
            // Unlocked before the signal: woken followers take this lock at once.
            let mut recent = self.broadcaster.recent();
            news.into_iter().for_each(|told| recent.push(told));
        }
        self.broadcaster.moved.send_replace(self.at);
    }

    /// Moves on without encoding: there is no follower, and a later one reads from the journal.
    fn skip_to(&mut self, position: u64) {
        self.at = position;
        self.broadcaster.recent().skip_to(position);
        self.broadcaster.moved.send_replace(position);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
