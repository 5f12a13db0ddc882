//! Generated events: every field, hostile strings, numbers that no float can hold.

use event::{
    Confidence, Cost, Draft, Event, EventId, Kind, Metadata, Raw, SessionId, Source, Time,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Any event that a program can build or read.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let head = (id(), session_id(), 1..=u64::MAX, kind(), time(), time());
    let origin = (text(), optional_text(), source(), confidence());
    let body = (optional_text(), prop::option::of(id()), optional_text(), raw());
    let rest = (metadata(), prop::option::of(cost()), extra());
    (head, origin, body, rest).prop_map(|(head, origin, body, rest)| {
        let (id, session_id, seq, kind, created_at, observed_at) = head;
        let (provider, provider_session_id, source, confidence) = origin;
        let (turn_id, parent_id, text, data) = body;
        let (metadata, cost, extra) = rest;
        Draft {
            id,
            session_id,
            kind,
            created_at,
            observed_at,
            provider,
            provider_session_id,
            source,
            confidence,
            turn_id,
            parent_id,
            text,
            data,
            metadata,
            cost,
            extra,
        }
        .with_seq(seq)
    })
}

pub(crate) fn id() -> impl Strategy<Value = EventId> {
    any::<[u8; 16]>().prop_filter_map("all zero", |bytes| EventId::from_bytes(bytes).ok())
}

/// Any instant, recent ones more often than others.
pub(crate) fn time() -> impl Strategy<Value = Time> {
    let all = (Time::MIN.nanos()..=Time::MAX.nanos()).prop_map(Time::from_nanos);
    let usual = (0..4_102_444_800_000i64).prop_map(Time::from_millis);
    let fine = (-2_000_000_000_000i128..2_000_000_000_000).prop_map(Time::from_nanos);
    prop_oneof![all, usual, fine]
}

pub(crate) fn cost() -> impl Strategy<Value = Cost> {
    any::<i64>().prop_map(Cost::from_nanos)
}

/// JSON in any spelling, with white space and unusual escapes.
pub(crate) fn raw() -> impl Strategy<Value = Raw> {
    json().prop_map(|json| Raw::parse(json).expect("generated JSON is valid"))
}

pub(crate) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        number(),
        json_string(),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let member = (json_string(), blank(), inner.clone(), blank())
            .prop_map(|(name, before, value, after)| format!("{name}{before}:{value}{after}"));
        let element = (blank(), inner).prop_map(|(before, value)| format!("{before}{value}"));
        prop_oneof![
            vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(","))),
            vec(element, 0..6).prop_map(|elements| format!("[{}]", elements.join(","))),
        ]
    })
}

/// A JSON string of pieces that are easily lost.
pub(crate) fn json_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-z ]{0,8}",
        1 => r#"\\(["\\/bfnrt]|u0000|u001[bB]|u00e9|ufffe)"#,
        1 => r"\\u[dD][89aAbB][0-9a-f]{2}\\u[dD][c-f][0-9a-f]{2}",
        1 => r"\\u[dD][89a-fA-F][0-9a-f]{2}",
        1 => "[é用🦀\u{2028}\u{202e}\u{7f}]{1,3}",
    ];
    vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number() -> impl Strategy<Value = String> {
    let zeros = |text: String| {
        // JSON has no leading zeros.
        let digits = text.trim_start_matches('0');
        if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
    };
    let sign = prop::sample::select(vec!["", "-"]);
    let whole = "[0-9]{1,40}".prop_map(zeros);
    let fraction = prop::option::of(r"\.[0-9]{1,40}").prop_map(Option::unwrap_or_default);
    let exponent = prop::option::of("[eE][+-]?[0-9]{1,4}").prop_map(Option::unwrap_or_default);
    (sign, whole, fraction, exponent)
        .prop_map(|(sign, whole, fraction, exponent)| format!("{sign}{whole}{fraction}{exponent}"))
}

fn blank() -> impl Strategy<Value = String> {
    "[ \t\n\r]{0,2}"
}

/// Text such as a keyboard, a terminal or a broken program yields.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}",
        any::<String>(),
        "[\u{0}\n\r\t\"\\\\/é用🦀\u{2028}\u{feff}]{1,6}",
    ]
}

fn optional_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(text())
}

fn session_id() -> impl Strategy<Value = SessionId> {
    let names = prop::sample::select(vec!["s", "../x", "a/b", ".jsonl", "CON", "用户 1", "\"\\"]);
    prop_oneof![
        names.prop_map(|name| SessionId::new(name).expect("a legal id")),
        any::<String>().prop_filter_map("not a session id", |text| SessionId::new(text).ok()),
    ]
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        prop::sample::select(Kind::KNOWN),
        text().prop_map(|name| Kind::from(name.as_str())),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let names = vec!["transcript", "hook", "telemetry", "pty", "input", "native", "satellite", ""];
    prop::sample::select(names).prop_map(Source::from)
}

fn confidence() -> impl Strategy<Value = Confidence> {
    prop::sample::select(vec!["high", "medium", "low", "blind"]).prop_map(Confidence::from)
}

fn metadata() -> impl Strategy<Value = Metadata> {
    btree_map(text(), raw(), 0..4)
}

fn extra() -> impl Strategy<Value = Vec<(String, Raw)>> {
    btree_map("x[a-z]{0,5}|[é\"\\\\\u{0}]{1,3}", raw(), 0..4)
        .prop_map(|members| members.into_iter().rev().collect())
}
