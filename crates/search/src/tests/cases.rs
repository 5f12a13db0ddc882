//! What is found and what is not.

use super::collection::{Collection, TestDoc, TestQuery, hit_ids};
use crate::{MatchMode, TopDocs};

/// Checks which of the texts a query finds, by their numbers: read through and indexed.
#[track_caller]
fn check(texts: &[&str], query: &TestQuery, expected: &[usize]) {
    let docs = Collection::with_texts(texts);
    let numbers = |found: TopDocs<TestDoc>| {
        let mut numbers: Vec<usize> =
            hit_ids(&found).into_iter().map(|id| id as usize / 2 - 1).collect();
        numbers.sort();
        numbers
    };
    assert_eq!(numbers(docs.scan(query)), expected, "read through: {:?}", query.text);
    docs.index_all();
    assert_eq!(numbers(docs.search(query)), expected, "indexed: {:?}", query.text);
}

#[track_caller]
fn finds(text: &str, query: &str) {
    check(&["another text", text], &TestQuery::new(query), &[1]);
}

#[track_caller]
fn misses(text: &str, query: &str) {
    check(&[text], &TestQuery::new(query), &[]);
}

fn substring(text: &str) -> TestQuery {
    TestQuery { mode: MatchMode::Substring, ..TestQuery::new(text) }
}

#[test]
fn words_match_any_case_and_prefixes() {
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
fn accents_are_ignored() {
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
fn empty_query_finds_nothing() {
    for query in ["", "  ", "\n\t", "\u{301}"] {
        misses("anything at all", query);
    }
}

#[test]
fn punctuation_is_found_as_typed() {
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
fn word_with_punctuation_matches_as_prefix() {
    finds("see crates/journal/src/search.rs", "crates/jour");
    misses("see crates/journal/src/search.rs", "crates/jo");
    misses("see crates/journal/src/search.rs", "rates/journal");
}

#[test]
fn phrase_is_found_as_written() {
    finds("edit foo-bar.rs now", "\"foo-bar.rs\"");
    finds("edit foo-bar.rs now", "\"EDIT  foo-bar.rs\"");
    finds("one two\nthree", "\"two three\"");
    finds("one two three", "\"two\nthree\"");
    finds("he said \"stop\" loudly", "\"said \"stop\" loudly\"");
    finds("he said \"stop\" loudly", "\"said \"stop\"");
    misses("three two", "\"two three\"");
    misses("two, three", "\"two three\"");
    misses("sandwich", "\"sand\"");
    check(&["one two", "two one", "one x two"], &TestQuery::new("\"one two\" two"), &[0]);
}

#[test]
fn punctuation_alone_is_found_literally() {
    check(&["a => b", "a -> b", "a = b"], &TestQuery::new("=>"), &[0]);
    check(&["done 🎉", "done"], &TestQuery::new("🎉"), &[0]);
    check(&["a => b", "b => a"], &TestQuery::new("=> a"), &[0, 1]);
}

#[test]
fn invisible_characters_do_not_hide_words() {
    finds("in\u{AD}visible zero\u{200B}width", "invisible zerowidth");
    finds("\u{1B}[31merror\u{1B}[0m: broken", "error");
    finds("\u{1B}[1;31merror\u{1B}[0m: broken", "\"error : broken\"");
    misses("\u{1B}[31merror", "31merror");
}

#[test]
fn truncated_terms_are_told_apart() {
    let long = "x".repeat(100);
    let longer = "x".repeat(120);
    check(&[&long, &longer, "x"], &TestQuery::new(format!("\"{long}\"")), &[0]);
    check(&[&long, &longer, "x"], &TestQuery::new(&long), &[0, 1]);
    check(&[&long, &longer, "x"], &TestQuery::new(&longer), &[1]);
    check(&[&long, &longer, "x"], &TestQuery::new("x".repeat(64)), &[0, 1]);
    check(&[&long, &longer, "x"], &TestQuery::new(format!("\"{}\"", "x".repeat(64))), &[]);
    check(&["用".repeat(50).as_str()], &TestQuery::new("用".repeat(40)), &[0]);
}

#[test]
fn very_long_query_is_answered() {
    let words: Vec<String> = (0..2_000).map(|number| format!("w{number}")).collect();
    let text = words.join(" ");
    check(&[&text, "w1 w2"], &TestQuery::new(&text), &[0]);
    check(&[&text], &TestQuery::new(format!("{text} missing")), &[]);
    check(&["a"], &TestQuery::new("\"a ".repeat(3_000)), &[]);
}

#[test]
fn phrase_stays_inside_one_text() {
    let mut docs = Collection::default();
    docs.add_doc(&["alpha", "beta"], 0.0, None);
    docs.index_all();
    assert_eq!(docs.search(&TestQuery::new("\"alpha beta\"")).hits.len(), 0);
    assert_eq!(docs.search(&TestQuery::new("alpha beta")).hits.len(), 1);
}

#[test]
fn whole_words_rank_before_prefixes() {
    let mut docs = Collection::default();
    let boosted = docs.add_boosted("make a sand castle");
    let plain = docs.add("sand sand sand");
    let prefix = docs.add_boosted("sandwich sandwich sandwich");
    let expected = [boosted, plain, prefix];
    assert_eq!(hit_ids(&docs.scan(&TestQuery::new("sand"))), expected);
    docs.index_all();
    assert_eq!(hit_ids(&docs.search(&TestQuery::new("sand"))), expected);
}

#[test]
fn unindexed_documents_are_found_too() {
    let mut docs = Collection::with_texts(&["needle one"]);
    docs.index_all();
    docs.add("needle two");
    assert_eq!(docs.search(&TestQuery::new("needle")).total, 2);
}

#[test]
fn texts_about_the_words_rank_first() {
    let mut docs = Collection::default();
    let about = docs.add("deadlock in the writer");
    let apart = docs.add("the writer saw, among other things, a deadlock");
    let aside = docs.add(&format!("{} deadlock {} writer", "x ".repeat(999), "y ".repeat(999)));
    docs.index_all();
    let found = docs.search(&TestQuery::new("deadlock writer"));
    assert_eq!(hit_ids(&found), [about, apart, aside]);
}

#[test]
fn snippet_shows_match_and_highlights() {
    let text = format!(
        "{}Größe der Café-Straße 用户登录 {}",
        "vorher ".repeat(100),
        "danach ".repeat(100)
    );
    let docs = Collection::with_texts(&[&text]);
    let snippet = docs.scan(&TestQuery::new("cafe 用户")).hits.remove(0).snippet;
    assert!(snippet.text.chars().count() <= 200);
    let shown: Vec<&str> =
        snippet.highlights.iter().map(|range| &snippet.text[range.clone()]).collect();
    assert_eq!(shown, ["Café", "用户"]);
    assert!(text.contains(&snippet.text));
}

#[test]
fn long_match_is_cut_in_snippet() {
    let long = "x".repeat(1_000);
    let docs = Collection::with_texts(&[&format!("before {long} after")]);
    let snippet = docs.scan(&TestQuery::new(&long)).hits.remove(0).snippet;
    assert_eq!(snippet.text.len(), 200);
    assert_eq!(snippet.highlights.first(), Some(&(7..200)));
}
