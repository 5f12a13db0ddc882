//! Recorded messages for subscribers that start in the past. A separate thread reads them page by
//! page, only as fast as the subscriber takes them, so live subscribers never wait for the disk.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use crate::handle::Handle;
use crate::message::Message;

/// Bytes after which a page is full. A single message may be longer.
pub const PAGE_BYTES: usize = 64 << 10;

/// Reads that wait for the thread. Each client waits for one page, and requests of clients that
/// left may still be queued. When the queue is full, the server retries in a later turn.
const REQUESTS_MAX: usize = 2_048;

/// A source of recorded messages: the journal, as the bus sees it.
pub trait ReplaySource: Send + Sync {
    /// Returns the first messages behind a position, oldest first.
    fn read_page(&self, wanted: PageRequest) -> Result<ReplayPage, ReplayError>;

    /// Returns the position of the newest message.
    fn last_position(&self) -> Result<u64, ReplayError>;
}

/// Which messages a page should hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    pub after: u64,
    /// The last position of interest.
    pub up_to: u64,
    /// Include the tract `journal`, which is never on the tape.
    pub with_journal: bool,
}

/// Recorded messages in order.
#[derive(Clone, Debug)]
pub struct ReplayPage {
    pub messages: Vec<Message>,
    /// The page is complete up to here; always beyond the requested `after`.
    pub up_to: u64,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the recorded messages")]
pub struct ReplayError(#[source] pub Box<dyn Error + Send + Sync>);

/// A page that a client waits for.
#[derive(Clone, Copy)]
pub(crate) struct QueuedRead {
    pub(crate) client: u32,
    /// The number of the subscription that needs it.
    pub(crate) ticket: u32,
    pub(crate) wanted: PageRequest,
}

/// The result of a read.
pub(crate) struct PageResult {
    pub(crate) client: u32,
    pub(crate) ticket: u32,
    pub(crate) page: Result<ReplayPage, ReplayError>,
}

/// The thread that reads pages.
pub(crate) struct ReplayReader {
    requests: SyncSender<QueuedRead>,
    thread: JoinHandle<()>,
}

impl ReplayReader {
    pub(crate) fn start(record: Arc<dyn ReplaySource>, handle: Handle) -> io::Result<ReplayReader> {
        let (requests, waiting) = mpsc::sync_channel(REQUESTS_MAX);
        let thread = std::thread::Builder::new().name("bus-record".to_owned());
        let thread = thread.spawn(move || read_all(&*record, &handle, &waiting))?;
        Ok(ReplayReader { requests, thread })
    }

    /// Queues a read; returns whether there was room.
    pub(crate) fn ask(&self, request: QueuedRead) -> bool {
        self.requests.try_send(request).is_ok()
    }

    /// Waits for the read in progress, and drops the queued ones.
    pub(crate) fn stop(self) {
        drop(self.requests);
        // A panicked thread has nothing to return.
        let _ = self.thread.join();
    }
}

fn read_all(record: &dyn ReplaySource, handle: &Handle, waiting: &Receiver<QueuedRead>) {
    for QueuedRead { client, ticket, wanted } in waiting {
        // The stopping server waits for this thread, and its clients need no more pages.
        if handle.is_closed() {
            return;
        }
        let page = if wanted.after < wanted.up_to {
            record.read_page(wanted)
        } else {
            // The request only asks whether the record reaches this position.
            let up_to = |tail: u64| tail.min(wanted.after);
            record
                .last_position()
                .map(|tail| ReplayPage { messages: Vec::new(), up_to: up_to(tail) })
        };
        handle.hand_over(PageResult { client, ticket, page });
    }
}
