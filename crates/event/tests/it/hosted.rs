//! The fields that a hosted session must give.

use event::payload::check_hosted;
use event::{Event, Raw};

use crate::{draft, golden};

/// The required fields of each kind in a hosted session.
const REQUIRED: &[(&str, &str)] = &[
    ("status.changed", "status reason"),
    ("error", "message"),
    ("turn.started", "agent_id"),
    ("turn.completed", "agent_id"),
    ("step.started", "agent_id"),
    ("step.completed", "agent_id"),
    ("usage.reported", "agent_id models"),
    ("retry", "agent_id scope attempt error"),
    ("user.prompt", "content"),
    ("assistant.thinking", "message_id block"),
    ("assistant.message", "message_id block content"),
    ("context.added", "content"),
    ("external.input", "request_id prompt status"),
    ("handoff", "target_agent_id"),
    ("tool.call", "call_id tool input message_id block"),
    ("tool.started", "call_id tool idempotency_key effect"),
    ("tool.result", "outcome"),
    ("approval.requested", "approval_id tool"),
    ("approval.resolved", "approval_id decision"),
    ("approval.canceled", "approval_id reason"),
    ("wait.started", "wait_id"),
    ("wait.resolved", "wait_id"),
    ("compaction.started", "strategy"),
    ("compaction", "strategy cutoff_seq cutoff_event_id entries"),
    ("snapshot", "strategy"),
    ("epoch.closed", "epoch cause from_seq to_seq day stream segment"),
    ("child.requested", "child_id child_session_id agent_id mode task"),
    ("child.started", "child_id child_session_id agent_id"),
    ("child.progressed", "child_id child_session_id"),
    ("child.blocked", "child_id child_session_id reason"),
    ("child.completed", "child_id child_session_id"),
    ("child.failed", "child_id child_session_id error"),
    ("child.canceled", "child_id child_session_id"),
    ("child.merged", "child_id child_session_id"),
    ("artifact.recorded", "artifact"),
    ("note", "text"),
    ("unknown", "raw"),
    ("rule.added", "rule"),
    ("rule.removed", "rule_id"),
    ("rule.matched", "tool rules"),
];

fn object(members: &[(String, Raw)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn golden_events_pass() {
    for line in golden::V1.lines() {
        check_hosted(&Event::decode(line).unwrap()).unwrap();
    }
}

#[test]
fn only_listed_fields_are_required() {
    for line in golden::V1.lines() {
        let event = Event::decode(line).unwrap();
        let kind = event.kind.as_str();
        let required = REQUIRED.iter().find(|(listed, _)| *listed == kind);
        let required: Vec<&str> =
            required.map(|(_, fields)| fields.split(' ').collect()).unwrap_or_default();
        let members = event.data.members().unwrap_or_default();
        for (field, _) in &members {
            let is_required = required.contains(&field.as_str());
            let mut left: Vec<_> = members.clone();
            left.retain(|(name, _)| name != field);
            let missing = check_hosted(&draft(kind, &object(&left)));
            let mut null = members.clone();
            null.iter_mut().filter(|(name, _)| name == field).for_each(|(_, value)| {
                *value = Raw::null();
            });
            let null = check_hosted(&draft(kind, &object(&null)));
            if is_required {
                assert_eq!(missing.unwrap_err().path, *field, "{kind}");
                assert_eq!(null.unwrap_err().path, *field, "{kind}");
            } else {
                assert_eq!(missing, Ok(()), "{kind} without {field}");
            }
        }
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert!(required.iter().all(|field| names.contains(field)), "{kind}");
    }
}

#[test]
fn required_fields_need_an_object() {
    for data in ["null", "[]", "5", r#""content""#] {
        let error = check_hosted(&draft("user.prompt", data)).unwrap_err();
        assert_eq!((error.path.as_str(), error.why.as_str()), (".", "it is not an object"));
    }
}

#[test]
fn blank_required_fields_are_refused() {
    for blank in [r#""""#, r#"" \t\n""#, r#""\u3000""#] {
        let error = check_hosted(&draft("turn.started", &format!(r#"{{"agent_id":{blank}}}"#)));
        assert_eq!(error.unwrap_err().path, "agent_id");
    }
}

#[test]
fn blankable_fields_are_still_required() {
    for (kind, data) in [
        ("assistant.message", r#"{"message_id":"m","block":0,"content":" "}"#),
        ("tool.call", r#"{"call_id":"c","tool":"t","input":"","message_id":"m","block":0}"#),
        ("unknown", r#"{"raw":""}"#),
        ("tool.result", r#"{"call_id":"","outcome":"ok"}"#),
        ("heartbeat", "null"),
        ("weather.changed", "5"),
    ] {
        assert_eq!(check_hosted(&draft(kind, data)), Ok(()), "{kind}");
    }
}

#[test]
fn misfit_payload_is_refused_with_path() {
    for (kind, data, path) in [
        ("user.prompt", r#"{"content":7}"#, "content"),
        ("tool.result", r#"{"outcome":"ok","duration_ms":"1"}"#, "duration_ms"),
        ("settings.changed", r#"{"tools":"all"}"#, "tools"),
        ("session.started", r#"{"parent":{"session_id":"a","seq":-1}}"#, "parent.seq"),
    ] {
        assert_eq!(check_hosted(&draft(kind, data)).unwrap_err().path, path);
    }
}
