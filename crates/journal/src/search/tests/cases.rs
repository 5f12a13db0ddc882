//! What is found and what is not.

use event::payload::{
    Compaction, Content, ContextAdded, Outcome, SavedEntry, ToolCall, ToolResult,
};
use event::{Kind, Raw};

use super::log::Log;
use crate::search::{Match, Query};

/// Which of the texts a query finds, by their numbers: read through, with an index that is
/// current, and with one that has half of them.
#[track_caller]
fn check(texts: &[&str], query: &Query, expected: &[usize]) {
    let log = Log::of(texts);
    let numbers = |found: crate::Found| {
        let mut numbers: Vec<usize> =
            found.hits.iter().map(|hit| hit.position as usize / 2 - 1).collect();
        numbers.sort();
        numbers
    };
    assert_eq!(numbers(log.scan(query)), expected, "read through: {:?}", query.text);
    log.feed();
    assert_eq!(numbers(log.search(query)), expected, "indexed: {:?}", query.text);
}

#[track_caller]
fn finds(text: &str, query: &str) {
    check(&["something else", text], &Query::new(query), &[1]);
}

#[track_caller]
fn misses(text: &str, query: &str) {
    check(&[text], &Query::new(query), &[]);
}

fn substring(text: &str) -> Query {
    Query { mode: Match::Substring, ..Query::new(text) }
}

#[test]
fn words_are_found_in_any_case_and_as_beginnings() {
    let text = "Please find the Sandwich.";
    for query in ["sandwich", "SANDWICH", "sand", "sandwich find", "find sandwich", "FIND sand"] {
        finds(text, query);
    }
    misses(text, "andwic");
    misses(text, "sandwiches");
    misses(text, "find nothing");
}

#[test]
fn substring_mode_finds_any_piece() {
    check(&["a sandwich", "a sand witch"], &substring("andwic"), &[0]);
    check(&["a sandwich", "a sand witch"], &substring("ich itc"), &[]);
    check(&["a sandwich", "a sand witch"], &substring("\"d wit\""), &[1]);
    check(&["Größenwahn"], &substring("ossenw"), &[]);
    check(&["Größenwahn"], &substring("oßenw"), &[0]);
}

#[test]
fn accents_are_left_aside() {
    finds("a café in Zürich", "cafe");
    finds("a cafe in Zurich", "café zürich");
    finds("cafe\u{301}", "cafe");
    finds("ΟΔΟΣ οδός", "οδος");
    finds("Ёлка", "елка");
    finds("שָׁלוֹם", "שלום");
    finds("ﬁle", "file");
}

#[test]
fn two_characters_are_enough() {
    finds("let me go", "me");
    finds("let me go", "go");
    misses("let them going", "go");
    finds("删除用户登录信息", "用户");
    finds("删除用户登录信息", "用");
    finds("删除用户登录信息", "息");
    finds("删除用户登录信息", "用户登录");
    misses("用户 登录", "用户登录");
    misses("户用", "用户");
    finds("사용자를 삭제", "사용");
    finds("ユーザーを削除する", "削除");
    finds("ลบผู้ใช้", "ผู้ใช้");
    finds("naïve用户x", "用户x");
    misses("用户 x", "用户x");
}

#[test]
fn an_empty_query_finds_nothing() {
    for query in ["", "  ", "\n\t", "\u{301}"] {
        misses("anything at all", query);
    }
}

#[test]
fn words_with_punctuation_are_found_as_typed() {
    let text = "In foo-bar.rs the c++ code says user's a:b (x) and \"open the door\" NOT .* AND x.";
    for query in [
        "foo-bar",
        "foo-bar.rs",
        "c++",
        ".*",
        "user's",
        "a:b",
        "(x",
        "x AND",
        "NOT x",
        "\"open",
        "foo-",
        "-bar.rs",
        "(x)",
        "says c++",
    ] {
        finds(text, query);
    }
    misses("foo bar rs", "foo-bar.rs");
    misses("foo.bar-rs", "foo-bar.rs");
    misses("xfoo-bar.rs", "foo-bar.rs");
    misses("c and c+ and cc++", "c++");
    misses("users", "user's");
    misses("b:a", "a:b");
}

#[test]
fn a_word_with_punctuation_matches_as_a_beginning_too() {
    finds("see crates/journal/src/search.rs", "crates/jour");
    misses("see crates/journal/src/search.rs", "crates/jo");
    misses("see crates/journal/src/search.rs", "rates/journal");
}

#[test]
fn a_phrase_is_found_as_written() {
    finds("edit foo-bar.rs now", "\"foo-bar.rs\"");
    finds("edit foo-bar.rs now", "\"EDIT  foo-bar.rs\"");
    finds("one two\nthree", "\"two three\"");
    finds("one two three", "\"two\nthree\"");
    finds("he said \"stop\" loudly", "\"said \"stop\" loudly\"");
    finds("he said \"stop\" loudly", "\"said \"stop\"");
    misses("three two", "\"two three\"");
    misses("two, three", "\"two three\"");
    misses("sandwich", "\"sand\"");
    check(&["one two", "two one", "one x two"], &Query::new("\"one two\" two"), &[0]);
}

#[test]
fn a_phrase_stays_inside_one_text() {
    let mut log = Log::new();
    let input = Raw::parse(r#"{"first": "alpha", "second": "beta"}"#).unwrap();
    log.add("s", &ToolCall { input, ..ToolCall::default() });
    log.feed();
    assert_eq!(log.search(&Query::new("\"alpha beta\"")).hits.len(), 0);
    assert_eq!(log.search(&Query::new("alpha beta")).hits.len(), 1);
}

#[test]
fn punctuation_alone_is_looked_up_literally() {
    check(&["a => b", "a -> b", "a = b"], &Query::new("=>"), &[0]);
    check(&["done 🎉", "done"], &Query::new("🎉"), &[0]);
    check(&["a => b", "b => a"], &Query::new("=> a"), &[0, 1]);
}

#[test]
fn invisible_characters_and_colour_codes_do_not_hide_words() {
    finds("in\u{AD}visible zero\u{200B}width", "invisible zerowidth");
    finds("\u{1B}[31merror\u{1B}[0m: broken", "error");
    finds("\u{1B}[1;31merror\u{1B}[0m: broken", "\"error : broken\"");
    misses("\u{1B}[31merror", "31merror");
}

#[test]
fn words_longer_than_the_index_keeps_are_told_apart() {
    let long = "x".repeat(100);
    let longer = "x".repeat(120);
    check(&[&long, &longer, "x"], &Query::new(format!("\"{long}\"")), &[0]);
    check(&[&long, &longer, "x"], &Query::new(&long), &[0, 1]);
    check(&[&long, &longer, "x"], &Query::new(&longer), &[1]);
    check(&[&long, &longer, "x"], &Query::new("x".repeat(64)), &[0, 1]);
    check(&[&long, &longer, "x"], &Query::new(format!("\"{}\"", "x".repeat(64))), &[]);
    check(&["用".repeat(50).as_str()], &Query::new("用".repeat(40)), &[0]);
}

#[test]
fn a_very_long_query_is_a_query() {
    let words: Vec<String> = (0..2_000).map(|number| format!("w{number}")).collect();
    let text = words.join(" ");
    check(&[&text, "w1 w2"], &Query::new(&text), &[0]);
    check(&[&text], &Query::new(format!("{text} missing")), &[]);
    check(&["a"], &Query::new("\"a ".repeat(3_000)), &[]);
}

#[test]
fn only_what_somebody_said_is_searched() {
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
    log.feed();
    for query in ["content", "role", "data", "command", "input", "text", "type", "message_id"] {
        assert_eq!(log.search(&Query::new(query)).hits, [], "{query}");
        assert_eq!(log.scan(&Query::new(query)).hits, [], "{query}");
    }
    assert_eq!(log.search(&Query::new("cargo bash")).hits.len(), 1);
}

#[test]
fn every_lane_of_talk_is_searched() {
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
    log.feed();
    assert_eq!(log.search(&Query::new("needle")).total, lanes);
}

#[test]
fn whole_words_rank_before_beginnings_and_talk_before_output() {
    let mut log = Log::new();
    let in_prompt = log.prompt("s", "make a sand castle");
    let in_call = log.add(
        "s",
        &ToolCall { input: Raw::parse(r#""sand sand sand""#).unwrap(), ..ToolCall::default() },
    );
    let beginning = log.prompt("s", "sandwich sandwich sandwich");
    let expected = [in_prompt, in_call, beginning];
    let order =
        |found: crate::Found| -> Vec<u64> { found.hits.iter().map(|hit| hit.position).collect() };
    assert_eq!(order(log.scan(&Query::new("sand"))), expected);
    log.feed();
    assert_eq!(order(log.search(&Query::new("sand"))), expected);
}

#[test]
fn texts_that_are_about_the_words_rank_first() {
    let mut log = Log::new();
    let about = log.prompt("s", "deadlock in the writer");
    let apart = log.prompt("s", "the writer saw, among other things, a deadlock");
    let aside =
        log.prompt("s", &format!("{} deadlock {} writer", "x ".repeat(999), "y ".repeat(999)));
    log.feed();
    let found = log.search(&Query::new("deadlock writer"));
    let order: Vec<u64> = found.hits.iter().map(|hit| hit.position).collect();
    assert_eq!(order, [about, apart, aside]);
}

#[test]
fn a_snippet_shows_the_match_and_where_it_is() {
    let text = format!(
        "{}Größe der Café-Straße 用户登录 {}",
        "vorher ".repeat(100),
        "danach ".repeat(100)
    );
    let log = Log::of(&[&text]);
    let hit = log.scan(&Query::new("cafe 用户")).hits.remove(0);
    assert!(hit.snippet.chars().count() <= 200);
    let shown: Vec<&str> = hit.highlights.iter().map(|range| &hit.snippet[range.clone()]).collect();
    assert_eq!(shown, ["Café", "用户"]);
    assert!(text.contains(&hit.snippet));
}

#[test]
fn a_match_longer_than_a_snippet_is_cut() {
    let long = "x".repeat(1_000);
    let log = Log::of(&[&format!("before {long} after")]);
    let hit = log.scan(&Query::new(&long)).hits.remove(0);
    assert_eq!(hit.snippet.len(), 200);
    assert_eq!(hit.highlights.first(), Some(&(7..200)));
}
