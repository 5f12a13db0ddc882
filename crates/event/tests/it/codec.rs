//! Events as lines of JSON.

use event::{BadEvent, BadId, Draft, Event, Kind, Raw};
use proptest::prelude::*;

use crate::any;

const LINE: &str = concat!(
    r#"{"id":"01K7ABCDEFGHJKMNPQRSTVWX01","session_id":"s","seq":1,"kind":"note","#,
    r#""created_at":"2026-03-01T09:00:00Z","observed_at":"2026-03-01T09:00:07Z","#,
    r#""provider":"claude","provider_session_id":"p","source":"hook","confidence":"low","#,
    r#""turn_id":"t","parent_id":"01K7ABCDEFGHJKMNPQRSTVWX02","text":"x","data":{"text":"x"},"#,
    r#""metadata":{"a":1},"cost":0.5,"later":[1]}"#
);

const MEMBERS: [&str; 17] = [
    "id",
    "session_id",
    "seq",
    "kind",
    "created_at",
    "observed_at",
    "provider",
    "provider_session_id",
    "source",
    "confidence",
    "turn_id",
    "parent_id",
    "text",
    "data",
    "metadata",
    "cost",
    "later",
];

proptest! {
    #[test]
    fn encoding_is_stable(event in any::event()) {
        let line = event.encode();
        prop_assert!(!line.contains(['\n', '\r']));
        let decoded = Event::decode(&line).unwrap();
        prop_assert_eq!(decoded.encode(), line.clone());
        prop_assert!(decoded.has_same_content(&event));
        prop_assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }

    #[test]
    fn head_and_rest_make_the_event(event in any::event()) {
        let rest = event.encode_rest();
        let draft = Draft::decode_rest(event.head(), &rest).unwrap();
        prop_assert_eq!(draft.encode(), event.draft.encode());
        prop_assert_eq!(draft.encode_rest(), rest);
    }

    #[test]
    fn data_is_kept_byte_for_byte(json in any::json()) {
        let line = LINE.replace(r#"{"text":"x"}"#, &json);
        let event = Event::decode(&line).unwrap();
        // Only a line break between tokens may become a blank.
        prop_assert_eq!(event.data.get(), json.replace(['\n', '\r'], " "));
    }
}

#[test]
fn draft_has_no_seq() {
    let draft = Event::decode(LINE).unwrap().draft;
    assert_eq!(draft.encode(), LINE.replace(r#""seq":1,"#, ""));
    assert_eq!(Draft::decode(&draft.encode()), Ok((draft.clone(), None)));
    assert_eq!(Draft::decode(LINE), Ok((draft.clone(), Some(1))));
    assert_eq!(Event::decode(&draft.encode()), Err(BadEvent::Missing("seq")));
}

fn without(member: &str) -> String {
    let members = Raw::parse(LINE).ok().and_then(|line| line.members()).expect("an object");
    let kept: Vec<_> = members
        .iter()
        .filter(|(name, _)| name != member)
        .map(|(name, value)| format!("{name:?}:{value:?}"))
        .collect();
    format!("{{{}}}", kept.join(","))
}

fn with(member: &str, json: &str) -> String {
    let line = without(member);
    format!("{},{member:?}:{json}}}", &line[..line.len() - 1])
}

#[test]
fn members_have_a_fixed_order() {
    assert_eq!(Event::decode(LINE).unwrap().encode(), LINE);
    let mut members = Raw::parse(LINE).unwrap().members().unwrap();
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, MEMBERS);
    members.reverse();
    let shuffled: Vec<_> =
        members.iter().map(|(name, value)| format!(" {name:?} : {value:?} ")).collect();
    let shuffled = format!("{{{}}}", shuffled.join(","));
    assert_eq!(Event::decode(&shuffled).unwrap().encode(), LINE);
}

#[test]
fn duplicate_members_are_refused() {
    for member in MEMBERS {
        let value = Raw::parse(LINE).unwrap().members().unwrap();
        let value = &value.iter().find(|(name, _)| name == member).unwrap().1;
        let twice = format!("{},{member:?}:{value:?}}}", &LINE[..LINE.len() - 1]);
        assert_eq!(Event::decode(&twice), Err(BadEvent::Twice(member.to_owned())), "{member}");
    }
    let escaped = LINE.replacen('{', r#"{"\u0073eq":2,"#, 1);
    assert_eq!(Event::decode(&escaped), Err(BadEvent::Twice("seq".to_owned())));
    let metadata = with("metadata", r#"{"a":1,"b":2,"a":1}"#);
    assert_eq!(Event::decode(&metadata), Err(BadEvent::Twice("metadata.a".to_owned())));
}

#[test]
fn missing_members_are_named() {
    for member in ["session_id", "kind", "created_at"] {
        let missing = Draft::decode(&without(member)).unwrap_err();
        assert!(matches!(missing, BadEvent::Missing(name) if name == member), "{missing}");
        assert_eq!(Draft::decode(&with(member, "null")), Err(missing));
    }
    for line in [without("id"), with("id", "null")] {
        let error = Draft::decode(&line).unwrap_err();
        assert!(matches!(error, BadEvent::Id(BadId::Event { .. })), "{error}");
    }
}

#[test]
fn optional_members_have_defaults() {
    let line = concat!(
        r#"{"id":"01K7ABCDEFGHJKMNPQRSTVWX01","session_id":"s","kind":"note","#,
        r#""created_at":"2026-03-01T09:00:00Z"}"#
    );
    let (draft, seq) = Draft::decode(line).unwrap();
    assert_eq!(seq, None);
    assert_eq!(
        draft.encode(),
        concat!(
            r#"{"id":"01K7ABCDEFGHJKMNPQRSTVWX01","session_id":"s","kind":"note","#,
            r#""created_at":"2026-03-01T09:00:00Z","observed_at":"2026-03-01T09:00:00Z","#,
            r#""provider":"hansard","source":"native","confidence":"high","data":null}"#
        )
    );
}

#[test]
fn wrong_member_types_are_named() {
    for (member, json) in [
        ("id", "5"),
        ("session_id", "5"),
        ("session_id", r#""half \ud800""#),
        ("seq", "-1"),
        ("seq", "1.5"),
        ("seq", "18446744073709551616"),
        ("kind", "{}"),
        ("created_at", r#""yesterday""#),
        ("observed_at", "0"),
        ("provider", "[]"),
        ("source", "1"),
        ("turn_id", "7"),
        ("parent_id", "7"),
        ("text", "{}"),
        ("metadata", "[1]"),
        ("cost", r#""0.5""#),
        ("cost", "1e300"),
    ] {
        let error = Draft::decode(&with(member, json)).unwrap_err();
        assert!(matches!(error, BadEvent::Field { field, .. } if field == member), "{error}");
    }
}

#[test]
fn invalid_ids_give_id_errors() {
    for (member, json) in [
        ("id", r#""""#),
        ("id", r#""01K7ABCDEFGHJKMNPQRSTVWXU1""#),
        ("id", r#""00000000000000000000000000""#),
        ("parent_id", r#""x""#),
        ("session_id", r#""""#),
        ("session_id", r#"" \t ""#),
        ("session_id", r#""a\u0000b""#),
    ] {
        let error = Draft::decode(&with(member, json)).unwrap_err();
        assert!(matches!(error, BadEvent::Id(_)), "{member} {json}: {error}");
    }
}

#[test]
fn non_objects_are_refused() {
    for line in ["", " ", "null", "5", "[]", r#""x""#, "{", r#"{"id":}"#, "{}{}", "{'a':1}"] {
        assert!(matches!(Draft::decode(line), Err(BadEvent::Json(_))), "{line}");
    }
}

#[test]
fn errors_quote_a_bounded_excerpt() {
    let long = "x".repeat(1 << 20);
    for line in [
        with("id", &format!("{long:?}")),
        with("session_id", &format!("{long:?}")),
        with("seq", &format!("{long:?}")),
        with("created_at", &format!("{long:?}")),
        with("cost", &format!("{long:?}")),
        with(&long, &format!("1,{long:?}:2")),
    ] {
        let message = Draft::decode(&line).unwrap_err().to_string();
        assert!(message.len() < 1_000, "{} bytes", message.len());
    }
}

#[test]
fn empty_text_counts_as_absent() {
    for member in ["turn_id", "parent_id", "text", "provider_session_id"] {
        let encoded = Event::decode(&with(member, r#""""#)).unwrap().encode();
        assert_eq!(encoded, Event::decode(&without(member)).unwrap().encode(), "{member}");
        assert!(!encoded.contains(member) || member == "text", "{encoded}");
    }
    let built = crate::draft("note", "null");
    let mut empty = built.clone();
    (empty.text, empty.turn_id) = (Some(String::new()), Some(String::new()));
    assert_eq!(empty.encode(), built.encode());
    assert!(empty.has_same_content(&built));
}

#[test]
fn numbers_keep_their_digits() {
    for number in [
        "9007199254740993",
        "18446744073709551617",
        "-0",
        "-0.0",
        "1.0",
        "2.50",
        "1E+2",
        "0.1000000000000000000000000000000000000001",
        "1e999",
    ] {
        let line = with("data", &format!(r#"{{"n":{number}}}"#));
        let event = Event::decode(&line).unwrap();
        assert_eq!(event.data.get(), format!(r#"{{"n":{number}}}"#));
        let line = with("metadata", &format!(r#"{{"n":{number}}}"#));
        let encoded = Event::decode(&line).unwrap().encode();
        assert!(encoded.contains(&format!(r#""metadata":{{"n":{number}}}"#)), "{encoded}");
    }
}

#[test]
fn lone_surrogates_and_nul_are_replaced_in_text() {
    let hostile = r#""cut \ud83d, \udc00\ud800, a\u0000b, whole \ud83e\udd80""#;
    let line = with("data", hostile);
    let event = Event::decode(&line).unwrap();
    assert_eq!(event.data.get(), hostile);
    assert!(event.encode().contains(hostile));

    let event = Event::decode(&with("text", hostile)).unwrap();
    let shown = "cut \u{FFFD}, \u{FFFD}\u{FFFD}, a\u{FFFD}b, whole 🦀";
    assert_eq!(event.text.as_deref(), Some(shown));
    assert_eq!(Event::decode(&event.encode()).unwrap(), event);

    let mut built = crate::draft("note", "null");
    built.text = Some("a\0b".to_owned());
    let (read, _) = Draft::decode(&built.encode()).unwrap();
    assert_eq!(read.text.as_deref(), Some("a\u{FFFD}b"));
    assert!(read.has_same_content(&built), "a retry of what was recorded");
}

#[test]
fn unknown_names_survive() {
    let line = with("kind", r#""weather.changed""#);
    let event = Event::decode(&line).unwrap();
    assert_eq!(event.kind, Kind::Other("weather.changed".into()));
    let line = line.replace(r#""hook""#, r#""satellite""#).replace(r#""low""#, r#""blind""#);
    let event = Event::decode(&line).unwrap();
    assert_eq!((event.source.as_str(), event.confidence.as_str()), ("satellite", "blind"));
    assert_eq!(Event::decode(&event.encode()).unwrap(), event);
}

#[test]
fn metadata_is_sorted_by_key() {
    let line = with("metadata", r#"{"seq": 2.0,"kind":"x","a":{"z":1, "b":2}}"#);
    let event = Event::decode(&line).unwrap();
    let metadata = r#""metadata":{"a":{"z":1, "b":2},"kind":"x","seq":2.0}"#;
    assert!(event.encode().contains(metadata), "{}", event.encode());
    assert!(!Event::decode(&with("metadata", "{}")).unwrap().encode().contains("metadata"));
}

#[test]
fn zero_cost_is_not_unknown() {
    assert_eq!(Event::decode(&without("cost")).unwrap().cost, None);
    let free = Event::decode(&with("cost", "0")).unwrap();
    assert_eq!(free.cost, Some(event::Cost::ZERO));
    assert!(free.encode().contains(r#""cost":0,"#), "{}", free.encode());
}

#[test]
fn encoded_event_is_one_line() {
    let line = LINE.replace(',', ",\r\n").replace(r#"[1]"#, "[\n1\r]");
    let encoded = Event::decode(&line).unwrap().encode();
    assert_eq!(encoded, LINE.replace("[1]", "[ 1 ]"));
}

#[test]
fn same_content_ignores_the_observation() {
    let event = Event::decode(LINE).unwrap();
    for member in ["observed_at", "source", "confidence"] {
        let other = Draft::decode(&without(member)).unwrap().0;
        assert!(event.has_same_content(&other) && event.draft != other, "{member}");
    }
    for (member, json) in [
        ("id", r#""01K7ABCDEFGHJKMNPQRSTVWX09""#),
        ("session_id", r#""other""#),
        ("kind", r#""error""#),
        ("created_at", r#""2026-03-01T09:00:01Z""#),
        ("provider", r#""codex""#),
        ("provider_session_id", "null"),
        ("turn_id", "null"),
        ("parent_id", "null"),
        ("text", r#""y""#),
        ("data", r#"{"text":"y"}"#),
        ("metadata", r#"{"a":2}"#),
        ("cost", "null"),
        ("later", "[2]"),
    ] {
        let other = Draft::decode(&with(member, json)).unwrap().0;
        assert!(!event.has_same_content(&other), "{member}");
    }
}

#[test]
fn binary_data_is_base64() {
    for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", &[0xFF, 0x00, 0xFE, 0x80, 0x3E]] {
        assert_eq!(Raw::from_bytes(bytes).bytes().as_deref(), Some(bytes));
    }
    let raw = Raw::from_bytes(b"\xFFtail");
    assert_eq!(raw.get(), r#"{"encoding":"base64","bytes":"/3RhaWw="}"#);
    for other in [
        r#""text""#,
        r#"{"encoding":"hex","bytes":"00"}"#,
        r#"{"encoding":"base64","bytes":"a"}"#,
        r#"{"encoding":"base64","bytes":"a==="}"#,
        r#"{"encoding":"base64","bytes":"a*=="}"#,
        "null",
    ] {
        assert_eq!(Raw::parse(other).unwrap().bytes(), None, "{other}");
    }
}
