//! Publishes committed events on the bus: every recent one, in the journal's order.
//!
//! It is a named consumer of the journal. It saves its position behind what was published, at most
//! once a second, so that a restart continues there. After a crash that last second is published
//! again; `position` tells a subscriber which messages those are. It skips history: subscribers that start in the past replay it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Handle, PublishError};
use capture::StopFlag;
use event::{Event, SessionId, Time};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError, Recorded, SubscriptionWaker,
};
use segments::write_durably;
use serde::{Deserialize, Serialize};
use wire::health_dir;

use super::cortex::{Cortex, StatusMessage};
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

/// The time between two tries to publish an end that found no room on the bus.
const END_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The time between two tries to look up open runs that are not held.
const RESUME_EVERY: Duration = Duration::from_secs(5);

/// The file with the sessions that have a published start without an end.
const OPEN_RUNS_FILE: &str = "open_runs.json";

/// The runs that are open on the bus. Only this file tells a run that the status has ended from one
/// that goes on: the journal has no event of such an end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct OpenRuns {
    /// Everything up to here was published or skipped when the runs were saved.
    position: u64,
    sessions: BTreeSet<SessionId>,
}

/// Publishes the journal's events on the bus.
pub(crate) struct BusPublisher {
    journal_handle: JournalHandle,
    bus: Handle,
    clock: fn() -> Time,
    cortex: Cortex,
    /// Everything up to here was published or skipped.
    at: u64,
    /// The journal's last position at the start. What the former daemon recorded and did not come to
    /// publish is not history.
    recorded_before: u64,
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
    saved_runs: BTreeSet<SessionId>,
    /// Ends that found no room on the bus, the oldest first. There are as many as runs at most.
    unsent_ends: VecDeque<StatusMessage>,
    /// When open runs were looked up last.
    resumed_at: Instant,
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
        // Without the file no run counts as open, and what goes on gets no end.
        let saved = std::fs::read(health_dir(journal_handle.folder()).join(OPEN_RUNS_FILE));
        let saved = saved.ok().and_then(|text| serde_json::from_slice::<OpenRuns>(&text).ok());
        let OpenRuns { position, sessions } = saved.unwrap_or_default();
        // The file is written before the position is saved. Its own position is later after a crash
        // between the two, and the runs are those of that position.
        let recorded_before = journal.tail()?;
        let at = at.max(position.min(recorded_before));
        let recent_since = before_absence(clock());
        let long_ago = Instant::now();
        let mut publisher = BusPublisher {
            journal_handle,
            bus,
            clock,
            cortex: Cortex::live(sessions.clone()),
            at,
            recorded_before,
            saved: None,
            saved_at: long_ago,
            recent_since,
            running_report: RunningReport::default(),
            status,
            status_cursor: ChangesCursor::default(),
            watch: None,
            saved_runs: sessions,
            unsent_ends: VecDeque::new(),
            resumed_at: long_ago,
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

    /// Skips everything that was recorded since the start as history.
    pub(crate) fn skip_history(&mut self, stop: &StopFlag) -> Result<(), ReadError> {
        if self.at < self.recorded_before {
            return self.catch_up(stop);
        }
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
                if self.is_published(&recorded.event) {
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
        // Everything up to here is published, so the other runs have no event to come back with.
        self.resume_runs(&journal);
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
            self.apply_statuses(&journal);
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
        let until_again = (!self.unsent_ends.is_empty()).then_some(END_AGAIN_AFTER);
        let until_resumed = self.cortex.has_absent_runs().then_some(RESUME_EVERY);
        let due = [until_saved, until_report, until_settled, until_again, until_resumed];
        due.into_iter().flatten().min().unwrap_or(PATIENCE)
    }

    /// Whether an event read while catching up is published: if it is recent, or continues a run
    /// that is open on the bus.
    fn is_published(&self, event: &Event) -> bool {
        self.is_recent(event.created_at) || self.cortex.open_runs().contains(&event.session_id)
    }

    /// Whether an event was observed shortly before its commit, as everything captured live is, or
    /// continues a run that is open on the bus.
    fn is_news(&self, event: &Event) -> bool {
        event.observed_at >= before_absence((self.clock)())
            || self.cortex.open_runs().contains(&event.session_id)
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
        let own = self.cortex.make_messages(recorded, journal);
        // An end of this session that waits for room goes in front, or the next start would overtake
        // it.
        let is_of_session =
            |end: &&StatusMessage| end.ends.as_ref() == Some(&recorded.event.session_id);
        let waiting = self.unsent_ends.iter().filter(is_of_session);
        let messages: Vec<bus::Message> =
            waiting.map(|end| end.message.clone()).chain(own).collect();
        // Set before publishing: an event that finds no room is replayed by subscribers, never
        // published again.
        self.at = *position;
        let mut published = self.bus.publish_recorded(messages.clone(), *position);
        // Waits once and not for ever: one subscriber that hangs must not stop all publishing.
        if published == Err(PublishError::Full) && self.bus.wait_taken(ROOM_WITHIN) {
            published = self.bus.publish_recorded(messages, *position);
        }
        if published.is_ok() {
            let session = Some(&recorded.event.session_id);
            self.unsent_ends.retain(|end| end.ends.as_ref() != session);
        }
        // Without room, subscribers learn the position and replay the event from the journal.
        let _ = published.or_else(|_| self.bus.announce_position(*position));
    }

    /// Publishes what the status service says of the open runs.
    fn apply_statuses(&mut self, journal: &Journal) {
        self.send_ends();
        // Watched only while an agent works: a watch costs a probe of the processes a second.
        if !self.cortex.follows_statuses() {
            self.watch = None;
            return;
        }
        if self.watch.is_none() {
            self.watch = Some(self.status.watch());
        }
        if self.resumed_at.elapsed() >= RESUME_EVERY && self.cortex.has_absent_runs() {
            self.resume_runs(journal);
        }
        let now = (self.clock)();
        let news = self.status.changes().since(&mut self.status_cursor);
        let mut messages: Vec<StatusMessage> = Vec::new();
        for assessed in &news.assessed {
            messages.extend(self.cortex.apply_status(assessed, now));
        }
        messages.extend(self.cortex.apply_early_statuses(now));
        messages.extend(self.cortex.end_settled_runs(now));
        if let Some(listed) = &news.listed {
            messages.extend(self.cortex.end_unlisted_runs(listed, now, journal));
        }
        for message in messages {
            match message.ends {
                // Behind the ends that wait already.
                Some(_) => self.unsent_ends.push_back(message),
                // Without room the next report of running agents corrects what a subscriber missed.
                None => _ = self.bus.publish(message.message),
            }
        }
        self.send_ends();
    }

    /// Looks up open runs that are not held.
    fn resume_runs(&mut self, journal: &Journal) {
        self.resumed_at = Instant::now();
        let resumed = self.cortex.resume_runs((self.clock)(), journal);
        self.unsent_ends.extend(resumed.ends);
        if resumed.count > 0 {
            // From the first: what changed before these runs were held counts for them, too.
            self.status_cursor = ChangesCursor::default();
        }
    }

    /// Publishes the ends that wait, as far as the bus has room.
    fn send_ends(&mut self) {
        if self.unsent_ends.is_empty() {
            return;
        }
        while let Some(end) = self.unsent_ends.front() {
            if self.bus.publish(end.message.clone()) == Err(PublishError::Full) {
                break;
            }
            // A stopped bus has no subscribers that could miss it.
            self.unsent_ends.pop_front();
        }
        // At once: after a crash the next daemon must not end these runs again.
        self.save_open_runs();
    }

    /// Stores which runs are open; returns whether the file has them.
    fn save_open_runs(&mut self) -> bool {
        let mut sessions = self.cortex.open_runs().clone();
        // A run is open until its end is out.
        sessions.extend(self.unsent_ends.iter().filter_map(|end| end.ends.clone()));
        if sessions == self.saved_runs {
            return true;
        }
        let runs = OpenRuns { position: self.at, sessions };
        let text = serde_json::to_vec(&runs).expect("ids always encode");
        let folder = health_dir(self.journal_handle.folder());
        // With the folder: after a power cut the old file would end runs a second time.
        let is_written = write_durably(&folder, OPEN_RUNS_FILE, &text).is_ok();
        if is_written {
            self.saved_runs = runs.sessions;
        }
        is_written
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
        // Before the position: a start that counts as published has to be known as open.
        let is_known = self.save_open_runs();
        let is_saved = self.saved == Some(self.at);
        let next = self.at + 1;
        if is_known
            && !is_saved
            && self.journal_handle.current().advance_consumer(CONSUMER, next).is_ok()
        {
            self.saved = Some(self.at);
        }
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
