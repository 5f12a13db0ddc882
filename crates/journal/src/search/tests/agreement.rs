//! The index and the comparison with the text say the same, whatever is written or asked.

use proptest::prelude::*;

use super::log::Log;
use crate::search::{Match, Order, Query};

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

fn positions(found: &crate::Found) -> Vec<u64> {
    let mut positions: Vec<u64> = found.hits.iter().map(|hit| hit.position).collect();
    positions.sort();
    positions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn indexed_and_read_through_give_the_same_hits(
        texts in prop::collection::vec(text(), 1..20),
        fed_late in prop::collection::vec(text(), 0..4),
        queries in prop::collection::vec(text(), 1..20),
    ) {
        let mut log = Log::new();
        for text in &texts {
            log.prompt("s", text);
        }
        log.feed();
        for text in &fed_late {
            log.answer("s", text);
        }
        for text in queries.iter().chain(&texts) {
            for mode in [Match::Words, Match::Substring] {
                for order in [Order::Best, Order::Newest, Order::Oldest] {
                    let query = Query { mode, order, limit: 1_000, ..Query::new(text) };
                    let (indexed, scanned) = (log.search(&query), log.scan(&query));
                    prop_assert_eq!(positions(&indexed), positions(&scanned), "{:?}", query);
                    prop_assert_eq!(indexed.total, indexed.hits.len());
                    prop_assert!(indexed.total_is_exact && indexed.complete);
                    for hit in &indexed.hits {
                        prop_assert!(hit.snippet.chars().count() <= 200);
                        prop_assert!(!hit.highlights.is_empty(), "{:?} {:?}", query, hit);
                        for range in &hit.highlights {
                            prop_assert!(hit.snippet.get(range.clone()).is_some());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_query_is_a_mistake(text in ".{0,200}") {
        let log = Log::of(&["some text", &text]);
        log.feed();
        for mode in [Match::Words, Match::Substring] {
            let query = Query { mode, ..Query::new(&text) };
            let found = log.search(&query);
            // Whatever can be asked at all stands in itself.
            prop_assert!(found.hits.iter().any(|hit| hit.seq == 2) || found.hits.is_empty());
        }
    }
}
