//! What the clock and hooks tell of sessions beside their sources.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use capture::{Environment, IngestSummary, Ingester, SignalOutcome};
use event::{HookMessage, Kind, SignalKind, Time};
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{NOW, agent, brief};

const MINUTE: i64 = 60 * 1_000;

/// A session of Claude that is written and read at times a test says, in minutes from a start.
struct World {
    home: TempDir,
    sink: Memory,
    said: u32,
}

impl World {
    fn new() -> World {
        World { home: TempDir::new().unwrap(), sink: Memory::default(), said: 0 }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join(".claude/projects/-home-dev-app/s1.jsonl")
    }

    /// A person asks, at a minute; the agent answers if `is_answered`.
    fn ask(&mut self, minute: i64, is_answered: bool) {
        self.said += 1;
        let number = self.said;
        let asked = serde_json::json!({
            "type": "user", "uuid": format!("u{number}"), "promptId": format!("p{number}"),
            "sessionId": "s1", "timestamp": at(minute).to_string(), "promptSource": "typed",
            "message": {"role": "user", "content": format!("question {number}")},
        });
        let answered = serde_json::json!({
            "type": "assistant", "uuid": format!("a{number}"), "sessionId": "s1",
            "timestamp": at(minute).to_string(),
            "message": {"id": format!("m{number}"), "role": "assistant", "model": "opus",
                "stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]},
        });
        let answer = if is_answered { format!("{answered}\n") } else { String::new() };
        let path = self.path();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, format!("{before}{asked}\n{answer}")).unwrap();
        self.touch(minute);
    }

    fn touch(&self, minute: i64) {
        let file = File::options().append(true).open(self.path()).unwrap();
        let millis = u64::try_from(NOW + minute * MINUTE).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(millis)).unwrap();
    }

    fn with_pump<T>(
        &mut self,
        minute: i64,
        act: impl FnOnce(&Ingester<'_>, &mut Memory, &mut IngestSummary) -> T,
    ) -> T {
        let environment = Environment::new(self.home.path(), []);
        let clock = || at(minute);
        let agents = [agent("claude")];
        let pump = Ingester::new(&agents, &environment, &clock);
        act(&pump, &mut self.sink, &mut IngestSummary::default())
    }

    /// Reads everything and asks for silence; how many epochs that closed.
    fn read(&mut self, minute: i64) -> u64 {
        self.read_while(minute, false)
    }

    /// The same while a process runs the session, or none does.
    fn read_while(&mut self, minute: i64, runs: bool) -> u64 {
        self.with_pump(minute, |pump, sink, summary| {
            pump.ingest_all(sink, &mut |_| {}).unwrap();
            pump.close_silent(sink, summary, &|_, _| runs).unwrap();
            summary.events
        })
    }

    /// Applies a signal that was given at one minute at another.
    fn apply_signal(&mut self, kind: SignalKind, minute: i64, seen: i64) -> SignalOutcome {
        self.apply(&HookMessage { signal: Some(kind), at: at(minute), ..stop_message() }, seen)
    }

    fn apply(&mut self, message: &HookMessage, seen: i64) -> SignalOutcome {
        self.apply_followed(message, false, seen)
    }

    fn apply_followed(
        &mut self,
        message: &HookMessage,
        is_followed: bool,
        seen: i64,
    ) -> SignalOutcome {
        self.with_pump(seen, |pump, sink, summary| {
            pump.apply_signal(message, is_followed, sink, summary).unwrap()
        })
    }

    /// Everything but what was said: kinds, causes and reasons.
    fn facts(&self) -> Vec<String> {
        let facts = self.sink.events().filter(|event| !event.kind.is_shown());
        let is_told = |kind: &Kind| !matches!(kind, Kind::StepCompleted | Kind::SettingsChanged);
        let facts = facts.filter(|event| is_told(&event.kind));
        let cause = |data: &str| {
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            let told = ["cause", "reason", "stop_reason"].iter().find_map(|key| data[key].as_str());
            let resumed = data["resumed"].as_bool().filter(|is| *is).map(|_| "resumed");
            told.or(resumed).unwrap_or_default().to_owned()
        };
        facts
            .map(|event| format!("{} {}", event.kind, cause(event.data.get())).trim().to_owned())
            .collect()
    }
}

fn at(minute: i64) -> Time {
    Time::from_millis(NOW + minute * MINUTE)
}

fn stop_message() -> HookMessage {
    HookMessage {
        signal: Some(SignalKind::Stop),
        reason: Some("logout".to_owned()),
        ..HookMessage::new("1800000000000000000-00000001".to_owned(), "claude", "s1", at(0))
    }
}

#[test]
fn half_an_hour_of_silence_closes_an_epoch_once() {
    let mut world = World::new();
    world.ask(0, true);
    assert_eq!([world.read(0), world.read(29), world.read(30), world.read(90)], [0, 0, 1, 0]);
    assert_eq!(world.facts(), ["session.started", "epoch.closed silence"]);
}

#[test]
fn an_open_turn_falls_silent_as_well() {
    let mut world = World::new();
    world.ask(0, false);
    assert_eq!([world.read(0), world.read(31)], [0, 1]);
}

#[test]
fn a_long_build_in_a_process_that_runs_is_one_epoch() {
    let mut world = World::new();
    world.ask(0, false);
    assert_eq!([world.read_while(31, true), world.read_while(90, true)], [0, 0]);
    assert_eq!(world.read_while(95, false), 1, "nobody runs it any more");
    let mut world = World::new();
    world.ask(0, true);
    assert_eq!(world.read_while(31, true), 1, "somebody has it open, and nothing is done");
}

#[test]
fn to_touch_a_file_breaks_no_silence() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    world.touch(20);
    assert_eq!([world.read(20), world.read(31)], [0, 1]);
}

#[test]
fn what_was_not_read_yet_is_no_silence() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    world.ask(40, true);
    let closed = world.with_pump(41, |pump, sink, summary| {
        pump.close_silent(sink, summary, &|_, _| false).unwrap();
        summary.events
    });
    assert_eq!(closed, 0);
}

#[test]
fn one_pass_lists_sources_once() {
    let mut world = World::new();
    world.ask(0, true);
    // What is read in the pass itself, and what was open before it.
    assert_eq!(world.read(31), 1);
    world.ask(60, true);
    world.read(61);
    world.sink.asked_for_all.set(0);
    assert_eq!(world.read(100), 1);
    assert_eq!(world.sink.asked_for_all.get(), 1);
}

#[test]
fn open_epochs_are_searched_for_once() {
    let mut world = World::new();
    world.ask(0, false);
    world.read(0);
    world.sink.asked_for_all.set(0);
    let closed = world.with_pump(31, |pump, sink, summary| {
        // Its process runs, and so its epoch stays open; then it does not.
        for runs in [true, true, false, false] {
            pump.close_silent(sink, summary, &|_, _| runs).unwrap();
        }
        summary.events
    });
    assert_eq!((closed, world.sink.asked_for_all.get()), (1, 1));
}

#[test]
fn growth_after_silence_is_one_new_epoch_as_in_the_file() {
    let mut live = World::new();
    live.ask(0, true);
    live.read(0);
    live.read(31);
    live.ask(60, true);
    live.read(60);
    live.read(100);
    let mut later = World::new();
    later.ask(0, true);
    later.ask(60, true);
    later.read(100);
    assert_eq!(brief(&live.sink), brief(&later.sink));
    let closed = live.sink.events().filter(|event| event.kind == Kind::EpochClosed).count();
    assert_eq!(closed, 2);
}

#[test]
fn a_stop_ends_session_and_epoch_once() {
    let mut world = World::new();
    world.ask(0, true);
    // The session was not read yet: it is read because of the signal.
    let path = world.path();
    let stop = HookMessage { at: at(1), transcript: Some(path.clone()), ..stop_message() };
    assert_eq!(world.apply(&stop, 1), SignalOutcome::Done);
    let told = ["session.started", "session.exited logout", "epoch.closed exit"];
    assert_eq!(world.facts(), told);
    assert_eq!(world.apply(&stop, 2), SignalOutcome::Done);
    assert_eq!(world.facts(), told);
    let exited = world.sink.events().find(|event| event.kind == Kind::SessionExited).unwrap();
    assert_eq!(exited.source.as_str(), "hook");
    assert_eq!(exited.metadata["signal"].text().as_deref(), Some(stop_message().name.as_str()));
}

#[test]
fn a_session_that_goes_on_after_its_end_is_resumed() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    world.apply_signal(SignalKind::Stop, 1, 1);
    world.ask(5, true);
    world.read(5);
    let told = ["session.started", "session.exited logout", "epoch.closed exit"];
    assert_eq!(world.facts(), [&told[..], &["session.started resumed"]].concat());
    // The same sign again is about the life that is over.
    assert_eq!(world.apply_signal(SignalKind::Stop, 1, 6), SignalOutcome::Done);
    assert_eq!(world.facts().len(), 4);
}

#[test]
fn hook_compaction_closes_epoch_later() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    assert_eq!(world.apply_signal(SignalKind::Compact, 1, 1), SignalOutcome::Pending);
    assert_eq!(world.apply_signal(SignalKind::Compact, 1, 3), SignalOutcome::Done);
    assert_eq!(world.facts(), ["session.started", "epoch.closed compaction"]);
    assert_eq!(world.apply_signal(SignalKind::Compact, 1, 4), SignalOutcome::Done);
    assert_eq!(world.facts().len(), 2);
}

#[test]
fn a_compaction_and_then_an_end_are_both_told() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    let compact = HookMessage { signal: Some(SignalKind::Compact), at: at(1), ..stop_message() };
    assert_eq!(world.apply_followed(&compact, true, 1), SignalOutcome::Done);
    assert_eq!(world.apply_signal(SignalKind::Stop, 1, 1), SignalOutcome::Done);
    let told = ["session.started", "epoch.closed compaction", "session.exited logout"];
    assert_eq!(world.facts(), told);
}

#[test]
fn a_clear_ends_the_session_it_is_about() {
    let mut world = World::new();
    world.ask(0, true);
    world.read(0);
    assert_eq!(world.apply_signal(SignalKind::Clear, 1, 1), SignalOutcome::Done);
    world.ask(2, true);
    assert_eq!(world.apply_signal(SignalKind::Clear, 1, 3), SignalOutcome::Done);
    // What is said behind it is a session that goes on, which the same signal does not end again.
    let ended = ["session.started", "epoch.closed clear", "session.exited logout"];
    assert_eq!(world.facts()[..3], ended);
    assert_eq!(world.facts()[3..], ["session.started resumed"]);
}

#[test]
fn hook_ends_turn_without_record() {
    let mut world = World::new();
    world.ask(0, false);
    world.read(0);
    assert_eq!(world.apply_signal(SignalKind::TurnEnd, 1, 1), SignalOutcome::Pending);
    assert_eq!(world.apply_signal(SignalKind::TurnEnd, 1, 3), SignalOutcome::Done);
    assert_eq!(world.apply_signal(SignalKind::TurnEnd, 1, 4), SignalOutcome::Done);
    assert_eq!(world.facts(), ["session.started", "turn.completed completed"]);
}

#[test]
fn three_ends_of_turns_are_one_epoch() {
    let mut world = World::new();
    for minute in 0..3 {
        world.ask(minute, true);
        world.read(minute);
        assert_eq!(world.apply_signal(SignalKind::TurnEnd, minute, minute), SignalOutcome::Done);
    }
    assert_eq!(world.facts(), ["session.started"]);
}

#[test]
fn paths_outside_agent_folders_are_refused() {
    let mut world = World::new();
    let elsewhere = world.home.path().join("s1.jsonl");
    world.ask(0, true);
    fs::rename(world.path(), &elsewhere).unwrap();
    let stop = HookMessage { transcript: Some(elsewhere), ..stop_message() };
    assert_eq!(world.apply(&stop, 1), SignalOutcome::UnknownSession);
    let other = HookMessage { provider: "nobody".to_owned(), ..stop };
    assert_eq!(world.apply(&other, 1), SignalOutcome::UnknownSession);
    assert_eq!(world.sink.events().count(), 0);
}
