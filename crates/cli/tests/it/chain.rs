//! The chain with a real daemon: handlers as real processes, and what is told and written down.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use testkit::World;

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

/// A world with services.
fn world(services: &str) -> World {
    let world = empty();
    let journal = journal(&world);
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(journal.join("services.toml"), services).unwrap();
    world
}

/// Everything that is said of an epoch that closes, up to a message.
fn hear_epoch(world: &World, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut listener = world.start(&["bus", "listen"]);
    // The listener is connected.
    while !listener.line().unwrap().contains(r#""supervisor","event":"status""#) {}
    live(world, "s", 0);
    let mut heard: Vec<Value> = Vec::new();
    while !heard.last().is_some_and(&is_last) {
        heard.push(serde_json::from_str(&listener.line().unwrap()).unwrap());
    }
    heard
}

fn is(told: &Value, tract: &str, event: &str) -> bool {
    told["tract"] == tract && told["event"] == event
}

#[test]
fn slow_handler_fails() {
    let world = world(
        "[[handler]]\nname = \"slow\"\nfiles = \"segment.json\"\n\
         cmd = [\"/bin/sleep\", \"1000\"]\ntimeout_seconds = 1\n",
    );
    let daemon = up(&world);
    let is_late = |told: &Value| is(told, "supervisor", "stopped") && told["reason"] == "timeout";
    let heard = hear_epoch(&world, is_late);
    let is_detected = |told: &&Value| is(told, "observe", "detected") && told["handler"] == "slow";
    let detected = heard.iter().find(is_detected).unwrap();
    assert_eq!(heard.last().unwrap()["ref"], detected["ref"]);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn user_command_replaces_dream() {
    let world = world(
        "[chain]\nsegment = [\"/bin/sh\", \"-c\", \
         \"echo \\\"$@\\\" > \\\"$HANSARD_JOURNAL/dreamt\\\"\", \"sh\", \
         \"{day}\", \"{segment}\", \"{stream}\", \"--x\", \"{facet}\"]\n",
    );
    let daemon = up(&world);
    let is_dreamt = |told: &Value| is(told, "supervisor", "stopped") && told["service"] == "sh";
    let heard = hear_epoch(&world, is_dreamt);
    assert_eq!(heard.last().unwrap()["exit_code"], 0);
    let observed = heard.iter().find(|told| is(told, "observe", "observed")).unwrap();
    let [day, segment, stream] = ["day", "segment", "stream"].map(|name| &observed[name]);
    let words = fs::read_to_string(journal(&world).join("dreamt")).unwrap();
    // What has no value is left out, together with its option.
    assert_eq!(words, format!("{day} {segment} {stream}\n").replace('"', ""));
    assert!(!heard.iter().any(|told| is(told, "dream", "started")));
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn handler_runs_in_its_segment() {
    let world = world(SERVICES);
    let daemon = up(&world);
    let heard = hear_epoch(&world, |told| is(told, "dream", "completed"));
    assert_eq!(daemon.terminate().code, Some(0));

    let [folder] = &segments(&world)[..] else { panic!("one epoch, one segment") };
    let meta = read(&folder.join("segment.json")).remove(0);
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(text("place").trim_end(), folder.canonicalize().unwrap().to_str().unwrap());
    let mut given: Value = serde_json::from_str(&text("meta")).unwrap();
    assert!(given.as_object_mut().unwrap().remove("host").is_some_and(|host| host.is_string()));
    assert_eq!(given, meta);
    assert_eq!(text("words"), format!("segment.json {} claude:s\n", meta["day"].as_str().unwrap()));

    // A run has one ref in all messages.
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
    // Handlers do not wait for each other, so the steps in between have no fixed order.
    let mut names: Vec<&str> = logged.iter().map(|told| told["event"].as_str().unwrap()).collect();
    let end = names.len() - 4;
    assert_eq!(names[end..], ["observed", "started", "live", "completed"]);
    names[1..end].sort_unstable();
    let steps = ["observing", "described", "detected", "detected", "detected", "transcribed"];
    assert_eq!(names[..end], steps);
}

#[test]
fn failing_handler_delays_the_end_by_seconds() {
    let world =
        world("[[handler]]\nname = \"bad\"\nfiles = \"segment.json\"\ncmd = [\"/bin/false\"]\n");
    let daemon = up(&world);
    let heard = hear_epoch(&world, |told| is(told, "observe", "observed"));
    let observed = heard.last().unwrap();
    assert_eq!(observed["errors"], serde_json::json!(["bad exit 1"]));
    let tries = heard.iter().filter(|told| is(told, "logs", "exec") && told["name"] == "bad");
    assert_eq!(tries.count(), 2);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn foreign_pipeline_ends_in_dreams() {
    let world = world("");
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen"]);
    while !listener.line().unwrap().contains(r#""supervisor","event":"status""#) {}
    for event in ["observing", "detected", "described", "observed"] {
        let words = ["bus", "send", "observe", event, "day=20200102", "segment=143045_300"];
        assert_eq!(world.run(&[&words[..], &["files=[\"a.webm\"]"]].concat()).code, Some(0));
    }
    // The day is over, so its flush does not wait for an hour of silence.
    let mut modes: Vec<String> = Vec::new();
    while modes != ["segment", "flush"] {
        let told: Value = serde_json::from_str(&listener.line().unwrap()).unwrap();
        if is(&told, "dream", "completed") {
            assert_eq!((&told["segment"], &told["failed"]), (&"143045_300".into(), &0.into()));
            modes.push(told["mode"].as_str().unwrap().to_owned());
        }
    }
    assert!(!journal(&world).join("20200102/143045_300").exists(), "a message makes no folder");
    assert_eq!(daemon.terminate().code, Some(0));
}
