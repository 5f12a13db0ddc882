//! Snapshots: a view saved as a fact, on request or by policy, in sessions we host.
//!
//! A snapshot says by reference what the view shows anyway; with or without it the history is
//! the same. What makes opening fast is the [saved view](crate::view::SavedView) beside the log.
//!
//! Not here: the clock, which is handed in, and appending.

use std::time::Duration;

use event::Time;
use event::payload::Snapshot;

use crate::view::{EventLog, View, ViewError};

/// A snapshot waits until an eighth of what the one before covers is new: then all snapshots of
/// a session together stay small, however long it gets.
const NEWS_SHARE: u64 = 8;

/// When a snapshot is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotPolicy {
    /// Events since the last one.
    pub events_max: u64,
    /// Age of the first event since the last one; off unless set.
    pub age_max: Option<Duration>,
}

impl Default for SnapshotPolicy {
    fn default() -> SnapshotPolicy {
        SnapshotPolicy { events_max: 256, age_max: None }
    }
}

/// Why a snapshot is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    Count,
    Time,
    Manual,
}

impl Trigger {
    /// The strategy it is recorded as.
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::Count => "count",
            Trigger::Time => "time",
            Trigger::Manual => "manual",
        }
    }
}

/// Decides on snapshots and builds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Snapshotter {
    pub policy: SnapshotPolicy,
}

impl Snapshotter {
    pub fn new(policy: SnapshotPolicy) -> Snapshotter {
        Snapshotter { policy }
    }

    /// Why a snapshot is due, if it is. Costs nothing, so it can be asked after every append.
    pub fn due_trigger(&self, view: &View, now: Time) -> Option<Trigger> {
        let (base_seq, covered) = view.newest_base().unwrap_or((0, 0));
        let news = view.up_to_seq() - base_seq;
        if news == 0 {
            return None;
        }
        // Both limits: the first spares short sessions, the second keeps the snapshots of long ones
        // few.
        if news >= self.policy.events_max && news >= covered / NEWS_SHARE {
            return Some(Trigger::Count);
        }
        let age = now.nanos() - view.uncovered_at()?.nanos();
        // Negative if an event comes from a clock that is ahead; the cast would make a huge age of
        // it.
        let is_old = |age_max: Duration| age >= 0 && age as u128 >= age_max.as_nanos();
        self.policy.age_max.filter(|age_max| is_old(*age_max)).map(|_| Trigger::Time)
    }

    /// The snapshot of the view as it is; none if there is nothing it could cover.
    ///
    /// It stops before an answer that waits for results, so that it never tears one apart.
    pub fn snapshot(
        &self,
        view: &View,
        trigger: Trigger,
        log: &dyn EventLog,
    ) -> Result<Option<Snapshot>, ViewError> {
        let is_news = view.newest_base().is_none_or(|(seq, _)| seq < view.up_to_seq());
        // A snapshot right behind another base would only repeat it.
        if view.is_silent() || !is_news {
            return Ok(None);
        }
        let covered = view.coverable(log)?.filter(|covered| covered.seq > view.cutoff_seq());
        Ok(covered.map(|covered| Snapshot {
            strategy: trigger.as_str().to_owned(),
            base_seq: view.compaction_seq(),
            cutoff_seq: covered.seq,
            cutoff_event_id: Some(covered.event_id),
            entries: view.references(covered.seq),
            // The lists of the compaction below count anyway.
            read_files: Vec::new(),
            modified_files: Vec::new(),
        }))
    }

    /// The snapshot, if one is due.
    pub fn snapshot_if_needed(
        &self,
        view: &View,
        now: Time,
        log: &dyn EventLog,
    ) -> Result<Option<Snapshot>, ViewError> {
        match self.due_trigger(view, now) {
            Some(trigger) => self.snapshot(view, trigger, log),
            None => Ok(None),
        }
    }
}
