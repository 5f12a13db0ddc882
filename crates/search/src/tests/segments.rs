//! An index that was written in many small transactions says the same as the documents.

use super::collection::{Collection, TestQuery, hit_ids};
use crate::{DocId, Order};

/// Every document is indexed by itself: enough of them for merges of merges.
const ROUNDS: usize = 300;

/// The collection, and every third document of it.
fn indexed_one_by_one() -> (Collection, Vec<DocId>) {
    let mut docs = Collection::default();
    let mut thirds = Vec::new();
    for round in 0..ROUNDS {
        let id = docs.add(&format!("common word{} round{round} 用户{}", round % 7, round % 3));
        if round % 3 == 0 {
            thirds.push(id);
        }
        docs.index_all();
    }
    (docs, thirds)
}

#[track_caller]
fn assert_index_agrees(docs: &Collection) {
    for text in
        ["common", "word3", "wor", "round4", "round99", "common word5", "用户", "户", "missing"]
    {
        for order in [Order::Newest, Order::Oldest] {
            let query = TestQuery { order, limit: 1_000, ..TestQuery::new(text) };
            assert_eq!(hit_ids(&docs.search(&query)), hit_ids(&docs.scan(&query)), "{text}");
        }
        let one = TestQuery { limit: 1, ..TestQuery::new(text) };
        let all = docs.scan(&TestQuery::new(text));
        assert_eq!(docs.search(&one).total, all.total, "{text}");
    }
}

#[test]
fn merged_segments_find_everything() {
    assert_index_agrees(&indexed_one_by_one().0);
}

#[test]
fn deleted_documents_leave_no_term() {
    let (mut docs, mut deleted) = indexed_one_by_one();
    deleted.push(docs.add("zzsecret"));
    docs.index_all();
    assert!(docs.index_holds(b"zzsecret"));
    docs.delete(&deleted);
    assert!(!docs.index_holds(b"zzsecret"));
    assert_index_agrees(&docs);
    docs.add("common round");
    docs.index_all();
    assert_index_agrees(&docs);
}

#[test]
fn superseded_document_counts_once() {
    let (mut docs, _) = indexed_one_by_one();
    let first = docs.add("needle in part");
    docs.index_all();
    docs.add_doc(&["needle in full"], 0.0, Some(first));
    docs.add("needle again");
    docs.index_all();
    let query = TestQuery { limit: 1, ..TestQuery::new("needle") };
    let found = docs.search(&query);
    assert_eq!((found.total, found.total_is_exact), (2, true));
    // Further merges drop the tombstone together with the postings.
    for _ in 0..ROUNDS {
        docs.add("other words");
        docs.index_all();
    }
    let found = docs.search(&query);
    assert_eq!((found.total, found.total_is_exact), (2, true));
    assert_eq!(docs.search(&TestQuery::new("part")).total, 0);
}

#[test]
fn documents_of_several_shards_are_found() {
    let mut docs = Collection::default();
    let near = docs.add("needle near");
    let far = docs.add_at(3 * (1 << 18) + 7, "needle far");
    docs.index_all();
    for (order, expected) in [(Order::Oldest, [near, far]), (Order::Newest, [far, near])] {
        let query = TestQuery { order, ..TestQuery::new("needle") };
        assert_eq!(hit_ids(&docs.search(&query)), expected);
    }
}
