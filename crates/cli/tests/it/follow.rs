//! `ingest` that goes on: what agents write while it runs is recorded, in order and completely.

use std::time::{Duration, Instant};

use testkit::{Dice, RunningProgram, Transcripts};

use crate::ingest::{ingest, reading};
use crate::ingest_crash::{assert_held, held};
use crate::totals::{assert_same, counted, expected};
use crate::writer::{Writer, append};
use crate::{empty, json};

/// Takes in what rounds bring until the journal has had `events` more.
#[track_caller]
fn wait_for(running: &mut RunningProgram, events: u64) {
    let mut seen = 0;
    while seen < events {
        let line = running.line().expect("it goes on");
        let round: serde_json::Value = serde_json::from_str(&line).unwrap();
        seen += round["events"].as_u64().unwrap();
    }
}

/// A line with a prompt.
pub(crate) fn prompt(session: &str, number: u32) -> String {
    let record = serde_json::json!({
        "type": "user",
        "uuid": format!("{session}-{number}"),
        "parentUuid": null,
        "sessionId": session,
        "isSidechain": false,
        "cwd": "/home/dev/app",
        "version": "2.1.44",
        "timestamp": format!("2026-03-02T09:{:02}:{:02}.000Z", number / 60, number % 60),
        "promptSource": "typed",
        "message": {"role": "user", "content": format!("question {number}")},
    });
    format!("{record}\n")
}

#[test]
fn everything_written_meanwhile_is_recorded_in_order() {
    let transcripts = Transcripts::make("2mb", 41, "0.6");
    let undisturbed = reading(&transcripts);
    ingest(&undisturbed);
    let (events, totals) = (held(&undisturbed), counted(&undisturbed));
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());

    let mut writer = Writer::new(&transcripts);
    let world = reading(&transcripts);
    let mut running = world.start(&["--json", "ingest"]);
    while writer.write(&mut dice) {
        // Like an agent: with pauses now and then.
        if dice.below(16) == 0 {
            running.goes_on_for(Duration::from_millis(dice.below(60)));
        }
    }
    // Before that it may not have got as far as to heed a signal.
    running.wait_first_line();
    let said = running.terminate();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    // What was written last, and a line that will never be finished.
    transcripts.age();
    ingest(&world);
    assert_held(&world, &events);
    assert_same(&counted(&world), &totals);
}

#[test]
fn changing_files_count_once() {
    let transcripts = Transcripts::make("1mb", 45, "0.6");
    let wanted = expected(&transcripts);
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let mut writer = Writer::new(&transcripts);
    let world = reading(&transcripts);
    let mut running = world.start(&["--json", "ingest"]);
    while writer.write(&mut dice) {
        if dice.below(12) == 0 {
            writer.meddle(&mut dice);
        }
        // Sometimes it has read what was there, mostly not.
        let pause = if dice.below(8) == 0 { 40 } else { 2 };
        running.goes_on_for(Duration::from_millis(dice.below(pause)));
    }
    running.wait_first_line();
    let said = running.terminate();
    assert_eq!(said.code, Some(0), "{said}");
    transcripts.age();
    ingest(&world);
    assert_same(&counted(&world), &wanted);
}

#[test]
fn new_folders_are_followed_line_by_line() {
    let world = empty();
    let projects = world.home().join(".claude/projects");
    append(&projects.join("-home-dev-first/s0.jsonl"), prompt("s0", 0).as_bytes());
    let mut running = world.start(&["--json", "ingest"]);
    wait_for(&mut running, 1);
    // Nothing is written before what came before it was recorded: no sweep finds it by chance.
    for number in 0..5 {
        for session in ["s1", "s2", "s3"] {
            let file = projects.join(format!("-home-dev-{session}/{session}.jsonl"));
            append(&file, prompt(session, number).as_bytes());
            wait_for(&mut running, 1);
        }
    }
    let said = running.terminate();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    for session in ["s1", "s2", "s3"] {
        let id = format!("claude:{session}");
        let events = json(&world.run(&["--json", "show", &id, "--events"]));
        let prompts = events.iter().filter(|event| event["kind"] == "user.prompt");
        let said: Vec<String> = prompts.map(|event| event["data"]["content"].to_string()).collect();
        let wanted: Vec<String> = (0..5).map(|number| format!("question {number}")).collect();
        assert_eq!(said.len(), wanted.len(), "{said:?}");
        assert!(said.iter().zip(&wanted).all(|(got, wanted)| got.contains(wanted)), "{said:?}");
    }
}

#[test]
fn sigterm_ends_in_good_order() {
    let transcripts = Transcripts::make("1mb", 42, "0.6");
    let world = reading(&transcripts);
    let mut running = world.start(&["--json", "ingest"]);
    wait_for(&mut running, 1);
    let said = running.terminate();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    let report = ingest(&world);
    assert_eq!(report["events"], 0, "{report}");
    assert_same(&counted(&world), &expected(&transcripts));
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}

#[test]
fn interrupted_ingest_resumes_later() {
    let transcripts = Transcripts::make("4mb", 45, "0.6");
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let world = reading(&transcripts);
    for arguments in [&["--json", "ingest", "--once"][..], &["--json", "ingest"]] {
        let mut running = world.start(arguments);
        let is_over = running.ends_within(Duration::from_millis(dice.below(200)));
        let said = if is_over { running.end() } else { running.terminate() };
        // Before it handles signals, the system ends it; and it may have finished already.
        assert!(matches!(said.code, None | Some(0 | 1)), "{said}");
        assert!(said.code != Some(1) || said.stderr.contains("the next run continues"), "{said}");
    }
    ingest(&world);
    assert_same(&counted(&world), &expected(&transcripts));
}

#[test]
fn signal_file_is_read_and_removed() {
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s0.jsonl");
    append(&file, prompt("s0", 0).as_bytes());
    let mut running = world.start(&["--json", "ingest"]);
    wait_for(&mut running, 2);
    let signals = world.home().join(".local/share/hansard/signals");
    let signal = r#"{"v":1,"type":"stop","provider":"claude","session_id":"s0","ts":1800000000}"#;
    let signal = signal.replace("1800000000", &now().to_string());
    append(&signals.join("1772442000000000000-0000abcd.json"), signal.as_bytes());
    wait_for(&mut running, 1);
    assert_eq!(running.terminate().code, Some(0));
    let events = json(&world.run(&["--json", "show", "claude:s0", "--events"]));
    let exits = events.iter().filter(|event| event["kind"] == "session.exited").count();
    assert_eq!(exits, 1, "{events:?}");
    assert_eq!(std::fs::read_dir(signals).unwrap().count(), 0);
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn second_ingest_is_refused() {
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s0.jsonl");
    append(&file, prompt("s0", 0).as_bytes());
    let mut running = world.start(&["--json", "ingest"]);
    wait_for(&mut running, 1);
    for arguments in [&["ingest"][..], &["ingest", "--once"]] {
        let said = world.run(arguments);
        assert_eq!(said.code, Some(1), "{said}");
        let holder = format!("process {} does so already", running.process_id());
        assert!(said.stderr.contains(&holder), "{said}");
    }
    assert_eq!(running.terminate().code, Some(0));
    assert_eq!(ingest(&world)["events"], 0);
}

#[test]
fn idle_follower_sleeps() {
    let transcripts = Transcripts::make("1mb", 43, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    let mut running = world.start(&["--json", "ingest"]);
    // It is ready when it sees what is written.
    let file = transcripts.root().join("claude/projects/-home-dev-app/ready.jsonl");
    append(&file, prompt("ready", 0).as_bytes());
    wait_for(&mut running, 1);
    let Some(before) = running.pauses() else {
        println!("this system does not tell how often a program wakes up");
        return;
    };
    let begun = Instant::now();
    // Other work that takes its time.
    let elsewhere = Transcripts::make("3mb", 44, "0.6");
    ingest(&reading(&elsewhere));
    let pauses = running.pauses().unwrap() - before;
    let seconds = begun.elapsed().as_secs();
    // A source that was written to just now is looked at once a second; each look is a few pauses
    // of a few threads. Something that spins or polls has thousands.
    println!("{pauses} pauses in {seconds} s");
    assert!(pauses <= 50 + 10 * seconds, "{pauses} pauses in {seconds} s");
    assert_eq!(running.terminate().code, Some(0));
}
