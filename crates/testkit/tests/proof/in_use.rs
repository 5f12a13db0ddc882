//! A journal that somebody has open is never taken for one that nobody uses.
//!
//! Whoever closes a database last removes its log. Processes tell each other that they are there by
//! locks, and the system takes those from a process that closes any other handle on the same file:
//! what it commits from then on may go into a log that has no name. Our own SQLite looks twice,
//! but people look into a journal with others.

use event::Time;
use journal::StoreKind;
use rusqlite::Connection;
use testkit::numbered;

use crate::in_every_store;
use crate::place::Place;
use crate::worker::Worker;

in_every_store![opening_it_again_leaves_it_in_use, closing_one_of_two_leaves_it_in_use];

fn opening_it_again_leaves_it_in_use(store: StoreKind) {
    let place = Place::new(store);
    let journal = place.open();
    journal.append(numbered::batch(0, 5)).unwrap();
    let again = place.open();
    require_in_use(&place);
    drop((journal, again));
    assert_eq!(said_of(&place, main_file(&place)), "free", "nobody has it open");
}

fn closing_one_of_two_leaves_it_in_use(store: StoreKind) {
    let place = Place::new(store);
    let first = place.open();
    first.append(numbered::batch(0, 5)).unwrap();
    let second = place.open();
    drop(first);
    require_in_use(&place);
    drop(second);
}

/// A repair keeps a copy of the file, and searches its bytes for what is lost.
#[test]
fn repairing_it_leaves_it_in_use() {
    let place = Place::new(StoreKind::Sqlite);
    let journal = place.open();
    journal.append(numbered::batch(0, 5)).unwrap();
    let db = Connection::open(place.dir().join(main_file(&place))).unwrap();
    db.execute_batch("UPDATE event SET checksum = 1 WHERE position = 5").unwrap();
    drop(db);
    journal.doctor(true, Time::from_millis(2_000_000_000_000)).unwrap();
    let kept = place.dir().join("quarantine").join("journal.db.1");
    assert!(kept.exists(), "it was repaired");
    require_in_use(&place);
}

#[track_caller]
fn require_in_use(place: &Place) {
    for name in [main_file(place), "derived.db"] {
        assert_eq!(said_of(place, name), "in use", "{name}");
    }
}

/// What another process says of a file that it would like to have alone.
#[track_caller]
fn said_of(place: &Place, name: &str) -> String {
    Worker::start(place, "look", &[name]).finish().pop().unwrap()
}

fn main_file(place: &Place) -> &'static str {
    match place.store {
        StoreKind::Sqlite => "journal.db",
        StoreKind::Files => "catalogue.db",
    }
}
