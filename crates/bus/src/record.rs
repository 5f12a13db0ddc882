//! What was recorded, for those who begin in the past. It is read on a thread of its own, a page
//! at a time and only as fast as its reader takes it: nobody who hears the present waits for it.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use crate::handle::Handle;
use crate::message::Message;

/// Bytes of a page after which it is long enough. One message may be longer.
pub const PAGE_BYTES: usize = 64 << 10;

/// Pages that wait to be read. Each client waits for one; those who left meanwhile may still be
/// among them, and with more somebody is asked for a little later.
const REQUESTS_MAX: usize = 2_048;

/// Recorded messages, as somebody keeps them.
pub trait Record: Send + Sync {
    /// The first messages behind a position, oldest first.
    fn page(&self, wanted: Wanted) -> Result<Page, RecordError>;

    /// The position of the last one.
    fn tail(&self) -> Result<u64, RecordError>;
}

/// What a page should hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub after: u64,
    /// The last position of interest.
    pub up_to: u64,
    /// Tract `journal` as well, which is never on the bus by itself.
    pub with_journal: bool,
}

/// Recorded messages, one after the other.
#[derive(Clone, Debug)]
pub struct Page {
    pub messages: Vec<Message>,
    /// Everything up to here is in it, or never was. Beyond what it was asked to come after.
    pub up_to: u64,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[error("what was recorded cannot be read")]
pub struct RecordError(#[source] pub Box<dyn Error + Send + Sync>);

/// A page that a client waits for.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) client: u32,
    /// Which of its subscriptions asked.
    pub(crate) ticket: u32,
    pub(crate) wanted: Wanted,
}

/// What came of it.
pub(crate) struct Answer {
    pub(crate) client: u32,
    pub(crate) ticket: u32,
    pub(crate) page: Result<Page, RecordError>,
}

/// The thread that reads.
pub(crate) struct Reader {
    requests: SyncSender<Request>,
    thread: JoinHandle<()>,
}

impl Reader {
    pub(crate) fn start(record: Arc<dyn Record>, handle: Handle) -> io::Result<Reader> {
        let (requests, waiting) = mpsc::sync_channel(REQUESTS_MAX);
        let thread = std::thread::Builder::new().name("bus-record".to_owned());
        let thread = thread.spawn(move || read_all(&*record, &handle, &waiting))?;
        Ok(Reader { requests, thread })
    }

    /// Asks for a page; whether there was room for the question.
    pub(crate) fn ask(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }

    /// Waits for the page that is being read, and no longer.
    pub(crate) fn stop(self) {
        drop(self.requests);
        // A thread that panicked has nothing more to say.
        let _ = self.thread.join();
    }
}

fn read_all(record: &dyn Record, handle: &Handle, waiting: &Receiver<Request>) {
    for Request { client, ticket, wanted } in waiting {
        if handle.is_closed() {
            return;
        }
        let page = if wanted.after < wanted.up_to {
            record.page(wanted)
        } else {
            let up_to = |tail: u64| tail.min(wanted.after);
            record.tail().map(|tail| Page { messages: Vec::new(), up_to: up_to(tail) })
        };
        handle.hand_over(Answer { client, ticket, page });
    }
}
