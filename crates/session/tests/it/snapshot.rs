//! Snapshots: when they are due, what they say, and that they change nothing.

use std::time::Duration;

use event::Time;
use event::payload::{Compaction, Content, ContextKind, SavedEntry};
use expect_test::expect;
use session::snapshot::{SnapshotPolicy, Snapshotter, Trigger};
use session::view::{View, ViewOptions};

use crate::log::{TestLog, id_at, shown, time_at};

fn view_of(log: &TestLog) -> View {
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, log).unwrap();
    }
    view
}

fn every(events_max: u64) -> Snapshotter {
    Snapshotter::new(SnapshotPolicy { events_max, age_max: None })
}

#[test]
fn a_snapshot_is_due_by_count() {
    let mut log = TestLog::new();
    log.prompt("one");
    let policy = every(2);
    assert_eq!(policy.due_trigger(&view_of(&log), Time::EPOCH), None);
    log.prompt("two");
    let view = view_of(&log);
    let snapshot = policy.snapshot_if_needed(&view, Time::EPOCH, &log).unwrap().unwrap();
    assert_eq!((snapshot.strategy.as_str(), snapshot.cutoff_seq), ("count", 2));
    assert_eq!(snapshot.cutoff_event_id, Some(id_at(2)));
    log.add(&snapshot);
    assert_eq!(policy.due_trigger(&view_of(&log), Time::EPOCH), None);
    log.prompt("three");
    assert_eq!(policy.snapshot_if_needed(&view_of(&log), Time::EPOCH, &log).unwrap(), None);
}

#[test]
fn a_snapshot_is_due_by_age() {
    let minute = Duration::from_secs(60);
    let policy = Snapshotter::new(SnapshotPolicy { events_max: 256, age_max: Some(minute) });
    let mut log = TestLog::new();
    log.prompt("one");
    let view = view_of(&log);
    let at = |secs: i128| Time::from_nanos(time_at(1).nanos() + secs * 1_000_000_000);
    assert_eq!(policy.due_trigger(&view, at(59)), None);
    assert_eq!(policy.due_trigger(&view, at(120)), Some(Trigger::Time));
    assert_eq!(policy.due_trigger(&view, at(-120)), None, "a clock that went back is no reason");
    log.add(&policy.snapshot(&view, Trigger::Time, &log).unwrap().unwrap());
    assert_eq!(policy.due_trigger(&view_of(&log), at(500)), None);
}

#[test]
fn an_empty_session_has_no_snapshot() {
    let mut log = TestLog::new();
    let manual = |log: &TestLog| {
        Snapshotter::default().snapshot(&view_of(log), Trigger::Manual, log).unwrap()
    };
    assert_eq!(manual(&log), None);
    log.fact();
    assert_eq!(manual(&log), None);
    log.prompt("hello");
    let snapshot = manual(&log).unwrap();
    assert_eq!(snapshot.strategy, "manual");
    log.add(&snapshot);
    assert_eq!(manual(&log), None, "there is nothing after it");
}

#[test]
fn concurrent_append_survives_compaction() {
    let mut log = TestLog::new();
    log.prompt("one");
    let built = Snapshotter::default().snapshot(&view_of(&log), Trigger::Manual, &log).unwrap();
    log.prompt("two");
    log.add(&built.unwrap());
    expect![[r#"
        base 3
        1 user "one"
        2 user "two"
    "#]]
    .assert_eq(&shown(&log));
}

#[test]
fn snapshot_stops_before_open_answer() {
    let mut log = TestLog::new();
    log.prompt("do it");
    log.fact();
    log.thinking("m1", 0, "hm");
    log.call("m1", 1, "a");
    let manual = |log: &TestLog| {
        Snapshotter::default().snapshot(&view_of(log), Trigger::Manual, log).unwrap()
    };
    let snapshot = manual(&log).unwrap();
    assert_eq!(snapshot.cutoff_seq, 2);
    log.add(&snapshot);
    log.fact();
    assert_eq!(manual(&log), None, "nothing new can be covered");
    log.result("a", "done");
    assert_eq!(manual(&log).unwrap().cutoff_seq, 7);
    expect![[r#"
        base 5
        1 user "do it"
        3 assistant <hm> -> a
        7 tool [a run {}] "done"
    "#]]
    .assert_eq(&shown(&log));
}

#[test]
fn a_snapshot_never_restates_text() {
    let mut log = TestLog::new();
    log.prompt("an old prompt");
    log.add(&Compaction {
        cutoff_seq: 1,
        entries: vec![SavedEntry {
            context_kind: Some(ContextKind::Summary),
            content: Some(Content::text("a summary")),
            ..SavedEntry::default()
        }],
        read_files: vec!["src/lib.rs".to_owned()],
        ..Compaction::default()
    });
    log.prompt("words");
    log.prompt("left");
    log.prompt_after(3, "more words");
    let built = Snapshotter::default().snapshot(&view_of(&log), Trigger::Manual, &log).unwrap();
    log.add(&built.unwrap());
    expect![[r#"{"strategy":"manual","base_seq":2,"cutoff_seq":5,"cutoff_event_id":"00000004W80000000000000005","entries":[{"seq":2},{"seq":2,"to_seq":3},{"seq":5,"to_seq":5}]}"#]].assert_eq(log.events.last().unwrap().data.get());
    expect![[r#"
        base 6
        2 user (summary, prefix) "a summary"
        - user (working_set, prefix) "<working_set>\nRead-only files:\n- src/lib.rs\n</working_set>"
        3 user "words"
        5 user "more words"
    "#]]
    .assert_eq(&shown(&log));
}

#[test]
fn snapshots_together_stay_small() {
    let mut log = TestLog::new();
    let mut view = View::new(ViewOptions::default());
    let mut sizes = Vec::new();
    for turn in 0..5_000u64 {
        log.prompt("words");
        view.apply(log.events.last().unwrap(), &log).unwrap();
        if let Some(snapshot) =
            Snapshotter::default().snapshot_if_needed(&view, time_at(turn), &log).unwrap()
        {
            log.add(&snapshot);
            let event = log.events.last().unwrap();
            view.apply(event, &log).unwrap();
            sizes.push(event.data.get().len());
        }
    }
    // Every 256 events up to 8 × 256, then after an eighth more.
    assert_eq!(sizes.len(), 15);
    let total: usize = sizes.iter().sum();
    assert!(total < 5_000 * 1_024 / 1_000, "{total} bytes in {} snapshots", sizes.len());
    assert!(view.is_loaded(), "a plain snapshot does not make the view read again");
}
