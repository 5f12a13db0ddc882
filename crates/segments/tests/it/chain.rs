//! The chain from an epoch that closes to its dream: in order, once, and after any crash.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Instant;

use event::{SessionId, Time};
use journal::ForkPolicy;
use proptest::prelude::{ProptestConfig, any, proptest};
use segments::{
    Chain, ChainError, ChainFlow, ChainRuntime, Day, Dream, HandlerEvent, HandlerTarget, Segment,
    SegmentKey, SegmentOutput, TaskError, Zone,
};
use serde_json::{Value, json};

use crate::segments::{MINUTE, MORNING, World};

/// A runtime whose handlers end when they are asked for the second time, until a simulated power cut.
pub(crate) struct TestRuntime<'a> {
    world: &'a World,
    pub(crate) published: Vec<Value>,
    pub(crate) dreams: Vec<Dream>,
    /// Runs by ref: the exit code, and how often the chain has asked.
    runs: BTreeMap<String, (i32, u32)>,
    /// Handlers of the user.
    pub(crate) own: Vec<&'static str>,
    /// The handler that fails.
    pub(crate) failing: Option<&'static str>,
    /// The handler that does not end.
    stuck: Option<&'static str>,
    /// Seconds that have passed since the first minute.
    seconds: i64,
    /// Started handlers, each with its file.
    pub(crate) started: Vec<String>,
    /// Handlers that have ended, well or badly.
    finished: Vec<String>,
    alarms: Vec<String>,
    /// Files of history, and whether they were written.
    history: Vec<(String, bool)>,
    /// The user has commands of their own for dreams.
    has_own_dreams: bool,
    /// Those commands are invalid.
    has_bad_dreams: bool,
    /// The task queue is full.
    is_full: bool,
    /// Calls until the power cut.
    left: Option<u32>,
}

/// The panic of a power cut.
struct PowerCut;

impl<'a> TestRuntime<'a> {
    pub(crate) fn new(world: &'a World) -> TestRuntime<'a> {
        TestRuntime {
            world,
            published: Vec::new(),
            dreams: Vec::new(),
            runs: BTreeMap::new(),
            own: Vec::new(),
            failing: None,
            stuck: None,
            seconds: 0,
            started: Vec::new(),
            finished: Vec::new(),
            alarms: Vec::new(),
            history: Vec::new(),
            has_own_dreams: false,
            has_bad_dreams: false,
            is_full: false,
            left: None,
        }
    }

    fn count_call(&mut self) {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).unwrap_or_else(|| panic_any(PowerCut));
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let name = |message: &Value| {
            let handler =
                message["handler"].as_str().map_or(String::new(), |name| format!(" {name}"));
            format!("{}.{}{handler}", message["tract"], message["event"]).replace('"', "")
        };
        self.published.iter().map(name).collect()
    }
}

impl ChainRuntime for TestRuntime<'_> {
    fn publish(&mut self, message: &Value) {
        self.count_call();
        self.published.push(message.clone());
    }

    fn now(&self) -> Time {
        Time::from_millis(MORNING + MINUTE + self.seconds * 1_000)
    }

    fn host(&self) -> &str {
        "dev"
    }

    fn is_stopping(&self) -> bool {
        false
    }

    fn warn(&mut self, _words: &str) {}

    fn note_history(&mut self, key: &SegmentKey, output: SegmentOutput, is_new: bool) {
        let name = format!("{}/{}", key.path().display(), output.file_name());
        self.history.push((name, is_new));
    }

    fn alarm(&mut self, title: &str, words: &str) {
        self.count_call();
        self.alarms.push(format!("{title}: {words}"));
    }

    /// `see` is for pictures, every other handler for `segment.json`.
    fn handlers_for(&self, file: &str) -> Vec<String> {
        let fits = |name: &&&str| match **name {
            "see" => file.ends_with(".png"),
            _ => file == "segment.json",
        };
        self.own.iter().filter(fits).map(|name| (*name).to_owned()).collect()
    }

    fn start_handler(
        &mut self,
        target: &HandlerTarget,
        handler: &str,
        file: &str,
    ) -> Result<String, TaskError> {
        self.count_call();
        self.started.push(format!("{handler} {file}"));
        let run = format!("run-{}", self.runs.len());
        let is_failing = self.failing == Some(handler);
        if !is_failing {
            let segment = || Segment::open(&target.folder).unwrap();
            match handler {
                "transcribe" => drop(segment().transcribe(&self.world.journal).unwrap()),
                "describe" => drop(segment().describe(&self.world.journal).unwrap()),
                _ => {}
            }
        }
        self.runs.insert(run.clone(), (i32::from(is_failing), 0));
        Ok(run)
    }

    fn poll_handler(&mut self, run: &str) -> Option<HandlerEvent> {
        let number: usize = run.strip_prefix("run-").unwrap().parse().unwrap();
        let name = self.started[number].clone();
        let (exit_code, asked) = self.runs.get_mut(run).unwrap();
        *asked += 1;
        let (exit_code, at) = (*exit_code, Instant::now());
        match asked {
            1 => Some(HandlerEvent::Started { at }),
            // Nothing new, so that all handlers have started before the first one ends.
            2 => None,
            _ if self.stuck.is_some_and(|stuck| name.starts_with(stuck)) => None,
            _ => {
                self.count_call();
                self.finished.push(name);
                Some(HandlerEvent::Ended { exit_code, at })
            }
        }
    }

    fn queue_dream(&mut self, dream: &Dream) -> Result<(), TaskError> {
        self.count_call();
        if self.has_bad_dreams {
            return Err(TaskError::Invalid("nothing is left of it".to_owned()));
        }
        if self.is_full {
            return Err(TaskError::Unavailable("too many wait".to_owned()));
        }
        self.dreams.push(dream.clone());
        Ok(())
    }

    fn has_replacement(&self, _dream: &Dream) -> bool {
        self.has_own_dreams
    }
}

pub(crate) fn minute(minutes: i64) -> Time {
    Time::from_millis(MORNING + minutes * MINUTE)
}

/// Lets the chain process everything in the journal.
pub(crate) fn process_all(world: &World, runtime: &mut TestRuntime<'_>, minutes: i64) {
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    loop {
        retry(&mut chain, minute(minutes), runtime);
        let page = chain.next_page().unwrap();
        assert_eq!(
            chain.process_page(&page, minute(minutes), runtime).unwrap(),
            ChainFlow::Continue
        );
        settle(&mut chain, minute(minutes), runtime);
        if page.is_empty() {
            return;
        }
    }
}

/// Lets the handlers run that are under way, until they have ended or are stuck.
pub(crate) fn settle(chain: &mut Chain, now: Time, runtime: &mut TestRuntime<'_>) {
    for _ in 0..100 {
        chain.advance_handlers(now, runtime).unwrap();
    }
    assert_eq!(chain.is_busy(), runtime.stuck.is_some());
}

/// Retries pending work that is due.
#[track_caller]
pub(crate) fn retry(chain: &mut Chain, now: Time, runtime: &mut TestRuntime<'_>) {
    assert_eq!(chain.retry_pending(now, runtime).unwrap(), ChainFlow::Continue);
    settle(chain, now, runtime);
}

/// Delivers a message as the daemon does.
pub(crate) fn deliver(
    chain: &mut Chain,
    message: &Value,
    now: Time,
    runtime: &mut TestRuntime<'_>,
) -> Result<(), ChainError> {
    let message = bus::Message::parse(message.to_string().as_bytes()).unwrap();
    chain.log_message(&message)?;
    chain.handle_message(&message, now, runtime)
}

/// Returns the names of the steps in the event logs of all segments.
pub(crate) fn logged_steps(world: &World) -> Vec<Vec<String>> {
    let day = Day::parse("20261116").unwrap();
    let segments = Segment::list_of_day(&world.root(), day).unwrap();
    let names = |segment: &Segment| {
        let text = fs::read_to_string(segment.folder().join("events.jsonl")).unwrap();
        let name = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            let handler =
                message["handler"].as_str().map_or(String::new(), |name| format!(" {name}"));
            format!("{}{handler}", message["event"].as_str().unwrap())
        };
        text.lines().map(name).collect()
    };
    segments.iter().map(names).collect()
}

const STEPS: [&str; 6] = [
    "observing",
    "detected describe",
    "detected transcribe",
    "described",
    "transcribed",
    "observed",
];

#[test]
fn steps_of_an_epoch_are_in_order() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    assert_eq!(runtime.names(), STEPS.map(|step| format!("observe.{step}")));
    assert_eq!(logged_steps(&world), [STEPS]);
    let observing = &runtime.published[0];
    assert_eq!(observing["meta"]["session_id"], "claude:a");
    assert_eq!(observing["meta"]["host"], "dev");
    assert_eq!((&observing["day"], &observing["stream"]), (&json!("20261116"), &json!("claude")));
    assert_eq!(runtime.published[1]["ref"], "run-0");
    assert_eq!(observing["ts"], MORNING + MINUTE);
    assert_eq!(runtime.dreams, [Dream::Segment(world.claim("a").key())]);
    // A second run has nothing to do.
    let mut again = TestRuntime::new(&world);
    process_all(&world, &mut again, 1);
    assert!(again.published.is_empty() && again.dreams.is_empty());
}

/// Retries pending work at these seconds after the first minute, each time with a reopened chain.
pub(crate) fn retry_at(world: &World, runtime: &mut TestRuntime<'_>, seconds: &[i64]) {
    for seconds in seconds {
        let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
        runtime.seconds = *seconds;
        let now = runtime.now();
        retry(&mut chain, now, runtime);
    }
}

#[test]
fn failing_handler_is_retried_then_reported() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.failing = Some("describe");
    runtime.own = vec!["count"];
    process_all(&world, &mut runtime, 1);
    assert!(!runtime.names().contains(&"observe.observed".to_owned()), "{:?}", runtime.names());
    retry_at(&world, &mut runtime, &[9]);
    assert!(runtime.dreams.is_empty() && runtime.alarms.is_empty());
    retry_at(&world, &mut runtime, &[10, 11, 70, 10_000]);
    let observed = runtime.published.iter().find(|message| message["event"] == "observed").unwrap();
    assert_eq!(
        (&observed["error"], &observed["errors"]),
        (&json!(true), &json!(["describe exit 1"]))
    );
    assert_eq!(observed["duration"], 10, "with the time between the tries");
    assert_eq!(runtime.alarms.len(), 1);
    assert_eq!(runtime.dreams.len(), 1);
    // Handlers that succeeded do not run again.
    let tries = |name: &str| runtime.started.iter().filter(|it| it.starts_with(name)).count();
    assert_eq!((tries("describe"), tries("transcribe"), tries("count")), (2, 1, 1));
}

#[test]
fn slow_handler_delays_only_itself() {
    let world = World::new();
    for session in ["a", "b"] {
        world.begin(session, "app", 0).ask("Write the parser").close();
    }
    let phone = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&phone).unwrap();
    fs::write(phone.join("a.png"), "x").unwrap();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["count", "see"];
    runtime.stuck = Some("count");
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let page = chain.next_page().unwrap();
    assert_eq!(chain.process_page(&page, minute(1), &mut runtime).unwrap(), ChainFlow::Continue);
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "stream": "phone", "segment": "080001_5", "files": ["a.png"], "ts": 7});
    deliver(&mut chain, &observing, minute(1), &mut runtime).unwrap();
    retry(&mut chain, minute(1), &mut runtime);
    let count = |name: &str| runtime.names().iter().filter(|it| *it == name).count();
    assert_eq!(count("observe.detected count"), 1, "the other file waits for it");
    assert_eq!((count("observe.transcribed"), count("observe.described")), (2, 2));
    assert_eq!(count("observe.observed"), 1, "the announced one");
    // After a crash nothing is lost.
    drop(chain);
    let mut again = TestRuntime::new(&world);
    again.own = vec!["count", "see"];
    process_all(&world, &mut again, 1);
    assert_eq!(again.started, ["count segment.json"; 2]);
    assert_eq!(again.names().iter().filter(|it| *it == "observe.observed").count(), 2);
}

#[test]
fn handler_may_fail_once() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.failing = Some("describe");
    process_all(&world, &mut runtime, 1);
    runtime.failing = None;
    retry_at(&world, &mut runtime, &[10, 70, 670]);
    let mut steps = STEPS;
    // The digest came with the second try.
    steps.swap(3, 4);
    assert_eq!(logged_steps(&world), [steps]);
    assert!(runtime.alarms.is_empty());
    assert_eq!(runtime.dreams.len(), 1);
}

#[test]
fn failed_epoch_is_retried_later() {
    let world = World::new();
    world.begin("blocked", "app", -24 * 60).ask("Yesterday").close();
    world.begin("a", "app", 0).ask("Write the parser").close();
    fs::write(world.root().join("20261115"), "no folder").unwrap();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    assert_eq!(logged_steps(&world), [STEPS]);
    retry_at(&world, &mut runtime, &[10]);
    fs::remove_file(world.root().join("20261115")).unwrap();
    retry_at(&world, &mut runtime, &[70, 670, 10_000]);
    let yesterday = Day::parse("20261115").unwrap();
    assert_eq!(Segment::list_of_day(&world.root(), yesterday).unwrap().len(), 1);
    assert!(runtime.dreams.contains(&Dream::Segments(yesterday)));
    assert!(runtime.alarms.is_empty());
}

#[test]
fn hopeless_epoch_is_given_up() {
    let world = World::new();
    world.begin("blocked", "app", -24 * 60).ask("Yesterday").close();
    fs::write(world.root().join("20261115"), "no folder").unwrap();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    retry_at(&world, &mut runtime, &[10, 70, 670, 10_000, 20_000]);
    assert_eq!(runtime.alarms.len(), 1);
    assert!(runtime.alarms[0].contains("20261115"), "{:?}", runtime.alarms);
}

#[test]
fn user_handlers_run_too() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["count"];
    process_all(&world, &mut runtime, 1);
    assert!(
        runtime.names().contains(&"observe.detected count".to_owned()),
        "{:?}",
        runtime.names()
    );
    assert_eq!(runtime.names().last().unwrap(), "observe.observed");
}

#[test]
fn history_is_dreamt_of_by_day() {
    let world = World::new();
    for number in 0..20 {
        world.begin(&format!("s{number}"), "app", number).ask("Write the parser").close();
    }
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 24 * 60);
    assert!(runtime.runs.is_empty(), "no process for history");
    assert_eq!(runtime.published.len(), 20);
    assert!(runtime.published.iter().all(|message| message["batch"] == true));
    assert_eq!(runtime.dreams, [Dream::Segments(Day::parse("20261116").unwrap())]);
    assert!(logged_steps(&world).iter().all(|log| *log == ["observed"]));
}

#[test]
fn unsaved_handler_is_not_repeated() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["count"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let health = world.root().join("health");
    fs::write(&health, "in the way").unwrap();
    let page = chain.next_page().unwrap();
    assert!(chain.process_page(&page, minute(1), &mut runtime).is_err());
    fs::remove_file(&health).unwrap();
    assert!(runtime.started.is_empty(), "what is not stored does not begin");
    // The daemon reopens the journal after a failure.
    chain.reopen(world.journal.clone());
    retry(&mut chain, minute(1), &mut runtime);
    let page = chain.next_page().unwrap();
    assert_eq!(chain.process_page(&page, minute(1), &mut runtime).unwrap(), ChainFlow::Continue);
    settle(&mut chain, minute(1), &mut runtime);
    assert_eq!(runtime.started.iter().filter(|it| *it == "count segment.json").count(), 1);
    assert_eq!(logged_steps(&world)[0].last().unwrap(), "observed");
    assert_eq!(runtime.dreams.len(), 1);
    assert!(!chain.is_behind());
}

#[test]
fn dream_without_room_is_due_again() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    runtime.dreams.clear();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    runtime.is_full = true;
    assert!(chain.run_schedule(minute(61), &mut runtime).is_err());
    runtime.is_full = false;
    chain.run_schedule(minute(62), &mut runtime).unwrap();
    chain.run_schedule(minute(63), &mut runtime).unwrap();
    assert_eq!(runtime.dreams, [Dream::Flush(world.claim("a").key())]);
}

#[test]
fn event_log_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    process_all(&world, &mut TestRuntime::new(&world), 1);
    let log = world.claim("a").folder().join("events.jsonl");
    assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn silence_is_flushed_once_over_restarts() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    runtime.dreams.clear();
    for minutes in [30, 61, 62, 120] {
        let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
        chain.run_schedule(minute(minutes), &mut runtime).unwrap();
    }
    assert_eq!(runtime.dreams, [Dream::Flush(world.claim("a").key())]);
}

#[test]
fn invalid_dream_is_counted() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    runtime.has_bad_dreams = true;
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.run_schedule(minute(61), &mut runtime).unwrap();
    assert_eq!(chain.unhandled_count(), 1);
    chain.run_schedule(minute(62), &mut runtime).unwrap();
    assert_eq!(chain.unhandled_count(), 1);
}

#[test]
fn lost_dream_is_queued_again() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    process_all(&world, &mut runtime, 1);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    runtime.dreams.clear();
    chain.recover(minute(2), &mut runtime).unwrap();
    assert_eq!(runtime.dreams, [Dream::Segment(world.claim("a").key())]);
    let completed = json!({"tract": "dream", "event": "completed", "mode": "segment",
        "day": "20261116", "stream": "claude", "segment": world.claim("a").meta.segment});
    deliver(&mut chain, &completed, minute(2), &mut runtime).unwrap();
    runtime.dreams.clear();
    chain.recover(minute(3), &mut runtime).unwrap();
    assert!(runtime.dreams.is_empty());
}

#[test]
fn replacement_command_runs_once() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.has_own_dreams = true;
    process_all(&world, &mut runtime, 1);
    world.dream(&Dream::Flush(world.claim("a").key()), 2);
    runtime.dreams.clear();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(minute(3), &mut runtime).unwrap();
    assert!(runtime.dreams.is_empty());
}

#[test]
fn lost_activity_end_is_recovered() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    world.dream(&Dream::Flush(world.claim("a").key()), 2);
    let mut runtime = TestRuntime::new(&world);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(minute(3), &mut runtime).unwrap();
    let [dream @ Dream::Activity { .. }] = &runtime.dreams[..] else {
        panic!("{:?}", runtime.dreams)
    };
    world.dream(dream, 4);
    let mut runtime = TestRuntime::new(&world);
    chain.recover(minute(5), &mut runtime).unwrap();
    assert!(runtime.dreams.is_empty());
}

#[test]
fn step_of_another_sender_does_not_count() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let key = world.claim("a").key();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let mut runtime = TestRuntime::new(&world);
    let observed = json!({"tract": "observe", "event": "observed", "day": "20261116",
        "segment": key.segment(), "stream": "claude", "rev": "0.1.0"});
    deliver(&mut chain, &observed, minute(1), &mut runtime).unwrap();
    process_all(&world, &mut runtime, 1);
    assert_eq!(runtime.names(), STEPS.map(|step| format!("observe.{step}")));
}

#[test]
fn done_handlers_survive_a_crash() {
    let mut spared = 0;
    for left in 0..20 {
        let world = World::new();
        world.begin("a", "app", 0).ask("Write the parser").close();
        let mut runtime = TestRuntime::new(&world);
        runtime.own = vec!["count", "weigh"];
        runtime.left = Some(left);
        // With enough calls left it just finishes.
        let _ = catch_unwind(AssertUnwindSafe(|| process_all(&world, &mut runtime, 1)));
        let mut again = TestRuntime::new(&world);
        again.own = vec!["count", "weigh"];
        process_all(&world, &mut again, 1);
        for handler in ["count segment.json", "weigh segment.json"].map(str::to_owned) {
            let is_done = runtime.finished.contains(&handler);
            assert!(!is_done || !again.started.contains(&handler), "{handler} with {left} steps");
            spared += u32::from(is_done && !again.published.is_empty());
        }
    }
    assert!(spared > 2, "no power cut came after the end of a handler");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_step_is_logged_once(
        cuts in proptest::collection::vec(0_u32..12, 0..8),
        is_history in any::<bool>(),
    ) {
        let world = World::new();
        for number in 0..3 {
            world.begin(&format!("s{number}"), "app", number).ask("Write the parser").close();
        }
        let minutes = if is_history { 24 * 60 } else { 5 };
        let mut dreams = Vec::new();
        for left in cuts.into_iter().map(Some).chain([None]) {
            let mut runtime = TestRuntime::new(&world);
            runtime.left = left;
            let followed = catch_unwind(AssertUnwindSafe(|| process_all(&world, &mut runtime, minutes)));
            if let Err(cause) = followed {
                assert!(cause.is::<PowerCut>(), "it failed by itself");
            }
            dreams.extend(runtime.dreams);
        }
        for log in logged_steps(&world) {
            let expected: &[&str] = if is_history { &["observed"] } else { &STEPS };
            assert_eq!(log.iter().filter(|step| !step.starts_with("detected")).count(),
                expected.iter().filter(|step| !step.starts_with("detected")).count(), "{log:?}");
            for step in expected.iter().filter(|step| !step.starts_with("detected")) {
                assert_eq!(log.iter().filter(|logged_steps| logged_steps == step).count(), 1, "{log:?}");
            }
        }
        // Every segment is dreamt of at least once.
        let days = dreams.iter().filter(|dream| matches!(dream, Dream::Segments(_))).count();
        for number in 0..3 {
            let key = world.claim(&format!("s{number}")).key();
            assert!(dreams.contains(&Dream::Segment(key)) || (is_history && days > 0));
        }
    }
}

#[test]
fn interrupted_deletion_is_finished() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let segment = world.claim("a");
    // A deletion killed after its first step.
    let id = SessionId::new("claude:a").unwrap();
    world.journal.delete(&id, minute(10), ForkPolicy::Refuse).unwrap();
    assert!(segment.folder().exists());
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(minute(11), &mut TestRuntime::new(&world)).unwrap();
    assert!(!segment.folder().exists());
}

#[test]
fn damaged_state_is_set_aside() {
    let world = World::new();
    let health = world.root().join("health");
    fs::create_dir_all(&health).unwrap();
    fs::write(health.join("chain.json"), "{").unwrap();
    assert!(!Chain::open(world.journal.clone(), Zone::UTC).unwrap().is_behind());
    assert_eq!(fs::read_to_string(health.join("chain.json.damaged")).unwrap(), "{");
}
