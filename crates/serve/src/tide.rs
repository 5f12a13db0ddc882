//! How far the journal has come, and its newest events: one reader of the journal for all who
//! follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, SubscriptionWaker};
use tokio::sync::watch;

use crate::follow::Followers;
use crate::recent::{Recent, Told};

/// How long a journal that cannot be read is left alone.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// One of the waits that make up waiting until it is woken.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Events that are taken before followers hear of them, if so many wait.
const AT_ONCE_MAX: usize = 256;

/// Shared by all who follow. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tide {
    recent: Arc<Mutex<Recent>>,
    moved: watch::Sender<u64>,
}

/// The thread that reads.
pub(crate) struct Reading {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    waker: SubscriptionWaker,
}

impl Tide {
    /// Begins to read where the journal is now.
    pub(crate) fn start(
        journal: impl Fn() -> Journal + Send + 'static,
        followers: Followers,
    ) -> Result<(Tide, Reading), TideError> {
        let tail = journal().tail()?;
        let (moved, _) = watch::channel(tail);
        let tide = Tide { recent: Arc::new(Mutex::new(Recent::new(tail))), moved };
        let stop = Arc::new(AtomicBool::new(false));
        let waker = SubscriptionWaker::default();
        let reader = Reader {
            tide: tide.clone(),
            followers,
            at: tail,
            stop: Arc::clone(&stop),
            waker: waker.clone(),
        };
        let builder = thread::Builder::new().name("tide".to_owned());
        let thread = builder.spawn(move || reader.run(&journal)).map_err(TideError::Thread)?;
        Ok((tide, Reading { thread, stop, waker }))
    }

    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when the journal has moved on.
    pub(crate) fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }
}

impl Reading {
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.thread().unpark();
        // A reader that panicked has nothing more to say.
        let _ = self.thread.join();
    }
}

/// Why nobody can follow.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TideError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

struct Reader {
    tide: Tide,
    followers: Followers,
    at: u64,
    stop: Arc<AtomicBool>,
    waker: SubscriptionWaker,
}

impl Reader {
    /// Reads until it is told to end. A journal that closes or fails is opened anew by whoever
    /// keeps it, and is read on from where it was.
    fn run(mut self, journal: &dyn Fn() -> Journal) {
        while !self.is_over() {
            // What cannot be read now is tried again: those who follow wait meanwhile.
            let _ = self.read(&journal());
            if !self.is_over() {
                thread::park_timeout(RETRY_AFTER);
            }
        }
    }

    fn read(&mut self, journal: &Journal) -> Result<(), ReadError> {
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
                            true => {
                                self.tell(std::mem::take(&mut news));
                                self.pass(recorded.position);
                            }
                            false => news.push(Told::of(&recorded)),
                        }
                        patience = Duration::ZERO;
                    }
                    // Something passing, or that it was slow, which nobody here is hurt by.
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(ended) => {
                        self.tell(news);
                        return match ended {
                            FollowError::Closed => Ok(()),
                            FollowError::Failed(error) => Err(error),
                        };
                    }
                }
            }
            self.tell(news);
        }
    }

    fn tell(&mut self, news: Vec<Told>) {
        let Some(last) = news.last() else { return };
        self.at = last.position;
        {
            let mut recent = self.tide.recent();
            news.into_iter().for_each(|told| recent.push(told));
        }
        self.tide.moved.send_replace(self.at);
    }

    /// Nobody follows: whoever comes later reads it from the journal.
    fn pass(&mut self, position: u64) {
        self.at = position;
        self.tide.recent().pass(position);
        self.tide.moved.send_replace(position);
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
