//! Killed at any instant and started again, the daemon records everything once, and a
//! subscriber that starts at 0 gets every event once and in order. Every run that it began to tell
//! of has one end.

use std::fs;
use std::time::Duration;

use event::Time;
use serde_json::Value;
use testkit::{Dice, RunningProgram, Transcripts, World};

use crate::bus::hears;
use crate::follow::prompt;
use crate::ingest::{ingest, reading};
use crate::ingest_crash::{assert_held, crashes, held};
use crate::status::register;
use crate::totals::{assert_same, counted};
use crate::up::{millis, up};
use crate::writer::{Writer, append};
use crate::{empty, json};

/// Kills, as a part of those `HANSARD_TEST_CRASHES` sets.
const SHARE: u32 = 8;

#[test]
fn killed_daemon_publishes_every_event_once() {
    let transcripts = Transcripts::make("1mb", 61, "0.6");
    let undisturbed = reading(&transcripts);
    ingest(&undisturbed);
    let (events, totals) = (held(&undisturbed), counted(&undisturbed));

    let crashes = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{crashes} kills, HANSARD_TEST_SEED={}", dice.seed());
    let mut writer = Writer::new(&transcripts);
    let world = reading(&transcripts);
    for _ in 0..crashes {
        let mut daemon = up(&world);
        for _ in 0..dice.below(24) {
            writer.write(&mut dice);
            let pause = Duration::from_micros(dice.below(60_000));
            daemon.goes_on_for(pause);
        }
        daemon.kill();
    }
    while writer.write(&mut dice) {}
    transcripts.age();
    // What is written last, and a line that will never be finished.
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);

    let daemon = up(&world);
    let total: usize = events.values().map(Vec::len).sum();
    assert_eq!(positions(&world, total), (1..=total as u64).collect::<Vec<_>>());
    assert_eq!(daemon.terminate().code, Some(0));
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}

/// The positions of the first events for a subscriber that starts at 0.
fn positions(world: &World, count: usize) -> Vec<u64> {
    let arguments = ["bus", "listen", "--tract", "cortex", "--from", "0"];
    let mut listener: RunningProgram = world.start(&arguments);
    let mut positions = Vec::new();
    while positions.len() < count {
        let line = listener.line().expect("there is more to hear");
        let message: serde_json::Value = serde_json::from_str(&line).unwrap();
        positions.extend(message["position"].as_u64());
    }
    positions
}

/// When a daemon is killed that tells of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum KillPoint {
    /// The start is on the bus.
    Started,
    /// The file of open runs has it.
    Saved,
    /// The end is on the bus.
    Ended,
    /// The file of open runs has it no more.
    Forgotten,
}

impl KillPoint {
    /// How often a subscriber may hear the start and the end of the run. The kernel may have taken a
    /// message that the killed daemon had not noted as published; the next daemon repeats it, with
    /// the same `run_id`. What was noted comes once.
    fn counts(self) -> [std::ops::RangeInclusive<usize>; 2] {
        match self {
            KillPoint::Started => [1..=2, 1..=1],
            KillPoint::Ended => [1..=1, 1..=2],
            KillPoint::Saved | KillPoint::Forgotten => [1..=1, 1..=1],
        }
    }
}

/// A daemon with a listener, and what it said.
struct Heard {
    daemon: RunningProgram,
    listener: RunningProgram,
}

impl Heard {
    fn begin(world: &World) -> Heard {
        let daemon = up(world);
        let listener = world.start(&["bus", "listen", "--tract", "cortex"]);
        while !hears(world, &listener) {}
        Heard { daemon, listener }
    }

    /// Hears until one of these messages comes.
    fn until(&mut self, names: &[&str], heard: &mut Vec<Value>) {
        loop {
            let line = self.listener.line().expect("there is more to hear");
            let message: Value = serde_json::from_str(&line).unwrap();
            let is_it = names.contains(&message["event"].as_str().unwrap());
            heard.push(message);
            if is_it {
                return;
            }
        }
    }

    fn kill(self) {
        self.daemon.kill();
        self.listener.kill();
    }
}

#[test]
fn killed_daemon_repeats_only_what_it_had_not_noted() {
    const ENDS: &[&str] = &["finish", "error"];
    use KillPoint::{Ended, Forgotten, Saved, Started};
    // Each but the last has a daemon after it, which would be heard if it repeated an end.
    let points = [Started, Saved, Ended, Forgotten, Saved];
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s.jsonl");
    let registry = world.home().join(format!(".claude/sessions/{}.json", std::process::id()));
    let open_runs = world.home().join(".local/share/hansard/health/open_runs.json");
    let wait_file = |has_run: bool| {
        let is_there = || fs::read_to_string(&open_runs).is_ok_and(|it| it.contains("claude:s"));
        while is_there() != has_run {
            std::thread::yield_now();
        }
    };
    let (mut heard, mut runs) = (Vec::new(), Vec::new());
    for (number, point) in (0..).zip(points) {
        register(&world, "s", "busy");
        let mut daemon = Heard::begin(&world);
        // The session goes on: whatever the daemon before left open, it has ended itself.
        let now = Time::from_millis(millis()).to_string();
        let line = prompt("s", number);
        let at = line.find("2026-03-02T").unwrap();
        // A version that lists the sessions it has open.
        let line = line.replace(&line[at..at + 24], &now).replace("2.1.44", "2.1.325");
        append(&file, line.as_bytes());
        daemon.until(&["start"], &mut heard);
        runs.push(heard.last().unwrap()["run_id"].clone());
        if point == KillPoint::Saved {
            wait_file(true);
        }
        if matches!(point, KillPoint::Started | KillPoint::Saved) {
            daemon.kill();
            daemon = Heard::begin(&world);
        }
        // No process has the session open any more, and no event says so.
        fs::remove_file(&registry).unwrap();
        // The daemon before may have been killed behind an end, which is repeated then.
        loop {
            daemon.until(ENDS, &mut heard);
            if heard.last().unwrap()["run_id"] == runs[runs.len() - 1] {
                break;
            }
        }
        if point != KillPoint::Ended {
            wait_file(false);
        }
        daemon.kill();
    }
    let is_named = |message: &Value, names: &[&str]| -> bool {
        names.contains(&message["event"].as_str().unwrap())
    };
    let is_told = |message: &&Value| is_named(message, &["start"]) || is_named(message, ENDS);
    let told: Vec<&Value> = heard.iter().filter(is_told).collect();
    let mut order: Vec<(&Value, bool)> =
        told.iter().map(|message| (&message["run_id"], is_named(message, ENDS))).collect();
    for (run, point) in runs.iter().zip(points) {
        let [starts, ends] = point.counts();
        let count = |is_end| order.iter().filter(|told| **told == (run, is_end)).count();
        assert!(starts.contains(&count(false)), "{point:?}: {heard:#?}");
        assert!(ends.contains(&count(true)), "{point:?}: {heard:#?}");
    }
    // A repeat follows what it repeats: nothing of another run stands between.
    order.dedup();
    let expected: Vec<(&Value, bool)> =
        runs.iter().flat_map(|run| [(run, false), (run, true)]).collect();
    assert_eq!(order, expected, "{heard:#?}");
}
