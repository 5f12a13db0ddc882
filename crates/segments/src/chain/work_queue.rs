//! The pending work of the chain: epochs that failed, handlers to retry, announced files.
//!
//! Each item is retried a few times with growing delays and does not delay the others. The queue is
//! pure; the chain saves it.

use event::{SessionId, Time};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::segment::SegmentKey;

/// Delays before the second, third and fourth try, growing so that a lasting fault costs little.
/// After the last try the work is given up.
const DELAYS_MILLIS: [i64; 3] = [10_000, 60_000, 600_000];

/// Tries of a handler that ran and failed. A second one helps against a fault that passes; more of
/// them would only delay the news that the segment is done.
const HANDLER_TRIES: u32 = 2;

/// Items in the queue. When it is full, the chain waits: each item is done or given up within
/// minutes.
const PENDING_MAX: usize = 1_000;

/// All pending work in order of arrival.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct WorkQueue {
    items: Vec<PendingWork>,
}

/// One item with its progress. The field names are those of `chain.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct PendingWork {
    #[serde(rename = "what")]
    pub(super) item: WorkItem,
    /// Failed tries so far.
    tries: u32,
    /// Time of the next try.
    at: Time,
    /// When it was queued. The message about its end tells how long it took.
    #[serde(default)]
    pub(super) since: Option<Time>,
    /// Handlers that have succeeded, each with its file: a retry skips them.
    done: Vec<(String, String)>,
    /// Its handlers are under way, so it is not due. After a restart it is.
    #[serde(skip)]
    pub(super) is_active: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkItem {
    /// An epoch, identified by the event that closed it.
    Epoch { session_id: SessionId, seq: u64, closed_at: Time },
    /// Files that another program put into a segment, and the number of the announcement.
    Announced {
        key: SegmentKey,
        files: Vec<String>,
        meta: Value,
        /// The machine that they come from.
        #[serde(default)]
        remote: Option<String>,
        // An earlier version wrote `null` for an announcement without a time.
        #[serde(default, deserialize_with = "number_or_zero")]
        announced: i64,
    },
}

impl PendingWork {
    pub(super) fn new(item: WorkItem, now: Time) -> PendingWork {
        PendingWork {
            item,
            tries: 0,
            at: now,
            since: Some(now),
            done: Vec::new(),
            is_active: false,
        }
    }

    /// Returns whether no try has failed yet.
    pub(super) fn is_first_try(&self) -> bool {
        self.tries == 0
    }

    /// Returns whether no further try follows.
    pub(super) fn is_last_try(&self) -> bool {
        self.tries as usize >= DELAYS_MILLIS.len()
    }

    /// Returns whether a handler that fails now is not tried again.
    pub(super) fn is_last_handler_try(&self) -> bool {
        self.tries + 1 >= HANDLER_TRIES
    }

    pub(super) fn is_done(&self, handler: &str, file: &str) -> bool {
        self.done.iter().any(|(name, input)| name == handler && input == file)
    }

    pub(super) fn mark_done(&mut self, handler: &str, file: &str) {
        self.done.push((handler.to_owned(), file.to_owned()));
    }
}

impl WorkQueue {
    /// Returns whether an item failed and waits for its next try.
    pub(super) fn has_retries(&self) -> bool {
        self.items.iter().any(|work| !work.is_first_try())
    }

    pub(super) fn contains(&self, item: &WorkItem) -> bool {
        self.items.iter().any(|work| work.item == *item)
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= PENDING_MAX
    }

    /// Adds an item to be done now, unless it is queued already.
    pub(super) fn add_new(&mut self, item: WorkItem, now: Time) {
        // A message that is delivered twice is one piece of work.
        if !self.contains(&item) {
            self.items.push(PendingWork::new(item, now));
        }
    }

    /// Returns whether an announcement about a segment has this number.
    pub(super) fn has_announced(&self, segment: &SegmentKey, number: i64) -> bool {
        self.items.iter().any(|work| match &work.item {
            WorkItem::Announced { key, announced, .. } => key == segment && *announced == number,
            WorkItem::Epoch { .. } => false,
        })
    }

    /// Returns an item with its progress, or as new.
    pub(super) fn resume(&self, item: WorkItem, now: Time) -> PendingWork {
        let known = self.items.iter().find(|work| work.item == item);
        known.cloned().unwrap_or_else(|| PendingWork::new(item, now))
    }

    /// Stores the progress of an item.
    pub(super) fn store(&mut self, work: &PendingWork) {
        match self.items.iter_mut().find(|known| known.item == work.item) {
            Some(known) => *known = work.clone(),
            None => self.items.push(work.clone()),
        }
    }

    /// Returns the first item that is due.
    pub(super) fn next_due(&self, now: Time) -> Option<PendingWork> {
        let is_it = |work: &&PendingWork| is_due(work.at, now) && !work.is_active;
        self.items.iter().find(is_it).cloned()
    }

    /// Makes an item due again whose handlers are no longer under way.
    pub(super) fn release(&mut self, item: &WorkItem) {
        if let Some(work) = self.items.iter_mut().find(|work| work.item == *item) {
            work.is_active = false;
        }
    }

    /// Schedules the next try after a failure. The item moves to the end of the queue.
    pub(super) fn retry_later(&mut self, mut work: PendingWork, now: Time) {
        // The last delay stands in for tries beyond it, as a stored queue may hold any number.
        let delay = DELAYS_MILLIS[(work.tries as usize).min(DELAYS_MILLIS.len() - 1)];
        work.at = Time::from_nanos(now.nanos() + i128::from(delay) * 1_000_000);
        work.tries += 1;
        work.is_active = false;
        self.remove(&work.item);
        self.items.push(work);
    }

    pub(super) fn remove(&mut self, item: &WorkItem) {
        self.items.retain(|work| work.item != *item);
    }
}

/// Reads a number, and `null` as 0.
fn number_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(0))
}

/// Returns whether a time has come. A time further away than the longest delay counts as due: the
/// clock was set back.
fn is_due(at: Time, now: Time) -> bool {
    let longest = DELAYS_MILLIS.iter().max().copied().unwrap_or_default();
    at <= now || at.nanos() - now.nanos() > i128::from(longest) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(announced: i64) -> WorkItem {
        let key = SegmentKey::parse("20261116", "phone", "080001_5").expect("a key");
        WorkItem::Announced { key, files: Vec::new(), meta: Value::Null, remote: None, announced }
    }

    #[test]
    fn active_work_is_not_due() {
        let now = Time::from_millis(0);
        let mut queue = WorkQueue::default();
        queue.add_new(announced(1), now);
        let mut work = queue.next_due(now).expect("it is due");
        work.is_active = true;
        queue.store(&work);
        assert_eq!(queue.next_due(now), None);
        // A restart knows nothing of runs.
        let saved = serde_json::to_string(&queue).expect("it can be saved");
        let again: WorkQueue = serde_json::from_str(&saved).expect("it can be read");
        assert!(again.next_due(now).is_some());
        queue.release(&work.item);
        assert!(queue.next_due(now).is_some());
    }

    #[test]
    fn retries_slow_down_and_end() {
        let mut queue = WorkQueue::default();
        queue.add_new(announced(1), Time::from_millis(0));
        queue.add_new(announced(1), Time::from_millis(0));
        let mut tried = Vec::new();
        let mut seconds = 0;
        while !queue.items.is_empty() {
            let now = Time::from_millis(seconds * 1_000);
            if let Some(work) = queue.next_due(now) {
                tried.push(seconds);
                match work.is_last_try() {
                    true => queue.remove(&work.item),
                    false => queue.retry_later(work, now),
                }
            }
            seconds += 1;
        }
        assert_eq!(tried, [0, 10, 70, 670]);
    }

    #[test]
    fn missing_number_reads_as_zero() {
        let mut queue = WorkQueue::default();
        queue.add_new(announced(0), Time::from_millis(0));
        queue.add_new(announced(7), Time::from_millis(0));
        let now = serde_json::to_string(&queue).expect("it can be saved");
        for earlier in [r#","announced":null"#, ""] {
            let saved = now.replace(r#","announced":0"#, earlier);
            assert_ne!(saved, now);
            assert_eq!(serde_json::from_str::<WorkQueue>(&saved).expect(&saved), queue);
        }
    }

    #[test]
    fn waiting_item_delays_no_other() {
        let mut queue = WorkQueue::default();
        let late = Time::from_millis(1_000_000_000);
        queue.add_new(announced(1), late);
        queue.retry_later(queue.next_due(late).expect("it is due"), late);
        queue.add_new(announced(2), late);
        assert_eq!(queue.next_due(late).expect("it is due").item, announced(2));
        assert_eq!(queue.next_due(Time::from_millis(0)).expect("it is due").item, announced(1));
    }
}
