//! A queue per handler: one run of a handler at a time, and no handler waits for another.
//!
//! The queues are pure. The chain starts what they name and tells them what has ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::HandlerTarget;

/// A run of a handler for one file of a segment.
#[derive(Clone, Debug)]
pub(super) struct HandlerJob {
    /// The ticket of the segment.
    pub(super) ticket: u64,
    pub(super) target: Arc<HandlerTarget>,
    pub(super) handler: String,
    pub(super) file: String,
    pub(super) queued_at: Instant,
}

/// The handlers with work, by name.
#[derive(Default)]
pub(super) struct HandlerQueues {
    lanes: BTreeMap<String, HandlerLane>,
}

/// The queue of one handler.
#[derive(Default)]
pub(super) struct HandlerLane {
    current: Option<CurrentRun>,
    waiting: VecDeque<HandlerJob>,
}

/// The run that a handler is busy with.
struct CurrentRun {
    job: HandlerJob,
    reference: String,
    /// When its process started; `None` while the supervisor has no room for it.
    started_at: Option<Instant>,
}

/// A run of a handler as it is reported.
pub(super) struct HandlerRun {
    /// The file, relative to the journal.
    pub(super) file: String,
    pub(super) stream: Option<String>,
    /// When the run was queued, or when its process started.
    pub(super) since: Instant,
    /// Its ref, if it was handed to the supervisor.
    pub(super) reference: Option<String>,
}

impl HandlerQueues {
    pub(super) fn push(&mut self, job: HandlerJob) {
        self.lanes.entry(job.handler.clone()).or_default().waiting.push_back(job);
    }

    /// Takes the next job of a handler that is free.
    pub(super) fn next_job(&mut self) -> Option<HandlerJob> {
        let mut free = self.lanes.values_mut().filter(|lane| lane.current.is_none());
        free.find_map(|lane| lane.waiting.pop_front())
    }

    /// Puts a job back that could not be started. It is the next again.
    pub(super) fn put_back(&mut self, job: HandlerJob) {
        self.lanes.entry(job.handler.clone()).or_default().waiting.push_front(job);
    }

    /// Makes a handler busy with a job.
    pub(super) fn begin(&mut self, job: HandlerJob, reference: String) {
        let lane = self.lanes.entry(job.handler.clone()).or_default();
        lane.current = Some(CurrentRun { job, reference, started_at: None });
    }

    /// Lists the handlers that are busy, each with the ref of its run.
    pub(super) fn busy(&self) -> Vec<(String, String)> {
        let busy = self.lanes.iter().filter_map(|(name, lane)| {
            Some((name.clone(), lane.current.as_ref()?.reference.clone()))
        });
        busy.collect()
    }

    /// Notes that the process of a handler exists; returns its job.
    pub(super) fn started(&mut self, handler: &str, at: Instant) -> Option<HandlerJob> {
        let current = self.lanes.get_mut(handler)?.current.as_mut()?;
        current.started_at = Some(at);
        Some(current.job.clone())
    }

    /// Ends the run of a handler; returns its job, and when its process started.
    pub(super) fn ended(&mut self, handler: &str) -> Option<(HandlerJob, Option<Instant>)> {
        let lane = self.lanes.get_mut(handler)?;
        let CurrentRun { job, started_at, .. } = lane.current.take()?;
        // Users choose the names of handlers, so an unused one is forgotten.
        if lane.waiting.is_empty() {
            self.lanes.remove(handler);
        }
        Some((job, started_at))
    }

    /// Lists the handlers with work, by name.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (&str, &HandlerLane)> {
        let busy = |(_, lane): &(&String, &HandlerLane)| {
            lane.current.is_some() || !lane.waiting.is_empty()
        };
        self.lanes.iter().filter(busy).map(|(name, lane)| (name.as_str(), lane))
    }
}

impl HandlerLane {
    /// Returns the run that the handler is busy with.
    pub(super) fn running(&self) -> Option<HandlerRun> {
        let CurrentRun { job, reference, started_at } = self.current.as_ref()?;
        let since = started_at.unwrap_or(job.queued_at);
        Some(HandlerRun { since, reference: Some(reference.clone()), ..job.report() })
    }

    /// Lists the runs that wait for it, in order.
    pub(super) fn queued(&self) -> impl Iterator<Item = HandlerRun> {
        self.waiting.iter().map(HandlerJob::report)
    }
}

impl HandlerJob {
    fn report(&self) -> HandlerRun {
        HandlerRun {
            file: self.target.key.path().join(&self.file).to_string_lossy().into_owned(),
            stream: self.target.key.stream().map(str::to_owned),
            since: self.queued_at,
            reference: None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::segment::SegmentKey;

    pub(in crate::chain) fn job(handler: &str, ticket: u64) -> HandlerJob {
        let key = SegmentKey::parse("20261116", "phone", "080001_5").expect("a key");
        let target = HandlerTarget { key, folder: "/".into(), meta: json!({}), remote: None };
        let (handler, file) = (handler.to_owned(), "a.png".to_owned());
        HandlerJob { ticket, target: Arc::new(target), handler, file, queued_at: Instant::now() }
    }

    #[test]
    fn busy_handler_delays_only_itself() {
        let mut queues = HandlerQueues::default();
        for (handler, ticket) in [("slow", 1), ("slow", 2), ("quick", 1), ("quick", 2)] {
            queues.push(job(handler, ticket));
        }
        let mut begun = Vec::new();
        let mut begin_all = |queues: &mut HandlerQueues| {
            while let Some(job) = queues.next_job() {
                begun.push(format!("{} {}", job.handler, job.ticket));
                let reference = format!("run-{}-{}", job.handler, job.ticket);
                queues.begin(job, reference);
            }
        };
        begin_all(&mut queues);
        queues.ended("quick").expect("it runs");
        begin_all(&mut queues);
        queues.ended("quick").expect("it runs");
        begin_all(&mut queues);
        assert_eq!(begun, ["quick 1", "slow 1", "quick 2"]);
        let lanes: Vec<(&str, usize)> =
            queues.lanes().map(|(name, lane)| (name, lane.queued().count())).collect();
        assert_eq!(lanes, [("slow", 1)]);
        let (_, lane) = queues.lanes().next().expect("it is busy");
        let running = lane.running().expect("it is busy");
        assert_eq!(running.file, "20261116/phone/080001_5/a.png");
        assert_eq!(running.reference.as_deref(), Some("run-slow-1"));
    }

    #[test]
    fn job_without_room_is_the_next_again() {
        let mut queues = HandlerQueues::default();
        queues.push(job("see", 1));
        queues.push(job("see", 2));
        let first = queues.next_job().expect("it waits");
        queues.put_back(first);
        assert_eq!(queues.next_job().expect("it waits").ticket, 1);
    }
}
