//! An index that was fed in many goes says the same as one that was fed in one.

use event::payload::UserPrompt;
use event::{AMENDS, Kind, Raw};

use super::log::Log;
use crate::Found;
use crate::search::{Order, Query, forget};

/// Every event is fed by itself: enough of them for merges of merges.
const ROUNDS: usize = 100;

fn fed_one_by_one() -> Log {
    let mut log = Log::new();
    for round in 0..ROUNDS {
        let session = if round % 3 == 0 { "gone" } else { "kept" };
        log.prompt(session, &format!("common word{} round{round} 用户{session}", round % 7));
        log.feed();
    }
    log
}

fn positions(found: &Found) -> Vec<u64> {
    found.hits.iter().map(|hit| hit.position).collect()
}

#[track_caller]
fn agrees_with_the_log(log: &Log) {
    for text in
        ["common", "word3", "wor", "round4", "round99", "common word5", "用户", "户", "nobody"]
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
fn what_was_indexed_bit_by_bit_is_found() {
    agrees_with_the_log(&fed_one_by_one());
}

#[test]
fn what_is_deleted_leaves_no_word_behind() {
    let mut log = fed_one_by_one();
    log.prompt("gone", "zzsecret");
    log.feed();
    let has_secret = |log: &Log| {
        let db = rusqlite::Connection::open(log.folder.path().join("derived.db")).unwrap();
        let sql = "SELECT count(*) FROM leaves WHERE instr(bytes, CAST('zzsecret' AS BLOB)) > 0";
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() > 0
    };
    assert!(has_secret(&log));
    log.delete("gone");
    forget(&log, &log.derived).unwrap();
    assert!(!has_secret(&log));
    agrees_with_the_log(&log);
    log.prompt("kept", "common round");
    log.feed();
    agrees_with_the_log(&log);
}

#[test]
fn what_a_later_stretch_tells_more_fully_counts_once() {
    let mut log = fed_one_by_one();
    let first = log.prompt("kept", "needle in part");
    log.feed();
    let first = Raw::from_value(&log.event(first).id).unwrap();
    let data = Raw::from_value(&UserPrompt::text("needle in full")).unwrap();
    log.add_draft("kept", Kind::UserPrompt, data, |draft| {
        draft.metadata.insert(AMENDS.to_owned(), first);
    });
    log.prompt("kept", "needle again");
    log.feed();
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.total_is_exact), (2, true));
    for _ in 0..2 * ROUNDS {
        log.prompt("kept", "something else");
        log.feed();
    }
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.total_is_exact), (2, true));
}
