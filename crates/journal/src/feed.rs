//! A ring buffer of what was just committed, shared by all subscribers of the process.
//!
//! Publishing costs the same for no subscriber and for a hundred: each one has a cursor into the
//! ring. A subscriber that the ring has overtaken reads on from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::payload::{AssistantDelta, ToolDelta};
use event::{Draft, Kind, Raw};

use crate::Recorded;
use crate::backlog::Backlog;
use crate::limit::{FEED_EVENTS_MAX, LIVE_TEXT_MAX};
use crate::store::EventRow;

pub(crate) struct Feed {
    state: Mutex<FeedState>,
    /// Signalled after every change of the state.
    changed: Condvar,
    /// How often subscribers look for what other processes committed.
    poll_interval: Duration,
}

#[derive(Default)]
pub(crate) struct FeedState {
    ring: VecDeque<FeedItem>,
    /// The number of the first item in the ring. Items are numbered from 0 as they come.
    first: u64,
    /// The newest position published here.
    tail: u64,
    subscribers: usize,
    backlog: Backlog,
    /// The newest position of the store, and when a subscriber last asked the store for it.
    polled: Option<(Instant, u64)>,
    /// One waiting subscriber polls the store for what other processes committed. The others
    /// sleep until it wakes them.
    has_poller: bool,
    /// The furthest item that any subscriber has read. Live items up to it can no longer be merged.
    read_up_to: u64,
    is_closed: bool,
}

#[derive(Clone)]
pub(crate) enum FeedItem {
    Event(Arc<Recorded>),
    Live(Arc<LiveEvent>),
}

/// A transient event: published, never stored, and merged with the next one until a subscriber
/// has read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveEvent {
    pub draft: Draft,
    /// How many were merged into this one.
    pub merged: u64,
}

impl Feed {
    pub(crate) fn new(poll_interval: Duration) -> Feed {
        Feed { state: Mutex::default(), changed: Condvar::new(), poll_interval }
    }

    pub(crate) fn poll_interval(&self) -> Duration {
        self.poll_interval
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the newest position that the store has told, and wakes all subscribers if it moved.
    pub(crate) fn set_polled(&self, tail: u64) {
        // The guard of the lock ends with this line. Waking needs none: `Subscription::wait`
        // compares the polled tail under the lock before it sleeps.
        let before = self.state().polled.replace((Instant::now(), tail));
        if before.is_none_or(|(_, before)| before != tail) {
            self.changed.notify_all();
        }
    }

    /// Publishes committed events, in their order.
    pub(crate) fn publish(&self, rows: &[EventRow]) {
        let mut state = self.state();
        for row in rows {
            state.tail = row.position;
            // Without a subscriber no event is copied; a later one reads the store.
            if state.subscribers > 0 {
                let event = Draft::clone(&row.draft).with_seq(row.seq);
                state.push(FeedItem::Event(Arc::new(Recorded { position: row.position, event })));
            }
        }
        // Independent of subscribers: the indexer takes its events from the backlog, not from the
        // ring.
        state.backlog.push(rows);
        self.changed.notify_all();
    }

    /// Publishes a transient event.
    pub(crate) fn publish_live(&self, draft: Draft) {
        let mut state = self.state();
        if state.subscribers == 0 {
            return;
        }
        let next = state.end();
        // The last item may be replaced only while no subscriber has read it: one that has would
        // never see what is merged into it.
        if let Some(FeedItem::Live(last)) = state.ring.back()
            && state.read_up_to < next
            && let Some(merged) = last.merge(&draft)
        {
            let last = state.ring.back_mut().expect("the ring has a last item");
            *last = FeedItem::Live(Arc::new(merged));
        } else {
            state.push(FeedItem::Live(Arc::new(LiveEvent { draft, merged: 1 })));
        }
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until the state may have changed, at most for `timeout`.
    pub(crate) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, FeedState>,
        timeout: Duration,
    ) -> MutexGuard<'a, FeedState> {
        let (state, _) =
            self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
        state
    }

    /// The same for a subscriber. It becomes the poller of all subscribers if there is none, and
    /// then wakes in time for the next poll.
    pub(crate) fn wait_as_subscriber(
        &self,
        mut state: MutexGuard<'_, FeedState>,
        timeout: Duration,
        is_poller: &mut bool,
    ) {
        if !state.has_poller {
            (state.has_poller, *is_poller) = (true, true);
        }
        // The others may sleep for the whole time, because the poller wakes them when the store has
        // moved.
        let timeout = if *is_poller { timeout.min(self.poll_interval) } else { timeout };
        drop(self.wait(state, timeout));
    }

    /// Gives the role of the poller up. All are woken, so that one that still waits takes it over.
    pub(crate) fn release_poller(&self) {
        self.state().has_poller = false;
        self.changed.notify_all();
    }

    /// Wakes all subscribers, also one that is about to wait.
    pub(crate) fn wake(&self) {
        // Under the lock: a subscriber between its last check and its wait holds the state, and
        // would miss a signal that came without it.
        let _state = self.state();
        self.changed.notify_all();
    }
}

impl FeedState {
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The newest position of the store at the last poll.
    pub(crate) fn polled_tail(&self) -> Option<u64> {
        self.polled.map(|(_, tail)| tail)
    }

    /// The same, if the last poll is not longer ago than this.
    pub(crate) fn polled_within(&self, time: Duration) -> Option<u64> {
        self.polled.filter(|(at, _)| at.elapsed() < time).map(|(_, tail)| tail)
    }

    /// The number the next item will have.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The item of this number, if it is still in the ring. It counts as read from now on.
    pub(crate) fn read_item(&mut self, number: u64) -> Option<FeedItem> {
        // `None` for an item that was dropped already.
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let item = self.ring.get(index)?.clone();
        self.read_up_to = self.read_up_to.max(number + 1);
        Some(item)
    }

    pub(crate) fn backlog(&mut self) -> &mut Backlog {
        &mut self.backlog
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.subscribers
    }

    pub(crate) fn add_subscriber(&mut self) {
        self.subscribers += 1;
        // The new subscriber begins behind the last item. A live event that comes now must not be
        // merged into that item, where the subscriber would never see it.
        self.read_up_to = self.end();
    }

    pub(crate) fn remove_subscriber(&mut self) {
        self.subscribers -= 1;
        if self.subscribers == 0 {
            // Numbers go on: a subscriber that comes later must not meet an old number again.
            self.first = self.end();
            self.ring.clear();
        }
    }

    fn push(&mut self, item: FeedItem) {
        if self.ring.len() == FEED_EVENTS_MAX {
            self.ring.pop_front();
            self.first += 1;
        }
        self.ring.push_back(item);
    }
}

impl LiveEvent {
    /// Merges this event and the next into one, if both are about the same message or call.
    fn merge(&self, next: &Draft) -> Option<LiveEvent> {
        // The size is checked before the merge: a merged text may exceed the limit by one delta,
        // and no text is ever cut.
        if self.draft.kind != next.kind
            || self.draft.session_id != next.session_id
            || self.draft.data.get().len() > LIVE_TEXT_MAX
        {
            return None;
        }
        let data = match next.kind {
            // Only the latest heartbeat says anything.
            Kind::Heartbeat => next.data.clone(),
            Kind::AssistantDelta => {
                let mut delta = self.draft.readable::<AssistantDelta>()?;
                let next = next.readable::<AssistantDelta>()?;
                // Blocks of one message are separate texts, for instance thinking and answer.
                if delta.message_id != next.message_id || delta.block != next.block {
                    return None;
                }
                delta.text.push_str(&next.text);
                Raw::from_value(&delta).ok()?
            }
            Kind::ToolDelta => {
                let mut delta = self.draft.readable::<ToolDelta>()?;
                let next = next.readable::<ToolDelta>()?;
                if delta.call_id != next.call_id {
                    return None;
                }
                // A tool that redraws its output sends the whole screen again.
                if next.replaces {
                    delta = next;
                } else {
                    delta.text.push_str(&next.text);
                }
                Raw::from_value(&delta).ok()?
            }
            _ => return None,
        };
        // The envelope of the newer one: its time is when the merged text was complete.
        let draft = Draft { data, ..next.clone() };
        Some(LiveEvent { draft, merged: self.merged + 1 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// How long a signal that must come may take.
    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Whether a subscriber that sleeps beside a poller is woken by `act`.
    fn wakes_sleeping_subscriber(act: impl Fn(&Feed)) -> bool {
        let feed = Feed::new(TIMEOUT);
        feed.state().has_poller = true;
        let (tx, rx) = sync_channel(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let state = feed.state();
                tx.send(()).unwrap();
                let mut is_poller = false;
                feed.wait_as_subscriber(state, 10 * TIMEOUT, &mut is_poller);
                assert!(!is_poller);
                tx.send(()).unwrap();
            });
            rx.recv().unwrap();
            // The subscriber holds the state until it sleeps, so `act` cannot come too early.
            act(&feed);
            let is_woken = rx.recv_timeout(TIMEOUT).is_ok();
            feed.wake();
            is_woken
        })
    }

    #[test]
    fn poll_wakes_sleeping_subscribers() {
        assert!(wakes_sleeping_subscriber(|feed| feed.set_polled(7)));
    }

    #[test]
    fn next_subscriber_replaces_released_poller() {
        let feed = Feed::new(TIMEOUT);
        let wait = || {
            let mut is_poller = false;
            feed.wait_as_subscriber(feed.state(), Duration::ZERO, &mut is_poller);
            is_poller
        };
        assert_eq!([wait(), wait()], [true, false]);
        feed.release_poller();
        assert!(wait());
    }

    #[test]
    fn released_poller_wakes_sleeping_subscribers() {
        assert!(wakes_sleeping_subscriber(Feed::release_poller));
    }
}
