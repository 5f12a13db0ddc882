//! Tasks that wait for their turn: requests, cancels and ends in; starts, ends and answers out.
//!
//! One task of a name runs at a time, names are independent, equal waiting tasks are one. Every
//! ref that was taken is answered exactly once.
//!
//! Not here: processes, messages, clocks. Time is handed in.

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

/// Waiting entries of all names. One more is answered `queue_full`.
const WAITING_ALL_MAX: usize = 10_000;

/// Refs of one entry. One more is answered `queue_full`.
const REFS_MAX: usize = 1_000;

/// Waiting entries that a `queue` message shows.
const SHOWN_MAX: usize = 100;

/// Names one run among all processes of this supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct RunId(pub(crate) u64);

/// What is to be run. Tasks that are equal in this are one while they wait.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// What the task is called.
    pub name: String,
    pub program: Program,
    pub cmd: Vec<String>,
    pub cwd: Option<PathBuf>,
    pub env: Vec<(String, String)>,
}

/// Somebody wants something run.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub reference: Ref,
    pub work: Work,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub if_busy: IfBusy,
    /// Run it again if the daemon dies meanwhile.
    pub rerun: bool,
    /// Keep it over an orderly end too.
    pub keep: bool,
}

/// A task, with everybody who waits for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(with = "stored")]
    pub refs: Vec<Ref>,
    #[serde(with = "shared")]
    pub work: Arc<Work>,
    pub day: Option<Day>,
    pub timeout: Option<Duration>,
    pub rerun: bool,
    pub keep: bool,
    #[serde(skip)]
    seq: u64,
}

/// Why a ref got the answer it got.
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
    /// 0 if nothing ran for it.
    pub pid: u32,
    pub reference: Ref,
    pub exit_code: i32,
    pub reason: Option<Reason>,
    pub error: Option<String>,
}

impl Stopped {
    /// The answer to one for whom nothing ran.
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

/// What has to be done, in this order.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Start it; then tell [`Queue::started`] or [`Queue::not_started`].
    Start(RunId),
    /// Ask its processes to end, and make them after a while.
    End(RunId),
    Stopped(Stopped),
    /// Everybody who waited for the run is answered.
    Over(RunId),
    Skipped {
        reference: Ref,
        active: Option<Ref>,
        work: Arc<Work>,
    },
    /// The queue of this name has changed.
    Queue(String),
}

/// The queue of one name, as it is told.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot<'a> {
    pub running: Option<&'a Ref>,
    pub queued: usize,
    pub shown: Vec<&'a Entry>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.refs == other.refs && self.work == other.work && self.day == other.day
    }
}

/// What survives the daemon.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub running: Vec<Entry>,
    pub waiting: Vec<Entry>,
}

/// All tasks, waiting and running.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: TaskLimits,
    lanes: BTreeMap<String, Lane>,
    running: BTreeMap<RunId, Running>,
    /// First entries of names of which nothing runs, in the order they came.
    ready: BTreeSet<(u64, String)>,
    places: HashMap<Ref, Place>,
    waiting: usize,
    next_seq: u64,
    /// Counts down, so that what ran before a crash goes before everything else.
    next_front: u64,
    next_run: u64,
    is_stopping: bool,
    has_changed: bool,
}

/// Tasks of one name.
#[derive(Debug, Default)]
struct Lane {
    running: Option<RunId>,
    waiting: VecDeque<Entry>,
    by_work: HashMap<Arc<Work>, u64>,
}

#[derive(Debug)]
struct Running {
    entry: Entry,
    pid: u32,
    since: Moment,
    deadline: Option<Moment>,
    /// Why it was asked to end.
    ending: Option<Reason>,
}

#[derive(Clone, Debug)]
enum Place {
    Waiting { name: String, seq: u64 },
    Running(RunId),
}

/// The middle of all numbers: entries are put behind it, and, after a crash, before it.
const SEQ_FIRST: u64 = 1 << 62;

impl Queue {
    pub(crate) fn new(limits: TaskLimits) -> Queue {
        Queue {
            limits,
            lanes: BTreeMap::new(),
            running: BTreeMap::new(),
            ready: BTreeSet::new(),
            places: HashMap::new(),
            waiting: 0,
            next_seq: SEQ_FIRST,
            next_front: SEQ_FIRST,
            next_run: 1,
            is_stopping: false,
            has_changed: false,
        }
    }

    /// Takes limits of a file that was read again. What waits already stays.
    pub(crate) fn set_limits(&mut self, limits: TaskLimits) -> Vec<Effect> {
        self.limits = limits;
        self.has_changed = true;
        let mut effects = Vec::new();
        self.start_ready(&mut effects);
        effects
    }

    /// Takes a request. A ref that waits or runs already is ignored: it gets its answer.
    pub(crate) fn request(&mut self, request: Request) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.places.contains_key(&request.reference) {
            return effects;
        }
        let Request { reference, work, day, timeout, if_busy, rerun, keep } = request;
        let never =
            |reason| Effect::Stopped(Stopped::never_ran(&work.name, reference.clone(), reason));
        if self.is_stopping && !keep && !self.limits.persist {
            return vec![never(Reason::Stopping)];
        }
        let lane = self.lanes.get(&work.name);
        let is_busy = lane.is_some_and(|lane| lane.running.is_some() || !lane.waiting.is_empty());
        if if_busy == IfBusy::Skip && is_busy {
            let active = lane.and_then(|lane| match lane.running {
                Some(run) => self.running.get(&run).and_then(|running| running.entry.refs.first()),
                None => lane.waiting.front().and_then(|entry| entry.refs.first()),
            });
            let active = active.cloned();
            return vec![Effect::Skipped { reference, active, work: Arc::new(work) }];
        }
        let equal = lane.and_then(|lane| lane.by_work.get(&work).copied());
        if let Some(seq) = equal {
            let lane = self.lanes.get_mut(&work.name).expect("it was just there");
            let entry = lane.entry(seq).expect("what is found by its work waits");
            if entry.refs.len() >= REFS_MAX {
                return vec![never(Reason::QueueFull)];
            }
            entry.refs.push(reference.clone());
            entry.rerun |= rerun;
            entry.keep |= keep;
            entry.day = entry.day.take().or(day);
            self.has_changed = true;
            self.places.insert(reference, Place::Waiting { name: work.name.clone(), seq });
            return vec![Effect::Queue(work.name)];
        }
        let in_lane = lane.map_or(0, |lane| lane.waiting.len());
        if in_lane >= self.limits.waiting_max || self.waiting >= WAITING_ALL_MAX {
            return vec![never(Reason::QueueFull)];
        }
        let name = work.name.clone();
        let work = Arc::new(work);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.put(Entry { refs: vec![reference], work, day, timeout, rerun, keep, seq });
        self.start_ready(&mut effects);
        effects.push(Effect::Queue(name));
        effects
    }

    /// Takes back one ref, and the run if nobody else waits for it. An unknown one is ignored.
    pub(crate) fn cancel(&mut self, reference: &Ref) -> Vec<Effect> {
        match self.places.get(reference).cloned() {
            None => Vec::new(),
            Some(Place::Waiting { name, seq }) => {
                self.places.remove(reference);
                self.has_changed = true;
                let lane = self.lanes.get_mut(&name).expect("a waiting ref has its lane");
                let entry = lane.entry(seq).expect("a waiting ref has its entry");
                entry.refs.retain(|other| other != reference);
                if entry.refs.is_empty() {
                    self.remove(&name, seq);
                }
                let stopped = Stopped::never_ran(&name, reference.clone(), Reason::Canceled);
                vec![Effect::Stopped(stopped), Effect::Queue(name)]
            }
            Some(Place::Running(run)) => {
                let running = self.running.get_mut(&run).expect("a running ref has its run");
                if running.entry.refs.len() == 1 {
                    if running.ending.is_some() {
                        return Vec::new();
                    }
                    running.ending = Some(Reason::Canceled);
                    return vec![Effect::End(run)];
                }
                running.entry.refs.retain(|other| other != reference);
                self.places.remove(reference);
                self.has_changed = true;
                let name = running.entry.work.name.clone();
                let stopped = Stopped::never_ran(&name, reference.clone(), Reason::Canceled);
                vec![Effect::Stopped(stopped), Effect::Queue(name)]
            }
        }
    }

    /// What the run is about, for whoever starts it.
    pub(crate) fn entry(&self, run: RunId) -> Option<&Entry> {
        self.running.get(&run).map(|running| &running.entry)
    }

    pub(crate) fn started(&mut self, run: RunId, pid: u32, now: Moment) {
        if let Some(running) = self.running.get_mut(&run) {
            running.pid = pid;
            running.since = now;
            running.deadline = running.entry.timeout.map(|timeout| now.saturating_add(timeout));
        }
    }

    /// The run could not be started.
    pub(crate) fn not_started(&mut self, run: RunId, error: &str) -> Vec<Effect> {
        let Some(running) = self.take_run(run) else { return Vec::new() };
        let name = running.entry.work.name.clone();
        let mut effects: Vec<Effect> = Vec::new();
        for reference in running.entry.refs {
            self.places.remove(&reference);
            let stopped = Stopped::never_ran(&name, reference, Reason::CannotStart);
            effects.push(Effect::Stopped(Stopped { error: Some(error.to_owned()), ..stopped }));
        }
        self.finish_lane(name, &mut effects);
        effects
    }

    /// The run has ended, by itself or because it was asked to.
    pub(crate) fn exited(&mut self, run: RunId, exit_code: i32) -> Vec<Effect> {
        let Some(running) = self.take_run(run) else { return Vec::new() };
        let Running { entry, pid, ending, .. } = running;
        let name = entry.work.name.clone();
        let mut effects = Vec::new();
        if entry.keep && ending == Some(Reason::Stopping) {
            // It was cut off, and is run again by the next daemon: its answer comes then.
            effects.push(Effect::Over(run));
            self.put_front(entry);
            return effects;
        }
        for reference in &entry.refs {
            self.places.remove(reference);
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

    /// Ends what has run longer than it may.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (run, running) in &mut self.running {
            if running.deadline.is_some_and(|deadline| deadline <= now) {
                running.deadline = None;
                if running.ending.is_none() {
                    running.ending = Some(Reason::Timeout);
                    effects.push(Effect::End(*run));
                }
            }
        }
        effects
    }

    /// When [`Queue::tick`] has something to do.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.running.values().filter_map(|running| running.deadline).min()
    }

    /// Starts nothing more: what waits is answered or kept, what runs is asked to end.
    pub(crate) fn stop(&mut self) -> Vec<Effect> {
        self.is_stopping = true;
        let mut effects = Vec::new();
        let persist = self.limits.persist;
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            let lane = self.lanes.get_mut(&name).expect("nobody else removes lanes here");
            let (kept, gone): (VecDeque<Entry>, VecDeque<Entry>) =
                lane.waiting.drain(..).partition(|entry| entry.keep || persist);
            lane.waiting = kept;
            let lane = &mut *lane;
            lane.by_work = by_work(&lane.waiting);
            if gone.is_empty() {
                continue;
            }
            self.waiting -= gone.len();
            for reference in gone.into_iter().flat_map(|entry| entry.refs) {
                self.places.remove(&reference);
                let stopped = Stopped::never_ran(&name, reference, Reason::Stopping);
                effects.push(Effect::Stopped(stopped));
            }
            effects.push(Effect::Queue(name));
        }
        self.ready.clear();
        for (run, running) in &mut self.running {
            if running.ending.is_none() {
                running.ending = Some(Reason::Stopping);
                effects.push(Effect::End(*run));
            }
        }
        effects
    }

    /// Whether nothing runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes up what an earlier daemon has left.
    pub(crate) fn restore(&mut self, kept: Kept) -> Vec<Effect> {
        let mut effects = Vec::new();
        // What is answered here must not be answered again after the next crash.
        self.has_changed = true;
        // The last one first, as each goes to the front.
        for entry in kept.running.into_iter().rev() {
            if entry.keep || entry.rerun {
                self.put_front(entry);
                continue;
            }
            for reference in entry.refs {
                let stopped = Stopped::never_ran(&entry.work.name, reference, Reason::DaemonDied);
                effects.push(Effect::Stopped(stopped));
            }
        }
        for mut entry in kept.waiting {
            entry.refs.retain(|reference| !self.places.contains_key(reference));
            let lane = self.lanes.get(&entry.work.name);
            let is_there = lane.is_some_and(|lane| lane.by_work.contains_key(&entry.work));
            // The file is ours; what does not fit it was changed by somebody.
            if entry.refs.is_empty() || (is_there && self.waiting >= WAITING_ALL_MAX) {
                continue;
            }
            entry.seq = self.next_seq;
            self.next_seq += 1;
            self.put(entry);
        }
        self.start_ready(&mut effects);
        effects
    }

    /// What has to survive the daemon, if it has changed since the last time.
    pub(crate) fn take_changes(&mut self) -> Option<Kept> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        let persist = self.limits.persist;
        let is_kept = |entry: &&Entry| entry.keep || persist;
        let running = self.running.values().map(|running| &running.entry);
        let mut waiting: Vec<&Entry> =
            self.lanes.values().flat_map(|lane| &lane.waiting).filter(is_kept).collect();
        waiting.sort_by_key(|entry| entry.seq);
        Some(Kept {
            running: running.filter(is_kept).cloned().collect(),
            waiting: waiting.into_iter().cloned().collect(),
        })
    }

    /// What was to survive could not be written: it is given again.
    pub(crate) fn not_kept(&mut self) {
        self.has_changed = true;
    }

    /// What the queue of a name looks like.
    pub(crate) fn snapshot(&self, name: &str) -> Snapshot<'_> {
        let Some(lane) = self.lanes.get(name) else {
            return Snapshot { running: None, queued: 0, shown: Vec::new() };
        };
        let running = lane.running.and_then(|run| self.running.get(&run));
        Snapshot {
            running: running.and_then(|running| running.entry.refs.first()),
            queued: lane.waiting.len(),
            shown: lane.waiting.iter().take(SHOWN_MAX).collect(),
        }
    }

    /// What runs: the first ref, the name, since when.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Ref, &str, Moment)> {
        self.running.values().filter_map(|running| {
            let first = running.entry.refs.first()?;
            Some((first, running.entry.work.name.as_str(), running.since))
        })
    }

    /// How much waits, by name.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        let lengths = self.lanes.iter().map(|(name, lane)| (name.as_str(), lane.waiting.len()));
        lengths.filter(|(_, len)| *len > 0)
    }

    fn put(&mut self, entry: Entry) {
        let name = entry.work.name.clone();
        for reference in &entry.refs {
            let place = Place::Waiting { name: name.clone(), seq: entry.seq };
            self.places.insert(reference.clone(), place);
        }
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.by_work.insert(Arc::clone(&entry.work), entry.seq);
        let at = lane.waiting.partition_point(|waiting| waiting.seq < entry.seq);
        lane.waiting.insert(at, entry);
        self.waiting += 1;
        self.has_changed = true;
        self.note_ready(&name);
    }

    /// Puts an entry before all others.
    fn put_front(&mut self, mut entry: Entry) {
        self.next_front -= 1;
        entry.seq = self.next_front;
        self.put(entry);
    }

    fn remove(&mut self, name: &str, seq: u64) -> Option<Entry> {
        let lane = self.lanes.get_mut(name)?;
        let at = lane.waiting.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        let entry = lane.waiting.remove(at)?;
        // An equal one may wait beside one that was put to the front.
        if lane.by_work.get(&entry.work) == Some(&seq) {
            lane.by_work.remove(&entry.work);
        }
        self.waiting -= 1;
        self.has_changed = true;
        self.ready.remove(&(seq, name.to_owned()));
        self.note_ready(name);
        Some(entry)
    }

    /// Notes whose turn it is among entries of a name.
    fn note_ready(&mut self, name: &str) {
        let Some(lane) = self.lanes.get(name) else { return };
        if lane.running.is_none() && lane.waiting.is_empty() {
            self.lanes.remove(name);
            return;
        }
        let first = lane.waiting.front().filter(|_| lane.running.is_none() && !self.is_stopping);
        if let Some(first) = first {
            // One that was first before waits behind it now.
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
            // Marked first, so that the next of its name is not taken for ready.
            if let Some(lane) = self.lanes.get_mut(&name) {
                lane.running = Some(run);
            }
            let entry = self.remove(&name, seq).expect("what is ready waits");
            for reference in &entry.refs {
                self.places.insert(reference.clone(), Place::Running(run));
            }
            let since = Moment::ZERO;
            let running = Running { entry, pid: 0, since, deadline: None, ending: None };
            self.running.insert(run, running);
            effects.push(Effect::Start(run));
        }
    }

    fn take_run(&mut self, run: RunId) -> Option<Running> {
        let running = self.running.remove(&run)?;
        self.has_changed = true;
        if let Some(lane) = self.lanes.get_mut(&running.entry.work.name) {
            lane.running = None;
        }
        Some(running)
    }

    fn finish_lane(&mut self, name: String, effects: &mut Vec<Effect>) {
        self.note_ready(&name);
        effects.push(Effect::Queue(name));
        self.start_ready(effects);
    }
}

impl Lane {
    fn entry(&mut self, seq: u64) -> Option<&mut Entry> {
        let at = self.waiting.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        self.waiting.get_mut(at)
    }
}

/// Work on disk is work, whoever else looks at it in memory.
mod shared {
    use super::{Arc, Work};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(work: &Arc<Work>, to: S) -> Result<S::Ok, S::Error> {
        work.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Work>, D::Error> {
        Work::deserialize(from).map(Arc::new)
    }
}

fn by_work(waiting: &VecDeque<Entry>) -> HashMap<Arc<Work>, u64> {
    waiting.iter().map(|entry| (Arc::clone(&entry.work), entry.seq)).collect()
}

#[cfg(test)]
mod tests;
