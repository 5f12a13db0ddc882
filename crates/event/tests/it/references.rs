//! References between events.

use event::{AMENDS, Draft, EventId, Raw};
use proptest::prelude::*;

use crate::{any, draft};

const OLD: &str = "01K7ABCDEFGHJKMNPQRSTVWX01";
const NEW: &str = "01K7ABCDEFGHJKMNPQRSTVWX02";
const OTHER: &str = "01K7ABCDEFGHJKMNPQRSTVWX03";

/// Every place in a payload that names an event.
const PLACES: &[(&str, &str)] = &[
    ("compaction", r#"{"cutoff_event_id":ID}"#),
    ("compaction", r#"{"entries":[{"seq":1},{"seq":2,"event_id":ID},{"event_id":ID}]}"#),
    ("compaction", r#"{"messages":[{"event_id":ID}]}"#),
    ("snapshot", r#"{"cutoff_event_id":ID,"entries":[{"event_id":ID}]}"#),
    ("context.added", r#"{"covers":{"from":ID,"to":ID}}"#),
    ("child.requested", r#"{"parent_event_id":ID}"#),
    ("artifact.recorded", r#"{"artifact":{"producer_event_id":ID}}"#),
];

fn id(text: &str) -> EventId {
    text.parse().expect("an id")
}

fn translated(mut draft: Draft) -> Draft {
    draft.translate_references(&|named| (named == id(OLD)).then(|| id(NEW)));
    draft
}

fn quoted(data: &str, id: &str) -> String {
    data.replace("ID", &format!("{id:?}"))
}

#[test]
fn every_listed_field_is_translated() {
    for (kind, data) in PLACES {
        let translated = translated(draft(kind, &quoted(data, OLD)));
        assert_eq!(translated.data.get(), quoted(data, NEW), "{kind}");
    }
}

#[test]
fn untranslated_ids_stay() {
    for (kind, data) in PLACES {
        let data = quoted(data, OTHER);
        assert_eq!(translated(draft(kind, &data)).data.get(), data, "{kind}");
    }
}

#[test]
fn parent_and_amended_id_are_translated() {
    let mut draft = draft("note", "null");
    draft.parent_id = Some(id(OLD));
    draft.metadata.insert(AMENDS.to_owned(), Raw::from_value(&id(OLD)).unwrap());
    draft.metadata.insert("said_of".to_owned(), Raw::from_value(&id(OLD)).unwrap());
    let translated = translated(draft);
    assert_eq!(translated.parent_id, Some(id(NEW)));
    assert_eq!(translated.amends(), Some(id(NEW)));
    assert_eq!(translated.metadata["said_of"], Raw::from_value(&id(OLD)).unwrap());
}

#[test]
fn ids_outside_the_list_stay() {
    for (kind, data) in [
        ("user.prompt", r#"{"content":ID}"#),
        ("compaction", r#"{"event_id":ID,"entries":[ID,[{"event_id":ID}]],"base":{"x":ID}}"#),
        ("session.started", r#"{"parent":{"session_id":"s","seq":1,"event_id":ID}}"#),
        ("artifact.recorded", r#"{"producer_event_id":ID,"artifact":{"id":ID}}"#),
        ("note", r#"{"about":{"event_id":ID}}"#),
        ("weather.changed", r#"{"cutoff_event_id":ID}"#),
        ("child.started", r#"{"parent_event_id":ID}"#),
    ] {
        let data = quoted(data, OLD);
        assert_eq!(translated(draft(kind, &data)).data.get(), data, "{kind}");
    }
}

#[test]
fn escaped_ids_are_translated() {
    let lower = quoted(r#"{"cutoff_event_id":ID}"#, &OLD.to_lowercase());
    assert_eq!(translated(draft("snapshot", &lower)).data.get(), quoted(PLACES[0].1, NEW));
    let escaped = lower.replace("\"01k", r#""\u00301k"#).replace("cutoff", r"\u0063utoff");
    let expected = quoted(PLACES[0].1, NEW).replace("cutoff", r"\u0063utoff");
    assert_eq!(translated(draft("snapshot", &escaped)).data.get(), expected);
}

#[test]
fn other_values_are_left_unchanged() {
    for data in [
        "null",
        "[]",
        r#"{"cutoff_event_id":5,"entries":{"event_id":"x"}}"#,
        r#"{"cutoff_event_id":"","entries":[null,5]}"#,
        r#"{"covers":{"from":3,"to":7}}"#,
    ] {
        for kind in ["compaction", "context.added"] {
            assert_eq!(translated(draft(kind, data)).data.get(), data, "{kind}");
        }
    }
}

#[test]
fn untranslated_payload_keeps_its_bytes() {
    let data = format!(r#"{{ "cutoff_event_id" : "{}" ,"x":1.0}}"#, OTHER.to_lowercase());
    assert_eq!(translated(draft("snapshot", &data)).data.get(), data);
}

proptest! {
    #[test]
    fn translation_changes_only_the_ids(before in any::raw(), name in any::json_string(), after in any::raw()) {
        let data = |id: &str| {
            format!(
                r#"{{"x\u0062": {before:?},"entries":[{{{name}:{after:?} , "event_id" :"{id}"}},{before:?}],{name}:1e999 ,"cutoff_event_id":"{id}","z":{after:?}}}"#
            )
        };
        let translated = translated(draft("compaction", &data(OLD)));
        prop_assert_eq!(translated.data.get(), data(NEW));
    }
}
