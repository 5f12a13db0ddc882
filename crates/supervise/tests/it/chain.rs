//! Tasks of the daemon itself, and its reported state.

use std::fs;
use std::time::Duration;

use serde_json::json;
use supervise::{DaemonTask, Day, EnqueueError, Ref, RunEvent, TaskRun};

use crate::harness::{Place, TestSupervisor, is};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn daemon_task_needs_no_permission() {
    let house = TestSupervisor::open("");
    let mut guest = house.guest();
    let folder = house.place.path("bin").canonicalize().unwrap();
    let mut task = DaemonTask::new(words(&["sh", "-c", "echo $SEGMENT_META; pwd"]));
    task.cwd = Some(folder.clone());
    task.env = vec![("SEGMENT_META".to_owned(), "{}".to_owned())];
    task.day = Day::parse("20250213");
    task.reference = Ref::text("handler");
    let reference = house.supervisor().enqueue(task).unwrap();
    assert_eq!(reference.as_str(), "handler");
    let heard = guest.until(|it| is(it, "logs", "exit") && it["ref"] == "handler");
    let lines: Vec<_> =
        heard.iter().filter(|it| is(it, "logs", "line")).map(|it| it["line"].clone()).collect();
    assert_eq!(lines, [json!("{}"), json!(folder.to_str().unwrap())]);
    let refused = house.supervisor().enqueue(DaemonTask::new(Vec::new()));
    assert!(matches!(refused, Err(EnqueueError::BadCommand(_))));
}

#[test]
fn run_is_reported_without_the_bus() {
    let place = Place::new();
    let gate = place.gate("gate");
    let house = place.open();
    let patience = Duration::from_secs(30);
    let run = |script: &str| {
        house.supervisor().run(DaemonTask::new(words(&["sh", "-c", script]))).unwrap()
    };
    let ended = |run: &TaskRun| std::iter::from_fn(|| run.next(patience)).nth(1);
    let first = run("exit 3");
    assert_eq!(first.next(patience), Some(RunEvent::Started));
    assert_eq!(first.next(patience), Some(RunEvent::Ended(3)));
    let held = run(&gate.wait());
    assert_eq!(held.next(patience), Some(RunEvent::Started));
    // Equal waiting tasks are merged, and every caller is notified.
    let (one, other) = (run("exit 4"), run("exit 4"));
    assert_eq!(one.next(Duration::ZERO), None);
    gate.open();
    assert_eq!(ended(&one), Some(RunEvent::Ended(4)));
    assert_eq!(ended(&other), Some(RunEvent::Ended(4)));
    let missing = house.supervisor().run(DaemonTask::new(words(&["/no/such/program"]))).unwrap();
    assert_eq!(missing.next(patience), Some(RunEvent::Ended(-1)));
    // A run ends when its supervisor is gone.
    house.supervisor().stop();
    assert_eq!(missing.next(patience), Some(RunEvent::Ended(-1)));
}

#[test]
fn kept_task_is_saved_before_reply() {
    let place = Place::new();
    let gate = place.gate("gate");
    let house = place.open();
    let keep =
        |script: &str| DaemonTask { keep: true, ..DaemonTask::new(words(&["sh", "-c", script])) };
    let first = house.supervisor().enqueue(keep(&gate.wait())).unwrap();
    let second = house.supervisor().enqueue(keep("true")).unwrap();
    let kept = fs::read_to_string(house.journal().join("health/tasks.json")).unwrap();
    assert!(kept.contains(first.as_str()) && kept.contains(second.as_str()), "{kept}");
    let mut guest = house.guest();
    gate.open();
    guest.stopped(second.as_str());
    // A finished task is not kept.
    guest.hear("supervisor", "status");
    let kept = fs::read_to_string(house.journal().join("health/tasks.json")).unwrap();
    assert_eq!(kept.trim(), r#"{"running":[],"waiting":[]}"#);
}

#[test]
fn parts_appear_in_the_status() {
    let house = TestSupervisor::open("");
    house.supervisor().set_part("capture", "watching");
    house.supervisor().set_disk(Some("no space left".to_owned()));
    let mut guest = house.guest();
    let status = guest.find(|it| is(it, "supervisor", "status") && it["disk"] != "ok");
    assert_eq!(status["parts"], json!([{"name": "capture", "state": "watching"}]));
    assert_eq!(status["disk"], "no space left");
    house.supervisor().log("a word\nand another");
    let line = guest.find(|it| is(it, "logs", "line") && it["name"] == "supervisor");
    assert_eq!((&line["line"], &line["stream"]), (&json!("a word"), &json!("log")));
    assert_eq!(guest.hear("logs", "line")["line"], "and another");
    let log = fs::read_to_string(house.journal().join("health/supervisor.log")).unwrap();
    assert!(log.contains("[supervisor:log] a word\n"), "{log}");
}
