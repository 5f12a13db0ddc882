//! Segments of other programs: announced files, messages, and the dreams that follow.

use std::fs;

use segments::{Chain, Dream, SegmentKey, Zone};
use serde_json::{Value, json};

use crate::chain::{TestRuntime, deliver, logged_steps, minute, process_all, retry, retry_at};
use crate::segments::{MINUTE, MORNING, World};

#[test]
fn announced_files_are_handled_once() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    for name in ["a.png", "b.png", "note.txt"] {
        fs::write(folder.join(name), "x").unwrap();
    }
    let observing = |files: Value| {
        json!({"tract": "observe", "event": "observing", "day": "20261116", "stream": "phone",
            "segment": "080001_5", "files": files, "meta": {"host": "phone"}})
    };
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["see", "count"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    // One is named twice, one is missing, one leads elsewhere, one has no handler.
    let files = json!(["a.png", "a.png", "gone.png", "../b.png", "b.png", "note.txt", 7]);
    deliver(&mut chain, &observing(files), minute(1), &mut runtime).unwrap();
    // After a crash the work is still pending.
    drop(chain);
    retry_at(&world, &mut runtime, &[0]);
    assert_eq!(runtime.started, ["see a.png", "see b.png"]);
    let names = ["observe.detected see", "observe.detected see", "observe.observed"];
    assert_eq!(runtime.names(), names);
    let key = SegmentKey::parse("20261116", "phone", "080001_5").unwrap();
    assert_eq!(runtime.dreams, [Dream::Segment(key)]);
    // A file without a handler is done at once.
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    deliver(&mut chain, &observing(json!(["note.txt"])), minute(2), &mut runtime).unwrap();
    retry(&mut chain, minute(2), &mut runtime);
    assert_eq!(runtime.names().len(), 4);
    // These messages name no existing segment or no files.
    let before = chain.unhandled_count();
    for (name, value) in [
        ("day", json!("20261345")),
        ("segment", json!("../..")),
        ("segment", Value::Null),
        ("stream", json!("nobody")),
        ("files", json!("a.png")),
    ] {
        let mut message = observing(json!(["a.png"]));
        message[name] = value;
        deliver(&mut chain, &message, minute(3), &mut runtime).unwrap();
    }
    assert!(chain.unhandled_count() - before >= 5);
    retry_at(&world, &mut runtime, &[180]);
    assert_eq!(runtime.started.len(), 2);
}

#[test]
fn repeated_announcement_is_handled_again() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["see"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    for ts in [1, 2] {
        fs::write(folder.join("a.png"), "x").unwrap();
        let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
            "stream": "phone", "segment": "080001_5", "files": ["a.png"], "ts": ts});
        deliver(&mut chain, &observing, minute(1), &mut runtime).unwrap();
        retry(&mut chain, minute(1), &mut runtime);
    }
    assert_eq!(runtime.started, ["see a.png", "see a.png"]);
    let names = ["observe.detected see", "observe.observed"];
    assert_eq!(runtime.names(), [names, names].concat());
    let of: Vec<&Value> = runtime.published.iter().map(|message| &message["announced"]).collect();
    assert_eq!(of, [1, 1, 2, 2]);
    assert_ne!(runtime.published[0]["ref"], runtime.published[2]["ref"]);
}

#[test]
fn announcements_have_distinct_numbers() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.png"), "x").unwrap();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["see"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let announce = |chain: &mut Chain, ts: Value, runtime: &mut TestRuntime<'_>| {
        let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
            "stream": "phone", "segment": "080001_5", "files": ["a.png"], "ts": ts});
        deliver(chain, &observing, minute(1), runtime).unwrap();
    };
    // Two that are pending together, and one after both.
    announce(&mut chain, json!(7), &mut runtime);
    announce(&mut chain, json!(7), &mut runtime);
    retry(&mut chain, minute(1), &mut runtime);
    announce(&mut chain, json!(7), &mut runtime);
    retry(&mut chain, minute(1), &mut runtime);
    // Missing and invalid times.
    for ts in [Value::Null, json!("soon"), Value::Null] {
        announce(&mut chain, ts, &mut runtime);
        retry(&mut chain, minute(1), &mut runtime);
    }
    assert_eq!(runtime.started, ["see a.png"; 6]);
    let of = |event: &str| -> Vec<i64> {
        let told = runtime.published.iter().filter(|message| message["event"] == event);
        told.map(|message| message["announced"].as_i64().unwrap()).collect()
    };
    let now = MORNING + MINUTE;
    assert_eq!(of("observed"), [7, 8, 9, now, now + 1, now + 2]);
    assert_eq!(of("detected"), of("observed"));
}

#[test]
fn announcement_does_not_end_the_epoch() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["see"];
    runtime.failing = Some("describe");
    process_all(&world, &mut runtime, 1);
    // While the epoch waits for its next try, another program adds a picture.
    let segment = world.claim("a");
    fs::write(segment.folder().join("a.png"), "x").unwrap();
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "stream": "claude", "segment": segment.meta.segment, "files": ["a.png"], "ts": 7});
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    deliver(&mut chain, &observing, minute(1), &mut runtime).unwrap();
    retry(&mut chain, minute(1), &mut runtime);
    runtime.failing = None;
    retry_at(&world, &mut runtime, &[10]);
    let ends = runtime.published.iter().filter(|message| message["event"] == "observed");
    let ends: Vec<&Value> = ends.map(|message| &message["announced"]).collect();
    assert_eq!(ends, [&json!(7), &Value::Null]);
}

#[test]
fn unsaved_announcement_keeps_its_number() {
    let world = World::new();
    fs::create_dir_all(world.root().join("20261116/phone/080001_5")).unwrap();
    let mut runtime = TestRuntime::new(&world);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "stream": "phone", "segment": "080001_5", "files": [], "ts": 7});
    let message = bus::Message::parse(observing.to_string().as_bytes()).unwrap();
    let health = world.root().join("health");
    fs::write(&health, "in the way").unwrap();
    assert!(chain.handle_message(&message, minute(1), &mut runtime).is_err());
    fs::remove_file(&health).unwrap();
    chain.handle_message(&message, minute(1), &mut runtime).unwrap();
    retry(&mut chain, minute(1), &mut runtime);
    let told: Vec<&Value> = runtime.published.iter().map(|it| &it["announced"]).collect();
    assert_eq!(told, [7]);
}

#[test]
fn messages_of_others_lead_to_dreams() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let key = world.claim("a").key();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let mut runtime = TestRuntime::new(&world);
    let about = json!({"day": "20261116", "segment": key.segment(), "stream": "claude"});
    let told = |tract: &str, event: &str, more: Value| {
        let mut message = about.clone();
        message["tract"] = json!(tract);
        message["event"] = json!(event);
        for (name, value) in more.as_object().unwrap() {
            message[name.as_str()] = value.clone();
        }
        message
    };
    deliver(&mut chain, &told("observe", "observed", json!({})), minute(1), &mut runtime).unwrap();
    let recorded = json!({"facet": "owner/app", "id": "coding_080001_3"});
    deliver(&mut chain, &told("activity", "recorded", recorded), minute(1), &mut runtime).unwrap();
    // These are logged, and no dream follows.
    let nameless = told("activity", "recorded", json!({"id": "coding_1"}));
    deliver(&mut chain, &nameless, minute(1), &mut runtime).unwrap();
    let hostile = [("--x", "a"), ("a/../b", "a"), ("a//b", "a"), ("app", "../x"), ("app", "a/b")];
    for (facet, id) in hostile {
        let hostile = json!({"facet": facet, "id": id});
        deliver(&mut chain, &told("activity", "recorded", hostile), minute(1), &mut runtime)
            .unwrap();
    }
    assert_eq!(logged_steps(&world)[0].len(), 8);
    assert_eq!(chain.unhandled_count(), 6);
    assert_eq!(runtime.dreams.len(), 2);
    assert!(matches!(&runtime.dreams[1], Dream::Activity { facet, .. } if facet == "owner/app"));
    // A project that is in no repository goes by its folder.
    let folder = json!({"facet": "/home/dev/my projects/.app", "id": "coding_080001_3"});
    deliver(&mut chain, &told("activity", "recorded", folder), minute(1), &mut runtime).unwrap();
    assert_eq!((chain.unhandled_count(), runtime.dreams.len()), (6, 3));
    // A day may be a number, and a stream be left out where there is only one.
    let mut bare = told("observe", "observed", json!({"day": 20261116}));
    bare.as_object_mut().unwrap().remove("stream");
    deliver(&mut chain, &bare, minute(1), &mut runtime).unwrap();
    let numbered = json!({"facet": "app", "id": "coding_080001_3", "day": 20261116});
    deliver(&mut chain, &told("activity", "recorded", numbered), minute(1), &mut runtime).unwrap();
    assert_eq!((chain.unhandled_count(), runtime.dreams.len()), (6, 5));
    // `null` counts as a missing stream.
    let absent = told("observe", "observed", json!({"stream": null}));
    deliver(&mut chain, &absent, minute(1), &mut runtime).unwrap();
    assert_eq!((chain.unhandled_count(), runtime.dreams.len()), (6, 6));
}

#[test]
fn foreign_pipeline_ends_in_dreams() {
    let world = World::new();
    let mut runtime = TestRuntime::new(&world);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.run_schedule(minute(0), &mut runtime).unwrap();
    // No folder, no day and no stream: today is meant.
    for event in ["detected", "described", "observed"] {
        let message = json!({"tract": "observe", "event": event, "segment": "080001_5"});
        deliver(&mut chain, &message, minute(1), &mut runtime).unwrap();
    }
    let key = SegmentKey::without_stream("20261116", "080001_5").unwrap();
    assert_eq!(runtime.dreams, [Dream::Segment(key.clone())]);
    assert!(!world.root().join("20261116").exists(), "a message makes no folder");
    // Not lost with the daemon.
    drop(chain);
    for minutes in [30, 61, 62, 24 * 60, 24 * 60 + 1] {
        let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
        chain.run_schedule(minute(minutes), &mut runtime).unwrap();
    }
    let daily = Dream::Daily(key.day());
    assert_eq!(runtime.dreams, [Dream::Segment(key.clone()), Dream::Flush(key), daily]);
}

#[test]
fn foreign_folder_may_have_no_stream() {
    let world = World::new();
    let folder = world.root().join("20261116/080001_5");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.png"), "x").unwrap();
    let mut runtime = TestRuntime::new(&world);
    runtime.own = vec!["see"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "segment": "080001_5", "files": ["a.png"], "remote": "laptop", "meta": {"host": "laptop"}});
    deliver(&mut chain, &observing, minute(1), &mut runtime).unwrap();
    // What is known of the sender outlives a crash.
    drop(chain);
    retry_at(&world, &mut runtime, &[0]);
    assert_eq!(runtime.names(), ["observe.detected see", "observe.observed"]);
    for message in &runtime.published {
        assert_eq!(bus::registry::fault(message), None);
        assert_eq!((&message["remote"], message.get("stream")), (&json!("laptop"), None));
    }
    let key = SegmentKey::without_stream("20261116", "080001_5").unwrap();
    assert_eq!(runtime.dreams, [Dream::Segment(key.clone())]);
    assert_eq!(fs::read_to_string(folder.join("events.jsonl")).unwrap().lines().count(), 3);
    // The dream itself has nothing to do here, and says so.
    world.dream(&Dream::Segment(key.clone()), 2);
    world.dream(&Dream::Flush(key), 3);
}

#[test]
fn dream_of_unknown_day_makes_nothing() {
    let world = World::new();
    let key = SegmentKey::without_stream("20250101", "080001_5").unwrap();
    let day = key.day();
    for dream in [Dream::Segment(key.clone()), Dream::Flush(key), Dream::Daily(day)] {
        world.dream(&dream, 2);
    }
    assert!(!world.root().join("20250101").exists());
}
