//! Publishes committed events on the bus: every recent one, once, in the journal's order.
//!
//! It is a named consumer of the journal. It saves its position behind what was published, so that a
//! restart continues there. It skips history: subscribers that start in the past replay it.

use std::time::{Duration, Instant};

use bus::{Handle, PublishError};
use capture::StopFlag;
use event::{Event, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, Recorded, SubscriptionWaker,
};

use super::cortex::Cortex;
use super::run::ABSENCE;
use super::running_agents::RunningAgents;
use crate::journal_handle::JournalHandle;

/// The name of the consumer.
const CONSUMER: &str = "bus";

/// The position is saved at most this often while events come: each time is a commit.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for room on the bus.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// The longest single wait. A wake-up ends it earlier.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Publishes the journal's events on the bus.
pub(crate) struct BusPublisher {
    journal_handle: JournalHandle,
    bus: Handle,
    clock: fn() -> Time,
    cortex: Cortex,
    /// Everything up to here was published or skipped.
    at: u64,
    saved: Option<u64>,
    saved_at: Instant,
    /// While catching up, older events count as history.
    recent_since: Time,
    running_agents: RunningAgents,
}

impl BusPublisher {
    pub(crate) fn open(
        journal_handle: JournalHandle,
        bus: Handle,
        clock: fn() -> Time,
    ) -> Result<BusPublisher, ReadError> {
        let journal = journal_handle.current();
        // The saved number is the next position: 0 means that there was never a publisher, and then
        // all that is recorded so far is history.
        let at = match journal.consumer(CONSUMER)? {
            0 => journal.tail()?,
            next => next - 1,
        };
        let recent_since = before_absence(clock());
        let long_ago = Instant::now();
        let mut publisher = BusPublisher {
            journal_handle,
            bus,
            clock,
            cortex: Cortex::default(),
            at,
            saved: None,
            saved_at: long_ago,
            recent_since,
            running_agents: RunningAgents::default(),
        };
        // Only a stopped bus refuses it, and a stopped bus has no subscribers.
        let _ = publisher.bus.announce_position(at);
        publisher.save();
        Ok(publisher)
    }

    /// Whether an event of this time is published although it was read while catching up.
    pub(crate) fn is_recent(&self, at: Time) -> bool {
        at >= self.recent_since
    }

    /// Skips everything recorded so far as history.
    pub(crate) fn skip_history(&mut self) -> Result<(), ReadError> {
        // Never backwards: subscribers may have been told of a later position already.
        self.at = self.journal_handle.current().tail()?.max(self.at);
        let _ = self.bus.announce_position(self.at);
        self.save();
        Ok(())
    }

    /// Reads what was recorded while catching up and publishes the recent part of it.
    pub(crate) fn catch_up(&mut self, stop: &StopFlag) -> Result<(), ReadError> {
        let journal = self.journal_handle.current();
        let tail = journal.tail()?;
        // The tail is read once: what is committed meanwhile belongs to the next slice.
        while self.at < tail && !stop.is_asked() {
            let page = journal.recorded_from(self.at + 1)?;
            // Events may be deleted between the two reads, and then positions up to the tail are
            // gaps.
            if page.is_empty() {
                break;
            }
            for recorded in &page {
                if self.is_published(&recorded.event, &journal) {
                    self.publish(recorded, &journal);
                } else {
                    self.skip_event(recorded, &journal);
                }
            }
        }
        self.save();
        Ok(())
    }

    /// Publishes what is committed from now on, until it is asked to stop and woken. What was
    /// committed by then is published first.
    pub(crate) fn follow(
        &mut self,
        stop: &StopFlag,
        waker: &SubscriptionWaker,
    ) -> Result<(), ReadError> {
        let from = FollowFrom::At(self.at + 1);
        let journal = self.journal_handle.current();
        // Catches up on lag: a subscriber of the bus must not miss a recorded event.
        let mut subscription = journal.follow(from, OnLag::CatchUp)?.with_waker(waker);
        loop {
            // Read before the wait: events committed before the stop are then delivered before the end.
            let is_over = stop.is_asked();
            let patience = if is_over { Duration::ZERO } else { self.patience() };
            match subscription.next_within(patience) {
                Ok(Some(Delivery::Event(recorded))) if self.was_seen_now(&recorded.event) => {
                    self.publish(&recorded, &journal);
                }
                // Imported history.
                Ok(Some(Delivery::Event(recorded))) => self.skip_event(&recorded, &journal),
                // A live event is not recorded, and a note of lag holds no event.
                Ok(Some(_)) => {}
                Ok(None) if is_over => break,
                // The wait ended without an event: a quiet moment costs no throughput.
                Ok(None) => self.save(),
                Err(FollowError::Closed) => break,
                Err(FollowError::Failed(error)) => return Err(error),
            }
            if self.saved_at.elapsed() >= SAVE_EVERY {
                self.save();
            }
            self.publish_status();
        }
        self.save();
        Ok(())
    }

    /// How long to wait for the next event: until the position or a status is due.
    fn patience(&self) -> Duration {
        let until_saved = (self.saved != Some(self.at)).then_some(SAVE_EVERY);
        let until_status = self.running_agents.due_in(Instant::now());
        [until_saved, until_status].into_iter().flatten().min().unwrap_or(PATIENCE)
    }

    /// Whether an event read while catching up is published: if it is recent, or continues a run
    /// with a published start.
    fn is_published(&mut self, event: &Event, journal: &Journal) -> bool {
        // The order matters: the checks in memory come before `run_before`, which reads the
        // journal.
        let is_told = self.running_agents.contains(&event.session_id);
        // A run that was open when the last daemon ended was published by that daemon.
        // The first event of a session continues nothing.
        let ran = event.seq > 1
            && !is_told
            && self.cortex.run_of(&event.session_id).is_none()
            && self.cortex.run_before(event, journal).was_told();
        self.is_recent(event.created_at) || is_told || ran
    }

    /// Whether an event was observed shortly before its commit, as everything captured live is.
    fn was_seen_now(&self, event: &Event) -> bool {
        event.observed_at >= before_absence((self.clock)())
    }

    fn skip_event(&mut self, recorded: &Recorded, journal: &Journal) {
        // The cortex still follows it: a later event may continue this run.
        self.cortex.skip_event(&recorded.event, journal);
        self.at = recorded.position;
        // Without room the next announcement covers this one.
        let _ = self.bus.announce_position(self.at);
    }

    fn publish(&mut self, recorded: &Recorded, journal: &Journal) {
        let Recorded { position, event } = recorded;
        let messages = self.cortex.make_messages(recorded, journal);
        // Set before publishing: an event that finds no room is replayed by subscribers, never
        // published again.
        self.at = *position;
        self.track_run(event);
        let mut published = self.bus.publish_recorded(messages.clone(), *position);
        // Waits once and not for ever: one subscriber that hangs must not stop all publishing.
        if published == Err(PublishError::Full) && self.bus.wait_taken(ROOM_WITHIN) {
            published = self.bus.publish_recorded(messages, *position);
        }
        // Without room, subscribers learn the position and replay the event from the journal.
        let _ = published.or_else(|_| self.bus.announce_position(*position));
    }

    /// Keeps the list of running agents.
    fn track_run(&mut self, event: &Event) {
        let is_open = self.cortex.run_of(&event.session_id).is_some_and(|run| run.is_open());
        match is_open {
            true => {
                self.running_agents.note_event(&event.session_id, &event.provider, Instant::now())
            }
            false => self.running_agents.remove(&event.session_id),
        }
    }

    /// Publishes the running agents, whenever it is due.
    fn publish_status(&mut self) {
        if let Some(draft) = self.running_agents.status(Instant::now()) {
            // A lost status is repeated with the next one.
            let _ = draft.build().map(|message| self.bus.publish(message));
        }
    }

    /// Saves the position. If that fails, a restart publishes the events since the last save again.
    fn save(&mut self) {
        // Also after a failure, so that a full disk is not tried with each event.
        self.saved_at = Instant::now();
        let is_saved = self.saved == Some(self.at);
        let next = self.at + 1;
        if !is_saved && self.journal_handle.current().advance_consumer(CONSUMER, next).is_ok() {
            self.saved = Some(self.at);
        }
    }
}

/// The time before which an event counts as history.
fn before_absence(now: Time) -> Time {
    Time::from_nanos(now.nanos() - ABSENCE.as_nanos() as i128)
}

#[cfg(test)]
mod tests;
