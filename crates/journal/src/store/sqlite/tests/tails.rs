//! Ids of long sessions are found through the table `tails`, also when it is damaged.

use super::*;
use crate::id_cache::IdSuffixes;

impl Bench {
    /// Appends as many events to a session, in commits of some hundreds.
    fn talk(&mut self, session: &str, mut events: usize) {
        while events > 0 {
            let some = events.min(300);
            self.append(session, &vec!["a word"; some]);
            events -= some;
        }
    }

    /// Where session 1 has the facts that stand at these `seq`, by the ids there are; and a fact
    /// that no event has.
    fn find(&self, seqs: &[u64]) -> Vec<u64> {
        let reader = self.store.reader().unwrap();
        let ids = reader.ids(1, 0).unwrap().into_iter();
        let mut tails: IdSuffixes =
            ids.filter(|(_, seq)| seqs.contains(seq)).map(|(id, _)| id.tail()).collect();
        tails.insert([7; 10]);
        reader.ids_with_suffix(1, &tails).unwrap().ids.into_iter().map(|(_, seq)| seq).collect()
    }
}

/// On both sides of every border of a session of 1,300 events.
const SEQS: [u64; 8] = [1, 510, 511, 512, 1_023, 1_024, 1_299, 1_300];

#[test]
fn long_session_is_searched_by_tails() {
    let mut bench = Bench::new();
    bench.talk("other", 600);
    bench.talk("a", 1_300);
    assert_eq!(count(&bench.file(), "tails"), 1 + 2);
    let reader = bench.store.reader().unwrap();
    let ids = reader.ids(2, 0).unwrap();
    let tails: IdSuffixes = SEQS.iter().map(|seq| ids[*seq as usize - 1].0.tail()).collect();
    let found = reader.ids_with_suffix(2, &tails).unwrap().ids;
    assert_eq!(found, SEQS.map(|seq| ids[seq as usize - 1]));
    // Facts of one session are not those of another.
    assert_eq!(reader.ids_with_suffix(1, &tails).unwrap().ids, []);
    drop(reader);

    // Only what is noted says where a fact may stand: without the note it is not looked for.
    bench.tamper("UPDATE event SET id = randomblob(16) WHERE pk & 4294967295 > 512");
    assert_eq!(bench.store.reader().unwrap().ids_with_suffix(2, &tails).unwrap().ids, found[..4]);
}

#[test]
fn ids_are_found_without_tails() {
    for damage in [
        "DELETE FROM tails",
        "DELETE FROM tails WHERE stretch & 8388607 = 0",
        "DELETE FROM tails WHERE stretch & 8388607 = 1",
        "UPDATE tails SET bytes = zeroblob(2048)",
        "UPDATE tails SET bytes = x'00' WHERE stretch & 8388607 = 1",
        "UPDATE tails SET stretch = stretch + 100",
    ] {
        let mut bench = Bench::new();
        bench.talk("a", 1_300);
        bench.tamper(damage);
        assert_eq!(bench.find(&SEQS), SEQS, "{damage}");
    }
}

#[test]
fn wrong_tails_are_repaired() {
    for damage in [
        "DELETE FROM tails WHERE stretch & 8388607 = 0",
        "UPDATE tails SET bytes = zeroblob(2048) WHERE stretch & 8388607 = 1",
        "UPDATE tails SET checksum = 7",
        "UPDATE tails SET stretch = stretch + 100",
        "UPDATE tails SET stretch = -stretch",
        "UPDATE event SET id = randomblob(16) WHERE pk & 4294967295 = 7",
        // Of a session that is not there.
        "INSERT INTO tails SELECT stretch + 83886080, checksum, bytes FROM tails",
    ] {
        let mut bench = Bench::new();
        bench.talk("a", 1_300);
        assert_eq!(bench.check(false), [""; 0]);
        bench.tamper(damage);
        let told = "its rows in `tails` do not fit its events: \
                    the database is rebuilt from what can be read";
        assert!(bench.check(false).contains(&told.to_owned()), "{damage}");
        bench.check(true);
        assert_eq!(bench.check(false), [""; 0], "{damage}");
        assert_eq!(count(&bench.file(), "tails"), 2, "{damage}");
    }
}

#[test]
fn missing_stretches_are_filled_later() {
    let mut bench = Bench::new();
    bench.talk("a", 1_300);
    bench.tamper("DELETE FROM tails");
    bench.talk("a", 234);
    assert_eq!(count(&bench.file(), "tails"), 0);
    bench.talk("a", 1);
    assert_eq!(count(&bench.file(), "tails"), 3);
    assert_eq!(bench.find(&SEQS), SEQS);
}

#[test]
fn events_inserted_in_front_are_found() {
    // In the stretch of the first, or before it.
    for (inherited, noted) in [(100, 3), (600, 2)] {
        let mut bench = Bench::new();
        bench.talk("a", 1_300);
        // As if they had been a parent's until now.
        let taken_over = bench.store.reader().unwrap().ids(1, 0).unwrap();
        bench.tamper(&format!(
            "DELETE FROM tails; DELETE FROM event WHERE pk & 4294967295 <= {inherited}"
        ));
        bench.talk("a", 300);
        assert_eq!(count(&bench.file(), "tails"), noted, "it begins with its first own event");
        let mut changes = ChangeSet::default();
        for (id, seq) in taken_over.into_iter().take(inherited) {
            let draft = Draft { id, ..draft(&bench.sessions[0].id, seq, "a word") };
            bench.tail += 1;
            changes.events.push(EventRow {
                position: bench.tail,
                session: 1,
                seq,
                packed: bench.store.pack(&draft),
                draft: Arc::new(draft),
            });
        }
        bench.store.begin().unwrap().apply(&changes).unwrap();
        assert_eq!(bench.find(&SEQS), SEQS);
    }
}

#[test]
fn deleted_session_has_no_tails() {
    let mut bench = Bench::new();
    bench.talk("a", 600);
    bench.talk("b", 600);
    bench.delete("a");
    assert_eq!(count(&bench.file(), "tails"), 1);
}
