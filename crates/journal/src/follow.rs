//! Following: history and new events as one stream, without a gap and without a repeat.
//!
//! A [`Subscription`] delivers numbers one after the other: `seq` when it follows a session,
//! positions when it follows everything. New events come from the [`Feed`]. Whenever the feed does
//! not have the next number, the subscription reads the store instead:
//!
//! ```text
//! feed:    … 41 42 43      next = 44: wait
//! feed:    … 46 47 48      next = 44: 44 and 45 are read from the store, then 46 from the feed
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use event::SessionId;

use crate::feed::{Feed, FeedItem, LiveEvent};
use crate::limit::FEED_EVENTS_MAX;
use crate::read::Lineage;
use crate::recovery::salvage_event;
use crate::store::{Direction, SeqRange, Store};
use crate::{ReadError, Recorded};

/// One of the waits that an iterator repeats for ever.
const ITERATOR_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Where a subscription begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowFrom {
    /// With the next event to be committed.
    Now,
    Beginning,
    /// With this number: a `seq` when a session is followed, a position otherwise.
    At(u64),
}

/// What happens to a subscriber that falls further behind than the feed holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLag {
    /// It gets [`Delivery::Behind`], and then everything from the store until it is current.
    #[default]
    CatchUp,
    /// It gets [`Delivery::Gap`], and goes on with the oldest event that the feed still holds.
    Skip,
}

/// What a subscriber receives. Numbers are `seq` when a session is followed, positions otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    Event(Arc<Recorded>),
    Live(Arc<LiveEvent>),
    /// The subscriber is far behind. These events come next, from the store.
    Behind {
        from: u64,
        to: u64,
    },
    /// These events are left out.
    Gap {
        from: u64,
        to: u64,
        count: u64,
    },
}

/// A stream of recorded and live events. Closed on drop.
pub struct Subscription {
    feed: Arc<Feed>,
    store: Arc<dyn Store>,
    session: Option<SessionId>,
    on_lag: OnLag,
    /// The next number to deliver.
    next: u64,
    /// The next item of the feed to look at.
    cursor: u64,
    /// Read from the store and not yet delivered.
    pending: VecDeque<Delivery>,
    /// The history that was asked for, or announced by [`Delivery::Behind`], ends here. Up to it a
    /// large distance to the tail is no lag.
    catching_up_to: u64,
    /// The session has not been seen yet, so its absence is no error.
    may_begin_later: bool,
    /// The newest position of the store when all of it was last read.
    polled_tail: Option<u64>,
    /// Once closed: the end of the feed at that moment.
    end: Option<u64>,
    waker: SubscriptionWaker,
    /// It polls the store for what other processes committed, on behalf of all subscribers.
    is_poller: bool,
}

/// Interrupts the waiting of a [`Subscription`] from another thread.
///
/// A follower keeps one waker for its life, over any number of subscriptions, one at a time.
#[derive(Clone, Default)]
pub struct SubscriptionWaker {
    is_woken: Arc<AtomicBool>,
    feed: Arc<Mutex<Option<Arc<Feed>>>>,
}

impl SubscriptionWaker {
    /// Makes the current wait of the subscription return nothing, or else its next one.
    pub fn wake(&self) {
        // The flag before the signal: a subscription that is between two waits finds it under the
        // feed's lock.
        self.is_woken.store(true, Ordering::Release);
        // Cloned, so that the waker's lock is free again when the feed's lock is taken.
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(feed) = feed {
            feed.wake();
        }
    }
}

impl Subscription {
    pub(crate) fn open(
        feed: Arc<Feed>,
        store: Arc<dyn Store>,
        session: Option<SessionId>,
        from: FollowFrom,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        // The subscription joins the feed before it asks the store for its tail. An event that is
        // committed in between is in both, and its number tells that it is the same.
        let cursor = {
            let mut state = feed.state();
            state.add_subscriber();
            state.end()
        };
        let mut subscription = Subscription {
            feed,
            store,
            session,
            on_lag,
            next: 1,
            cursor,
            pending: VecDeque::new(),
            catching_up_to: 0,
            may_begin_later: true,
            polled_tail: None,
            end: None,
            waker: SubscriptionWaker::default(),
            is_poller: false,
        };
        // On an error the drop of the subscription leaves the feed again.
        let tail = subscription.tail()?;
        subscription.next = match from {
            FollowFrom::Beginning => 1,
            FollowFrom::At(number) => number.max(1),
            FollowFrom::Now => tail + 1,
        };
        subscription.catching_up_to = tail;
        Ok(subscription)
    }

    /// Returns the next delivery, waiting at most for `timeout`; `Ok(None)` if the time passed or
    /// the waker was used.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Delivery>, FollowError> {
        let next = self.await_next(timeout);
        // The caller may not come back for long: another subscriber has to poll meanwhile.
        if std::mem::take(&mut self.is_poller) {
            self.feed.release_poller();
        }
        next
    }

    fn await_next(&mut self, timeout: Duration) -> Result<Option<Delivery>, FollowError> {
        let deadline = Instant::now() + timeout;
        loop {
            // What was read from the store precedes everything in the feed.
            if let Some(next) = self.pending.pop_front() {
                return Ok(Some(next));
            }
            match self.read_feed() {
                FeedRead::Delivery(next) => return Ok(Some(next)),
                // The loop makes progress: `read_store` has queued deliveries or moved `next`, or
                // the cursor was moved into the ring.
                FeedRead::Missing => self.read_store().map_err(FollowError::Failed)?,
                FeedRead::End => {
                    // A subscription that was closed delivers what the feed held then, and asks the
                    // store for nothing more.
                    if self.end.is_some() {
                        return Err(FollowError::Closed);
                    }
                    // Asked before the store is: everything committed before the journal was
                    // closed is then delivered before the end is reported.
                    let is_closed = self.feed.state().is_closed();
                    if self.has_unread(is_closed).map_err(FollowError::Failed)? {
                        self.read_store().map_err(FollowError::Failed)?;
                        if !self.pending.is_empty() {
                            continue;
                        }
                    }
                    if is_closed {
                        return Err(FollowError::Closed);
                    }
                    let now = Instant::now();
                    if now >= deadline || self.waker.is_woken.swap(false, Ordering::AcqRel) {
                        return Ok(None);
                    }
                    self.wait(deadline - now);
                }
            }
        }
    }

    /// Ends the stream behind what the feed holds for it now.
    pub fn close(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.feed.state().end());
            self.feed.wake();
        }
    }

    /// Lets this waker interrupt its waiting from now on.
    #[must_use]
    pub fn with_waker(mut self, waker: &SubscriptionWaker) -> Subscription {
        let feed = Some(Arc::clone(&self.feed));
        *waker.feed.lock().unwrap_or_else(PoisonError::into_inner) = feed;
        self.waker = waker.clone();
        self
    }

    /// Reads the feed from the cursor on, up to the next delivery.
    fn read_feed(&mut self) -> FeedRead {
        let mut state = self.feed.state();
        if self.cursor < state.first() {
            // The ring has dropped items that were not read. Whether one of them was for this
            // subscription is told by the store: for a session, its `seq` may not have moved.
            self.cursor = state.first();
            return FeedRead::Missing;
        }
        loop {
            if self.end.is_some_and(|end| self.cursor >= end) {
                return FeedRead::End;
            }
            let Some(item) = state.read_item(self.cursor) else { return FeedRead::End };
            match item {
                FeedItem::Live(live) => {
                    self.cursor += 1;
                    if self.session.as_ref().is_none_or(|id| *id == live.draft.session_id) {
                        return FeedRead::Delivery(Delivery::Live(live));
                    }
                }
                FeedItem::Event(recorded) => {
                    let number = match &self.session {
                        None => recorded.position,
                        Some(id) if *id == recorded.event.session_id => {
                            self.may_begin_later = false;
                            recorded.event.seq
                        }
                        // Another session's event.
                        Some(_) => {
                            self.cursor += 1;
                            continue;
                        }
                    };
                    // The cursor stays on this item: it is delivered after the store has filled
                    // the gap before it.
                    if number > self.next {
                        return FeedRead::Missing;
                    }
                    self.cursor += 1;
                    // A lower number was delivered from the store already.
                    if number == self.next {
                        self.next += 1;
                        return FeedRead::Delivery(Delivery::Event(recorded));
                    }
                }
            }
        }
    }

    /// Reads a page of events from `next` on, which the feed does not have.
    fn read_store(&mut self) -> Result<(), ReadError> {
        let tail = self.tail()?;
        if tail < self.next {
            return Ok(());
        }
        // `next` beyond `catching_up_to` means that the subscriber was current once and has fallen
        // behind since.
        let behind = tail - self.next + 1;
        if behind > FEED_EVENTS_MAX as u64 && self.next > self.catching_up_to {
            match self.on_lag {
                OnLag::CatchUp => {
                    self.pending.push_back(Delivery::Behind { from: self.next, to: tail });
                    self.catching_up_to = tail;
                }
                OnLag::Skip => {
                    // The newest events, as many as the feed holds, are still delivered, so a
                    // subscriber that skips is current again at once.
                    let to = tail - FEED_EVENTS_MAX as u64;
                    let count = to - self.next + 1;
                    self.pending.push_back(Delivery::Gap { from: self.next, to, count });
                    self.next = to + 1;
                }
            }
        }
        let range = SeqRange { from: self.next, to: tail, order: Direction::OldestFirst };
        let reader = self.store.reader()?;
        let (page, lineage) = match &self.session {
            None => (reader.positions(range)?, None),
            Some(id) => {
                let lineage = Lineage::load(&*reader, id)?;
                (lineage.page(&*reader, range)?, Some(lineage))
            }
        };
        let by_seq = lineage.is_some();
        if page.is_empty() {
            // The events of this range were deleted meanwhile.
            self.next = tail + 1;
        }
        for stored in page {
            self.next = if by_seq { stored.seq } else { stored.position } + 1;
            let event = match stored.event {
                Ok(event) => event,
                // A damaged event is delivered as what is left of it: a follower must not stop at
                // it for ever.
                Err(broken) => {
                    let row = reader.session_numbered(stored.session)?;
                    // Without the row of its session the event has no id to be shown under.
                    let Some(row) = row else { continue };
                    salvage_event(&row.id, stored.seq, row.created_at, &broken)
                }
            };
            let recorded = Recorded { position: stored.position, event };
            self.pending.push_back(Delivery::Event(Arc::new(recorded)));
        }
        if self.next <= tail {
            // There is another page: the store counts as unread until it is read too.
            self.polled_tail = None;
        }
        Ok(())
    }

    /// Returns the newest number: of the session, or of the journal. A session that has yet to
    /// begin ends at 0.
    fn tail(&mut self) -> Result<u64, ReadError> {
        let Some(id) = &self.session else {
            // The larger of both: a commit between the two calls is in the feed, and commits of
            // other processes are only in the store.
            return Ok(self.store.tail()?.max(self.feed.state().tail()));
        };
        let row = self.store.reader()?.session(id)?;
        match row {
            Some(row) => {
                self.may_begin_later = false;
                Ok(row.tail_seq)
            }
            // Once the session was seen, its absence means that it was deleted.
            None if self.may_begin_later => Ok(0),
            None => Err(ReadError::SessionNotFound(id.clone())),
        }
    }

    /// Whether the store may hold events that were not read yet: history, or what another
    /// process committed.
    fn has_unread(&mut self, is_closed: bool) -> Result<bool, ReadError> {
        // One poll serves all subscribers, so that a hundred that wait cost an idle store no more
        // than one. At the end of the journal there is no next poll: then each asks for itself.
        let polled =
            self.feed.state().polled_within(self.feed.poll_interval()).filter(|_| !is_closed);
        let tail = match polled {
            Some(tail) => tail,
            None => {
                let tail = self.store.tail()?;
                self.feed.set_polled(tail);
                tail
            }
        };
        Ok(self.polled_tail.replace(tail) != Some(tail))
    }

    fn wait(&mut self, timeout: Duration) {
        let state = self.feed.state();
        // Checked again under the lock. The poller wakes only subscribers that sleep, so a change
        // since this one last looked must keep it from sleeping.
        let is_woken = self.waker.is_woken.load(Ordering::Acquire);
        let is_current = state.polled_tail() == self.polled_tail;
        if self.cursor >= state.end() && is_current && !state.is_closed() && !is_woken {
            self.feed.wait_as_subscriber(state, timeout, &mut self.is_poller);
        }
    }
}

/// Waits for each next delivery; ends once closed and drained.
impl Iterator for Subscription {
    type Item = Result<Delivery, ReadError>;

    fn next(&mut self) -> Option<Result<Delivery, ReadError>> {
        loop {
            match self.next_within(ITERATOR_TIMEOUT) {
                Ok(None) => {}
                Ok(Some(next)) => return Some(Ok(next)),
                Err(FollowError::Closed) => return None,
                Err(FollowError::Failed(error)) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.state().remove_subscriber();
        // It still is the poller only if a panic ended its wait.
        if self.is_poller {
            self.feed.release_poller();
        }
    }
}

/// Why a subscription delivers nothing more.
#[derive(Debug, Clone)]
pub enum FollowError {
    Closed,
    Failed(ReadError),
}

/// What a look at the feed gave.
enum FeedRead {
    Delivery(Delivery),
    /// The next number is not in the feed.
    Missing,
    /// Everything in the feed was read.
    End,
}
