//! The keys of events.

use event::{Draft, KeyFamily, Kind};

use crate::{draft, golden};

fn keys(draft: &Draft) -> String {
    let keys: Vec<_> =
        draft.keys().iter().map(|key| format!("{}={}", key.family.letter(), key.name)).collect();
    keys.join(" ")
}

#[test]
fn linked_events_share_a_key() {
    let execution = "x=s/1:01K7ABCDEFGHJKMNPQRSTVWX0B:bash:0:ab12";
    for kind in Kind::KNOWN {
        let expected = match kind.as_str() {
            "tool.call" | "tool.started" | "tool.result" => format!("c=call-1 {execution}"),
            "tool.delta" => "c=call-1".to_owned(),
            "approval.requested" | "approval.resolved" => "a=ap-1".to_owned(),
            "approval.canceled" => "a=ap-2".to_owned(),
            "wait.started" | "wait.resolved" => "w=w-1".to_owned(),
            "external.input" => "q=q-1".to_owned(),
            "artifact.recorded" => "h=child-1".to_owned(),
            name if name.starts_with("child.") => "h=child-1".to_owned(),
            _ => String::new(),
        };
        assert_eq!(keys(&golden::event(kind)), expected, "{kind}");
    }
}

#[test]
fn blank_names_give_no_key() {
    for data in [
        "null",
        "[]",
        "{}",
        r#"{"call_id":null}"#,
        r#"{"call_id":7}"#,
        r#"{"call_id":""}"#,
        r#"{"call_id":" \t"}"#,
        r#"{"input":{"call_id":"inner"}}"#,
    ] {
        assert_eq!(keys(&draft("tool.call", data)), "", "{data}");
    }
}

#[test]
fn misfit_payload_still_has_keys() {
    let data = r#"{"\ud800":1,"block":"x","call_id":"a\u002fb \ud800","tool":"t"}"#;
    let call = draft("tool.call", data);
    assert_eq!(keys(&call), "c=a/b \u{FFFD}");
    assert_eq!(call.tool().as_deref(), Some("t"));
}

#[test]
fn tool_events_name_their_tool() {
    for kind in Kind::KNOWN {
        let expected = match kind.as_str() {
            "tool.call" | "tool.started" | "tool.delta" | "tool.result" => Some("bash"),
            "approval.requested" | "approval.canceled" => Some("bash"),
            _ => None,
        };
        assert_eq!(golden::event(kind).tool().as_deref(), expected, "{kind}");
    }
    assert_eq!(draft("tool.call", r#"{"tool":5}"#).tool(), None);
}

#[test]
fn key_families_have_distinct_letters() {
    use KeyFamily::{Approval, Call, Child, Execution, Question, Wait};
    let letters: String =
        [Call, Execution, Approval, Wait, Question, Child].map(KeyFamily::letter).iter().collect();
    assert_eq!(letters, "cxawqh");
}
