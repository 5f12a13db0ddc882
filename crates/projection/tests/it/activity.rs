//! When somebody worked, at what, and what it adds up to across sessions.

use expect_test::{Expect, expect};
use projection::{Activity, ActivityKind, Level, ProjectSpan, activities};
use serde_json::json;

use crate::given::{Log, inherited};

const MINUTE: i128 = 60 * 1_000_000_000;

/// Lets so many minutes pass.
fn wait(log: &mut Log, minutes: i128) {
    log.at = event::Time::from_nanos(log.at.nanos() + minutes * MINUTE);
}

fn edit(log: &mut Log, file: &str) {
    log.use_tool("Edit", json!({"file_path": file}));
}

fn run(log: &mut Log, command: &str) {
    log.use_tool("Bash", json!({"command": command}));
}

fn close(log: &mut Log, segment: &str) {
    let data =
        json!({"cause": "silence", "day": "20261116", "stream": "claude", "segment": segment});
    log.add("epoch.closed", data);
}

/// What was worked at in some sessions of some projects.
fn worked(sessions: &[(&str, &Log)]) -> Vec<Activity> {
    let chronicles: Vec<_> =
        sessions.iter().map(|(project, log)| (*project, log.chronicle())).collect();
    let chapters: Vec<_> = chronicles
        .iter()
        .flat_map(|(project, chronicle)| {
            chronicle.chapters().map(move |chapter| (project, chapter))
        })
        .collect();
    activities(chapters.iter().flat_map(|(project, chapter)| {
        let closed = chapter.epoch.closed.as_ref();
        chapter.stretches.iter().map(move |stretch| ProjectSpan {
            project,
            stream: "claude",
            segment: closed.map_or("open", |closed| closed.segment.as_str()),
            stretch,
            facts: &chapter.facts,
        })
    }))
}

#[track_caller]
fn check(log: &Log, expected: Expect) {
    let mut lines = String::new();
    for chapter in log.chronicle().chapters() {
        for stretch in chapter.stretches {
            lines += &format!(
                "epoch {} {}-{} {} s, {} turns, busy {} s, {:?}, tests {}, reviews {}, failures {}, \
                 {:?}\n",
                stretch.epoch,
                stretch.from_seq,
                stretch.to_seq,
                (stretch.to.nanos() - stretch.from.nanos()) / 1_000_000_000,
                stretch.turns,
                stretch.busy_millis / 1_000,
                stretch.deeds,
                stretch.tests,
                stretch.reviews,
                stretch.failures,
                stretch.touched,
            );
        }
    }
    expected.assert_eq(lines.trim_end());
}

#[test]
fn a_stretch_lasts_while_one_turn_follows_the_other() {
    let mut log = Log::started();
    log.prompt("fix the parser");
    edit(&mut log, "src/a.rs");
    log.end("end_turn");
    wait(&mut log, 29);
    log.prompt("and its tests");
    run(&mut log, "cargo test");
    log.end("end_turn");
    wait(&mut log, 30);
    log.prompt("next day");
    check(
        &log,
        expect![[r#"
        epoch 0 2-9 1747 s, 2 turns, busy 6 s, {Edit: 1, Run: 1}, tests 1, reviews 0, failures 0, {"src/a.rs": 1}
        epoch 0 10-10 0 s, 1 turns, busy 0 s, {}, tests 0, reviews 0, failures 0, {}"#]],
    );
}

#[test]
fn a_long_build_is_no_pause() {
    let mut log = Log::started();
    log.prompt("build it");
    let call = log.call("Bash", json!({"command": "make world"}));
    wait(&mut log, 90);
    log.result(&call, "ok");
    log.end("end_turn");
    check(
        &log,
        expect![
            "epoch 0 2-5 5403 s, 1 turns, busy 5403 s, {Run: 1}, tests 0, reviews 0, failures 0, {}"
        ],
    );
}

#[test]
fn the_clock_that_closes_an_epoch_is_not_at_work() {
    let mut log = Log::started();
    log.prompt("hello parser");
    log.say("m", "done");
    wait(&mut log, 31);
    close(&mut log, "090001_2");
    log.prompt("again");
    check(
        &log,
        expect![[r#"
        epoch 0 2-4 1 s, 1 turns, busy 1 s, {}, tests 0, reviews 0, failures 0, {}
        epoch 1 5-5 0 s, 1 turns, busy 0 s, {}, tests 0, reviews 0, failures 0, {}"#]],
    );
}

#[test]
fn failures_reviews_and_what_was_touched_are_counted() {
    let mut log = Log::started();
    log.prompt("look at it");
    run(&mut log, "git diff main");
    run(&mut log, "git checkout -b fix/parser");
    edit(&mut log, "a.rs");
    edit(&mut log, "a.rs");
    log.use_tool("Read", json!({"file_path": "b.rs"}));
    let call = log.call("Bash", json!({"command": "cargo test"}));
    log.fail(&call, "error: it does not compile");
    check(
        &log,
        expect![[
            r#"epoch 0 2-14 12 s, 1 turns, busy 12 s, {Read: 1, Edit: 2, Run: 3}, tests 1, reviews 1, failures 1, {"a.rs": 2, "branch fix/parser": 1}"#
        ]],
    );
}

#[test]
fn what_a_fork_inherited_was_worked_at_elsewhere() {
    let mut log = Log::new();
    inherited(log.prompt("before"));
    log.prompt("after");
    check(
        &log,
        expect!["epoch 0 2-2 0 s, 1 turns, busy 0 s, {}, tests 0, reviews 0, failures 0, {}"],
    );
}

#[test]
fn sessions_of_one_project_are_one_activity() {
    let mut first = Log::started();
    first.prompt("Write the stream parser in src/stream.rs");
    edit(&mut first, "src/stream.rs");
    first.end("end_turn");
    close(&mut first, "090001_5");
    let mut second = Log::started();
    wait(&mut second, 20);
    second.prompt("Write tests for the stream parser please");
    edit(&mut second, "tests/stream.rs");
    edit(&mut second, "tests/stream.rs");
    run(&mut second, "cargo test");
    second.end("end_turn");
    close(&mut second, "092001_9");
    let mut other = Log::started();
    other.prompt("How does the borrow checker work?");
    other.say("m", "like this");
    other.end("end_turn");
    close(&mut other, "090001_3");

    let done = worked(&[("app", &first), ("app", &second), ("notes", &other)]);
    let facets: Vec<_> = done.iter().map(|activity| activity.facet.as_str()).collect();
    assert_eq!(facets, ["app", "notes"]);
    let app = &done[0];
    assert_eq!((app.id.as_str(), app.activity), ("coding_090001_5", ActivityKind::Coding));
    assert_eq!(app.segments, ["090001_5", "092001_9"]);
    assert_eq!(app.active_entities, ["tests/stream.rs", "src/stream.rs"]);
    assert_eq!(app.level, Level::Low);
    assert!(app.description.starts_with("Write the stream parser"), "{}", app.description);
    assert!(app.description.contains("Write tests for"), "{}", app.description);
    assert_eq!(done[1].activity, ActivityKind::Planning);
    let half_an_hour_later = event::Time::from_nanos(app.to.nanos() + 30 * MINUTE);
    assert!(app.is_over(half_an_hour_later) && !app.is_over(app.to));
}

#[test]
fn what_kind_it_was_follows_from_what_was_done() {
    let kind = |work: &dyn Fn(&mut Log)| {
        let mut log = Log::started();
        log.prompt("please do it");
        work(&mut log);
        worked(&[("app", &log)])[0].activity
    };
    assert_eq!(kind(&|_| {}), ActivityKind::Planning);
    assert_eq!(kind(&|log| edit(log, "a.rs")), ActivityKind::Coding);
    assert_eq!(kind(&|log| run(log, "pytest -q")), ActivityKind::Testing);
    assert_eq!(kind(&|log| run(log, "git diff")), ActivityKind::Reviewing);
    assert_eq!(kind(&|log| run(log, "systemctl restart web")), ActivityKind::Operations);
    assert_eq!(
        kind(&|log| log.use_tool("WebSearch", json!({"query": "fts5"}))),
        ActivityKind::Researching
    );
    assert_eq!(
        kind(&|log| {
            edit(log, "a.rs");
            for _ in 0..3 {
                let call = log.call("Bash", json!({"command": "cargo test"}));
                log.fail(&call, "panicked");
            }
        }),
        ActivityKind::Debugging
    );
}
