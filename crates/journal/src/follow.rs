//! Following: history and news as one stream, without a hole and without a repeat.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use event::SessionId;

use crate::feed::{Feed, Item, Live};
use crate::limit::FEED_EVENTS_MAX;
use crate::read::{Lineage, salvaged};
use crate::store::{Direction, SeqRange, Store};
use crate::{ReadError, Recorded};

/// One of the waits that make up waiting for ever.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Where to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// With the next event to be committed.
    Now,
    Beginning,
    /// With this one: a `seq` when a session is followed, a position otherwise.
    At(u64),
}

/// What happens to a subscriber that falls further behind than the feed holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLag {
    /// It is told, and then served from the store until it is current.
    #[default]
    CatchUp,
    /// It is told what it missed, and goes on with the oldest that is still held.
    Skip,
}

/// One thing a subscriber gets. Numbers are `seq` when a session is followed, else positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Followed {
    Event(Arc<Recorded>),
    Live(Arc<Live>),
    /// You are far behind; these come now, from the store.
    Behind {
        from: u64,
        to: u64,
    },
    /// These were left out.
    Gap {
        from: u64,
        to: u64,
        count: u64,
    },
}

/// A stream of what happens. Closed on drop.
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
    pending: VecDeque<Followed>,
    /// What was asked for, or announced by `Behind`, ends here; until then nothing is lag.
    catching_up_to: u64,
    /// The session has not been seen yet, so that it may still come.
    is_awaited: bool,
    /// The newest position of the store when all of it was last read.
    polled_tail: Option<u64>,
    /// Once closed: the end of the feed then.
    end: Option<u64>,
    waker: Waker,
    /// It looks for what other processes committed, for everybody who waits.
    is_lookout: bool,
}

/// Ends the waiting of a [`Subscription`] from another thread: of one at a time, for as long as
/// whoever follows lives, however often it begins anew.
#[derive(Clone, Default)]
pub struct Waker {
    is_woken: Arc<AtomicBool>,
    feed: Arc<Mutex<Option<Arc<Feed>>>>,
}

impl Waker {
    /// Whoever waits for the next thing gets nothing at once, or when it waits the next time.
    pub fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
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
        from: From,
        on_lag: OnLag,
    ) -> Result<Subscription, ReadError> {
        let cursor = {
            let mut state = feed.state();
            state.enter();
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
            is_awaited: true,
            polled_tail: None,
            end: None,
            waker: Waker::default(),
            is_lookout: false,
        };
        let tail = subscription.tail()?;
        subscription.next = match from {
            From::Beginning => 1,
            From::At(number) => number.max(1),
            From::Now => tail + 1,
        };
        subscription.catching_up_to = tail;
        Ok(subscription)
    }

    /// The next thing, waiting at most for `patience`; `Ok(None)` if nothing came, or it was woken.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<Followed>, Ended> {
        let next = self.await_next(patience);
        if std::mem::take(&mut self.is_lookout) {
            self.feed.step_down();
        }
        next
    }

    fn await_next(&mut self, patience: Duration) -> Result<Option<Followed>, Ended> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(next) = self.pending.pop_front() {
                return Ok(Some(next));
            }
            match self.look() {
                Seen::Item(next) => return Ok(Some(next)),
                Seen::Hole => self.read_store().map_err(Ended::Failed)?,
                Seen::End => {
                    if self.end.is_some() {
                        return Err(Ended::Closed);
                    }
                    // Asked first: what is committed before the end is read before the end.
                    let is_closed = self.feed.state().is_closed();
                    if self.has_unread(is_closed).map_err(Ended::Failed)? {
                        self.read_store().map_err(Ended::Failed)?;
                        if !self.pending.is_empty() {
                            continue;
                        }
                    }
                    if is_closed {
                        return Err(Ended::Closed);
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

    /// Ends the stream behind what is held for it now.
    pub fn close(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.feed.state().end());
            self.feed.wake();
        }
    }

    /// Lets its waiting be ended by this one from now on.
    #[must_use]
    pub fn woken_by(mut self, waker: &Waker) -> Subscription {
        let feed = Some(Arc::clone(&self.feed));
        *waker.feed.lock().unwrap_or_else(PoisonError::into_inner) = feed;
        self.waker = waker.clone();
        self
    }

    /// Looks at the feed from where this subscriber stands.
    fn look(&mut self) -> Seen {
        let mut state = self.feed.state();
        if self.cursor < state.first() {
            // Items were dropped before they were seen. What of them was stored is found by its
            // number; the session form cannot tell without asking the store.
            self.cursor = state.first();
            return Seen::Hole;
        }
        loop {
            if self.end.is_some_and(|end| self.cursor >= end) {
                return Seen::End;
            }
            let Some(item) = state.item(self.cursor) else { return Seen::End };
            match item {
                Item::Live(live) => {
                    self.cursor += 1;
                    if self.session.as_ref().is_none_or(|id| *id == live.draft.session_id) {
                        return Seen::Item(Followed::Live(live));
                    }
                }
                Item::Event(recorded) => {
                    let number = match &self.session {
                        None => recorded.position,
                        Some(id) if *id == recorded.event.session_id => {
                            self.is_awaited = false;
                            recorded.event.seq
                        }
                        Some(_) => {
                            self.cursor += 1;
                            continue;
                        }
                    };
                    if number > self.next {
                        return Seen::Hole;
                    }
                    self.cursor += 1;
                    if number == self.next {
                        self.next += 1;
                        return Seen::Item(Followed::Event(recorded));
                    }
                }
            }
        }
    }

    /// Serves what the feed no longer holds, or never did.
    fn read_store(&mut self) -> Result<(), ReadError> {
        let tail = self.tail()?;
        if tail < self.next {
            return Ok(());
        }
        let behind = tail - self.next + 1;
        if behind > FEED_EVENTS_MAX as u64 && self.next > self.catching_up_to {
            match self.on_lag {
                OnLag::CatchUp => {
                    self.pending.push_back(Followed::Behind { from: self.next, to: tail });
                    self.catching_up_to = tail;
                }
                OnLag::Skip => {
                    let to = tail - FEED_EVENTS_MAX as u64;
                    let count = to - self.next + 1;
                    self.pending.push_back(Followed::Gap { from: self.next, to, count });
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
            // What stood here was deleted meanwhile.
            self.next = tail + 1;
        }
        for stored in page {
            self.next = if by_seq { stored.seq } else { stored.position } + 1;
            let event = match stored.event {
                Ok(event) => event,
                Err(broken) => {
                    let row = reader.session_numbered(stored.session)?;
                    let Some(row) = row else { continue };
                    salvaged(&row.id, stored.seq, row.created_at, &broken)
                }
            };
            let recorded = Recorded { position: stored.position, event };
            self.pending.push_back(Followed::Event(Arc::new(recorded)));
        }
        if self.next <= tail {
            // That was one page, and there is another.
            self.polled_tail = None;
        }
        Ok(())
    }

    /// The newest number: of the session, or of the journal. A session that is still to come
    /// ends at 0.
    fn tail(&mut self) -> Result<u64, ReadError> {
        let Some(id) = &self.session else {
            return Ok(self.store.tail()?.max(self.feed.state().tail()));
        };
        let row = self.store.reader()?.session(id)?;
        match row {
            Some(row) => {
                self.is_awaited = false;
                Ok(row.tail_seq)
            }
            None if self.is_awaited => Ok(0),
            None => Err(ReadError::SessionNotFound(id.clone())),
        }
    }

    /// Whether the store may hold something that was not read yet: from before, or by another
    /// process.
    fn has_unread(&mut self, is_closed: bool) -> Result<bool, ReadError> {
        // One who looks looks for all: many who wait cost a store at rest no more than one. At the
        // end nobody looks again.
        let polled =
            self.feed.state().polled_within(self.feed.foreign_poll()).filter(|_| !is_closed);
        let tail = match polled {
            Some(tail) => tail,
            None => {
                let tail = self.store.tail()?;
                self.feed.polled(tail);
                tail
            }
        };
        Ok(self.polled_tail.replace(tail) != Some(tail))
    }

    fn wait(&mut self, patience: Duration) {
        let state = self.feed.state();
        let is_woken = self.waker.is_woken.load(Ordering::Acquire);
        // What the lookout found since this one looked was told to those who slept by then.
        let is_told = state.polled_tail() == self.polled_tail;
        if self.cursor >= state.end() && is_told && !state.is_closed() && !is_woken {
            self.feed.wait_to_follow(state, patience, &mut self.is_lookout);
        }
    }
}

/// Waits for each next thing; ends once closed and drained.
impl Iterator for Subscription {
    type Item = Result<Followed, ReadError>;

    fn next(&mut self) -> Option<Result<Followed, ReadError>> {
        loop {
            match self.next_within(PATIENCE) {
                Ok(None) => {}
                Ok(Some(next)) => return Some(Ok(next)),
                Err(Ended::Closed) => return None,
                Err(Ended::Failed(error)) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.state().leave();
        // One that goes while it looks out, as in a panic, leaves the others without.
        if self.is_lookout {
            self.feed.step_down();
        }
    }
}

/// Why there is nothing more to come.
#[derive(Debug, Clone)]
pub enum Ended {
    Closed,
    Failed(ReadError),
}

enum Seen {
    Item(Followed),
    /// The next number is not in the feed.
    Hole,
    /// Everything in the feed was seen.
    End,
}
