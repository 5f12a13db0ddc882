//! Killed in the middle of a migration, a journal is in the old format or in the new one.

use std::path::Path;
use std::time::{Duration, Instant};

use event::Time;
use journal::StoreKind;
use rusqlite::Connection;
use testkit::{Dice, bulk};

use crate::account::Account;
use crate::setting;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

/// The tables as they once were, format by format.
const FORMATS: [&str; 4] = [
    include_str!("../../../journal/migrations/0001_record.sql"),
    include_str!("../../../journal/migrations/0002_sightings.sql"),
    include_str!("../../../journal/migrations/0003_ids.sql"),
    include_str!("../../../journal/migrations/0004_blocks.sql"),
];

/// "HNSD", by which the journal knows its databases.
const APPLICATION_ID: u32 = 0x484E_5344;

/// Events to migrate: enough for the copy and the checks to take some time.
const EVENTS: u64 = 2_000;

const KILLS: u64 = 60;

#[test]
fn a_migration_from_the_first_format_is_done_or_not_begun() {
    migrate_and_kill(1);
}

/// The last format without blocks.
#[test]
fn a_migration_to_blocks_is_done_or_not_begun() {
    migrate_and_kill(3);
}

/// The last format without what tells facts apart.
#[test]
fn a_migration_to_tails_is_done_or_not_begun() {
    migrate_and_kill(4);
}

fn migrate_and_kill(format: u32) {
    let old = old_journal(format);
    let file = old.dir().join("journal.db");
    let time = time_of_migration(&old, format);
    let mut dice = Dice::from_environment();
    let kills = setting("HANSARD_TEST_CRASHES", KILLS).min(KILLS);
    println!("format {format}: {kills} kills in {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    let (mut not_begun, mut in_the_middle, mut done) = (0, 0, 0);
    for _ in 0..kills {
        let place = old.copy();
        let worker = Worker::start(&place, "open", &[]);
        let spin = Duration::from_micros(dice.below(1 + time.as_micros() as u64));
        worker.kill_after(1, spin);
        let migrated = place.dir().join("journal.db");
        let left = std::fs::read_dir(place.dir()).unwrap().count();
        let begun = std::fs::read_dir(old.dir()).unwrap().count();
        match () {
            () if format_of(&migrated) > format => done += 1,
            () if left > begun => in_the_middle += 1,
            () => not_begun += 1,
        }
        require_same_events(&place);
        assert!(format_of(&migrated) > format, "opening again migrates");
        // What was kept aside is the old journal, whole.
        let kept = place.dir().join(format!("journal.db.v{format}.bak"));
        assert_eq!((format_of(&kept), count_events(&kept)), (format, count_events(&file)));
    }
    println!("{not_begun} not begun, {in_the_middle} in the middle, {done} done");
}

/// Measures a migration without a kill.
fn time_of_migration(old: &TestJournal, format: u32) -> Duration {
    let whole = old.copy();
    let mut worker = Worker::start(&whole, "open", &[]);
    worker.wait_for("started");
    let began = Instant::now();
    worker.wait_for("opened");
    let time = began.elapsed();
    worker.finish();
    assert!(format_of(&whole.dir().join("journal.db")) > format, "it was migrated");
    require_same_events(&whole);
    let journal = whole.open();
    // What is new may be packed otherwise than what was there.
    journal.append(bulk::batch_after(0)).unwrap();
    for check in journal.doctor(false, Time::from_millis(2_000_000_000_000)).unwrap() {
        assert!(check.ok, "{check:?}");
    }
    time
}

/// Every event is there and says what it was made to say.
#[track_caller]
fn require_same_events(place: &TestJournal) {
    let journal = place.open();
    Account::default().look(&journal, &[format!("ack {EVENTS}")]);
    assert_eq!(journal.tail().unwrap(), EVENTS);
}

/// A journal in an older format: today's rows in yesterday's tables.
fn old_journal(format: u32) -> TestJournal {
    let new = TestJournal::new(StoreKind::Sqlite);
    Worker::start(&new, "append", &[&EVENTS.to_string()]).finish();
    let old = TestJournal::new(StoreKind::Sqlite);
    let db = Connection::open(old.dir().join("journal.db")).unwrap();
    db.pragma_update(None, "page_size", 8_192).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    // Tables are filled in any order.
    db.pragma_update(None, "foreign_keys", false).unwrap();
    for tables in &FORMATS[..format as usize] {
        db.execute_batch(tables).unwrap();
    }
    let from = new.dir().join("journal.db");
    db.execute("ATTACH ?1 AS new", [from.to_str().unwrap()]).unwrap();
    let tables = strings(&db, "SELECT name FROM main.sqlite_schema WHERE type = 'table'");
    for table in tables {
        let columns = strings(&db, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let columns = columns.join(", ");
        let copy =
            format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}");
        db.execute_batch(&copy).unwrap();
    }
    db.execute_batch("DETACH new").unwrap();
    db.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    db.pragma_update(None, "user_version", format).unwrap();
    // No format before blocks has a body that is a place in one.
    let in_blocks = strings(&db, "SELECT hex(id) FROM event WHERE substr(body, 1, 1) = x'03'");
    assert_eq!(in_blocks, [""; 0]);
    db.close().unwrap();
    assert_eq!(format_of(&old.dir().join("journal.db")), format);
    old
}

fn strings(db: &Connection, query: &str) -> Vec<String> {
    let mut statement = db.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn format_of(file: &Path) -> u32 {
    let db = Connection::open(file).unwrap();
    db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn count_events(file: &Path) -> i64 {
    let db = Connection::open(file).unwrap();
    let whole: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    db.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap()
}
