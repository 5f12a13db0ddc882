//! What was committed, told on the bus: every event that is news, once, in the journal's order.
//!
//! A named consumer of the journal. Its position is saved behind what was told, so that a restart
//! goes on there. What was read as history is passed over: those who begin in the past read it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bus::{Draft, Handle, PublishError};
use capture::Stop;
use event::{Event, SessionId, Time};
use journal::{Ended, Followed, From, Journal, OnLag, ReadError, Recorded};
use serde_json::json;

use crate::cortex::{ABSENCE, Cortex, REV};
use crate::opened::Opened;

/// The name of the consumer.
const CONSUMER: &str = "bus";

/// The position is saved at most this often while there is news: each time is a commit.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// How long the bus may take to make room for more.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often it is told which agents are at work.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// A run of which nothing is heard for so long is no longer counted as work.
const SILENT_AFTER: Duration = Duration::from_secs(30 * 60);

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
    /// Sessions whose start was told and whose end was not.
    running: HashMap<SessionId, Running>,
    status_at: Instant,
    was_running: bool,
}

struct Running {
    provider: String,
    since: Instant,
    heard_at: Instant,
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
            running: HashMap::new(),
            status_at: long_ago,
            was_running: false,
        };
        // A bus that has stopped needs no news.
        let _ = news.bus.recorded_up_to(at);
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
        let _ = self.bus.recorded_up_to(self.at);
        self.save();
        Ok(())
    }

    /// Looks through what was recorded while catching up, and tells what of it is news.
    pub(crate) fn catch_up(&mut self, stop: &Stop) -> Result<(), ReadError> {
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

    /// Tells what is committed from now on, until it is asked to end; what was committed by then is
    /// told as well.
    pub(crate) fn follow(&mut self, stop: &Stop) -> Result<(), ReadError> {
        let from = From::At(self.at + 1);
        let journal = self.opened.journal();
        let mut subscription = journal.follow(from, OnLag::CatchUp)?;
        loop {
            // Asked first: what is committed before the end is told before the end.
            let is_over = stop.is_asked();
            let patience = if is_over { Duration::ZERO } else { LOOK_EVERY };
            match subscription.next_within(patience) {
                Ok(Some(Followed::Event(recorded))) if self.was_seen_now(&recorded.event) => {
                    self.tell(&recorded, &journal);
                }
                // Somebody has imported it.
                Ok(Some(Followed::Event(recorded))) => self.pass(&recorded, &journal),
                Ok(Some(_)) => {}
                Ok(None) if is_over => break,
                Ok(None) => self.rest(),
                Err(Ended::Closed) => break,
                Err(Ended::Failed(error)) => return Err(error),
            }
            if self.saved_at.elapsed() >= SAVE_EVERY {
                self.save();
            }
        }
        self.save();
        Ok(())
    }

    /// An event read while catching up is news if it is recent, or goes on with a run that was told.
    fn is_news(&mut self, event: &Event, journal: &Journal) -> bool {
        let is_told = self.running.contains_key(&event.session_id);
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
        let _ = self.bus.recorded_up_to(self.at);
    }

    fn tell(&mut self, recorded: &Recorded, journal: &Journal) {
        let Recorded { position, event } = recorded;
        let messages = self.cortex.tell(recorded, journal);
        self.at = *position;
        self.note(event);
        let mut told = self.bus.publish_recorded(messages.clone(), *position);
        if told == Err(PublishError::Full) && self.bus.settle(ROOM_WITHIN) {
            told = self.bus.publish_recorded(messages, *position);
        }
        // Those who follow the record read it there; a bus that has stopped needs nothing.
        let _ = told.or_else(|_| self.bus.recorded_up_to(*position));
    }

    /// Keeps account of who is at work.
    fn note(&mut self, event: &Event) {
        let is_open = self.cortex.run_of(&event.session_id).is_some_and(|run| run.is_open());
        if !is_open {
            self.running.remove(&event.session_id);
            return;
        }
        let now = Instant::now();
        let provider = || event.provider.clone();
        let running = self.running.entry(event.session_id.clone());
        running.and_modify(|running| running.heard_at = now).or_insert_with(|| Running {
            provider: provider(),
            since: now,
            heard_at: now,
        });
    }

    /// Nothing came for a while.
    fn rest(&mut self) {
        self.save();
        if self.status_at.elapsed() < STATUS_EVERY {
            return;
        }
        self.status_at = Instant::now();
        self.running.retain(|_, running| running.heard_at.elapsed() < SILENT_AFTER);
        let is_running = !self.running.is_empty();
        if is_running || std::mem::replace(&mut self.was_running, is_running) {
            self.was_running = is_running;
            self.tell_status();
        }
    }

    fn tell_status(&self) {
        let agents = self.running.iter().map(|(session, running)| {
            json!({
                "agent_id": session.as_str(),
                "name": running.provider,
                "provider": running.provider,
                "status": "running",
                "elapsed_seconds": running.since.elapsed().as_secs(),
            })
        });
        let draft = Draft::new("cortex", "status")
            .with("running_agents", self.running.len())
            .with("agents", agents.collect::<Vec<_>>())
            .with("rev", REV);
        let _ = draft.build().map(|message| self.bus.publish(message));
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
