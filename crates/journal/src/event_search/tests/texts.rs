//! Which texts of which events are searched.

use event::payload::{
    Compaction, Content, ContextAdded, Outcome, SavedEntry, ToolCall, ToolResult,
};
use event::{Kind, Raw};

use super::log::Log;
use crate::event_search::{Query, SearchPage};

#[test]
fn phrase_stays_inside_one_text() {
    let mut log = Log::new();
    let input = Raw::parse(r#"{"first": "alpha", "second": "beta"}"#).unwrap();
    log.add("s", &ToolCall { input, ..ToolCall::default() });
    log.index_all();
    assert_eq!(log.search(&Query::new("\"alpha beta\"")).hits.len(), 0);
    assert_eq!(log.search(&Query::new("alpha beta")).hits.len(), 1);
}

#[test]
fn names_of_fields_are_not_searched() {
    let mut log = Log::new();
    log.prompt("s", "hello");
    log.add(
        "s",
        &ToolCall {
            tool: "bash".to_owned(),
            input: Raw::parse(r#"{"command": "cargo build"}"#).unwrap(),
            ..ToolCall::default()
        },
    );
    log.index_all();
    for query in ["content", "role", "data", "command", "input", "text", "type", "message_id"] {
        assert_eq!(log.search(&Query::new(query)).hits, [], "{query}");
        assert_eq!(log.scan(&Query::new(query)).hits, [], "{query}");
    }
    assert_eq!(log.search(&Query::new("cargo bash")).hits.len(), 1);
}

#[test]
fn every_spoken_kind_is_searched() {
    let mut log = Log::new();
    log.prompt("s", "needle in a prompt");
    log.answer("s", "needle in an answer");
    log.add(
        "s",
        &event::payload::AssistantThinking {
            thinking: "needle in thinking".to_owned(),
            ..Default::default()
        },
    );
    log.add(
        "s",
        &ContextAdded {
            kind: None,
            placement: None,
            content: Content::text("needle in context"),
            covers: None,
        },
    );
    log.add_draft("s", Kind::Note, Raw::parse(r#"{"text": "needle in a note"}"#).unwrap(), |_| {});
    log.add(
        "s",
        &ToolResult {
            call_id: "c".to_owned(),
            tool: None,
            idempotency_key: None,
            outcome: Outcome::Ok,
            output: Some(Raw::parse(r#""line\nneedle""#).unwrap()),
            ..ToolResult::default()
        },
    );
    let task = Raw::parse(r#"{"child_id": "c", "task": "find the needle"}"#).unwrap();
    log.add_draft("s", Kind::ChildRequested, task, |_| {});
    let summary = Raw::parse(r#"{"child_id": "c", "summary": "the needle was found"}"#).unwrap();
    log.add_draft("s", Kind::ChildCompleted, summary, |_| {});
    log.add_draft("s", Kind::from("x.new"), Raw::parse(r#"{"a": ["needle"]}"#).unwrap(), |_| {});
    let lanes = log.scan(&Query::new("needle")).total;
    assert_eq!(lanes, 9);
    log.add(
        "s",
        &Compaction {
            entries: vec![SavedEntry {
                content: Some(Content::text("needle")),
                ..SavedEntry::default()
            }],
            ..Compaction::default()
        },
    );
    log.index_all();
    assert_eq!(log.search(&Query::new("needle")).total, lanes);
}

#[test]
fn spoken_words_rank_before_output() {
    let mut log = Log::new();
    let in_prompt = log.prompt("s", "make a sand castle");
    let in_call = log.add(
        "s",
        &ToolCall { input: Raw::parse(r#""sand sand sand""#).unwrap(), ..ToolCall::default() },
    );
    let prefix = log.prompt("s", "sandwich sandwich sandwich");
    let expected = [in_prompt, in_call, prefix];
    let order =
        |found: SearchPage| -> Vec<u64> { found.hits.iter().map(|hit| hit.position).collect() };
    assert_eq!(order(log.scan(&Query::new("sand"))), expected);
    log.index_all();
    assert_eq!(order(log.search(&Query::new("sand"))), expected);
}
