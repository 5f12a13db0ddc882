//! The queue against its promise: every accepted ref is answered exactly once.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn work(name: &str, word: u8) -> TaskCommand {
    TaskCommand {
        name: name.to_owned(),
        program: Program::Own,
        cmd: vec![name.to_owned(), word.to_string()],
        cwd: None,
        env: Vec::new(),
    }
}

fn reference(number: usize) -> Ref {
    Ref::text(format!("r{number}")).unwrap()
}

fn request(number: usize, name: &str, word: u8) -> TaskRequest {
    TaskRequest {
        reference: reference(number),
        work: work(name, word),
        day: None,
        timeout: None,
        if_busy: IfBusy::Queue,
        rerun: false,
        keep: false,
    }
}

/// Performs the effects of the queue and counts the answers.
struct World {
    queue: TaskQueue,
    limits: TaskLimits,
    /// Refs that wait for an answer.
    open: HashSet<String>,
    alive: Vec<RunId>,
    names: HashMap<RunId, String>,
    cannot_start: bool,
}

impl World {
    fn new(limits: TaskLimits) -> World {
        World {
            queue: TaskQueue::new(limits),
            limits,
            open: HashSet::new(),
            alive: Vec::new(),
            names: HashMap::new(),
            cannot_start: false,
        }
    }

    fn ask(&mut self, request: TaskRequest) {
        self.open.insert(request.reference.as_str().to_owned());
        let effects = self.queue.request(request);
        self.work_off(effects);
    }

    #[track_caller]
    fn work_off(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Start(run) => {
                    let name = self.queue.entry(run).unwrap().work.name.clone();
                    let same = self.names.iter().filter(|(run, _)| self.alive.contains(run));
                    assert!(!same.map(|(_, name)| name).any(|other| *other == name));
                    if self.cannot_start {
                        effects.extend(self.queue.start_failed(run, "no"));
                        continue;
                    }
                    self.queue.started(run, 7, Moment::ZERO);
                    self.names.insert(run, name);
                    self.alive.push(run);
                    assert!(self.alive.len() <= self.limits.running_max);
                }
                Effect::Stopped(stopped) => self.answer(&stopped.reference),
                Effect::Skipped { reference, .. } => self.answer(&reference),
                Effect::End(run) => assert!(self.alive.contains(&run)),
                Effect::Over(run) => assert!(!self.alive.contains(&run)),
                Effect::Queue(name) => {
                    let snapshot = self.queue.snapshot(&name);
                    assert!(snapshot.shown.len() <= snapshot.queued);
                }
            }
        }
    }

    #[track_caller]
    fn answer(&mut self, reference: &Ref) {
        assert!(self.open.remove(reference.as_str()), "{reference:?} was answered before");
    }

    fn exit(&mut self, at: usize) {
        if self.alive.is_empty() {
            return;
        }
        let run = self.alive.remove(at % self.alive.len());
        let effects = self.queue.exited(run, 0);
        self.work_off(effects);
    }

    /// The daemon dies; the next one restores what was on disk.
    fn crash(&mut self, kept: &SavedTasks) {
        let json = serde_json::to_string(kept).unwrap();
        let kept: SavedTasks = serde_json::from_str(&json).unwrap();
        let survives =
            |entry: &QueuedTask| entry.refs.iter().map(|it| it.as_str().to_owned()).collect();
        let known: HashSet<String> = kept
            .running
            .iter()
            .chain(&kept.waiting)
            .flat_map(|it| -> Vec<String> { survives(it) })
            .collect();
        // Tasks that ran are also in the list of children, whose reader answers them.
        self.open.retain(|reference| known.contains(reference));
        self.queue = TaskQueue::new(self.limits);
        self.alive.clear();
        let effects = self.queue.restore(kept);
        self.work_off(effects);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask { name: u8, word: u8, skip: bool, rerun: bool, keep: bool, timeout: bool },
    AskAgain { at: usize },
    Cancel { at: usize },
    Exit { at: usize },
    CannotStart(bool),
    Tick,
    Crash,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    let ask =
        (0..4_u8, 0..4_u8, prop::bool::weighted(0.1), any::<bool>(), any::<bool>(), any::<bool>());
    prop_oneof![
        10 => ask.prop_map(|(name, word, skip, rerun, keep, timeout)| {
            Step::Ask { name, word, skip, rerun, keep, timeout }
        }),
        2 => any::<usize>().prop_map(|at| Step::AskAgain { at }),
        3 => any::<usize>().prop_map(|at| Step::Cancel { at }),
        6 => any::<usize>().prop_map(|at| Step::Exit { at }),
        1 => any::<bool>().prop_map(Step::CannotStart),
        1 => Just(Step::Tick),
        1 => Just(Step::Crash),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    #[test]
    fn every_ref_is_answered_exactly_once(
        steps in prop::collection::vec(step(), 1..200),
        persist in any::<bool>(),
        running_max in 1..4_usize,
        waiting_max in 1..4_usize,
    ) {
        let mut world = World::new(TaskLimits { running_max, waiting_max, persist });
        let mut asked = 0;
        let mut is_stopping = false;
        // The state on disk, saved after each step as the keeper does.
        let mut disk = SavedTasks::default();
        for step in steps {
            match step {
                Step::Ask { name, word, skip, rerun, keep, timeout } => {
                    asked += 1;
                    world.ask(TaskRequest {
                        if_busy: if skip { IfBusy::Skip } else { IfBusy::Queue },
                        timeout: timeout.then_some(Duration::from_secs(1)),
                        rerun,
                        keep,
                        ..request(asked, &name.to_string(), word)
                    });
                }
                Step::AskAgain { at } => {
                    // A waiting or running ref is ignored; an answered one is new.
                    let number = 1 + at % (asked + 1);
                    if world.open.contains(&format!("r{number}")) || number <= asked {
                        world.ask(request(number, "0", 9));
                    }
                }
                Step::Cancel { at } => {
                    let effects = world.queue.cancel(&reference(at % (asked + 1)));
                    world.work_off(effects);
                }
                Step::Exit { at } => world.exit(at),
                Step::CannotStart(cannot_start) => world.cannot_start = cannot_start,
                Step::Tick => {
                    let effects = world.queue.tick(Duration::from_secs(100));
                    world.work_off(effects);
                }
                Step::Crash => {
                    world.crash(&disk);
                    is_stopping = false;
                }
                Step::Stop => {
                    let effects = world.queue.stop();
                    world.work_off(effects);
                    is_stopping = true;
                }
            }
            if let Some(kept) = world.queue.take_changes() {
                disk = kept;
            }
        }
        // Everything left ends; the next daemon runs what an orderly stop kept.
        world.cannot_start = false;
        for _ in 0..2 {
            while !world.alive.is_empty() {
                world.exit(0);
                disk = world.queue.take_changes().unwrap_or(disk);
            }
            if is_stopping {
                world.crash(&disk);
                disk = world.queue.take_changes().unwrap_or_default();
            }
            is_stopping = false;
        }
        prop_assert!(world.open.is_empty(), "not answered: {:?}", world.open);
        prop_assert!(world.queue.locations.is_empty());
        prop_assert!(world.queue.lanes.is_empty());
        prop_assert!(world.queue.ready.is_empty());
        prop_assert_eq!(world.queue.waiting, 0);
    }
}

#[test]
fn full_queue_refuses_but_still_merges() {
    let mut queue = TaskQueue::new(TaskLimits { waiting_max: 2, ..TaskLimits::default() });
    let full = |effects: &[Effect]| {
        effects.iter().any(
            |effect| matches!(effect, Effect::Stopped(it) if it.reason == Some(Reason::QueueFull)),
        )
    };
    for number in 0..3 {
        assert!(!full(&queue.request(request(number, "a", number as u8))), "{number}");
    }
    assert!(full(&queue.request(request(3, "a", 3))));
    assert!(!full(&queue.request(request(4, "a", 2))), "an equal one waits already");
    assert!(!full(&queue.request(request(5, "b", 0))), "another name");
    for number in 6..1_004 {
        assert!(!full(&queue.request(request(number, "a", 2))), "{number}");
    }
    assert!(full(&queue.request(request(2_000, "a", 2))), "a thousand wait for one run");
}

#[test]
fn merged_tasks_keep_the_first_day() {
    let mut queue = TaskQueue::new(TaskLimits::default());
    let words = |effects: &[Effect]| -> Vec<&str> {
        let words = effects.iter().map(|effect| match effect {
            Effect::Start(_) => "start",
            Effect::Stopped(_) => "stopped",
            Effect::Queue(_) => "queue",
            _ => "other",
        });
        words.collect()
    };
    let of = |number, word, day: Option<&str>| TaskRequest {
        day: day.map(|day| Day::parse(day).unwrap()),
        ..request(number, "a", word)
    };
    assert_eq!(words(&queue.request(of(0, 0, None))), ["start", "queue"]);
    let days = [None, Some("20250213"), Some("20250214")];
    for (number, day) in days.into_iter().enumerate() {
        assert_eq!(words(&queue.request(of(number + 1, 1, day))), ["queue"], "a merge too");
    }
    let snapshot = queue.snapshot("a");
    let [waiting] = snapshot.shown[..] else { panic!("equal ones are one") };
    assert_eq!(waiting.day, Day::parse("20250213"));
    assert_eq!(waiting.refs, [1, 2, 3].map(reference));
    assert_eq!(words(&queue.cancel(&reference(2))), ["stopped", "queue"]);
    assert_eq!(words(&queue.cancel(&reference(2))), [""; 0]);
}

#[test]
fn waiting_tasks_are_bounded() {
    let mut queue = TaskQueue::new(TaskLimits { waiting_max: 1_000, ..TaskLimits::default() });
    let is_full = |effects: &[Effect]| effects.iter().any(|it| matches!(it, Effect::Stopped(_)));
    let mut ask = |number: usize, name: &str| {
        let mut asked = request(number, name, 0);
        asked.work.cmd.push(number.to_string());
        is_full(&queue.request(asked))
    };
    // One of each name runs.
    for number in 0..10_010 {
        assert!(!ask(number, &format!("name{}", number / 1_001)), "{number}");
    }
    assert!(ask(10_010, "other"));
    let shown = queue.snapshot("name0");
    assert_eq!((shown.queued, shown.shown.len()), (1_000, 100));
}

#[test]
fn excess_tasks_wait_in_order() {
    let mut queue = TaskQueue::new(TaskLimits { running_max: 2, ..TaskLimits::default() });
    let starts = |effects: Vec<Effect>| -> Vec<RunId> {
        let starts = effects.into_iter().filter_map(|effect| match effect {
            Effect::Start(run) => Some(run),
            _ => None,
        });
        starts.collect()
    };
    let first = starts(queue.request(request(0, "a", 0)));
    assert_eq!(starts(queue.request(request(1, "b", 0))).len(), 1);
    for (number, name) in [(2, "a"), (3, "c"), (4, "d")] {
        assert_eq!(starts(queue.request(request(number, name, 1))), []);
    }
    let mut order = Vec::new();
    let mut next = first;
    while let Some(run) = next.pop() {
        order.push(queue.entry(run).unwrap().refs[0].as_str().to_owned());
        next = starts(queue.exited(run, 0));
    }
    assert_eq!(order, ["r0", "r2", "r3", "r4"]);
}

#[test]
fn daemon_tasks_run_again_after_crash() {
    let mut queue = TaskQueue::new(TaskLimits::default());
    let kept =
        |number, word| TaskRequest { keep: true, rerun: true, ..request(number, "dream", word) };
    queue.request(kept(1, 1));
    queue.request(kept(2, 2));
    queue.request(request(3, "other", 0));
    let on_disk = queue.take_changes().unwrap();
    assert_eq!((on_disk.running.len(), on_disk.waiting.len()), (1, 1));
    // After a crash.
    let mut next = TaskQueue::new(TaskLimits::default());
    next.restore(on_disk);
    let refs = |queue: &TaskQueue| {
        let snapshot = queue.snapshot("dream");
        (snapshot.running.cloned(), snapshot.shown[0].refs.clone())
    };
    assert_eq!(refs(&next), (Some(reference(1)), vec![reference(2)]));
    // After an orderly stop.
    next.stop();
    let run = *next.running.keys().next().unwrap();
    let effects = next.exited(run, -15);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Stopped(_))));
    let on_disk = next.take_changes().unwrap();
    assert_eq!((on_disk.running.len(), on_disk.waiting.len()), (0, 2));
    let mut last = TaskQueue::new(TaskLimits::default());
    last.restore(on_disk);
    assert_eq!(refs(&last), (Some(reference(1)), vec![reference(2)]));
}

#[test]
fn restored_tasks_beyond_the_limit_are_answered() {
    let limits = TaskLimits { persist: true, ..TaskLimits::default() };
    let mut queue = TaskQueue::new(limits);
    queue.request(request(0, "a", 0));
    queue.request(request(1, "a", 1));
    let mut on_disk = queue.take_changes().unwrap();
    let entry = on_disk.waiting.pop().unwrap();
    on_disk.running.clear();
    let different = |number: usize| {
        let mut work = work("a", 0);
        work.cmd.push(number.to_string());
        QueuedTask { refs: vec![reference(number)], work: Arc::new(work), ..entry.clone() }
    };
    on_disk.waiting = (0..WAITING_ALL_MAX + 2).map(different).collect();
    let effects = TaskQueue::new(limits).restore(on_disk);
    let full: Vec<&Ref> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Stopped(it) if it.reason == Some(Reason::QueueFull) => Some(&it.reference),
            _ => None,
        })
        .collect();
    assert_eq!(full, [&reference(WAITING_ALL_MAX), &reference(WAITING_ALL_MAX + 1)]);
}

#[test]
fn crashed_runs_are_answered_or_rerun() {
    let mut queue = TaskQueue::new(TaskLimits { persist: true, ..TaskLimits::default() });
    queue.request(request(1, "a", 1));
    queue.request(TaskRequest { rerun: true, ..request(2, "b", 1) });
    queue.request(request(3, "a", 2));
    let on_disk = queue.take_changes().unwrap();
    let mut next = TaskQueue::new(TaskLimits { persist: true, ..TaskLimits::default() });
    let effects = next.restore(on_disk);
    let died: Vec<&Ref> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Stopped(it) if it.reason == Some(Reason::DaemonDied) => Some(&it.reference),
            _ => None,
        })
        .collect();
    assert_eq!(died, [&reference(1)]);
    assert_eq!(next.snapshot("a").running, Some(&reference(3)));
    assert_eq!(next.snapshot("b").running, Some(&reference(2)));
}
