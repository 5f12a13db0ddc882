//! An index that lags, was deleted or is damaged.

use std::fs;

use ::search::{EVERY_DOCUMENT, IndexReader};
use event::SessionId;

use super::log::{Log, session};
use crate::View;
use crate::derived::{Derived, SavedView};
use crate::event_search::sqlite_index::SqliteIndex;
use crate::event_search::{Query, forget_deleted, index_events, search};

#[test]
fn unindexed_events_are_found_too() {
    let mut log = Log::with_prompts(&["needle one"]);
    log.index_all();
    log.prompt("s", "needle two");
    assert_eq!(log.search(&Query::new("needle")).total, 2);
}

#[test]
fn indexing_continues_where_it_stopped() {
    let mut log = Log::with_prompts(&["one"; 50]);
    let first = index_events(&log, &log.derived).unwrap();
    assert!(!first.is_current && first.indexed > 0);
    log.index_all();
    log.prompt("s", "one");
    let last = index_events(&log, &log.derived).unwrap();
    assert_eq!(last.indexed, 102);
    assert!(index_events(&log, &log.derived).unwrap().is_current);
    assert_eq!(log.search(&Query::new("one")).total, 51);
}

#[test]
fn two_indexers_index_everything_once() {
    let log = Log::with_prompts(&["one"; 500]);
    let other = Derived::open(&log.folder.path().join("derived.db")).unwrap();
    std::thread::scope(|scope| {
        for derived in [&log.derived, &other] {
            let log = &log;
            scope.spawn(move || while !index_events(log, derived).unwrap().is_current {});
        }
    });
    assert_eq!(log.search(&Query { limit: 1, ..Query::new("one") }).total, 500);
}

#[test]
fn deleted_session_is_not_found() {
    let mut log = Log::new();
    log.prompt("kept", "needle");
    log.prompt("gone", "needle");
    log.index_all();
    log.delete("gone");
    assert_eq!(log.search(&Query::new("needle")).hits.len(), 1);
    forget_deleted(&log, &log.derived).unwrap();
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.hits[0].session_id.clone()), (1, session("kept")));
}

#[test]
fn missed_deletion_is_followed_later() {
    let mut log = Log::new();
    for number in 0..3_000 {
        log.prompt(if number % 2 == 0 { "kept" } else { "gone" }, "needle");
    }
    log.index_all();
    log.save("gone", b"of the gone");
    log.save("kept", b"of the kept");
    log.delete("gone");
    log.index_all();
    assert_eq!(count_documents(&log), 1_500);
    assert_eq!(log.derived.view(&session("gone"), "effective").unwrap(), None);
    assert!(log.derived.view(&session("kept"), "effective").unwrap().is_some());
    // Each deletion is followed once; a later session is not mistaken for a deleted one.
    log.delete("kept");
    log.prompt("new", "needle");
    log.index_all();
    assert_eq!(count_documents(&log), 1);
}

#[test]
fn view_of_deleted_session_is_not_saved() {
    let mut log = Log::new();
    log.prompt("gone", "needle");
    log.delete("gone");
    log.save("gone", b"too late");
    assert_eq!(log.derived.view(&session("gone"), "effective").unwrap(), None);
}

#[test]
fn log_put_back_is_indexed_anew() {
    let mut log = Log::with_prompts(&["kept", "lost"]);
    log.index_all();
    log.put_back(2);
    log.index_all();
    log.prompt("s", "instead");
    log.index_all();
    assert_eq!(count_documents(&log), 2);
    assert_eq!(log.search(&Query::new("instead")).total, 1);
}

/// How many documents the index itself holds, also those that the log has no more.
fn count_documents(log: &Log) -> usize {
    let count = |connection: &rusqlite::Connection| {
        let index = SqliteIndex::new(connection);
        let any = vec![EVERY_DOCUMENT.to_owned()];
        Ok(IndexReader::new(&index)
            .docs_with_keywords(vec![any], &(0..u64::MAX), usize::MAX)?
            .len())
    };
    log.derived.read("count", count).unwrap()
}

#[test]
fn views_have_session_and_name() {
    let log = Log::new();
    let (a, b) = (session("a"), session("b"));
    let view = |bytes: &[u8]| Some(SavedView { up_to_seq: 7, bytes: bytes.to_vec() });
    let put = |view| log.derived.put_views("effective", &[view], &|_| Ok(true)).unwrap();
    put(given(&a, 3, b"old"));
    put(given(&a, 7, b"new"));
    put(given(&b, 7, b"other"));
    assert_eq!(log.derived.view(&a, "effective").unwrap(), view(b"new"));
    assert_eq!(log.derived.view(&a, "else").unwrap(), None);
    assert_eq!(log.derived.view(&b, "effective").unwrap(), view(b"other"));
}

/// Opens the file of a log that was searched and closed, after `harm`.
fn reopened(harm: impl FnOnce(&std::path::Path)) -> (Log, Derived) {
    let log = Log::with_prompts(&["needle"; 500]);
    log.index_all();
    // A copy, because the log's own connections still hold the original.
    let path = log.folder.path().join("copy.db");
    let original = log.folder.path().join("derived.db");
    rusqlite::Connection::open(&original)
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    fs::copy(original, &path).unwrap();
    harm(&path);
    let derived = Derived::open(&path).unwrap();
    (log, derived)
}

#[track_caller]
fn assert_is_whole(log: &Log, derived: &Derived) {
    let query = Query { limit: 1, ..Query::new("needle") };
    assert_eq!(search(log, Some(derived), &query).unwrap().total, 500);
    while !index_events(log, derived).unwrap().is_current {}
    assert_eq!(search(log, Some(derived), &query).unwrap().total, 500);
}

#[test]
fn file_that_is_no_database_is_replaced() {
    let (log, derived) = reopened(|path| fs::write(path, b"not a database at all").unwrap());
    assert_is_whole(&log, &derived);
}

#[test]
fn file_of_older_version_is_replaced() {
    let (log, derived) = reopened(|path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
    });
    assert_is_whole(&log, &derived);
}

#[test]
fn missing_file_is_begun_again() {
    let (log, derived) = reopened(|path| fs::remove_file(path).unwrap());
    assert_is_whole(&log, &derived);
}

#[test]
fn flipped_bytes_are_no_error() {
    let size = {
        let (log, _) = reopened(|_| {});
        fs::metadata(log.folder.path().join("copy.db")).unwrap().len() as usize
    };
    for place in 0..24 {
        let (log, derived) = reopened(|path| {
            let mut bytes = fs::read(path).unwrap();
            let start = size * place / 24;
            let end = (start + size / 24).min(bytes.len());
            bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0x5A);
            fs::write(path, bytes).unwrap();
        });
        let query = Query { limit: 1_000, ..Query::new("needle") };
        let found = search(&log, Some(&derived), &query).unwrap();
        assert!(found.hits.iter().all(|hit| log.event(hit.position).seq == hit.seq));
        derived.clear().unwrap();
        assert_is_whole(&log, &derived);
    }
}

#[cfg(unix)]
#[test]
fn other_users_cannot_read_file() {
    use std::os::unix::fs::PermissionsExt;
    let log = Log::with_prompts(&["secret"]);
    log.index_all();
    for entry in fs::read_dir(log.folder.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

fn given<'a>(session_id: &'a SessionId, up_to_seq: u64, bytes: &'a [u8]) -> View<'a> {
    View { session_id, up_to_seq, bytes }
}
