//! Keeps the search index close behind the log, in the background.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::corpus::StoreCorpus;
use crate::derived::Derived;
use crate::event_search;
use crate::feed::Feed;
use crate::store::Store;

/// How long the indexer sleeps when nothing is committed; a commit wakes it.
const SLEEP: Duration = Duration::from_secs(3_600);

/// New events that are worth a transaction of the index. Fewer wait for more, or for the next
/// search, which indexes them first: one by one they would cost more than recording them.
const EVENTS_MIN: u64 = 64;

/// Events that the index may lag behind during a burst. Up to here recording has the machine to
/// itself; further behind, the next search would have to catch up for too long.
const EVENTS_MAX: u64 = 4_096;

/// A burst is over when no event came for this long.
const QUIET: Duration = Duration::from_millis(20);

/// The thread that feeds the index. When `derived.db` is replaced, the thread is not told: searches
/// fill the new file, and the thread goes on with the next `EVENTS_MIN` events. Starts with the first append and ends with the journal.
#[derive(Default)]
pub(crate) struct Indexer {
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Indexer {
    pub(crate) fn start(&self, store: &Arc<dyn Store>, feed: &Arc<Feed>, derived: &Arc<Derived>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (store, feed, derived) = (Arc::clone(store), Arc::clone(feed), Arc::clone(derived));
            let spawned = std::thread::Builder::new()
                .name("journal indexer".to_owned())
                .spawn(move || run(&*store, &feed, &derived));
            *thread = Some(spawned.expect("a thread can be started"));
        }
    }

    /// Waits for the thread to end; the feed has to be closed before.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // What it leaves is indexed by the next search or the next indexer.
            let _ = thread.join();
        }
    }
}

fn run(store: &dyn Store, feed: &Feed, derived: &Derived) {
    // Not read from the index: the first commit finds the true number, and until then at worst one
    // look at the index is wasted.
    let mut indexed = 0;
    feed.state().backlog().enable();
    loop {
        {
            let state = feed.state();
            if state.is_closed() {
                return;
            }
            let tail = state.tail();
            if tail < indexed + EVENTS_MIN {
                drop(feed.wait(state, SLEEP));
                continue;
            }
            // Waits for a pause in the burst. A commit within `QUIET` begins the wait again, until
            // the index is too far behind.
            if tail < indexed + EVENTS_MAX {
                let state = feed.wait(state, QUIET);
                if state.tail() != tail || state.is_closed() {
                    continue;
                }
            }
        }
        match event_search::index_events(&StoreCorpus { store, feed }, derived) {
            Ok(progress) if progress.is_current => {
                // Positions of deleted events are never indexed, so a current index may end before
                // the tail. Without the larger number this loop would try again at once, for ever.
                indexed = progress.indexed.max(feed.state().tail());
            }
            Ok(progress) => indexed = progress.indexed,
            // A full disk, or a file that another process holds. The log is not affected. The next
            // commit is the next try, and a search scans what is not indexed.
            Err(error) => {
                let mut state = feed.state();
                indexed = state.tail();
                if error.is_newer_format() {
                    // The index is left to the newer program, so the backlog is never taken here.
                    state.backlog().clear();
                }
            }
        }
    }
}
