//! Killed in the middle of a repair, a journal is as it was or as it should be, and nothing of the
//! repair is left lying around.

use std::time::{Duration, Instant};

use event::Time;
use journal::{Journal, StoreKind};
use rusqlite::Connection;
use testkit::Dice;

use crate::account::Account;
use crate::setting;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

/// Events to repair: enough for the new database to take some time.
const EVENTS: u64 = 500;

const KILLS: u64 = 40;

#[test]
fn a_repair_is_done_or_not_begun() {
    let damaged = damaged_journal();
    let time = time_of_repair(&damaged);
    let mut dice = Dice::from_environment();
    let kills = setting("HANSARD_TEST_CRASHES", KILLS).min(KILLS);
    println!("{kills} kills in {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    let (mut in_the_middle, mut behind_the_end) = (0, 0);
    for _ in 0..kills {
        let place = damaged.copy();
        let worker = Worker::start(&place, "repair", &[]);
        let spin = Duration::from_micros(dice.below(1 + time.as_micros() as u64));
        // That it started, and that it has it open.
        worker.kill_after(2, spin);
        let has_left = place.dir().join("journal.db.repaired").exists();
        let journal = place.open();
        require_same_events(&journal);
        require_nothing_left(&place);
        let is_repaired = is_sound(&journal, false);
        in_the_middle += u32::from(has_left && !is_repaired);
        behind_the_end += u32::from(has_left && is_repaired);
        assert!(is_sound(&journal, true), "repairing again repairs");
        require_same_events(&journal);
        require_nothing_left(&place);
    }
    println!("{in_the_middle} in the middle, {behind_the_end} behind the end");
}

/// Measures a repair without a kill.
fn time_of_repair(damaged: &TestJournal) -> Duration {
    let whole = damaged.copy();
    let mut worker = Worker::start(&whole, "repair", &[]);
    worker.wait_for("opened");
    let began = Instant::now();
    worker.wait_for("repaired");
    let time = began.elapsed();
    worker.finish();
    assert!(is_sound(&whole.open(), false), "it was repaired");
    time
}

/// Wrong in a way that costs no event.
fn damaged_journal() -> TestJournal {
    let place = TestJournal::new(StoreKind::Sqlite);
    Worker::start(&place, "append", &[&EVENTS.to_string()]).finish();
    let db = Connection::open(place.dir().join("journal.db")).unwrap();
    db.execute_batch("UPDATE session SET events = 1").unwrap();
    db.close().unwrap();
    assert!(!is_sound(&place.open(), false), "there is something to repair");
    place
}

fn is_sound(journal: &Journal, repair: bool) -> bool {
    let checks = journal.doctor(repair, Time::from_millis(2_000_000_000_000)).unwrap();
    checks.iter().all(|check| check.ok)
}

#[track_caller]
fn require_same_events(journal: &Journal) {
    Account::default().look(journal, &[format!("ack {EVENTS}")]);
    assert_eq!(journal.tail().unwrap(), EVENTS);
}

/// No second copy of the record that nobody knows of.
#[track_caller]
fn require_nothing_left(place: &TestJournal) {
    let left = place.files().into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("journal.db.")
    });
    // What is kept of a damaged journal is in the quarantine, where people are told to look.
    let left: Vec<_> = left.filter(|path| path.parent() == Some(place.dir())).collect();
    assert!(left.is_empty(), "{left:?}");
}
