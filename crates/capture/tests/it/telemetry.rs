//! Telemetry: recorded exports, both encodings, and what only they tell.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use capture::{OtlpEncoding, OtlpSignal, Telemetry, TelemetryError, telemetry};
use event::Kind;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What all recorded bodies of an agent say, added up.
#[track_caller]
fn check_recorded(agent: &str, expected: Expect) {
    let folder = format!("tests/fixtures/{agent}/s11_otel/lab/otlp");
    let mut bodies: Vec<_> =
        fs::read_dir(folder).unwrap().map(|body| body.unwrap().path()).collect();
    bodies.sort();
    let mut counted = BTreeMap::new();
    for path in bodies {
        let said = telemetry(signal(&path), OtlpEncoding::Json, &fs::read(&path).unwrap()).unwrap();
        assert_eq!(said.reported, [], "the recording has no failures and no person");
        for (key, count) in said.counted {
            *counted.entry(key).or_insert(0) += count;
        }
    }
    let lines = counted.iter().map(|((by, name), count)| format!("{count} {by} {name}\n"));
    expected.assert_eq(&lines.collect::<String>());
}

fn signal(path: &Path) -> OtlpSignal {
    let name = path.file_name().unwrap().to_str().unwrap();
    match name.split('.').nth(1) {
        Some("logs") => OtlpSignal::Logs,
        Some("traces") => OtlpSignal::Traces,
        _ => OtlpSignal::Metrics,
    }
}

#[test]
fn exports_of_claude_are_understood() {
    check_recorded(
        "claude",
        expect![[r#"
            2 claude-code api_request
            2 claude-code assistant_response
            1 claude-code claude_code.interaction
            6 claude-code claude_code.llm_request
            6 claude-code claude_code.tool
            6 claude-code claude_code.tool.blocked_on_user
            6 claude-code claude_code.tool.execution
            10 claude-code hook_execution_complete
            10 claude-code hook_execution_start
            32 claude-code hook_registered
            1 claude-code managed_settings_resolved
            4 claude-code plugin_loaded
            1 claude-code retention_sweep
            3 claude-code tool_decision
            3 claude-code tool_result
            1 claude-code user_prompt
        "#]],
    );
}

#[test]
fn exports_of_codex_are_understood() {
    check_recorded(
        "codex",
        expect![[r#"
            6 codex_exec codex.api_request
            1 codex_exec codex.conversation_starts
            84 codex_exec codex.sse_event
            2 codex_exec codex.startup_phase
            6 codex_exec codex.tool_decision
            12 codex_exec codex.tool_result
            1 codex_exec codex.turn_ttft
            1 codex_exec codex.user_prompt
            1 codex_exec event otel/src/metrics/client.rs:308
        "#]],
    );
}

#[test]
fn exports_of_gemini_are_understood() {
    check_recorded(
        "gemini",
        expect![[r#"
          1 gemini-cli gemini_cli.api_response
          3 gemini-cli gemini_cli.hook_call
          1 gemini-cli gemini_cli.plan.approval_mode_duration
          1 gemini-cli gen_ai.client.inference.operation.details
          2 gemini-cli llm_call
          1 gemini-cli schedule_tool_calls
          1 gemini-cli tool_call
    "#]],
    );
}

/// One record of Codex.
fn codex(attributes: &[(&str, &str)]) -> Telemetry {
    let record = Record {
        name: "event src/lib.rs:1".to_owned(),
        nanos: 1_794_769_723_308_272_965,
        attributes: attributes
            .iter()
            .map(|(key, value)| (key.to_string(), (*value).into()))
            .collect(),
    };
    let body = as_json(OtlpSignal::Logs, "codex_cli", &[record]);
    telemetry(OtlpSignal::Logs, OtlpEncoding::Json, body.to_string().as_bytes()).unwrap()
}

#[test]
fn a_request_of_codex_that_failed_is_a_retry() {
    let request = |status| {
        codex(&[
            ("event.name", "codex.api_request"),
            ("conversation.id", "01a1"),
            ("http.response.status_code", status),
            ("error.message", if status == "200" { "" } else { "overloaded" }),
            ("attempt", "2"),
        ])
    };
    let [failed] = &request("503").reported[..] else { panic!("one retry") };
    assert_eq!((failed.provider, failed.session.as_str()), ("codex", "01a1"));
    assert_eq!(failed.kind, Kind::Retry);
    let data: Value = failed.data.read().unwrap();
    assert_eq!((&data["attempt"], &data["error"]), (&json!(2), &json!("503: overloaded")));
    assert_eq!(failed.at.to_string(), "2026-11-15T19:08:43.308272965Z");
    let fine = request("200");
    assert_eq!(fine.reported, []);
    let key = ("codex_cli".to_owned(), "codex.api_request".to_owned());
    assert_eq!(fine.counted[&key], 1);
}

#[test]
fn codex_records_only_human_decisions() {
    let decision = |decision, source| {
        codex(&[
            ("event.name", "codex.tool_decision"),
            ("conversation.id", "01a1"),
            ("call_id", "call_7"),
            ("decision", decision),
            ("source", source),
        ])
    };
    for (word, meant) in [
        ("approved", "allow"),
        ("approved_for_session", "allow"),
        ("denied", "deny"),
        ("abort", "deny"),
    ] {
        let [resolved] = &decision(word, "User").reported[..] else { panic!("one decision") };
        assert_eq!(resolved.kind, Kind::ApprovalResolved);
        let data: Value = resolved.data.read().unwrap();
        assert_eq!((&data["approval_id"], &data["decision"]), (&json!("call_7"), &json!(meant)));
    }
    assert_eq!(decision("approved", "Config").reported, []);
}

/// A record or span to be encoded.
#[derive(Clone, Debug)]
struct Record {
    name: String,
    nanos: u64,
    attributes: Vec<(String, Attribute)>,
}

#[derive(Clone, Debug)]
enum Attribute {
    Text(String),
    Truth(bool),
    Number(i64),
    Nothing,
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Attribute {
        Attribute::Text(text.to_owned())
    }
}

fn as_json(signal: OtlpSignal, service: &str, records: &[Record]) -> Value {
    let value = |attribute: &Attribute| match attribute {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Truth(truth) => json!({"boolValue": truth}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
        Attribute::Nothing => json!({}),
    };
    let pair = |(key, found): &(String, Attribute)| json!({"key": key, "value": value(found)});
    let is_span = signal == OtlpSignal::Traces;
    let record = |record: &Record| {
        let attributes: Vec<Value> = record.attributes.iter().map(pair).collect();
        let (name, time) =
            if is_span { ("name", "startTimeUnixNano") } else { ("eventName", "timeUnixNano") };
        json!({name: record.name, time: record.nanos.to_string(), "attributes": attributes})
    };
    let records: Vec<Value> = records.iter().map(record).collect();
    let service = json!([pair(&("service.name".to_owned(), service.into()))]);
    let [all, scopes, each] = match is_span {
        true => ["resourceSpans", "scopeSpans", "spans"],
        false => ["resourceLogs", "scopeLogs", "logRecords"],
    };
    json!({all: [{"resource": {"attributes": service}, scopes: [{each: records}]}]})
}

fn as_protobuf(signal: OtlpSignal, service: &str, records: &[Record]) -> Vec<u8> {
    let [name, time, attributes] =
        if signal == OtlpSignal::Traces { [5, 7, 9] } else { [12, 1, 6] };
    let mut scope = Vec::new();
    for record in records {
        let mut message = bytes(name, record.name.as_bytes());
        message.extend(varint(time << 3 | 1));
        message.extend(record.nanos.to_le_bytes());
        for (key, value) in &record.attributes {
            message.extend(bytes(attributes, &pair(key, value)));
        }
        scope.extend(bytes(2, &message));
    }
    let about = bytes(1, &pair("service.name", &service.into()));
    let mut resource = bytes(1, &about);
    resource.extend(bytes(2, &scope));
    bytes(1, &resource)
}

fn pair(key: &str, value: &Attribute) -> Vec<u8> {
    let mut message = bytes(1, key.as_bytes());
    let value = match value {
        Attribute::Text(text) => bytes(1, text.as_bytes()),
        Attribute::Truth(truth) => [varint(2 << 3), varint(u64::from(*truth))].concat(),
        Attribute::Number(number) => [varint(3 << 3), varint(number.cast_unsigned())].concat(),
        Attribute::Nothing => Vec::new(),
    };
    message.extend(bytes(2, &value));
    message
}

fn bytes(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn any_record() -> impl Strategy<Value = Record> {
    let value = prop_oneof![
        "\\PC{0,12}".prop_map(Attribute::Text),
        any::<bool>().prop_map(Attribute::Truth),
        any::<i64>().prop_map(Attribute::Number),
        Just(Attribute::Nothing),
    ];
    let key = prop_oneof![
        Just("event.name".to_owned()),
        Just("conversation.id".to_owned()),
        Just("http.response.status_code".to_owned()),
        "[a-z.]{1,8}",
    ];
    let name = prop_oneof![Just("codex.api_request".to_owned()), "\\PC{0,12}"];
    let attributes = prop::collection::vec((key, value), 0..6);
    (name, any::<u64>(), attributes).prop_map(|(name, nanos, attributes)| Record {
        name,
        nanos,
        attributes,
    })
}

proptest! {
    #[test]
    fn both_encodings_say_the_same(
        is_span: bool,
        records in prop::collection::vec(any_record(), 0..8),
    ) {
        let signal = if is_span { OtlpSignal::Traces } else { OtlpSignal::Logs };
        let body = as_json(signal, "codex_exec", &records).to_string();
        let in_json = telemetry(signal, OtlpEncoding::Json, body.as_bytes()).unwrap();
        let body = as_protobuf(signal, "codex_exec", &records);
        prop_assert_eq!(telemetry(signal, OtlpEncoding::Protobuf, &body).unwrap(), in_json);
    }

    #[test]
    fn every_body_is_read_or_refused(
        mut body: Vec<u8>,
        records in prop::collection::vec(any_record(), 0..3),
        at: prop::sample::Index,
    ) {
        for signal in [OtlpSignal::Logs, OtlpSignal::Traces, OtlpSignal::Metrics] {
            for encoding in [OtlpEncoding::Json, OtlpEncoding::Protobuf] {
                let _ = telemetry(signal, encoding, &body);
            }
        }
        // A good one that ends too early.
        body = as_protobuf(OtlpSignal::Logs, "codex_exec", &records);
        body.truncate(at.index(body.len()));
        let _ = telemetry(OtlpSignal::Logs, OtlpEncoding::Protobuf, &body);
    }
}

#[test]
fn what_is_no_export_is_refused() {
    let refused = |encoding, body: &[u8]| telemetry(OtlpSignal::Logs, encoding, body).unwrap_err();
    assert!(matches!(refused(OtlpEncoding::Json, b"{"), TelemetryError::Json(_)));
    assert!(matches!(refused(OtlpEncoding::Json, b"[1]"), TelemetryError::Json(_)));
    assert!(matches!(refused(OtlpEncoding::Protobuf, b"{}"), TelemetryError::Protobuf));
    let empty = Record { name: String::new(), nanos: 0, attributes: Vec::new() };
    let body = as_protobuf(OtlpSignal::Logs, "codex_exec", &vec![empty; 10_001]);
    assert!(matches!(refused(OtlpEncoding::Protobuf, &body), TelemetryError::TooMany));
}

#[test]
fn of_a_name_the_beginning_counts() {
    let long = "n".repeat(1_000_000);
    let record = json!({"attributes": [{"key": "event.name", "value": {"stringValue": long}}]});
    let body = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": long}}]},
        "scopeLogs": [{"logRecords": [record]}],
    }]});
    let said =
        telemetry(OtlpSignal::Logs, OtlpEncoding::Json, body.to_string().as_bytes()).unwrap();
    let (service, name) = said.counted.keys().next().unwrap();
    assert_eq!((service.len(), name.len()), (200, 200));
}
