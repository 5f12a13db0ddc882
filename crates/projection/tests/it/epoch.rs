//! Ranges of epochs.

use expect_test::{Expect, expect};
use projection::{Chronicle, Epochs, Projection};
use serde_json::json;

use crate::given::{Log, inherited};

#[track_caller]
fn check(log: &Log, expected: Expect) {
    let mut epochs = Epochs::default();
    for event in &log.events {
        epochs.apply(event);
    }
    let told: Vec<String> = epochs
        .list()
        .iter()
        .map(|epoch| {
            let cause = epoch.closed.as_ref().map_or("open", |closed| &closed.cause);
            format!("{} {}-{} {cause}", epoch.tag("claude", "s"), epoch.from_seq, epoch.to_seq)
        })
        .collect();
    expected.assert_eq(&told.join("\n"));
}

fn close(log: &mut Log, cause: &str) {
    log.add("epoch.closed", json!({"cause": cause}));
}

#[test]
fn ranges_follow_from_the_log() {
    let mut log = Log::started();
    log.prompt("a");
    log.add("compaction", json!({"strategy": "captured"}));
    close(&mut log, "compaction");
    log.add("note", json!({"text": "between"}));
    log.prompt("b");
    close(&mut log, "exit");
    log.add("session.started", json!({"resumed": true}));
    log.prompt("c");
    log.say("m1", "d");
    check(
        &log,
        expect![[r#"
        session:claude:s 1-4 compaction
        session:claude:s:e1 5-7 exit
        session:claude:s:e2 8-10 open"#]],
    );
}

#[test]
fn a_second_report_of_an_end_closes_nothing() {
    let mut log = Log::started();
    log.prompt("a");
    close(&mut log, "compaction");
    close(&mut log, "silence");
    log.step("opus", 1, 1);
    close(&mut log, "exit");
    log.prompt("b");
    check(
        &log,
        expect![[r#"
        session:claude:s 1-3 compaction
        session:claude:s:e1 5-7 open"#]],
    );
}

#[test]
fn two_compactions_in_one_batch_are_two_epochs() {
    let mut log = Log::started();
    log.prompt("a");
    log.add("compaction", json!({"strategy": "captured"}));
    close(&mut log, "compaction");
    log.add("compaction", json!({"strategy": "captured"}));
    close(&mut log, "compaction");
    check(
        &log,
        expect![[r#"
        session:claude:s 1-4 compaction
        session:claude:s:e1 5-6 compaction"#]],
    );
}

#[test]
fn a_fork_has_epochs_of_its_own() {
    let mut log = Log::new();
    inherited(log.prompt("a"));
    inherited(log.add("epoch.closed", json!({"cause": "compaction"})));
    log.add("session.started", json!({"mode": "fork"}));
    log.prompt("b");
    check(&log, expect!["session:claude:s 3-4 open"]);
}

#[test]
fn closed_epochs_have_a_digest() {
    let mut log = Log::started();
    log.prompt("Please write the stream parser in src/stream.rs");
    close(&mut log, "compaction");
    log.prompt("Now add tests for the stream parser");
    let mut chronicle = Chronicle::default();
    log.events.iter().for_each(|event| chronicle.apply(event));
    let closed = chronicle.chapters().filter(|chapter| chapter.epoch.closed.is_some());
    assert_eq!(closed.map(|chapter| chapter.epoch.number).collect::<Vec<_>>(), [0]);
    let facts = |chronicle: &Chronicle| -> Vec<usize> {
        chronicle.chapters().map(|chapter| chapter.facts.len().min(1)).collect()
    };
    assert_eq!(facts(&chronicle), [1, 0]);
    let before: Vec<_> = chronicle.chapters().next().unwrap().facts;
    chronicle.flush();
    assert_eq!(facts(&chronicle), [1, 1]);
    assert_eq!(chronicle.chapters().next().unwrap().facts, before);
}
