//! The events a newcomer imports first are what the program itself would have written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use event::payload::check_hosted;
use event::{Event, SessionId};

use crate::tree::root;

fn sample() -> Vec<(String, Event)> {
    let text = fs::read_to_string(root().join("docs/sample.ndjson")).expect("there is a sample");
    let decode = |line: &str| Event::decode(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(|line| (line.to_owned(), decode(line))).collect()
}

#[test]
fn every_line_is_written_as_we_write() {
    for (line, event) in sample() {
        assert_eq!(event.encode(), line);
    }
}

#[test]
fn every_payload_has_its_shape() {
    for (_, event) in sample() {
        check_hosted(&event).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn numbers_have_no_gaps_and_ids_no_twins() {
    let mut tails: BTreeMap<SessionId, u64> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (_, event) in sample() {
        let tail = tails.entry(event.session_id.clone()).or_default();
        *tail += 1;
        assert_eq!(event.seq, *tail, "{}", event.id);
        assert!(ids.insert(event.id), "{} stands there twice", event.id);
    }
    assert_eq!(tails.len(), 3);
}

#[test]
fn a_compaction_names_an_event_of_its_session() {
    let events: Vec<Event> = sample().into_iter().map(|(_, event)| event).collect();
    let mut compactions = 0;
    for event in &events {
        let compaction = event.payload::<event::payload::Compaction>().expect("its shape is right");
        let Some(compaction) = compaction else { continue };
        compactions += 1;
        let cutoff = events.iter().find(|other| {
            other.session_id == event.session_id && other.seq == compaction.cutoff_seq
        });
        assert_eq!(cutoff.map(|cutoff| cutoff.id), compaction.cutoff_event_id);
    }
    assert_eq!(compactions, 1);
}
