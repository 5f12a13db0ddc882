//! `derived.db` may be deleted at any time, also while processes have it open.
//!
//! Users delete only that file. SQLite's files beside it stay, and processes that have the old
//! database open go on using them: a new database beside them would be read with the old index.

use std::path::Path;

use journal::{Query, StoreKind};
use testkit::numbered;

use crate::in_every_store;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

const EVENTS: u64 = 500;

in_every_store![
    derived_data_deleted_under_an_idle_process_is_made_again,
    an_empty_file_in_place_of_derived_data_is_made_again,
];

fn derived_data_deleted_under_an_idle_process_is_made_again(store: StoreKind) {
    require_made_again_after(store, |derived| std::fs::remove_file(derived).unwrap());
}

/// As another SQLite program leaves it that is asked for a file that is gone.
fn an_empty_file_in_place_of_derived_data_is_made_again(store: StoreKind) {
    require_made_again_after(store, |derived| {
        std::fs::remove_file(derived).unwrap();
        std::fs::write(derived, "").unwrap();
    });
}

#[track_caller]
fn require_made_again_after(store: StoreKind, harm: impl FnOnce(&Path)) {
    let place = TestJournal::new(store);
    let journal = place.open();
    journal.append(numbered::batch_after(0, EVENTS)).unwrap();
    while journal.index().unwrap().is_some() {}
    let mut idle = Worker::start(&place, "stay", &[]);
    idle.wait_for("ready");
    drop(journal);
    let derived = place.dir().join("derived.db");
    assert!(derived.with_extension("db-shm").exists(), "somebody has it open");
    harm(&derived);
    let found = place.open().search(&Query::new("number")).unwrap();
    assert_eq!(found.total, EVENTS as usize);
    idle.go();
    assert_eq!(idle.finish().pop().unwrap(), format!("found {EVENTS}"));
}
