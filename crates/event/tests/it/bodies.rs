//! The artifacts that an event needs.

use crate::draft;

fn bodies(kind: &str, data: &str) -> String {
    draft(kind, data).artifact_ids().join(" ")
}

#[test]
fn named_artifacts_are_listed() {
    for (kind, data, expected) in [
        ("artifact.recorded", r#"{"artifact":{"id":"a","kind":"patch"},"child_id":"c"}"#, "a"),
        (
            "user.prompt",
            r#"{"content":[{"type":"image","artifact":"a"},{"type":"file","artifact":"b"}]}"#,
            "a b",
        ),
        ("tool.result", r#"{"outcome":"ok","parts":[{"type":"image","artifact":"a"}]}"#, "a"),
        ("compaction", r#"{"entries":[{"seq":1,"shown":"cut","artifact":"a"}]}"#, "a"),
        ("unknown", r#"{"raw":{"deep":[[{"artifact":"a\u002fb"}]]}}"#, "a/b"),
        ("note", r#"{"text":"artifact","about":{"artifact":7,"x":"y"}}"#, ""),
        ("note", r#"{"text":"\"artifact\"","about":["artifact","y"]}"#, ""),
        ("heartbeat", "null", ""),
    ] {
        assert_eq!(bodies(kind, data), expected, "{kind} {data}");
    }
}

#[test]
fn any_depth_is_read() {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let data = format!(r#"{open}{{"artifact":"a"}}{close}"#);
    assert_eq!(bodies("weather.changed", &data), "a");
}
