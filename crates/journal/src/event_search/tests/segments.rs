//! An index that was written in many small transactions says the same as the log.

use event::payload::UserPrompt;
use event::{AMENDS, Kind, Raw};

use super::log::Log;
use crate::Order;
use crate::event_search::{Query, SearchPage, forget_deleted};

/// Every event is indexed by itself: enough of them for a merge.
const ROUNDS: usize = 40;

fn indexed_one_by_one() -> Log {
    let mut log = Log::new();
    for round in 0..ROUNDS {
        let session = if round % 3 == 0 { "gone" } else { "kept" };
        log.prompt(session, &format!("common word{} round{round} 用户{session}", round % 7));
        log.index_all();
    }
    log
}

fn positions(found: &SearchPage) -> Vec<u64> {
    found.hits.iter().map(|hit| hit.position).collect()
}

#[track_caller]
fn assert_agrees_with_log(log: &Log) {
    for text in
        ["common", "word3", "wor", "round4", "round99", "common word5", "用户", "户", "missing"]
    {
        for order in [Order::Newest, Order::Oldest] {
            let query = Query { order, limit: 1_000, ..Query::new(text) };
            assert_eq!(positions(&log.search(&query)), positions(&log.scan(&query)), "{text}");
        }
        let (one, all) = (Query { limit: 1, ..Query::new(text) }, log.scan(&Query::new(text)));
        assert_eq!(log.search(&one).total, all.total, "{text}");
    }
}

#[test]
fn events_indexed_one_by_one_are_found() {
    assert_agrees_with_log(&indexed_one_by_one());
}

#[test]
fn deleted_session_leaves_no_word() {
    let mut log = indexed_one_by_one();
    log.prompt("gone", "zzsecret");
    log.index_all();
    let has_secret = |log: &Log| {
        let db = rusqlite::Connection::open(log.folder.path().join("derived.db")).unwrap();
        let sql = "SELECT count(*) FROM leaves WHERE instr(bytes, CAST('zzsecret' AS BLOB)) > 0";
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() > 0
    };
    assert!(has_secret(&log));
    log.delete("gone");
    forget_deleted(&log, &log.derived).unwrap();
    assert!(!has_secret(&log));
    assert_agrees_with_log(&log);
    log.prompt("kept", "common round");
    log.index_all();
    assert_agrees_with_log(&log);
}

#[test]
fn amended_event_counts_once() {
    let mut log = indexed_one_by_one();
    let first = log.prompt("kept", "needle in part");
    log.index_all();
    let first = Raw::from_value(&log.event(first).id).unwrap();
    let data = Raw::from_value(&UserPrompt::text("needle in full")).unwrap();
    log.add_draft("kept", Kind::UserPrompt, data, |draft| {
        draft.metadata.insert(AMENDS.to_owned(), first);
    });
    log.prompt("kept", "needle again");
    log.index_all();
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.total_is_exact), (2, true));
    for _ in 0..2 * ROUNDS {
        log.prompt("kept", "other words");
        log.index_all();
    }
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.total_is_exact), (2, true));
}
