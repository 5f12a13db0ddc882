//! The ids of events and sessions.

use event::{BadId, EventId, SessionId, Time};
use proptest::prelude::*;

use crate::any;

const LARGEST: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

proptest! {
    #[test]
    fn id_survives_its_text(id in any::id()) {
        let text = id.to_string();
        prop_assert_eq!(text.len(), 26);
        prop_assert_eq!(text.parse(), Ok(id));
        prop_assert_eq!(text.to_lowercase().parse(), Ok(id));
        prop_assert_eq!(EventId::from_bytes(*id.bytes()), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<EventId>(&json).unwrap(), id);
    }

    #[test]
    fn ids_and_texts_sort_alike(one in any::id(), other in any::id()) {
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
    }

    #[test]
    fn id_holds_time_and_tail(at in any::time(), tail in any::<[u8; 10]>()) {
        let id = EventId::new(at, tail);
        prop_assert_eq!(EventId::from_bytes(*id.bytes()), Ok(id));
        prop_assert_eq!(id.with_tail([1; 10]).with_tail(id.tail()), id);
        prop_assert_eq!(id.with_tail(tail), id);
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = text.parse::<EventId>();
        let _ = text.parse::<SessionId>();
    }
}

#[test]
fn invalid_event_ids_are_refused() {
    for text in [
        "",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZ",
        "07ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "00000000000000000000000000",
        "0000000000000000000000000I",
        "0000000000000000000000000l",
        "0000000000000000000000000O",
        "0000000000000000000000000U",
        "0000000000000000000000000-",
        " 7ZZZZZZZZZZZZZZZZZZZZZZZZ",
        "7ZZZZZZZZZZZZZZZZZZZZZZZé",
    ] {
        let error = text.parse::<EventId>().unwrap_err();
        assert!(matches!(&error, BadId::Event { id, .. } if id == text), "{error}");
    }
    assert!(EventId::from_bytes([0; 16]).is_err());
}

#[test]
fn extreme_ids_are_valid() {
    let largest: EventId = LARGEST.parse().unwrap();
    assert_eq!(largest.bytes(), &[0xFF; 16]);
    assert_eq!(largest.to_string(), LARGEST);
    let smallest: EventId = "00000000000000000000000001".parse().unwrap();
    assert!(smallest < largest);
}

#[test]
fn id_is_never_all_zero() {
    let id = EventId::new(Time::MIN, [0; 10]);
    assert_eq!(id.to_string(), "00000000000000000000000001");
    assert_eq!(id.with_tail([0; 10]), id);
}

#[test]
fn derived_ids_are_stable() {
    let at: Time = "2026-03-01T09:00:00.123456789Z".parse().unwrap();
    for (at, session, identity, expected) in [
        (at, "0b5e", "msg-1:0", "01KJMA0FQV34CW9JZQNTTVDPDD"),
        (at, "0b5e", "msg-1:1", "01KJMA0FQV7QZ0YCRSGW73GE82"),
        (at, "0b5emsg-1", ":0", "01KJMA0FQV9RMHGXYEHQMBB26B"),
        (Time::EPOCH, "0b5e", "msg-1:0", "000000000034CW9JZQNTTVDPDD"),
        (Time::MIN, "0b5e", "msg-1:0", "000000000034CW9JZQNTTVDPDD"),
        (Time::MAX, "0b5e", "msg-1:0", "7ZZZZZZZZZ34CW9JZQNTTVDPDD"),
    ] {
        let id = EventId::derived(at, "claude", session, identity.as_bytes());
        assert_eq!(id.to_string(), expected, "{session} {identity}");
    }
}

#[test]
fn tail_is_independent_of_time() {
    let one = EventId::derived(Time::from_millis(1), "codex", "s", b"7");
    let other = EventId::derived(Time::from_millis(2), "codex", "s", b"7");
    assert_ne!(one, other);
    assert_eq!(one.tail(), other.tail());
}

#[test]
fn session_ids_allow_any_printable_text() {
    let long = "x".repeat(SessionId::LEN_MAX);
    for name in ["s", "ancestry", ".jsonl", "..", "../x", "a/b", "CON", "a b", "用户", &long] {
        assert_eq!(SessionId::new(name).unwrap().as_str(), name);
    }
}

#[test]
fn invalid_session_ids_are_refused() {
    let long = "x".repeat(SessionId::LEN_MAX + 1);
    let wide = "é".repeat(128);
    for name in ["", " ", "\u{3000}", "a\nb", "\u{0}", "a\u{7f}", "a\u{85}b", &long, &wide] {
        let error = SessionId::new(name).unwrap_err();
        assert!(matches!(error, BadId::Session { .. }), "{error}");
    }
}
