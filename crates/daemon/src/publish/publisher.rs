//! Publishes committed events on the bus: every recent one, once, in the journal's order.
//!
//! It is a named consumer of the journal. It saves its position behind what was published, so that a
//! restart continues there. It skips history: subscribers that start in the past replay it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Handle, Message, PublishError};
use capture::StopFlag;
use event::{Event, SessionId, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, Recorded, SubscriptionWaker,
};
use segments::write_atomic;
use wire::health_dir;

use super::cortex::Cortex;
use super::run::ABSENCE;
use super::running_report::RunningReport;
use crate::journal_handle::JournalHandle;
use crate::status::{BoardWatch, ChangesCursor, StatusService};

/// The name of the consumer.
const CONSUMER: &str = "bus";

/// The position is saved at most this often while events come: each time is a commit.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for room on the bus.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// The longest single wait. A wake-up ends it earlier.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The file with the sessions that have a published start without an end.
const OPEN_RUNS_FILE: &str = "open_runs.json";

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
    running_report: RunningReport,
    status: Arc<StatusService>,
    status_cursor: ChangesCursor,
    /// Held while an agent works: that it stops may show in no event.
    watch: Option<BoardWatch>,
    /// The sessions in the file of open runs.
    open_runs: BTreeSet<SessionId>,
}

impl BusPublisher {
    pub(crate) fn open(
        journal_handle: JournalHandle,
        bus: Handle,
        clock: fn() -> Time,
        status: Arc<StatusService>,
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
            running_report: RunningReport::default(),
            status,
            status_cursor: ChangesCursor::default(),
            watch: None,
            open_runs: BTreeSet::new(),
        };
        publisher.resume_open_runs(&journal)?;
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

    /// Ends the current wait of [`BusPublisher::follow`].
    pub(crate) fn waker(&self) -> SubscriptionWaker {
        self.status.changes().waker().clone()
    }

    /// Publishes what is committed from now on, and the ends of runs that only the status shows,
    /// until it is asked to stop and woken. What was committed by then is published first.
    pub(crate) fn follow(&mut self, stop: &StopFlag) -> Result<(), ReadError> {
        let from = FollowFrom::At(self.at + 1);
        let journal = self.journal_handle.current();
        // Catches up on lag: a subscriber of the bus must not miss a recorded event.
        let mut subscription = journal.follow(from, OnLag::CatchUp)?.with_waker(&self.waker());
        loop {
            // Read before the wait: events committed before the stop are then delivered before the end.
            let is_over = stop.is_asked();
            let patience = if is_over { Duration::ZERO } else { self.patience() };
            match subscription.next_within(patience) {
                Ok(Some(Delivery::Event(recorded))) if self.is_news(&recorded.event) => {
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
            self.apply_statuses();
            self.publish_running();
        }
        self.save();
        Ok(())
    }

    /// How long to wait for the next event: until the position or a status is due.
    fn patience(&self) -> Duration {
        let until_saved = (self.saved != Some(self.at)).then_some(SAVE_EVERY);
        let until_report =
            self.running_report.due_in(self.cortex.follows_statuses(), Instant::now());
        let now = (self.clock)();
        let until_settled = self.cortex.next_settled().map(|at| time_until(at, now));
        let due = [until_saved, until_report, until_settled];
        due.into_iter().flatten().min().unwrap_or(PATIENCE)
    }

    /// Whether an event read while catching up is published: if it is recent, or continues a run
    /// with a published start.
    fn is_published(&mut self, event: &Event, journal: &Journal) -> bool {
        // The order matters: the checks in memory come before `run_before`, which reads the
        // journal.
        let held = self.cortex.run_of(&event.session_id);
        let is_told = held.is_some_and(|run| run.was_told());
        // A run that was open when the last daemon ended was published by that daemon.
        // The first event of a session continues nothing.
        let ran =
            event.seq > 1 && held.is_none() && self.cortex.run_before(event, journal).was_told();
        self.is_recent(event.created_at) || is_told || ran
    }

    /// Whether an event was observed shortly before its commit, as everything captured live is, or
    /// continues a run with a published start.
    fn is_news(&self, event: &Event) -> bool {
        let run = self.cortex.run_of(&event.session_id);
        event.observed_at >= before_absence((self.clock)()) || run.is_some_and(|it| it.was_told())
    }

    fn skip_event(&mut self, recorded: &Recorded, journal: &Journal) {
        // The cortex still follows it: a later event may continue this run.
        self.cortex.skip_event(&recorded.event, journal);
        self.at = recorded.position;
        // Without room the next announcement covers this one.
        let _ = self.bus.announce_position(self.at);
    }

    fn publish(&mut self, recorded: &Recorded, journal: &Journal) {
        let position = &recorded.position;
        let messages = self.cortex.make_messages(recorded, journal);
        // Set before publishing: an event that finds no room is replayed by subscribers, never
        // published again.
        self.at = *position;
        let mut published = self.bus.publish_recorded(messages.clone(), *position);
        // Waits once and not for ever: one subscriber that hangs must not stop all publishing.
        if published == Err(PublishError::Full) && self.bus.wait_taken(ROOM_WITHIN) {
            published = self.bus.publish_recorded(messages, *position);
        }
        // Without room, subscribers learn the position and replay the event from the journal.
        let _ = published.or_else(|_| self.bus.announce_position(*position));
    }

    /// Continues with the runs that the former daemon left open: their agents may have ended since,
    /// without an event.
    fn resume_open_runs(&mut self, journal: &Journal) -> Result<(), ReadError> {
        let saved = std::fs::read(health_dir(self.journal_handle.folder()).join(OPEN_RUNS_FILE));
        // Without the file such a run ends with the next event of its session.
        let saved = saved.ok().and_then(|text| serde_json::from_slice(&text).ok());
        self.open_runs = saved.unwrap_or_default();
        // A session with events that are still to be published is looked up with the first of them.
        // After a long absence this may hold for any session.
        let tail = journal.tail()?;
        let unpublished = journal.recorded_from(self.at + 1)?;
        if unpublished.last().is_some_and(|last| last.position < tail) {
            return Ok(());
        }
        let mut resumed = self.open_runs.clone();
        for recorded in &unpublished {
            resumed.remove(&recorded.event.session_id);
        }
        for session in &resumed {
            match journal.stat(session) {
                // Deleted meanwhile.
                Err(ReadError::SessionNotFound(_)) => {}
                info => self.cortex.resume_run(&info?, journal),
            }
        }
        Ok(())
    }

    /// Stores which runs are open. If that fails, a restart does not know them.
    fn save_open_runs(&mut self) {
        let open = self.cortex.open_sessions();
        if open != self.open_runs
            && let Ok(text) = serde_json::to_vec(&open)
            && write_atomic(&health_dir(self.journal_handle.folder()), OPEN_RUNS_FILE, &text)
                .is_ok()
        {
            self.open_runs = open;
        }
    }

    /// Publishes what the status service says of the open runs.
    fn apply_statuses(&mut self) {
        // Watched only while an agent works: a watch costs a probe of the processes a second.
        if !self.cortex.follows_statuses() {
            self.watch = None;
            return;
        }
        if self.watch.is_none() {
            self.watch = Some(self.status.watch());
        }
        let now = (self.clock)();
        let changed = self.status.changes().since(&mut self.status_cursor);
        let mut messages: Vec<Message> = Vec::new();
        for assessed in &changed {
            messages.extend(self.cortex.apply_status(assessed, now));
        }
        messages.extend(self.cortex.apply_early_statuses(now));
        messages.extend(self.cortex.end_settled_runs(now));
        for message in messages {
            // Without room the next report of running agents corrects what a subscriber missed.
            let _ = self.bus.publish(message);
        }
    }

    /// Publishes the running agents, whenever it is due.
    fn publish_running(&mut self) {
        let BusPublisher { running_report, cortex, clock, .. } = self;
        if let Some(draft) =
            running_report.message(Instant::now(), || cortex.running_agents(clock()))
        {
            // A lost report is repeated with the next one.
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
        self.save_open_runs();
    }
}

fn time_until(at: Time, now: Time) -> Duration {
    Duration::from_nanos(u64::try_from(at.nanos() - now.nanos()).unwrap_or(0))
}

/// The time before which an event counts as history.
fn before_absence(now: Time) -> Time {
    Time::from_nanos(now.nanos() - ABSENCE.as_nanos() as i128)
}

#[cfg(test)]
mod tests;
