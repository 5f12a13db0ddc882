//! An open journal stays locked, whatever the same process opens and closes beside it.
//!
//! The last process that closes a database removes its log, and file locks tell which one is last.
//! The system drops all locks of a process on a file when it closes any other handle on that file.
//! Its next commits could then go into a log that another program has unlinked. Our own SQLite checks
//! twice, but users open a journal with other programs, too.

use event::Time;
use journal::StoreKind;
use rusqlite::Connection;
use testkit::numbered;

use crate::in_every_store;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

in_every_store![opening_it_again_leaves_it_in_use, closing_one_of_two_leaves_it_in_use];

fn opening_it_again_leaves_it_in_use(store: StoreKind) {
    let place = TestJournal::new(store);
    let journal = place.open();
    journal.append(numbered::batch_after(0, 5)).unwrap();
    let again = place.open();
    require_in_use(&place);
    drop((journal, again));
    assert_eq!(usage_of(&place, main_file(&place)), "free", "nobody has it open");
}

fn closing_one_of_two_leaves_it_in_use(store: StoreKind) {
    let place = TestJournal::new(store);
    let first = place.open();
    first.append(numbered::batch_after(0, 5)).unwrap();
    let second = place.open();
    drop(first);
    require_in_use(&place);
    drop(second);
}

/// A repair keeps a copy of the file, and searches its bytes for what is lost.
#[test]
fn repairing_it_leaves_it_in_use() {
    let place = TestJournal::new(StoreKind::Sqlite);
    let journal = place.open();
    journal.append(numbered::batch_after(0, 5)).unwrap();
    let db = Connection::open(place.dir().join(main_file(&place))).unwrap();
    db.execute_batch("UPDATE event SET checksum = 1 WHERE position = 5").unwrap();
    drop(db);
    journal.doctor(true, Time::from_millis(2_000_000_000_000)).unwrap();
    let kept = place.dir().join("quarantine").join("journal.db.1");
    assert!(kept.exists(), "it was repaired");
    require_in_use(&place);
}

#[track_caller]
fn require_in_use(place: &TestJournal) {
    for name in [main_file(place), "derived.db"] {
        assert_eq!(usage_of(place, name), "in use", "{name}");
    }
}

/// Asks another process whether the file is in use.
#[track_caller]
fn usage_of(place: &TestJournal, name: &str) -> String {
    Worker::start(place, "look", &[name]).finish().pop().unwrap()
}

fn main_file(place: &TestJournal) -> &'static str {
    match place.store {
        StoreKind::Sqlite => "journal.db",
        StoreKind::Files => "catalogue.db",
    }
}
