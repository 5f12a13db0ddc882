//! Killed at any instant of the chain and started again, the daemon makes one segment of every
//! epoch and takes every step once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use event::{HookMessage, SignalKind, Time};
use hooks::Signals;
use serde_json::{Value, json};
use testkit::{Dice, World};

use crate::empty;
use crate::ingest_crash::{crashes, share};
use crate::up::up;
use crate::writer::append;

/// A daemon is killed within so long of its start, which is about as long as the chain takes.
const LIFE: Duration = Duration::from_millis(700);

/// How long the next of anything is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The steps of the chain that are told of every segment.
const STEPS: [&str; 5] = [
    "observe.observing",
    "observe.transcribed",
    "observe.described",
    "observe.observed",
    "dream.completed",
];

#[test]
fn killed_daemon_makes_one_segment_per_epoch() {
    let world = empty();
    let crashes = crashes();
    let mut dice = Dice::from_environment();
    println!("{crashes} kills, HANSARD_TEST_SEED={}", dice.seed());
    for round in 0..crashes {
        live(&world, &format!("s{round}"), round);
        let mut daemon = up(&world);
        daemon.goes_on_for(share(LIFE, &mut dice));
        daemon.kill();
    }
    let mut daemon = up(&world);
    // Each finished segment has its own time: how long all take depends on the machine.
    let (mut done, mut since) = (0, Instant::now());
    while done < crashes as usize {
        daemon.goes_on_for(Duration::from_millis(100));
        assert!(since.elapsed() < PATIENCE, "{done} of {crashes} are done");
        let now_done = finished(&world);
        if now_done > done {
            (done, since) = (now_done, Instant::now());
        }
    }
    let said = daemon.terminate();
    assert_eq!(said.code, Some(0), "{said}");

    let mut sessions: BTreeMap<String, u32> = BTreeMap::new();
    for folder in segments(&world) {
        let meta = read(&folder.join("segment.json")).remove(0);
        *sessions.entry(meta["session_id"].as_str().unwrap().to_owned()).or_default() += 1;
        let digest = read(&folder.join("digest.jsonl"));
        assert_eq!(digest[0]["session_id"], meta["session_id"]);
        let names = names(&folder);
        for step in &STEPS[..4] {
            let count = names.iter().filter(|name| name == step).count();
            assert_eq!(count, 1, "{step} in {folder:?}: {names:?}");
        }
        let mut places: Vec<usize> =
            STEPS.iter().map(|step| names.iter().position(|name| name == step).unwrap()).collect();
        // The two handlers do not wait for each other.
        places[1..3].sort_unstable();
        assert!(places.is_sorted(), "{names:?}");
    }
    assert_eq!(sessions.len(), crashes as usize);
    assert!(sessions.values().all(|count| *count == 1), "{sessions:?}");
}

/// Writes a prompt and ends the session.
pub(crate) fn live(world: &World, session: &str, round: u32) {
    let at = now();
    let line = json!({
        "type": "user",
        "uuid": format!("{session}-0"),
        "parentUuid": null,
        "sessionId": session,
        "isSidechain": false,
        "cwd": "/home/dev/app",
        "version": "2.1.44",
        "timestamp": at,
        "promptSource": "typed",
        "message": {"role": "user", "content": format!("Write parser number {round}")},
    });
    let file = world.home().join(format!(".claude/projects/-home-dev-app/{session}.jsonl"));
    append(&file, format!("{line}\n").as_bytes());
    // Behind what was written.
    let at = now();
    let stop = HookMessage {
        transcript: Some(file),
        signal: Some(SignalKind::Stop),
        ..HookMessage::new(HookMessage::name_for(at, round.to_be_bytes()), "claude", session, at)
    };
    Signals::in_journal(&journal(world)).add(&stop).unwrap();
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_nanos(since.as_nanos() as i128)
}

pub(crate) fn journal(world: &World) -> PathBuf {
    world.home().join(".local/share/hansard")
}

/// The folders of all segments.
pub(crate) fn segments(world: &World) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    let is_day = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    let days: Vec<PathBuf> = below(&journal(world)).iter().filter(is_day).cloned().collect();
    let streams = days.iter().map(|day| day.join("claude"));
    streams.flat_map(|stream| below(&stream)).collect()
}

/// Segments that have gone through the whole chain.
fn finished(world: &World) -> usize {
    let is_done = |folder: &PathBuf| {
        let names = names(folder);
        STEPS.iter().all(|step| names.iter().any(|name| name == step))
    };
    segments(world).iter().filter(|folder| is_done(folder)).count()
}

/// What happened to a segment.
fn names(folder: &Path) -> Vec<String> {
    let name =
        |message: &Value| format!("{}.{}", message["tract"], message["event"]).replace('"', "");
    read(&folder.join("events.jsonl")).iter().map(name).collect()
}

/// The whole lines of a file, none if it is not there.
pub(crate) fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
