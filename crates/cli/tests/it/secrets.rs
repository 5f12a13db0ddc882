//! Secrets in every place a session has, and every way text leaves by.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::World;

use crate::empty;
use crate::ingest::ingest;
use crate::writer::append;

/// A token that differs in every place; no scanner takes this file for a leak.
fn token(place: usize) -> String {
    let signs = format!("{place}k7Qz2MfX9aLr4TbWc8NyHd3VjPs6GuEe5RoJt");
    format!("ghp_{}", &signs[..36])
}

/// What every token shows as soon as some of it is left.
const TRACE: &str = "k7Qz2MfX";

/// A session of Claude that has a token wherever it has text.
fn planted() -> World {
    let world = empty();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let now = event::Time::from_nanos(now.cast_signed());
    let common = |number: usize, kind: &str, rest: Value| {
        let mut record = json!({"type": kind, "uuid": format!("u{number}"), "sessionId": "s1",
            "version": "2.1.325", "cwd": format!("/home/dev/{}", token(9)), "timestamp": now,
            "gitBranch": format!("try-{}", token(0))});
        record.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let says = |number: usize, block: Value| {
        let message = json!({"id": "m1", "model": "claude-opus-5-5", "role": "assistant",
            "content": [block], "usage": {"input_tokens": 1, "output_tokens": 1}});
        common(number, "assistant", json!({"requestId": "r1", "message": message}))
    };
    let asks = |number: usize, text: String| {
        let message = json!({"role": "user", "content": text});
        common(number, "user", json!({"promptSource": "typed", "message": message}))
    };
    // Each limit at which texts are cut falls into a token.
    let long = format!("curl https://example.org/{} -d {}", "a".repeat(64), token(5));
    let output = format!("error: {} {}", "word ".repeat(395), token(6));
    let failed = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": output}]});
    let lines = [
        asks(1, format!("Deploy to production with the new key {} today", token(1))),
        says(2, json!({"type": "thinking", "thinking": format!("so {}", token(2))})),
        says(3, json!({"type": "text", "text": format!("I decided on {}.", token(3))})),
        says(
            4,
            json!({"type": "tool_use", "id": "t1", "name": "Bash",
            "input": {"command": long, "description": token(4)}}),
        ),
        common(5, "user", json!({"message": failed})),
        common(6, "news", json!({"what": token(7)})),
        asks(7, format!("From now on always use {}", token(8))),
    ];
    let file = world.home().join(".claude/projects/-home-dev-app/s1.jsonl");
    append(&file, lines.concat().as_bytes());
    ingest(&world);
    world
}

#[track_caller]
fn check(world: &World, arguments: &[&str]) {
    let said = world.run(arguments);
    assert_eq!(said.code, Some(0), "{said}");
    if let Some(place) = said.stdout.find(TRACE) {
        let begin = said.stdout.floor_char_boundary(place.saturating_sub(60));
        panic!("{arguments:?} shows …{}", &said.stdout[begin..place + TRACE.len()]);
    }
    assert!(said.stdout.contains("[redacted:"), "{arguments:?}: {said}");
}

#[test]
fn redacted_exports_have_no_secrets() {
    let world = planted();
    let whole = world.run(&["export", "claude:s1", "--format", "jsonl"]).stdout;
    let places = (0..10).filter(|place| whole.contains(&token(*place))).count();
    assert_eq!(places, 10, "what is stored is original");
    for format in ["bundle", "jsonl", "markdown", "html", "text", "run"] {
        check(&world, &["export", "claude:s1", "--format", format, "--redact"]);
    }
}

#[test]
fn handoff_has_no_secrets_by_default() {
    check(&planted(), &["export", "claude:s1", "--handoff"]);
}

#[test]
fn summaries_have_no_secrets() {
    let world = planted();
    check(&world, &["show", "claude:s1", "--digest"]);
    check(&world, &["--json", "status", "--all"]);
    check(&world, &["--json", "explain", "claude:s1"]);
    check(&world, &["digest", "today"]);
}
