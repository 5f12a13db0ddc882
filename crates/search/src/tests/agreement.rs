//! The index and the comparison with the text give the same hits for generated texts and queries.

use proptest::prelude::*;

use super::collection::{Collection, TestDoc, TestQuery, hit_ids};
use crate::{MatchMode, Order, TopDocs};

/// Words that look alike, in several scripts, with all sorts between them: hits are likely.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "foo", "Foo", "food", "fo", "f", "bar", "bars", "ba", "foo_bar", "é", "e", "École",
            "用", "户", "用户", "用户登录", "ひら", "한국어", "x", "AND", "NOT", "OR", "𝒳", "ß", "İ",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            " ", " ", "  ", "\n", "-", ".", "\"", "'", "(", ")", "*", ":", "+", "\u{301}", "\u{200D}",
            "\u{3000}", "🎉", "\u{1B}[1m", "\0",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn sorted_ids(found: &TopDocs<TestDoc>) -> Vec<u64> {
    let mut ids = hit_ids(found);
    ids.sort();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn index_and_scan_give_same_hits(
        texts in prop::collection::vec(text(), 1..20),
        added_late in prop::collection::vec(text(), 0..4),
        queries in prop::collection::vec(text(), 1..20),
    ) {
        let mut docs = Collection::default();
        for text in &texts {
            docs.add(text);
        }
        docs.index_all();
        for text in &added_late {
            docs.add(text);
        }
        for text in queries.iter().chain(&texts) {
            for mode in [MatchMode::Words, MatchMode::Substring] {
                for order in [Order::Best, Order::Newest, Order::Oldest] {
                    let query = TestQuery { mode, order, limit: 1_000, ..TestQuery::new(text) };
                    let (indexed, scanned) = (docs.search(&query), docs.scan(&query));
                    prop_assert_eq!(sorted_ids(&indexed), sorted_ids(&scanned), "{:?}", query);
                    prop_assert_eq!(indexed.total, indexed.hits.len());
                    prop_assert!(indexed.total_is_exact && indexed.complete);
                    for hit in &indexed.hits {
                        prop_assert!(hit.snippet.text.chars().count() <= 200);
                        prop_assert!(!hit.snippet.highlights.is_empty(), "{:?} {:?}", query, hit);
                        for range in &hit.snippet.highlights {
                            prop_assert!(hit.snippet.text.get(range.clone()).is_some());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_query_is_a_mistake(text in ".{0,200}") {
        let docs = Collection::with_texts(&["some text", &text]);
        docs.index_all();
        for mode in [MatchMode::Words, MatchMode::Substring] {
            let query = TestQuery { mode, ..TestQuery::new(&text) };
            let found = docs.search(&query);
            // A text that is a query at all is found by itself.
            prop_assert!(hit_ids(&found).contains(&4) || found.hits.is_empty());
        }
    }
}
