//! Killed while the write-ahead log is copied beside commits, a journal is whole.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use event::Time;
use journal::{Journal, StoreKind};
use testkit::{Dice, bulk, numbered};

use crate::setting;
use crate::test_journal::TestJournal;
use crate::worker::Worker;

/// How long a log gets before it is copied.
const LOG_BYTES: u64 = 32 * 1024 * 1024;

/// Few, because each writes a whole log.
const KILLS: u64 = 4;

/// How long a worker runs on behind the first byte that was copied: every other time less than
/// copying takes, or else so long that it may be over and the log begun anew.
const SPIN_MAX_US: [u64; 2] = [5_000, 1_000_000];

#[test]
fn journal_is_whole_after_interrupted_copy() {
    let place = TestJournal::new(StoreKind::Sqlite);
    let kills = setting("HANSARD_TEST_CRASHES", KILLS).min(KILLS);
    let mut dice = Dice::from_environment();
    println!("{kills} kills, HANSARD_TEST_SEED={}", dice.seed());
    let (mut known, mut in_the_middle) = (0, 0);
    let mut kept_open = None;
    for round in 0..kills {
        let spin = dice.below(SPIN_MAX_US[round as usize % 2]);
        let Killed { said, is_copied } = kill_while_copying(&place, Duration::from_micros(spin));
        in_the_middle += u32::from(!is_copied);
        let journal = kept_open.take().unwrap_or_else(|| place.open());
        known = look(&journal, known);
        let acknowledged = said.iter().filter_map(|line| line.strip_prefix("ack ")?.parse().ok());
        assert!(acknowledged.max() <= Some(known), "what was acknowledged is there");
        // In half of the rounds the journal is open here, too, while the worker is killed.
        kept_open = (round % 4 < 2).then_some(journal);
    }
    drop(kept_open);
    let journal = place.open();
    assert_eq!(look(&journal, 0), known);
    for check in journal.doctor(false, Time::from_millis(2_000_000_000_000)).unwrap() {
        assert!(check.ok, "{check:?}");
    }
    println!("{in_the_middle} of {kills} in the middle; {known} events");
    assert!(in_the_middle > 0);
}

/// How a worker ended.
struct Killed {
    said: Vec<String>,
    /// Whether the copy it had begun was done.
    is_copied: bool,
}

/// Starts a worker and kills it when its log is being copied.
fn kill_while_copying(place: &TestJournal, spin: Duration) -> Killed {
    let length = |name: &str| place.dir().join(name).metadata().map_or(0, |file| file.len());
    let before = length("journal.db");
    let mut worker = Worker::start(place, "pour", &[]);
    worker.wait_for("opened");
    let mut said = Vec::new();
    while length("journal.db-wal") < LOG_BYTES {
        said.push(worker.line().unwrap_or_else(|| panic!("the end behind {:?}", said.last())));
    }
    // Only a copy of the log makes the database longer.
    let began = Instant::now();
    while length("journal.db") <= before {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody copies it");
        std::thread::yield_now();
    }
    let copied = frames_copied(place);
    said.extend(worker.kill_after(0, spin));
    Killed { said, is_copied: frames_copied(place) != copied }
}

/// Returns how many frames of the log are in the database, from the shared-memory index. SQLite
/// updates it at the end of a copy.
fn frames_copied(place: &TestJournal) -> u32 {
    // Never closed: closing would release the locks of a journal that this process has open.
    let shared = ManuallyDrop::new(File::open(place.dir().join("journal.db-shm")).unwrap());
    let mut frames = [0; 4];
    shared.read_exact_at(&mut frames, 96).unwrap();
    u32::from_ne_bytes(frames)
}

/// Reads everything behind the number that is known, and returns the last one.
#[track_caller]
fn look(journal: &Journal, mut known: u64) -> u64 {
    loop {
        let page = journal.recorded_from(known + 1).unwrap();
        if page.is_empty() {
            let source = journal.source_position(bulk::SOURCE).unwrap();
            assert_eq!(numbered::read_up_to(source), known, "the source is where its events are");
            return known;
        }
        for recorded in page {
            known += 1;
            assert_eq!(recorded.position, known, "positions rise by one");
            assert_eq!(recorded.event.seq, bulk::seq_of(known));
            assert!(recorded.event.has_same_content(&bulk::draft_at(known)), "{known}");
        }
    }
}
