//! Killed at any instant while a model is asked, the daemon asks about each range once more at most,
//! and keeps one answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testkit::{Dice, Endpoint, ModelReply, ModelRequest};

use crate::ingest_crash::crashes;
use crate::json;
use crate::model::{asking, good, notes, turn, wait};
use crate::up::up;

/// Kills, as a part of those `HANSARD_TEST_CRASHES` sets.
const SHARE: u32 = 8;

/// Sessions that are written meanwhile.
const SESSIONS: u64 = 3;

/// What a request is about: which question, and the text it is asked about.
fn matter(heard: &ModelRequest) -> (bool, String) {
    let text = heard.json()["messages"][1]["content"].as_str().unwrap().to_owned();
    let (_, transcript) = text.split_once("<transcript>").unwrap();
    (heard.body.contains("5 to 15 facts"), transcript.to_owned())
}

#[test]
fn each_range_is_answered_once() {
    let crashes = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{crashes} kills, HANSARD_TEST_SEED={}", dice.seed());
    let is_calm = Arc::new(AtomicBool::new(false));
    let calm = Arc::clone(&is_calm);
    // Two times out of three there is no answer before the kill.
    let endpoint = Endpoint::start(move |number, heard| {
        match number % 3 < 2 && !calm.load(Ordering::Relaxed) {
            true => ModelReply::Silence,
            false => good("openai", heard),
        }
    });
    let world = asking("openai", &endpoint.url(), "timeout_seconds = 600");
    let mut number = 0;
    for _ in 0..crashes {
        let mut daemon = up(&world);
        for _ in 0..dice.below(4) {
            number += 1;
            let session = format!("s{}", dice.below(SESSIONS));
            turn(&world, &session, number, &format!("Write parser number {number}"));
            daemon.goes_on_for(Duration::from_millis(dice.below(400)));
        }
        daemon.kill();
    }
    is_calm.store(true, Ordering::Relaxed);
    let daemon = up(&world);
    turn(&world, "last", 0, "Write the last parser");
    // What waited before it was asked before it.
    wait(&world, &["show", "last"], |shown| shown["title_origin"] == "model");
    assert_eq!(daemon.terminate().code, Some(0));

    let mut asked: BTreeMap<(bool, String), u32> = BTreeMap::new();
    for heard in endpoint.requests() {
        *asked.entry(matter(&heard)).or_default() += 1;
    }
    assert!(asked.values().all(|times| *times <= 2), "{:?}", asked.values());
    for session in json(&world.run(&["--json", "sessions"])) {
        let notes = notes(&world, session["id"].as_str().unwrap());
        let mut digests: Vec<(u64, u64)> = Vec::new();
        for note in notes.iter().filter(|note| note["title"].is_string()) {
            digests.push((note["from_seq"].as_u64().unwrap(), note["to_seq"].as_u64().unwrap()));
        }
        digests.sort_unstable();
        assert!(digests.windows(2).all(|pair| pair[0].1 < pair[1].0), "{digests:?}");
    }
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}
