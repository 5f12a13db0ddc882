//! A file that lags, was deleted or is damaged.

use std::fs;

use event::SessionId;

use super::log::{Log, session};
use crate::View;
use crate::derived::{Derived, SavedView};
use crate::search::expression::Expression;
use crate::search::index::{Index, part_positions};
use crate::search::{Query, feed, forget, search, tags};

#[test]
fn what_is_not_indexed_yet_is_found_too() {
    let mut log = Log::of(&["needle one"]);
    log.feed();
    log.prompt("s", "needle two");
    assert_eq!(log.search(&Query::new("needle")).total, 2);
}

#[test]
fn feeding_goes_on_where_it_stopped() {
    let mut log = Log::of(&["one"; 50]);
    let first = feed(&log, &log.derived).unwrap();
    assert!(!first.is_current && first.indexed > 0);
    log.feed();
    log.prompt("s", "one");
    let last = feed(&log, &log.derived).unwrap();
    assert_eq!(last.indexed, 102);
    assert!(feed(&log, &log.derived).unwrap().is_current);
    assert_eq!(log.search(&Query::new("one")).total, 51);
}

#[test]
fn two_that_feed_one_file_index_everything_once() {
    let log = Log::of(&["one"; 500]);
    let other = Derived::open(&log.folder.path().join("derived.db")).unwrap();
    std::thread::scope(|scope| {
        for derived in [&log.derived, &other] {
            let log = &log;
            scope.spawn(move || while !feed(log, derived).unwrap().is_current {});
        }
    });
    assert_eq!(log.search(&Query { limit: 1, ..Query::new("one") }).total, 500);
}

#[test]
fn a_deleted_session_is_not_found() {
    let mut log = Log::new();
    log.prompt("kept", "needle");
    log.prompt("gone", "needle");
    log.feed();
    log.delete("gone");
    assert_eq!(log.search(&Query::new("needle")).hits.len(), 1);
    forget(&log, &log.derived).unwrap();
    let found = log.search(&Query { limit: 1, ..Query::new("needle") });
    assert_eq!((found.total, found.hits[0].session_id.clone()), (1, session("kept")));
}

#[test]
fn a_deletion_nobody_followed_is_followed_by_the_next_feeding() {
    let mut log = Log::new();
    for number in 0..3_000 {
        log.prompt(if number % 2 == 0 { "kept" } else { "gone" }, "needle");
    }
    log.feed();
    log.save("gone", b"of the gone");
    log.save("kept", b"of the kept");
    log.delete("gone");
    log.feed();
    assert_eq!(documents(&log), 1_500);
    assert_eq!(log.derived.view(&session("gone"), "effective").unwrap(), None);
    assert!(log.derived.view(&session("kept"), "effective").unwrap().is_some());
    // Each is followed once, and what comes later is not mistaken for it.
    log.delete("kept");
    log.prompt("new", "needle");
    log.feed();
    assert_eq!(documents(&log), 1);
}

#[test]
fn the_view_of_a_session_that_is_gone_is_not_saved() {
    let mut log = Log::new();
    log.prompt("gone", "needle");
    log.delete("gone");
    log.save("gone", b"too late");
    assert_eq!(log.derived.view(&session("gone"), "effective").unwrap(), None);
}

#[test]
fn a_log_that_was_put_back_is_indexed_anew() {
    let mut log = Log::of(&["kept", "lost"]);
    log.feed();
    log.put_back(2);
    log.feed();
    log.prompt("s", "instead");
    log.feed();
    assert_eq!(documents(&log), 2);
    assert_eq!(log.search(&Query::new("instead")).total, 1);
}

/// How many events of all sessions here the index itself holds, whatever the log says of them.
fn documents(log: &Log) -> usize {
    let any = Expression::word(tags::ANY);
    let range = part_positions(0);
    let count = |connection: &rusqlite::Connection| {
        Ok(Index::new(connection).count(0, &any, &range, usize::MAX)?)
    };
    log.derived.read("count", count).unwrap()
}

#[test]
fn views_are_kept_by_session_and_name() {
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
    let log = Log::of(&["needle"; 500]);
    log.feed();
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
fn is_whole_again(log: &Log, derived: &Derived) {
    let query = Query { limit: 1, ..Query::new("needle") };
    assert_eq!(search(log, Some(derived), &query).unwrap().total, 500);
    while !feed(log, derived).unwrap().is_current {}
    assert_eq!(search(log, Some(derived), &query).unwrap().total, 500);
}

#[test]
fn a_file_that_is_no_database_is_begun_again() {
    let (log, derived) = reopened(|path| fs::write(path, b"not a database at all").unwrap());
    is_whole_again(&log, &derived);
}

#[test]
fn a_file_of_an_older_version_is_begun_again() {
    let (log, derived) = reopened(|path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
    });
    is_whole_again(&log, &derived);
}

#[test]
fn a_file_that_is_gone_is_begun_again() {
    let (log, derived) = reopened(|path| fs::remove_file(path).unwrap());
    is_whole_again(&log, &derived);
}

#[test]
fn bytes_flipped_anywhere_are_no_error_and_can_be_healed() {
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
        is_whole_again(&log, &derived);
    }
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let log = Log::of(&["secret"]);
    log.feed();
    for entry in fs::read_dir(log.folder.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

fn given<'a>(session_id: &'a SessionId, up_to_seq: u64, bytes: &'a [u8]) -> View<'a> {
    View { session_id, up_to_seq, bytes }
}
