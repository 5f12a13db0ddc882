//! A task of the daemon, as the part sees it that asked for it. It is notified directly, because
//! messages on the bus may be late.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::run_ref::Ref;

/// A run sends two events: that it started and how it ended.
const NEWS_MAX: usize = 2;

/// A queued task of the daemon.
#[derive(Debug)]
pub struct TaskRun {
    reference: Ref,
    news: Receiver<(RunEvent, Instant)>,
}

/// An event of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEvent {
    /// Its process exists.
    Started,
    /// It ended with this exit code, or never ran.
    Ended(i32),
}

/// The sending end for the keeper.
pub(crate) type Watcher = SyncSender<(RunEvent, Instant)>;

impl TaskRun {
    /// Queues a run with `put`, and connects it to its watcher.
    pub(crate) fn begin<E>(put: impl FnOnce(Watcher) -> Result<Ref, E>) -> Result<TaskRun, E> {
        let (watcher, news) = sync_channel(NEWS_MAX);
        Ok(TaskRun { reference: put(watcher)?, news })
    }

    /// Returns its ref on the bus.
    pub fn reference(&self) -> &Ref {
        &self.reference
    }

    /// Returns the next event; `None` after the limit. If the supervisor is gone, the run has ended
    /// with it.
    pub fn next(&self, limit: Duration) -> Option<RunEvent> {
        self.next_timed(limit).map(|(event, _)| event)
    }

    /// Returns the next event like [`TaskRun::next`], and when it happened.
    pub fn next_timed(&self, limit: Duration) -> Option<(RunEvent, Instant)> {
        match self.news.recv_timeout(limit) {
            Ok(news) => Some(news),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some((RunEvent::Ended(-1), Instant::now())),
        }
    }
}
