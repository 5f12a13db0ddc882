//! The task queue. Requests, cancellations and exits go in; starts, stops and answers come out.
//!
//! One task of a name runs at a time, names are independent, and equal waiting tasks are merged.
//! Every accepted ref is answered exactly once.
//!
//! Not here: processes, messages, clocks. The caller passes the time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::day::Day;
use crate::program::Program;
use crate::run_ref::{Ref, stored};
use crate::services_file::{IfBusy, TaskLimits};

/// Waiting tasks of all names. One more is answered `queue_full`.
const WAITING_ALL_MAX: usize = 10_000;

/// Refs of one task. One more is answered `queue_full`.
const REFS_MAX: usize = 1_000;

/// Waiting tasks that a `queue` message lists.
const SHOWN_MAX: usize = 100;

/// Identifies a run among all processes of this supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct RunId(pub(crate) u64);

/// What to run. Waiting tasks with equal commands are merged.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct TaskCommand {
    /// The name of the task.
    pub name: String,
    pub program: Program,
    pub cmd: Vec<String>,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(String, String)>,
}

/// A request to run a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskRequest {
    pub reference: Ref,
    pub work: TaskCommand,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub if_busy: IfBusy,
    /// Run it again if the daemon dies meanwhile.
    pub rerun: bool,
    /// Keep it over an orderly stop too.
    pub keep: bool,
}

/// A task with all refs that wait for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QueuedTask {
    #[serde(with = "stored")]
    pub refs: Vec<Ref>,
    #[serde(with = "shared")]
    pub work: Arc<TaskCommand>,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub rerun: bool,
    pub keep: bool,
    #[serde(skip)]
    seq: u64,
}

/// Why a ref got its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    NotAllowed,
    BadRequest,
    CannotStart,
    QueueFull,
    Canceled,
    Timeout,
    Stopping,
    DaemonDied,
}

impl Reason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Reason::NotAllowed => "not_allowed",
            Reason::BadRequest => "bad_request",
            Reason::CannotStart => "cannot_start",
            Reason::QueueFull => "queue_full",
            Reason::Canceled => "canceled",
            Reason::Timeout => "timeout",
            Reason::Stopping => "stopping",
            Reason::DaemonDied => "daemon_died",
        }
    }
}

/// The answer to one ref: `supervisor.stopped`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stopped {
    pub service: String,
    /// 0 if nothing ran.
    pub pid: u32,
    pub reference: Ref,
    pub exit_code: i32,
    pub reason: Option<Reason>,
    pub error: Option<String>,
}

impl Stopped {
    /// The answer to a ref for which nothing ran.
    pub(crate) fn never_ran(service: &str, reference: Ref, reason: Reason) -> Stopped {
        Stopped {
            service: service.to_owned(),
            pid: 0,
            reference,
            exit_code: -1,
            reason: Some(reason),
            error: None,
        }
    }
}

/// What the caller has to do, in this order.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Start the run, then call [`TaskQueue::started`] or [`TaskQueue::start_failed`].
    Start(RunId),
    /// Send SIGTERM to the run's processes, and SIGKILL after a while.
    End(RunId),
    Stopped(Stopped),
    /// All refs of the run are answered.
    Over(RunId),
    Skipped {
        reference: Ref,
        active: Option<Ref>,
        work: Arc<TaskCommand>,
    },
    /// The queue of this name has changed.
    Queue(String),
}

/// The queue of one name, as published.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct QueueSnapshot<'a> {
    pub running: Option<&'a Ref>,
    pub queued: usize,
    pub shown: Vec<&'a QueuedTask>,
}

impl PartialEq for QueuedTask {
    fn eq(&self, other: &QueuedTask) -> bool {
        self.refs == other.refs && self.work == other.work && self.day == other.day
    }
}

/// What survives the daemon.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedTasks {
    pub running: Vec<QueuedTask>,
    pub waiting: Vec<QueuedTask>,
}

/// All tasks, waiting and running.
#[derive(Debug)]
pub(crate) struct TaskQueue {
    limits: TaskLimits,
    lanes: BTreeMap<String, Lane>,
    running: BTreeMap<RunId, RunningTask>,
    /// The first waiting task of each name without a running one, by sequence number.
    ready: BTreeSet<(u64, String)>,
    locations: HashMap<Ref, RefLocation>,
    waiting: usize,
    next_seq: u64,
    /// Counts down from `SEQ_FIRST`, so that tasks which ran before a crash go first.
    next_front: u64,
    next_run: u64,
    is_stopping: bool,
    has_changed: bool,
}

/// Tasks of one name.
#[derive(Debug, Default)]
struct Lane {
    running: Option<RunId>,
    waiting: VecDeque<QueuedTask>,
    by_work: HashMap<Arc<TaskCommand>, u64>,
}

#[derive(Debug)]
struct RunningTask {
    entry: QueuedTask,
    pid: u32,
    since: Moment,
    deadline: Option<Moment>,
    /// Why it was asked to end.
    ending: Option<Reason>,
}

#[derive(Clone, Debug)]
enum RefLocation {
    Waiting { name: String, seq: u64 },
    Running(RunId),
}

/// The middle of the number range: new tasks count up from it, restored ones count down.
const SEQ_FIRST: u64 = 1 << 62;

impl TaskQueue {
    pub(crate) fn new(limits: TaskLimits) -> TaskQueue {
        TaskQueue {
            limits,
            lanes: BTreeMap::new(),
            running: BTreeMap::new(),
            ready: BTreeSet::new(),
            locations: HashMap::new(),
            waiting: 0,
            next_seq: SEQ_FIRST,
            next_front: SEQ_FIRST,
            next_run: 1,
            is_stopping: false,
            has_changed: false,
        }
    }

    /// Applies the limits of a reloaded file. Waiting tasks stay.
    pub(crate) fn set_limits(&mut self, limits: TaskLimits) -> Vec<Effect> {
        self.limits = limits;
        self.has_changed = true;
        let mut effects = Vec::new();
        self.start_ready(&mut effects);
        effects
    }

    /// Takes a request. A ref that already waits or runs is ignored: its answer is on the way.
    pub(crate) fn request(&mut self, request: TaskRequest) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.locations.contains_key(&request.reference) {
            return effects;
        }
        let TaskRequest { reference, work, day, timeout, if_busy, rerun, keep } = request;
        let never =
            |reason| Effect::Stopped(Stopped::never_ran(&work.name, reference.clone(), reason));
        // A task that is kept may still come: the next daemon runs it.
        if self.is_stopping && !keep && !self.limits.persist {
            return vec![never(Reason::Stopping)];
        }
        let lane = self.lanes.get(&work.name);
        let is_busy = lane.is_some_and(|lane| lane.running.is_some() || !lane.waiting.is_empty());
        // Before merging: a request that does not want to wait must not join a waiting task.
        if if_busy == IfBusy::Skip && is_busy {
            let active = lane.and_then(|lane| match lane.running {
                Some(run) => self.running.get(&run).and_then(|running| running.entry.refs.first()),
                None => lane.waiting.front().and_then(|entry| entry.refs.first()),
            });
            let active = active.cloned();
            return vec![Effect::Skipped { reference, active, work: Arc::new(work) }];
        }
        // Only waiting tasks merge. A running one may have read its input before this request.
        let equal = lane.and_then(|lane| lane.by_work.get(&work).copied());
        if let Some(seq) = equal {
            let lane = self.lanes.get_mut(&work.name).expect("it was just there");
            let entry = lane.entry(seq).expect("what is found by its work waits");
            if entry.refs.len() >= REFS_MAX {
                return vec![never(Reason::QueueFull)];
            }
            entry.refs.push(reference.clone());
            // The merged task has the strongest wish of all its refs, and the first day.
            entry.rerun |= rerun;
            entry.keep |= keep;
            entry.day = entry.day.take().or(day);
            self.has_changed = true;
            self.locations.insert(reference, RefLocation::Waiting { name: work.name.clone(), seq });
            return vec![Effect::Queue(work.name)];
        }
        // Two limits: one name must not take the room of all others.
        let in_lane = lane.map_or(0, |lane| lane.waiting.len());
        if in_lane >= self.limits.waiting_max || self.waiting >= WAITING_ALL_MAX {
            return vec![never(Reason::QueueFull)];
        }
        let name = work.name.clone();
        let work = Arc::new(work);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.insert_task(QueuedTask {
            refs: vec![reference],
            work,
            day,
            timeout,
            rerun,
            keep,
            seq,
        });
        self.start_ready(&mut effects);
        effects.push(Effect::Queue(name));
        effects
    }

    /// Cancels one ref, and the run if no other ref waits for it. An unknown ref is ignored.
    pub(crate) fn cancel(&mut self, reference: &Ref) -> Vec<Effect> {
        match self.locations.get(reference).cloned() {
            None => Vec::new(),
            Some(RefLocation::Waiting { name, seq }) => {
                self.locations.remove(reference);
                self.has_changed = true;
                let lane = self.lanes.get_mut(&name).expect("a waiting ref has its lane");
                let entry = lane.entry(seq).expect("a waiting ref has its entry");
                entry.refs.retain(|other| other != reference);
                if entry.refs.is_empty() {
                    self.remove_task(&name, seq);
                }
                let stopped = Stopped::never_ran(&name, reference.clone(), Reason::Canceled);
                vec![Effect::Stopped(stopped), Effect::Queue(name)]
            }
            Some(RefLocation::Running(run)) => {
                let running = self.running.get_mut(&run).expect("a running ref has its run");
                // The last ref ends the run, and is answered when the process has exited.
                if running.entry.refs.len() == 1 {
                    // It has its SIGTERM already, and its answer keeps the first reason.
                    if running.ending.is_some() {
                        return Vec::new();
                    }
                    running.ending = Some(Reason::Canceled);
                    return vec![Effect::End(run)];
                }
                running.entry.refs.retain(|other| other != reference);
                self.locations.remove(reference);
                self.has_changed = true;
                let name = running.entry.work.name.clone();
                let stopped = Stopped::never_ran(&name, reference.clone(), Reason::Canceled);
                vec![Effect::Stopped(stopped), Effect::Queue(name)]
            }
        }
    }

    /// Returns the task of a run.
    pub(crate) fn entry(&self, run: RunId) -> Option<&QueuedTask> {
        self.running.get(&run).map(|running| &running.entry)
    }

    pub(crate) fn started(&mut self, run: RunId, pid: u32, now: Moment) {
        if let Some(running) = self.running.get_mut(&run) {
            running.pid = pid;
            running.since = now;
            // From the start, not from the request: time in the queue does not count.
            running.deadline = running.entry.timeout.map(|timeout| now.saturating_add(timeout));
        }
    }

    /// Answers all refs of a run that could not be started.
    pub(crate) fn start_failed(&mut self, run: RunId, error: &str) -> Vec<Effect> {
        let Some(running) = self.remove_run(run) else { return Vec::new() };
        let name = running.entry.work.name.clone();
        let mut effects: Vec<Effect> = Vec::new();
        for reference in running.entry.refs {
            self.locations.remove(&reference);
            let stopped = Stopped::never_ran(&name, reference, Reason::CannotStart);
            effects.push(Effect::Stopped(Stopped { error: Some(error.to_owned()), ..stopped }));
        }
        self.finish_lane(name, &mut effects);
        effects
    }

    /// Takes note that a run has exited, by itself or on request.
    pub(crate) fn exited(&mut self, run: RunId, exit_code: i32) -> Vec<Effect> {
        let Some(running) = self.remove_run(run) else { return Vec::new() };
        let RunningTask { entry, pid, ending, .. } = running;
        let name = entry.work.name.clone();
        let mut effects = Vec::new();
        if entry.keep && ending == Some(Reason::Stopping) {
            // The next daemon runs it again, and answers it then.
            effects.push(Effect::Over(run));
            self.insert_front(entry);
            return effects;
        }
        for reference in &entry.refs {
            self.locations.remove(reference);
            effects.push(Effect::Stopped(Stopped {
                service: name.clone(),
                pid,
                reference: reference.clone(),
                exit_code,
                reason: ending,
                error: None,
            }));
        }
        effects.push(Effect::Over(run));
        self.finish_lane(name, &mut effects);
        effects
    }

    /// Ends tasks that exceeded their timeout.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (run, running) in &mut self.running {
            if running.deadline.is_some_and(|deadline| deadline <= now) {
                // Once is enough: from here on the kill ladder of the run goes by its own times.
                running.deadline = None;
                if running.ending.is_none() {
                    running.ending = Some(Reason::Timeout);
                    effects.push(Effect::End(*run));
                }
            }
        }
        effects
    }

    /// Returns when [`TaskQueue::tick`] has work again.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.running.values().filter_map(|running| running.deadline).min()
    }

    /// Stops: waiting tasks are answered or kept, running ones are asked to end.
    pub(crate) fn stop(&mut self) -> Vec<Effect> {
        self.is_stopping = true;
        let mut effects = Vec::new();
        let persist = self.limits.persist;
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            let lane = self.lanes.get_mut(&name).expect("only this loop changes lanes here");
            let (kept, gone): (VecDeque<QueuedTask>, VecDeque<QueuedTask>) =
                lane.waiting.drain(..).partition(|entry| entry.keep || persist);
            lane.waiting = kept;
            let lane = &mut *lane;
            // The index still names the tasks that were just drained.
            lane.by_work = by_work(&lane.waiting);
            if gone.is_empty() {
                continue;
            }
            self.waiting -= gone.len();
            for reference in gone.into_iter().flat_map(|entry| entry.refs) {
                self.locations.remove(&reference);
                let stopped = Stopped::never_ran(&name, reference, Reason::Stopping);
                effects.push(Effect::Stopped(stopped));
            }
            effects.push(Effect::Queue(name));
        }
        // Nothing starts any more, so nothing may count as ready.
        self.ready.clear();
        for (run, running) in &mut self.running {
            if running.ending.is_none() {
                running.ending = Some(Reason::Stopping);
                effects.push(Effect::End(*run));
            }
        }
        effects
    }

    /// Returns whether nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Restores what an earlier daemon saved.
    pub(crate) fn restore(&mut self, kept: SavedTasks) -> Vec<Effect> {
        let mut effects = Vec::new();
        // The answers given here must not be given again after the next crash.
        self.has_changed = true;
        // In reverse, because each goes to the front.
        for entry in kept.running.into_iter().rev() {
            if entry.keep || entry.rerun {
                self.insert_front(entry);
                continue;
            }
            for reference in entry.refs {
                let stopped = Stopped::never_ran(&entry.work.name, reference, Reason::DaemonDied);
                effects.push(Effect::Stopped(stopped));
            }
        }
        for mut entry in kept.waiting {
            entry.refs.retain(|reference| !self.locations.contains_key(reference));
            if entry.refs.is_empty() {
                continue;
            }
            // We wrote this file within the limits, so an entry beyond them was edited by hand.
            if self.waiting >= WAITING_ALL_MAX {
                for reference in entry.refs {
                    let name = &entry.work.name;
                    let stopped = Stopped::never_ran(name, reference, Reason::QueueFull);
                    effects.push(Effect::Stopped(stopped));
                }
                continue;
            }
            entry.seq = self.next_seq;
            self.next_seq += 1;
            self.insert_task(entry);
        }
        self.start_ready(&mut effects);
        effects
    }

    /// Returns what has to survive the daemon, if it has changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Option<SavedTasks> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        let persist = self.limits.persist;
        let is_kept = |entry: &&QueuedTask| entry.keep || persist;
        let running = self.running.values().map(|running| &running.entry);
        let mut waiting: Vec<&QueuedTask> =
            self.lanes.values().flat_map(|lane| &lane.waiting).filter(is_kept).collect();
        // Across all names, so that the next daemon starts them in the same order.
        waiting.sort_by_key(|entry| entry.seq);
        Some(SavedTasks {
            running: running.filter(is_kept).cloned().collect(),
            waiting: waiting.into_iter().cloned().collect(),
        })
    }

    /// Returns the changes again at the next call, because they could not be written.
    pub(crate) fn mark_unsaved(&mut self) {
        self.has_changed = true;
    }

    /// Returns the state of one name's queue.
    pub(crate) fn snapshot(&self, name: &str) -> QueueSnapshot<'_> {
        let Some(lane) = self.lanes.get(name) else {
            return QueueSnapshot { running: None, queued: 0, shown: Vec::new() };
        };
        let running = lane.running.and_then(|run| self.running.get(&run));
        QueueSnapshot {
            running: running.and_then(|running| running.entry.refs.first()),
            queued: lane.waiting.len(),
            shown: lane.waiting.iter().take(SHOWN_MAX).collect(),
        }
    }

    /// Lists running tasks: first ref, name, start time.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Ref, &str, Moment)> {
        self.running.values().filter_map(|running| {
            let first = running.entry.refs.first()?;
            Some((first, running.entry.work.name.as_str(), running.since))
        })
    }

    /// Counts waiting tasks by name.
    pub(crate) fn waiting_counts(&self) -> impl Iterator<Item = (&str, usize)> {
        let lengths = self.lanes.iter().map(|(name, lane)| (name.as_str(), lane.waiting.len()));
        lengths.filter(|(_, len)| *len > 0)
    }

    fn insert_task(&mut self, entry: QueuedTask) {
        let name = entry.work.name.clone();
        for reference in &entry.refs {
            let place = RefLocation::Waiting { name: name.clone(), seq: entry.seq };
            self.locations.insert(reference.clone(), place);
        }
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.by_work.insert(Arc::clone(&entry.work), entry.seq);
        // By number: a task that goes to the front has a lower one than all that wait.
        let at = lane.waiting.partition_point(|waiting| waiting.seq < entry.seq);
        lane.waiting.insert(at, entry);
        self.waiting += 1;
        self.has_changed = true;
        self.update_ready(&name);
    }

    /// Inserts a task before all others.
    fn insert_front(&mut self, mut entry: QueuedTask) {
        self.next_front -= 1;
        entry.seq = self.next_front;
        self.insert_task(entry);
    }

    fn remove_task(&mut self, name: &str, seq: u64) -> Option<QueuedTask> {
        let lane = self.lanes.get_mut(name)?;
        let at = lane.waiting.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        let entry = lane.waiting.remove(at)?;
        // A task moved to the front may have an equal one waiting, which `by_work` names.
        if lane.by_work.get(&entry.work) == Some(&seq) {
            lane.by_work.remove(&entry.work);
        }
        self.waiting -= 1;
        self.has_changed = true;
        self.ready.remove(&(seq, name.to_owned()));
        self.update_ready(name);
        Some(entry)
    }

    /// Updates which task of a name is ready to start.
    fn update_ready(&mut self, name: &str) {
        let Some(lane) = self.lanes.get(name) else { return };
        if lane.running.is_none() && lane.waiting.is_empty() {
            // An unused name is forgotten: clients choose names, and the map must not grow forever.
            self.lanes.remove(name);
            return;
        }
        let first = lane.waiting.front().filter(|_| lane.running.is_none() && !self.is_stopping);
        if let Some(first) = first {
            // The former first task is second now, and not ready.
            if let Some(second) = lane.waiting.get(1) {
                self.ready.remove(&(second.seq, name.to_owned()));
            }
            self.ready.insert((first.seq, name.to_owned()));
        }
    }

    fn start_ready(&mut self, effects: &mut Vec<Effect>) {
        while !self.is_stopping && self.running.len() < self.limits.running_max {
            let Some((seq, name)) = self.ready.pop_first() else { return };
            let run = RunId(self.next_run);
            self.next_run += 1;
            // Mark the lane busy first, or `remove_task` would make the next task of the name
            // ready.
            if let Some(lane) = self.lanes.get_mut(&name) {
                lane.running = Some(run);
            }
            let entry = self.remove_task(&name, seq).expect("what is ready waits");
            for reference in &entry.refs {
                self.locations.insert(reference.clone(), RefLocation::Running(run));
            }
            // `started` sets the time and the deadline once the process exists.
            let since = Moment::ZERO;
            let running = RunningTask { entry, pid: 0, since, deadline: None, ending: None };
            self.running.insert(run, running);
            effects.push(Effect::Start(run));
        }
    }

    fn remove_run(&mut self, run: RunId) -> Option<RunningTask> {
        let running = self.running.remove(&run)?;
        self.has_changed = true;
        if let Some(lane) = self.lanes.get_mut(&running.entry.work.name) {
            lane.running = None;
        }
        Some(running)
    }

    fn finish_lane(&mut self, name: String, effects: &mut Vec<Effect>) {
        self.update_ready(&name);
        effects.push(Effect::Queue(name));
        self.start_ready(effects);
    }
}

impl Lane {
    fn entry(&mut self, seq: u64) -> Option<&mut QueuedTask> {
        let at = self.waiting.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        self.waiting.get_mut(at)
    }
}

/// Serializes the shared command as a plain one.
mod shared {
    use super::{Arc, TaskCommand};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        work: &Arc<TaskCommand>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        work.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<TaskCommand>, D::Error> {
        TaskCommand::deserialize(from).map(Arc::new)
    }
}

fn by_work(waiting: &VecDeque<QueuedTask>) -> HashMap<Arc<TaskCommand>, u64> {
    waiting.iter().map(|entry| (Arc::clone(&entry.work), entry.seq)).collect()
}

#[cfg(test)]
mod tests;
