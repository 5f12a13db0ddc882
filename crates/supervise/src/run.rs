//! A task of the daemon's own, as the part that asked for it sees it: told directly, because what
//! goes over the bus may be late.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::run_ref::Ref;

/// What one run has to say: that it began, and how it ended.
const NEWS_MAX: usize = 2;

/// A task that was put into the queue.
#[derive(Debug)]
pub struct Run {
    reference: Ref,
    news: Receiver<RunNews>,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunNews {
    /// Its process exists.
    Started,
    /// It has ended with this exit code, or never ran.
    Ended(i32),
}

/// The other end.
pub(crate) type Watcher = SyncSender<RunNews>;

impl Run {
    /// The run that `put` puts into the queue, with somebody to be told of it.
    pub(crate) fn begin<E>(put: impl FnOnce(Watcher) -> Result<Ref, E>) -> Result<Run, E> {
        let (watcher, news) = sync_channel(NEWS_MAX);
        Ok(Run { reference: put(watcher)?, news })
    }

    /// What it is called on the bus.
    pub fn reference(&self) -> &Ref {
        &self.reference
    }

    /// What became of it next; `None` if nothing did in time. A supervisor that is gone has ended
    /// everything it ran.
    pub fn next(&self, limit: Duration) -> Option<RunNews> {
        match self.news.recv_timeout(limit) {
            Ok(news) => Some(news),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(RunNews::Ended(-1)),
        }
    }
}
