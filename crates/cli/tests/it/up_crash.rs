//! Killed at any instant and started again, the daemon records everything once, and a
//! subscriber that starts at 0 gets every event once and in order.

use std::time::Duration;

use testkit::{Dice, RunningProgram, Transcripts, World};

use crate::ingest::{ingest, reading};
use crate::ingest_crash::{assert_held, crashes, held};
use crate::json;
use crate::totals::{assert_same, counted};
use crate::up::up;
use crate::writer::Writer;

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
