//! The texts of an event that search indexes.

use event::{Event, Kind};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::{any, draft, golden};

#[track_caller]
fn check(kind: &str, data: &str, expected: Expect) {
    expected.assert_eq(&draft(kind, data).search_texts().join(" | "));
}

#[test]
fn golden_events_have_search_texts() {
    let mut words = String::new();
    for line in golden::V1.lines() {
        let event = Event::decode(line).unwrap();
        words.push_str(&format!("{}: {}\n", event.kind, event.search_texts().join(" | ")));
    }
    expect_test::expect_file!["../golden/words.txt"].assert_eq(&words);
}

#[test]
fn names_and_tags_are_not_searched() {
    let parts = r#"{"content":[{"type":"text","text":"said"},{"type":"image","mime_type":"image/png","artifact":"shot"}],"role":"user"}"#;
    check("user.prompt", parts, expect!["said"]);
    check("assistant.message", parts, expect!["said"]);
    check("context.added", parts, expect!["said"]);
    check(
        "tool.result",
        r#"{"outcome":"ok","output":[{"type":"text","text":"printed"}],"parts":[{"type":"image","artifact":"a"}]}"#,
        expect!["printed"],
    );
}

#[test]
fn tool_arguments_are_searched() {
    check(
        "tool.call",
        r#"{"tool":"grep","input":{"type":"rust","pattern":"fn main","deep":[{"path":"a.rs"},7,null]},"call_id":"c"}"#,
        expect!["grep | rust | fn main | a.rs"],
    );
    check("tool.call", r#"{"tool":"sh","input":"ls -la"}"#, expect!["sh | ls -la"]);
}

#[test]
fn unknown_kinds_are_searched() {
    check(
        "weather.changed",
        r#"{"sky":"grey","type":"tag","more":{"wind":["north",{"gust":"strong"}]}}"#,
        expect!["grey | north | strong"],
    );
    check("weather.changed", r#""bare""#, expect!["bare"]);
    check("unknown", r#"{"raw":{"type":"new","text":"kept"}}"#, expect!["kept"]);
}

#[test]
fn base64_is_not_searched() {
    check(
        "tool.result",
        r#"{"output":{"encoding":"base64","bytes":"/3RhaWw="},"error":"not text"}"#,
        expect!["not text"],
    );
    check(
        "unknown",
        r#"{"raw":{"source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"},"data":"said"}}"#,
        expect!["said"],
    );
}

#[test]
fn misfit_payload_is_still_searched() {
    check("user.prompt", r#"{"content":{"text":"odd"},"\ud800":1}"#, expect!["odd"]);
    check("child.requested", r#"{"task":"cut \ud83d, a\u0000b"}"#, expect!["cut �, a�b"]);
    check("context.added", r#"{"content":[{"text":"no type"}]}"#, expect!["no type"]);
}

#[test]
fn envelope_text_comes_first_once() {
    let mut prompt = draft("user.prompt", r#"{"content":"a long question"}"#);
    prompt.text = Some("long".to_owned());
    assert_eq!(prompt.search_texts(), ["a long question"]);
    prompt.text = Some("a long…".to_owned());
    assert_eq!(prompt.search_texts(), ["a long question"]);
    prompt.text = Some("short".to_owned());
    assert_eq!(prompt.search_texts(), ["short", "a long question"]);
    prompt.text = Some(" \n".to_owned());
    assert_eq!(prompt.search_texts(), ["a long question"]);
}

#[test]
fn compactions_and_snapshots_are_not_searched() {
    for kind in Kind::KNOWN {
        let is_repetition = kind.is_live() || matches!(kind, Kind::Compaction | Kind::Snapshot);
        assert_eq!(golden::event(kind).search_texts().is_empty(), is_repetition, "{kind}");
    }
}

#[test]
fn any_depth_is_read() {
    let deep = format!("{}\"found\"{}", "[".repeat(200_000), "]".repeat(200_000));
    let event = draft("weather.changed", &deep);
    assert_eq!(event.search_texts(), ["found"]);
    assert_eq!(event.data.depth(), 200_000);
    assert!(event.data.is_deeper_than(199_999) && !event.data.is_deeper_than(200_000));
}

#[test]
fn brackets_in_strings_are_ignored() {
    let data = draft("weather.changed", r#"{"said":"[[[[ \" [[["}"#).data;
    assert!(data.is_deeper_than(0) && !data.is_deeper_than(1));
}

/// The same JSON with every member renamed to a unique word.
fn renamed(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            let old = std::mem::take(members);
            for (place, (_, mut inner)) in old.into_iter().enumerate() {
                renamed(&mut inner);
                members.insert(format!("unsaid{place}"), inner);
            }
        }
        serde_json::Value::Array(elements) => elements.iter_mut().for_each(renamed),
        _ => {}
    }
}

proptest! {
    #[test]
    fn member_names_are_never_searched(json in any::json()) {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&json) else {
            // `serde_json` refuses some numbers and lone surrogates.
            return Ok(());
        };
        renamed(&mut value);
        let event = draft("weather.changed", &value.to_string());
        prop_assert!(event.search_texts().iter().all(|text| !text.contains("unsaid")));
    }
}
