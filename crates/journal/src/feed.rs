//! What was just committed, held for those who follow.
//!
//! One ring for everybody: publishing costs the same for no subscriber and for a hundred. Who
//! falls behind the ring reads on from the store.

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
    state: Mutex<State>,
    news: Condvar,
    /// How often those who follow look for what other processes committed.
    foreign_poll: Duration,
}

#[derive(Default)]
pub(crate) struct State {
    ring: VecDeque<Item>,
    /// The number of the first item in the ring; items are numbered from 0 as they come.
    first: u64,
    /// The newest position published here.
    tail: u64,
    subscribers: usize,
    backlog: Backlog,
    /// The newest position of the store, and when somebody last asked it for that.
    polled: Option<(Instant, u64)>,
    /// Somebody who waits looks now and then for what other processes committed. All others are
    /// told, and sleep meanwhile.
    has_lookout: bool,
    /// The furthest item anybody has read; live items up to it can no longer be merged.
    read_up_to: u64,
    closed: bool,
}

#[derive(Clone)]
pub(crate) enum Item {
    Event(Arc<Recorded>),
    Live(Arc<Live>),
}

/// Something passing: published, never stored, merged while nobody has read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Live {
    pub draft: Draft,
    /// How many were merged into this one.
    pub merged: u64,
}

impl Feed {
    pub(crate) fn new(foreign_poll: Duration) -> Feed {
        Feed { state: Mutex::default(), news: Condvar::new(), foreign_poll }
    }

    pub(crate) fn foreign_poll(&self) -> Duration {
        self.foreign_poll
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store was asked for its newest position. If that is another one than before, everybody
    /// has something to read.
    pub(crate) fn polled(&self, tail: u64) {
        let before = self.state().polled.replace((Instant::now(), tail));
        if before.is_none_or(|(_, before)| before != tail) {
            self.news.notify_all();
        }
    }

    /// Tells of committed events, in order.
    pub(crate) fn publish(&self, rows: &[EventRow]) {
        let mut state = self.state();
        for row in rows {
            state.tail = row.position;
            if state.subscribers > 0 {
                let event = Draft::clone(&row.draft).with_seq(row.seq);
                state.push(Item::Event(Arc::new(Recorded { position: row.position, event })));
            }
        }
        state.backlog.push(rows);
        self.news.notify_all();
    }

    /// Tells of something passing.
    pub(crate) fn publish_live(&self, draft: Draft) {
        let mut state = self.state();
        if state.subscribers == 0 {
            return;
        }
        let next = state.end();
        if let Some(Item::Live(last)) = state.ring.back()
            && state.read_up_to < next
            && let Some(merged) = last.merge(&draft)
        {
            let last = state.ring.back_mut().expect("just seen");
            *last = Item::Live(Arc::new(merged));
        } else {
            state.push(Item::Live(Arc::new(Live { draft, merged: 1 })));
        }
        self.news.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.news.notify_all();
    }

    /// Waits until something may have changed, at most for `patience`.
    pub(crate) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> MutexGuard<'a, State> {
        let (state, _) =
            self.news.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
        state
    }

    /// The same for one who follows: as the lookout of all who do, unless there is one.
    pub(crate) fn wait_to_follow(
        &self,
        mut state: MutexGuard<'_, State>,
        patience: Duration,
        is_lookout: &mut bool,
    ) {
        if !state.has_lookout {
            (state.has_lookout, *is_lookout) = (true, true);
        }
        let patience = if *is_lookout { patience.min(self.foreign_poll) } else { patience };
        drop(self.wait(state, patience));
    }

    /// Looks out no longer: one of those who still wait does.
    pub(crate) fn step_down(&self) {
        self.state().has_lookout = false;
        self.news.notify_all();
    }

    /// Wakes everybody who waits, and everybody who is about to.
    pub(crate) fn wake(&self) {
        let _state = self.state();
        self.news.notify_all();
    }
}

impl State {
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The newest position of the store when somebody last asked it for that.
    pub(crate) fn polled_tail(&self) -> Option<u64> {
        self.polled.map(|(_, tail)| tail)
    }

    /// The same, if that was a moment ago.
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
        self.closed
    }

    /// The item of this number, if it is still there.
    pub(crate) fn item(&mut self, number: u64) -> Option<Item> {
        let item = self.ring.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.clone();
        self.read_up_to = self.read_up_to.max(number + 1);
        Some(item)
    }

    pub(crate) fn backlog(&mut self) -> &mut Backlog {
        &mut self.backlog
    }

    pub(crate) fn subscribers(&self) -> usize {
        self.subscribers
    }

    pub(crate) fn enter(&mut self) {
        self.subscribers += 1;
        // What comes now must not disappear in an item before the newcomer's first.
        self.read_up_to = self.end();
    }

    pub(crate) fn leave(&mut self) {
        self.subscribers -= 1;
        if self.subscribers == 0 {
            self.first = self.end();
            self.ring.clear();
        }
    }

    fn push(&mut self, item: Item) {
        if self.ring.len() == FEED_EVENTS_MAX {
            self.ring.pop_front();
            self.first += 1;
        }
        self.ring.push_back(item);
    }
}

impl Live {
    /// This one and the next as one, if both are about the same thing.
    fn merge(&self, next: &Draft) -> Option<Live> {
        if self.draft.kind != next.kind
            || self.draft.session_id != next.session_id
            || self.draft.data.get().len() > LIVE_TEXT_MAX
        {
            return None;
        }
        let data = match next.kind {
            Kind::Heartbeat => next.data.clone(),
            Kind::AssistantDelta => {
                let mut delta = self.draft.readable::<AssistantDelta>()?;
                let next = next.readable::<AssistantDelta>()?;
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
                if next.replaces {
                    delta = next;
                } else {
                    delta.text.push_str(&next.text);
                }
                Raw::from_value(&delta).ok()?
            }
            _ => return None,
        };
        let draft = Draft { data, ..next.clone() };
        Some(Live { draft, merged: self.merged + 1 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// How long something that must come may take.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Whether one who sleeps beside a lookout is woken by `what` the lookout does.
    fn wakes_who_sleeps(what: impl Fn(&Feed)) -> bool {
        let feed = Feed::new(PATIENCE);
        feed.state().has_lookout = true;
        let (told, heard) = sync_channel(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let state = feed.state();
                told.send(()).unwrap();
                let mut is_lookout = false;
                feed.wait_to_follow(state, 10 * PATIENCE, &mut is_lookout);
                assert!(!is_lookout);
                told.send(()).unwrap();
            });
            heard.recv().unwrap();
            // It holds the state until it sleeps, so that nobody does anything before.
            what(&feed);
            let is_woken = heard.recv_timeout(PATIENCE).is_ok();
            feed.wake();
            is_woken
        })
    }

    #[test]
    fn what_the_lookout_finds_wakes_those_who_sleep() {
        assert!(wakes_who_sleeps(|feed| feed.polled(7)));
    }

    #[test]
    fn who_waits_next_looks_out_when_the_lookout_went() {
        let feed = Feed::new(PATIENCE);
        let look_out = || {
            let mut is_lookout = false;
            feed.wait_to_follow(feed.state(), Duration::ZERO, &mut is_lookout);
            is_lookout
        };
        assert_eq!([look_out(), look_out()], [true, false]);
        feed.step_down();
        assert!(look_out());
    }

    #[test]
    fn a_lookout_that_goes_wakes_those_who_sleep() {
        assert!(wakes_who_sleeps(Feed::step_down));
    }
}
