//! After `kill -9` at any instant, every acknowledged event is in the journal.

use std::time::Duration;

use journal::StoreKind;
use testkit::Dice;

use crate::account::Account;
use crate::test_journal::TestJournal;
use crate::worker::Worker;
use crate::{in_every_store, setting};

/// Kills per store.
const KILLS: u64 = 500;

/// How long a worker runs on behind the last line that was waited for. A commit takes less, so
/// every part of it is met.
const SPIN_MAX_US: u64 = 2_000;

/// Lines waited for, and one more than there can be before the first acknowledgement.
const LINES_MAX: u64 = 12;

in_every_store![acknowledged_events_survive_a_kill];

/// Appending over several sessions with a source position, forking, and opening and closing, which
/// recovers and checkpoints. Now and then another process has the journal open meanwhile.
fn acknowledged_events_survive_a_kill(store: StoreKind) {
    let place = TestJournal::new(store);
    let mut account = Account::default();
    Worker::start(&place, "append", &["50"]).finish();
    account.look(&place.open(), &[]);

    let kills = setting("HANSARD_TEST_CRASHES", KILLS);
    let mut dice = Dice::from_environment();
    println!("{store:?}: {kills} kills, HANSARD_TEST_SEED={}", dice.seed());
    let mut said_before = [0; 3];
    let mut kept_open = None;
    for round in 0..kills {
        let prefix = format!("fork-{round}");
        let (work, rest) = match round % 4 {
            0 | 1 => ("append", vec![]),
            2 => ("fork", vec![prefix.as_str()]),
            _ => ("reopen", vec![]),
        };
        let worker = Worker::start(&place, work, &rest);
        let spin = Duration::from_micros(dice.below(SPIN_MAX_US));
        let said = worker.kill_after(1 + dice.below(LINES_MAX), spin);
        let stage = match () {
            () if said.iter().any(|line| line.starts_with("ack") || line.starts_with("fork")) => 2,
            () if said.iter().any(|line| line == "opened") => 1,
            () => 0,
        };
        said_before[stage] += 1;
        let journal = kept_open.take().unwrap_or_else(|| place.open());
        account.look(&journal, &said);
        // Three rounds of ten the journal is open here too, and its log grows on.
        kept_open = (round % 10 >= 7).then_some(journal);
    }
    drop(kept_open);
    let journal = place.open();
    // An event that was whole on the disk, and not acknowledged, may come back with the opening. A
    // journal that was open all the time has not seen it.
    account.look(&journal, &[]);
    account.audit(&journal);
    let [opening, opened, working] = said_before;
    println!(
        "{store:?}: killed {opening} times while opening, {opened} before and {working} after the \
         first acknowledgement; {}",
        account.counts()
    );
}
