//! From page to page.

use super::collection::{Collection, TestQuery, hit_ids};
use crate::{MatchMode, Order, SearchCursor};

/// All hits of a query, page after page, while documents are added and the index follows at its
/// own pace.
fn read_pages(docs: &mut Collection, query: &TestQuery, index_between: bool) -> Vec<u64> {
    let mut query = query.clone();
    let mut ids = Vec::new();
    loop {
        let found = docs.search(&query);
        assert!(found.hits.len() <= query.limit);
        ids.extend(hit_ids(&found));
        let Some(next) = found.next else { return ids };
        assert!(!found.hits.is_empty());
        query.cursor = Some(next);
        docs.add("one more sand, sandwich and => arrow");
        if index_between {
            docs.index_all();
        }
    }
}

fn numbered_docs(count: usize) -> Collection {
    let mut docs = Collection::default();
    for number in 0..count {
        match number % 4 {
            0 => docs.add(&format!("sand {number} =>")),
            1 => docs.add_boosted(&format!("{} sandwich =>", "long ".repeat(number % 7))),
            2 => docs.add("nothing here"),
            _ => docs.add("sand sand => sandwich"),
        };
    }
    docs
}

#[test]
fn pages_visit_every_hit_once() {
    for order in [Order::Best, Order::Newest, Order::Oldest] {
        for (text, mode) in
            [("sand", MatchMode::Words), ("=>", MatchMode::Words), ("and", MatchMode::Substring)]
        {
            for limit in [1, 7, 30] {
                for (indexed, index_between) in [(true, true), (true, false), (false, true)] {
                    let mut docs = numbered_docs(60);
                    if indexed {
                        docs.index_all();
                    }
                    let query = TestQuery { order, limit, mode, ..TestQuery::new(text) };
                    let expected = 45;
                    let mut ids = read_pages(&mut docs, &query, index_between);
                    match order {
                        Order::Best => ids.sort(),
                        Order::Newest => ids.reverse(),
                        Order::Oldest => {}
                    }
                    assert_eq!(ids.len(), expected, "{query:?}");
                    assert!(ids.is_sorted_by(|a, b| a < b), "{query:?} {ids:?}");
                }
            }
        }
    }
}

#[test]
fn hits_beyond_first_window_are_reached() {
    let mut docs = numbered_docs(600);
    docs.index_all();
    let mut ids = read_pages(&mut docs, &TestQuery { limit: 64, ..TestQuery::new("sand") }, true);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 450);
}

#[test]
fn total_is_same_on_every_page() {
    let docs = numbered_docs(80);
    docs.index_all();
    let mut query = TestQuery { limit: 10, ..TestQuery::new("sand") };
    let mut totals = Vec::new();
    loop {
        let found = docs.search(&query);
        totals.push((found.total, found.total_is_exact, found.complete));
        match found.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(totals, [(60, true, true); 6]);
}

#[test]
fn uncounted_total_is_lower_bound() {
    let docs = numbered_docs(80);
    docs.index_all();
    let query = TestQuery { limit: 10, order: Order::Newest, ..TestQuery::new("=>") };
    let found = docs.search(&query);
    assert_eq!((found.total, found.total_is_exact), (11, false));
    let all = docs.search(&TestQuery { limit: 1_000, ..query });
    assert_eq!((all.total, all.total_is_exact), (60, true));
}

#[test]
fn cursor_belongs_to_its_query() {
    let docs = numbered_docs(40);
    let cursor = docs.scan(&TestQuery { limit: 3, ..TestQuery::new("sand") }).next.unwrap();
    let text = cursor.encode("c0ffee");
    assert_eq!(SearchCursor::decode(&text, "c0ffee"), Some(cursor));
    for (bad, fingerprint) in [(text.as_str(), "decade"), ("", "c0ffee"), ("1.c0ffee.x", "c0ffee")]
    {
        assert_eq!(SearchCursor::decode(bad, fingerprint), None, "{bad}");
    }
}
