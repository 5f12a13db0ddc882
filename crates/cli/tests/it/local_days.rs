//! Times and days are the user's, whatever the time zone, and alike on every surface.

use std::fmt::Write;

use serde_json::Value;
use testkit::World;

use crate::up::up;
use crate::web::{get, ways_in};
use crate::{empty, import, json as lines};

/// India is half an hour off the full hours; central Europe changes its clocks.
const INDIA: &str = "IST-5:30";
const EUROPE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// A world in a time zone, with a request of one token, two tokens … at each of these times.
fn used(zone: &str, times: &[&str]) -> World {
    let world = empty().with("TZ", zone);
    let mut events = String::new();
    for (tokens, at) in (1..).zip(times) {
        let data = format!(r#"{{"model":"claude-opus-5-5","usage":{{"input_tokens":{tokens}}}}}"#);
        writeln!(
            events,
            r#"{{"session_id":"s","kind":"step.completed","created_at":"{at}","data":{data}}}"#
        )
        .unwrap();
    }
    assert_eq!(import(&world, &events).code, Some(0));
    world
}

/// The rows of an answer, as `key tokens`.
fn rows(usage: &Value) -> Vec<String> {
    let row = |row: &Value| format!("{} {}", row["key"].as_str().unwrap(), row["input"]);
    usage["rows"].as_array().unwrap().iter().map(row).collect()
}

fn usage(world: &World, options: &[&str]) -> Vec<String> {
    rows(&lines(&world.run(&[&["--json", "usage"], options].concat())).remove(0))
}

#[test]
fn times_are_local_everywhere() {
    let world = empty().with("TZ", INDIA);
    import(&world, include_str!("../../../../docs/sample.ndjson"));
    // The session began at 09:14:03 in UTC.
    for (command, local, utc) in [
        (&["sessions"][..], "2026-03-02 14:44", "2026-03-02 09:14"),
        (&["show", "7c1e4b52"], "#2  2026-03-02 14:44:21  done", "#2  2026-03-02 09:14:21  done"),
        (&["show", "7c1e4b52", "--events"], "2026-03-02 14:44:03", "2026-03-02 09:14:03"),
        (&["show", "7c1e4b52", "--digest"], "2026-03-02 14:44 to", "2026-03-02 09:14 to"),
        (&["search", "cent"], "2026-03-02 14:44 · session.started", "2026-03-02 09:14 · session"),
        (
            &["explain", "7c1e4b52"],
            "  2026-03-02 14:44:21  running",
            "  2026-03-02 09:14:21  running",
        ),
        (&["digest", "2026-03-02"], "  14:44–14:44  coding", "  09:14–09:14  coding"),
    ] {
        let said = world.run(command).stdout;
        assert!(said.contains(local) && !said.contains("09:14"), "{command:?}: {said}");
        let said = world.run(&[&["--utc"], command].concat()).stdout;
        assert!(said.contains(utc) && !said.contains("14:44"), "{command:?} --utc: {said}");
    }
}

#[test]
fn work_is_listed_under_its_local_day() {
    // Some minutes before one in India, and the evening before in UTC.
    let world = empty().with("TZ", INDIA);
    let sample = include_str!("../../../../docs/sample.ndjson").lines();
    let of_one: Vec<String> = sample
        .filter(|line| line.contains("\"session_id\":\"01KJPX6XZEPC681EKEQYJE5EQ1\""))
        .map(|line| line.replace("2026-03-02T09:", "2026-03-02T19:"))
        .collect();
    import(&world, &(of_one.join("\n") + "\n"));
    let digest = |zone: &[&str], day: &str| world.run(&[zone, &["digest", day]].concat()).code;
    assert_eq!((digest(&[], "2026-03-03"), digest(&[], "2026-03-02")), (Some(0), Some(1)));
    let utc = ["--utc"];
    assert_eq!((digest(&utc, "2026-03-02"), digest(&utc, "2026-03-03")), (Some(0), Some(1)));
    let listed = |options: &[&str]| world.run(&[&["sessions"], options].concat()).stdout;
    assert_ne!(listed(&["--since", "2026-03-03"]), "");
    assert_eq!(listed(&["--until", "2026-03-02"]), "");
}

#[test]
fn days_begin_at_local_midnight() {
    // Midnight in India is 18:30 in UTC.
    let world = used(INDIA, &["2026-11-16T18:29:59Z", "2026-11-16T18:30:00Z"]);
    assert_eq!(usage(&world, &["daily"]), ["2026-11-16 1", "2026-11-17 2"]);
    assert_eq!(usage(&world, &["daily", "--utc"]), ["2026-11-16 3"]);
    assert_eq!(usage(&world, &["daily", "--since", "2026-11-17"]), ["2026-11-17 2"]);
    assert_eq!(usage(&world, &["daily", "--until", "2026-11-16"]), ["2026-11-16 1"]);
    assert_eq!(usage(&world, &["daily", "--utc", "--since", "2026-11-17"]), [""; 0]);
}

#[test]
fn weeks_and_months_begin_at_local_midnight() {
    let world = used(EUROPE, &["2026-05-31T21:59:00Z", "2026-05-31T22:00:00Z"]);
    assert_eq!(usage(&world, &["weekly"]), ["2026-W22 1", "2026-W23 2"]);
    assert_eq!(usage(&world, &["monthly"]), ["2026-05 1", "2026-06 2"]);
    assert_eq!(usage(&world, &["monthly", "--utc"]), ["2026-05 3"]);
}

#[test]
fn days_of_a_clock_change_are_whole() {
    let spring = ["2026-03-28T22:59:00Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:00Z"];
    let autumn = ["2026-10-24T22:00:00Z", "2026-10-25T22:59:00Z", "2026-10-25T23:00:00Z"];
    let world = used(EUROPE, &[spring, autumn].concat());
    let days = ["2026-03-28 1", "2026-03-29 5", "2026-10-25 9", "2026-10-26 6"];
    assert_eq!(usage(&world, &["daily"]), days);
    let one = |day: &str| usage(&world, &["daily", "--since", day, "--until", day]);
    assert_eq!(one("2026-03-29"), ["2026-03-29 5"]);
    assert_eq!(one("2026-10-25"), ["2026-10-25 9"]);
}

#[test]
fn every_surface_has_the_same_days() {
    let world = used(INDIA, &["2026-11-16T18:29:59Z", "2026-11-16T18:30:00Z"]);
    let daemon = up(&world);
    let (address, token) = ways_in(&world);
    for (query, options) in [
        ("by=daily", &["daily"][..]),
        ("by=daily&utc=true", &["daily", "--utc"]),
        ("by=monthly", &["monthly"]),
        ("by=daily&since=2026-11-16T18:30:00Z", &["daily", "--since", "2026-11-17"]),
    ] {
        let (status, answered) = get(&address, &token, &format!("/api/usage?{query}"));
        assert_eq!((status, rows(&answered)), (200, usage(&world, options)), "{query}");
    }
    assert_eq!(daemon.terminate().code, Some(0));
}
