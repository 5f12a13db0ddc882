//! The chain with a real daemon: handlers as real processes, and what is told and written down.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::chain_crash::{journal, live, read, segments};
use crate::empty;
use crate::up::up;

/// Writes down where it is and what it is given.
const SERVICES: &str = r#"
[[handler]]
name = "note"
files = "segment.json"
cmd = ["/bin/sh", "-c", "pwd >place && printf %s \"$SEGMENT_META\" >meta && echo \"$@\" >words", "sh", "{file}", "{day}", "{session_id}"]
"#;

#[test]
fn a_handler_works_in_the_segment_and_the_bus_and_the_log_agree() {
    let world = empty();
    let journal = journal(&world);
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(journal.join("services.toml"), SERVICES).unwrap();
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen"]);
    // Whoever is told how it does listens.
    while !listener.line().unwrap().contains(r#""supervisor","event":"status""#) {}
    live(&world, "s", 0);
    let mut heard: Vec<Value> = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&listener.line().unwrap()).unwrap();
        let is_over = message["tract"] == "dream" && message["event"] == "completed";
        heard.push(message);
        if is_over {
            break;
        }
    }
    assert_eq!(daemon.terminate().code, Some(0));

    let [folder] = &segments(&world)[..] else { panic!("one epoch, one segment") };
    let meta = read(&folder.join("segment.json")).remove(0);
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(text("place").trim_end(), folder.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(serde_json::from_str::<Value>(&text("meta")).unwrap(), meta);
    assert_eq!(text("words"), format!("segment.json {} claude:s\n", meta["day"].as_str().unwrap()));

    // One run goes by one ref, whoever speaks of it.
    let is =
        |told: &Value, tract: &str, event: &str| told["tract"] == tract && told["event"] == event;
    let is_detected = |told: &&Value| is(told, "observe", "detected") && told["handler"] == "note";
    let detected = heard.iter().find(is_detected).unwrap();
    for (tract, event) in [("logs", "exec"), ("supervisor", "started"), ("supervisor", "stopped")] {
        let is_same = |told: &&Value| is(told, tract, event) && told["ref"] == detected["ref"];
        let same = heard.iter().filter(is_same).count();
        assert_eq!(same, 1, "{tract}.{event} of {}", detected["ref"]);
    }

    // The log of the segment has what was said of it, in order.
    let is_logged = |told: &&Value| {
        let tract = told["tract"].as_str().unwrap();
        ["observe", "dream", "activity"].contains(&tract) && told["segment"] == meta["segment"]
    };
    let told: Vec<&Value> = heard.iter().filter(is_logged).collect();
    let logged = read(&folder.join("events.jsonl"));
    assert_eq!(logged.iter().collect::<Vec<_>>(), told);
    let names: Vec<&str> = logged.iter().map(|told| told["event"].as_str().unwrap()).collect();
    let expected = [
        "observing",
        "detected",
        "detected",
        "detected",
        "transcribed",
        "described",
        "observed",
        "started",
        "live",
        "completed",
    ];
    assert_eq!(names, expected);
}
