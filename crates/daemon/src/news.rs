//! What was committed, told on the bus: every event that is news, once, in the journal's order.
//!
//! A named consumer of the journal. Its position is saved behind what was told, so that a restart
//! goes on there. What was read as history is passed over: those who begin in the past read it.

mod at_work; // who works, every few seconds

use std::time::{Duration, Instant};

use bus::{Handle, PublishError};
use capture::StopFlag;
use event::{Event, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, Recorded, SubscriptionWaker,
};

use crate::cortex::{ABSENCE, Cortex};
use crate::opened::Opened;
use at_work::AtWork;

/// The name of the consumer.
const CONSUMER: &str = "bus";

/// The position is saved at most this often while there is news: each time is a commit.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// How long the bus may take to make room for more.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// One of the waits that make up waiting until it is woken.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Tells the bus what happens.
pub(crate) struct News {
    opened: Opened,
    bus: Handle,
    clock: fn() -> Time,
    cortex: Cortex,
    /// Everything up to here was told or passed over.
    at: u64,
    saved: Option<u64>,
    saved_at: Instant,
    /// What happened before is history if it is read while catching up.
    recent_since: Time,
    at_work: AtWork,
}

impl News {
    pub(crate) fn open(
        opened: Opened,
        bus: Handle,
        clock: fn() -> Time,
    ) -> Result<News, ReadError> {
        let journal = opened.journal();
        // What is saved is the next one, so that nothing told is not the same as never begun. All
        // there is before the first time is history.
        let at = match journal.consumer(CONSUMER)? {
            0 => journal.tail()?,
            next => next - 1,
        };
        let recent_since = before_absence(clock());
        let long_ago = Instant::now();
        let mut news = News {
            opened,
            bus,
            clock,
            cortex: Cortex::default(),
            at,
            saved: None,
            saved_at: long_ago,
            recent_since,
            at_work: AtWork::default(),
        };
        // A bus that has stopped needs no news.
        let _ = news.bus.announce_position(at);
        news.save();
        Ok(news)
    }

    /// Whether something of this time is news, also if it is read while catching up.
    pub(crate) fn is_recent(&self, at: Time) -> bool {
        at >= self.recent_since
    }

    /// Passes over everything recorded so far: it is history.
    pub(crate) fn skip(&mut self) -> Result<(), ReadError> {
        self.at = self.opened.journal().tail()?.max(self.at);
        let _ = self.bus.announce_position(self.at);
        self.save();
        Ok(())
    }

    /// Looks through what was recorded while catching up, and tells what of it is news.
    pub(crate) fn catch_up(&mut self, stop: &StopFlag) -> Result<(), ReadError> {
        let journal = self.opened.journal();
        let tail = journal.tail()?;
        while self.at < tail && !stop.is_asked() {
            let page = journal.recorded_from(self.at + 1)?;
            if page.is_empty() {
                break;
            }
            for recorded in &page {
                if self.is_news(&recorded.event, &journal) {
                    self.tell(recorded, &journal);
                } else {
                    self.pass(recorded, &journal);
                }
            }
        }
        self.save();
        Ok(())
    }

    /// Tells what is committed from now on, until it is asked to end and woken; what was committed by
    /// then is told as well.
    pub(crate) fn follow(
        &mut self,
        stop: &StopFlag,
        waker: &SubscriptionWaker,
    ) -> Result<(), ReadError> {
        let from = FollowFrom::At(self.at + 1);
        let journal = self.opened.journal();
        let mut subscription = journal.follow(from, OnLag::CatchUp)?.with_waker(waker);
        loop {
            // Asked first: what is committed before the end is told before the end.
            let is_over = stop.is_asked();
            let patience = if is_over { Duration::ZERO } else { self.patience() };
            match subscription.next_within(patience) {
                Ok(Some(Delivery::Event(recorded))) if self.was_seen_now(&recorded.event) => {
                    self.tell(&recorded, &journal);
                }
                // Somebody has imported it.
                Ok(Some(Delivery::Event(recorded))) => self.pass(&recorded, &journal),
                Ok(Some(_)) => {}
                Ok(None) if is_over => break,
                Ok(None) => self.save(),
                Err(FollowError::Closed) => break,
                Err(FollowError::Failed(error)) => return Err(error),
            }
            if self.saved_at.elapsed() >= SAVE_EVERY {
                self.save();
            }
            self.tell_status();
        }
        self.save();
        Ok(())
    }

    /// How long there is nothing to do but to wait for news.
    fn patience(&self) -> Duration {
        let until_saved = (self.saved != Some(self.at)).then_some(SAVE_EVERY);
        let until_status = self.at_work.due_in(Instant::now());
        [until_saved, until_status].into_iter().flatten().min().unwrap_or(PATIENCE)
    }

    /// An event read while catching up is news if it is recent, or goes on with a run that was told.
    fn is_news(&mut self, event: &Event, journal: &Journal) -> bool {
        let is_told = self.at_work.has(&event.session_id);
        // What ran when the last daemon ended was told by it.
        let ran = event.seq > 1
            && !is_told
            && self.cortex.run_of(&event.session_id).is_none()
            && self.cortex.run_before(event, journal).was_told();
        self.is_recent(event.created_at) || is_told || ran
    }

    /// Whether an event was seen when it was committed, as everything that is captured live is.
    fn was_seen_now(&self, event: &Event) -> bool {
        event.observed_at >= before_absence((self.clock)())
    }

    fn pass(&mut self, recorded: &Recorded, journal: &Journal) {
        self.cortex.pass(&recorded.event, journal);
        self.at = recorded.position;
        // One of many: when there is no room, the next one says it.
        let _ = self.bus.announce_position(self.at);
    }

    fn tell(&mut self, recorded: &Recorded, journal: &Journal) {
        let Recorded { position, event } = recorded;
        let messages = self.cortex.tell(recorded, journal);
        self.at = *position;
        self.note(event);
        let mut told = self.bus.publish_recorded(messages.clone(), *position);
        if told == Err(PublishError::Full) && self.bus.wait_taken(ROOM_WITHIN) {
            told = self.bus.publish_recorded(messages, *position);
        }
        // Those who follow the record read it there; a bus that has stopped needs nothing.
        let _ = told.or_else(|_| self.bus.announce_position(*position));
    }

    /// Keeps account of who is at work.
    fn note(&mut self, event: &Event) {
        let is_open = self.cortex.run_of(&event.session_id).is_some_and(|run| run.is_open());
        match is_open {
            true => self.at_work.goes_on(&event.session_id, &event.provider, Instant::now()),
            false => self.at_work.is_over(&event.session_id),
        }
    }

    /// Tells who is at work, whenever it is time to.
    fn tell_status(&mut self) {
        if let Some(draft) = self.at_work.status(Instant::now()) {
            let _ = draft.build().map(|message| self.bus.publish(message));
        }
    }

    /// Saves how far it has got. What cannot be saved now is told again after a restart.
    fn save(&mut self) {
        self.saved_at = Instant::now();
        let is_saved = self.saved == Some(self.at);
        let next = self.at + 1;
        if !is_saved && self.opened.journal().advance_consumer(CONSUMER, next).is_ok() {
            self.saved = Some(self.at);
        }
    }
}

/// So long ago that it would be history.
fn before_absence(now: Time) -> Time {
    Time::from_nanos(now.nanos() - ABSENCE.as_nanos() as i128)
}

#[cfg(test)]
mod tests;
