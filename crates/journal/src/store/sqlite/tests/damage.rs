//! Bytes that are not what was written: every one is noticed, and a repair loses what is damaged
//! and nothing else.

use super::*;
use crate::store::{SightingRow, SourceRow};

impl Bench {
    pub(super) fn check(&self, repair: bool) -> Vec<String> {
        let line = |finding: &CheckFinding| {
            let place = finding.damage.seq.map(|seq| format!("#{seq} ")).unwrap_or_default();
            let repaired = if finding.repaired { "; repaired" } else { "" };
            format!("{place}{}: {}{repaired}", finding.damage.why, finding.remedy)
        };
        self.store.check(repair, None).unwrap().iter().map(line).collect()
    }

    pub(super) fn quarantined(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("quarantine")).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Sources, consumers, sightings and a deleted session.
    fn fill_small_tables(&mut self) {
        let mut changes = self.changes("gone", &["x"]);
        changes.sources = (0..9)
            .map(|n| SourceRow { source_id: format!("/home/dev/{n}"), position: n.to_string() })
            .collect();
        changes.consumers = vec![("search".to_owned(), 7), ("usage".to_owned(), 8)];
        let sighting = |seq| SightingRow {
            session: 1,
            seq,
            source: "hook".to_owned(),
            observed_at: Time::EPOCH,
            source_position: None,
            differs: false,
        };
        changes.sightings = (1..9).map(sighting).collect();
        self.store.begin().unwrap().apply(&changes).unwrap();
        self.delete("gone");
    }

    /// The same journal with other bytes in its file.
    pub(super) fn with_bytes(bytes: &[u8]) -> Result<Bench, OpenError> {
        let dir = private_dir();
        std::fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
        let store = SqliteStore::open_or_create(dir.path(), Durability::Relaxed)?;
        Ok(Bench { dir, store, sessions: Vec::new(), tail: 0 })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.store.checkpoint().unwrap();
        std::fs::read(self.file()).unwrap()
    }

    /// All events of a session, in pages.
    pub(super) fn all(&self, session: u32) -> Vec<StoredEvent> {
        let reader = self.store.reader().unwrap();
        let mut events: Vec<StoredEvent> = Vec::new();
        loop {
            let from = events.last().map_or(1, |stored| stored.seq + 1);
            let page = reader.events(session, SeqRange { from, ..ALL }).unwrap();
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }
}

#[test]
fn sound_journal_has_no_findings() {
    let mut bench = Bench::new();
    bench.append("one", &["a", &"x".repeat(INLINE_DATA_MAX)]);
    bench.append("two", &["b"]);
    bench.delete("two");
    assert_eq!(bench.check(true), [""; 0]);
    assert!(!bench.dir.path().join("quarantine").exists());
}

/// Damages a copy of the file, opens it for a repair and repairs it.
fn mend(bench: &Bench, damage: impl Fn(&mut Vec<u8>)) -> Bench {
    let mut bytes = bench.bytes();
    damage(&mut bytes);
    let dir = private_dir();
    std::fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
    let store = SqliteStore::open_to_repair(dir.path(), Durability::Relaxed).unwrap();
    let mended = Bench { dir, store, sessions: Vec::new(), tail: 0 };
    mended.check(true);
    mended
}

#[test]
fn every_byte_of_the_header_can_be_mended() {
    let mut bench = Bench::new();
    bench.append("one", &["a", "b", "c"]);
    let whole = bench.render();
    for place in 0..100 {
        for mask in [0x01, 0x80, 0xff] {
            let mended = mend(&bench, |bytes| bytes[place] ^= mask);
            assert_eq!(mended.render(), whole, "byte {place} with {mask:#x}");
        }
    }
}

#[test]
fn cut_file_keeps_what_is_before_its_end() {
    let mut bench = Bench::new();
    let mut noise = Noise(7);
    for number in 0..60 {
        let text = noise.text(9_000);
        bench.append(&format!("session {number}"), &[&text]);
    }
    let readable = |mended: &Bench| {
        let page = mended.store.reader().unwrap().positions(ALL).unwrap();
        page.iter()
            .filter(|stored| stored.event.as_ref().is_ok_and(|event| event.kind != Kind::Unknown))
            .count()
    };
    for percent in [99, 90, 50] {
        let mended = mend(&bench, |bytes| bytes.truncate(bytes.len() * percent / 100));
        let left = readable(&mended);
        assert!(left > 60 * percent / 100 - 12, "{left} of 60 events are left of {percent} %");
        assert_eq!(mended.check(false).iter().filter(|line| !line.contains("repaired")).count(), 0);
    }
}

#[test]
fn newer_format_is_left_alone() {
    let bench = Bench::new();
    bench.tamper("CREATE TABLE news (a TEXT) STRICT; PRAGMA user_version = 99");
    let dir = private_dir();
    std::fs::write(dir.path().join(FILE_NAME), bench.bytes()).unwrap();
    let refused = SqliteStore::open_to_repair(dir.path(), Durability::Relaxed);
    assert!(matches!(refused, Err(OpenError::NewerFormat { found: 99, .. })));
    assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), bench.bytes());
}

#[test]
fn position_that_is_no_text_is_left_out() {
    let mut bench = Bench::new();
    bench.append("one", &["x"; 9]);
    bench.fill_small_tables();
    bench.tamper(
        "UPDATE source SET position = CAST(x'ff31' AS TEXT) WHERE source_id = '/home/dev/3'",
    );
    let listed = |bench: &Bench| {
        let mut listed = Vec::new();
        let reader = bench.store.reader().unwrap();
        reader.sources(&mut |source, _| listed.push(source.to_owned())).unwrap();
        assert_eq!(reader.source("/home/dev/3").unwrap(), None);
        listed.len()
    };
    assert_eq!(listed(&bench), 8);
    let found = bench.check(false);
    assert!(found[0].starts_with("how far the source `/home/dev/3` was read"), "{found:?}");
    bench.check(true);
    assert_eq!(bench.check(false), [""; 0]);
    assert_eq!(listed(&bench), 8);
}

#[test]
fn title_that_is_no_text_hides_no_session() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    bench.tamper("UPDATE session SET title = CAST(x'61ff' AS TEXT)");
    let rows = bench.store.reader().unwrap().sessions(None, 10).unwrap();
    assert_eq!(rows[0].title.as_deref(), Some("a\u{FFFD}"));
}

/// Tells every event of one session again.
struct Teller(Vec<Draft>);

impl Recovery for Teller {
    fn events_of(&self, session: &SessionId) -> Vec<Draft> {
        self.0.iter().filter(|draft| draft.session_id == *session).cloned().collect()
    }
}

#[test]
fn lost_events_are_told_again_in_their_places() {
    let mut bench = Bench::new();
    let told = bench.changes("one", &["a", "b", "c", "d"]);
    bench.store.begin().unwrap().apply(&told).unwrap();
    let whole = bench.render();
    let teller = Teller(told.events.iter().map(|row| (*row.draft).clone()).collect());
    let damage = "UPDATE event SET body = x'00' WHERE pk & 0xFFFFFFFF = 2; \
                  DELETE FROM event WHERE pk & 0xFFFFFFFF = 3";
    bench.tamper(damage);
    let found = bench.store.check(true, Some(&teller)).unwrap();
    assert!(found.iter().all(|finding| finding.remedy == "taken back from the originals"));
    assert_eq!(bench.render(), whole);
    assert_eq!(bench.check(false), [""; 0]);
    // What a repair without originals gave up comes back with them.
    bench.tamper(damage);
    bench.check(true);
    assert_ne!(bench.render(), whole);
    let found = bench.store.check(false, Some(&teller)).unwrap();
    assert!(!found.is_empty());
    bench.store.check(true, Some(&teller)).unwrap();
    assert_eq!(bench.render(), whole);
    assert!(bench.store.check(false, Some(&teller)).unwrap().is_empty());
}

#[test]
fn repair_keeps_lost_places() {
    let mut bench = Bench::new();
    bench.append("one", &["a", "b", "c", "d"]);
    bench.tamper(
        "UPDATE event SET body = x'00' WHERE pk & 0xFFFFFFFF = 2; \
         DELETE FROM event WHERE pk & 0xFFFFFFFF = 3",
    );
    let kept = "its place is kept, and shown as unknown; what is left of it is set aside";
    let found =
        [format!("#2 the checksum does not fit: {kept}"), format!("#3 the row is missing: {kept}")];
    assert_eq!(bench.check(false), found);
    assert_eq!(bench.check(true), found.map(|line| line + "; repaired"));
    assert_eq!(bench.check(false), [""; 0]);
    assert_eq!(
        bench.render(),
        [
            r#"1 {"content":"a"}"#,
            r#"2 {"raw":"\u0000"}"#,
            r#"3 {"raw":""}"#,
            r#"4 {"content":"d"}"#
        ]
    );
    let positions = bench.store.reader().unwrap().positions(ALL).unwrap();
    assert_eq!(positions.iter().map(|stored| stored.position).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(bench.quarantined(), ["journal.db.1", "session-1-event-2.1"]);
    bench.append("one", &["e"]);
}

#[test]
fn leftovers_of_killed_repair_are_removed() {
    let left: [PathBuf; 5] =
        ["repaired", "repaired-journal", "repaired-wal", "repaired-shm", "v4.unfinished"]
            .map(|end| PathBuf::from(format!("{FILE_NAME}.{end}")));
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    let kept = bench.dir.path().join("journal.db.v4.bak");
    std::fs::write(&kept, "kept").unwrap();
    let leave =
        |dir: &Path| left.iter().for_each(|name| std::fs::write(dir.join(name), "").unwrap());
    let is_there = |dir: &Path| left.each_ref().map(|name| dir.join(name).exists());
    leave(bench.dir.path());
    // A process that has the journal open may be repairing it.
    drop(SqliteStore::open_or_create(bench.dir.path(), Durability::Full).unwrap());
    assert_eq!((bench.check(false), is_there(bench.dir.path())), (vec![], [true; 5]));
    assert_eq!((bench.check(true), is_there(bench.dir.path())), (vec![], [false; 5]));
    leave(bench.dir.path());
    let Bench { dir, store, .. } = bench;
    drop(store);
    drop(SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap());
    assert_eq!(is_there(dir.path()), [false; 5]);
    assert!(kept.exists());
}

#[test]
fn counters_come_out_of_the_events() {
    for wrong in [
        "base_seq = 1",
        "tail_seq = 1000000",
        "events = 1",
        "bytes = 1",
        "cost = 5",
        "last_position = 1",
        "last_at = 7",
    ] {
        let mut bench = Bench::new();
        bench.append("one", &["a", "b"]);
        let right = bench.store.reader().unwrap().session_numbered(1).unwrap();
        bench.tamper(&format!("UPDATE session SET {wrong}"));
        assert_eq!(bench.render().len(), 2, "{wrong}");
        assert!(!bench.check(false).is_empty(), "{wrong}");
        bench.check(true);
        let mended = bench.store.reader().unwrap().session_numbered(1).unwrap();
        assert_eq!(mended, right, "{wrong}");
        assert_eq!(bench.check(false), [""; 0], "{wrong}");
    }
}

#[test]
fn events_without_a_session_get_one() {
    let mut bench = Bench::new();
    bench.append("one", &["a", "b"]);
    bench.tamper("DELETE FROM session");
    assert_eq!(bench.check(true).len(), 1);
    assert_eq!(bench.render(), [r#"1 {"content":"a"}"#, r#"2 {"content":"b"}"#]);
    let row = bench.store.reader().unwrap().session_numbered(1).unwrap().unwrap();
    assert_eq!((row.id.as_str(), row.tail_seq), ("salvaged-1", 2));
}

#[test]
fn unreachable_pages_are_carved() {
    let mut bench = Bench::new();
    let texts: Vec<String> = (0..600).map(|n| format!("{n} {}", "word ".repeat(n % 40))).collect();
    let large = "x".repeat(12_000);
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts[300] = &large;
    bench.append("one", &texts);
    let before = bench.render();
    let mut bytes = bench.bytes();
    // The page all others of the table hang on.
    let db = Connection::open(bench.file()).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'event'";
    let root: usize = db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    let page = &mut bytes[(root - 1) * 8_192..root * 8_192];
    assert_eq!(page[0], 5, "an inner page");
    page[..200].fill(0xA5);
    let bench = Bench::with_bytes(&bytes).unwrap();
    let lost = bench.all(1).iter().filter(|stored| stored.event.is_err()).count();
    assert_eq!(lost, 600);
    bench.check(true);
    assert_eq!(bench.check(false), [""; 0]);
    assert_eq!(bench.render(), before);
}

#[test]
fn flipped_byte_is_noticed_alone() {
    let mut bench = Bench::new();
    let texts: Vec<String> = (0..60).map(|n| format!("{n} {}", "text ".repeat(n))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    bench.append("one", &texts);
    bench.append("two", &["a", "b", "c"]);
    bench.fill_small_tables();
    let whole = render(&bench.all(1));
    let bytes = bench.bytes();
    let (mut refused, mut damaged) = (0, 0);
    // A prime, so that every part of a page is met, and the head of every page besides.
    let heads = (0..bytes.len()).step_by(8_192).flat_map(|page| [page, page + 4, page + 8]);
    for place in (0..bytes.len()).step_by(911).chain(heads) {
        let mut flipped = bytes.clone();
        // The highest bit makes letters of what is no text.
        flipped[place] ^= if place % 2 == 0 { 0x41 } else { 0x80 };
        let Ok(bench) = Bench::with_bytes(&flipped) else {
            refused += 1;
            continue;
        };
        for (line, right) in render(&bench.all(1)).iter().zip(&whole) {
            assert!(line == right || line.contains("broken"), "byte {place}: {line}");
        }
        damaged += usize::from(!bench.check(true).is_empty());
        let after = render(&bench.all(1));
        let lost = after.iter().zip(&whole).filter(|(line, right)| line != right).count();
        assert_eq!(after.len(), whole.len(), "byte {place}");
        assert!(lost <= 1, "byte {place}: {lost} events are lost");
        assert_eq!(bench.check(false), [""; 0], "byte {place}");
    }
    assert!(refused < damaged && damaged > 10, "{refused} refused, {damaged} damaged");
}

#[test]
fn invalid_row_is_not_copied() {
    let mut bench = Bench::new();
    bench.append("one", &["a"; 9]);
    bench.fill_small_tables();
    let bytes = bench.bytes();
    let db = Connection::open(bench.file()).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'source'";
    let end = db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize * 8_192;
    // The first row stands last on its page. One bit makes a text of it that is none.
    for place in end - 20..end {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1;
        let bench = Bench::with_bytes(&flipped).unwrap();
        bench.check(true);
        assert_eq!(bench.check(false), [""; 0], "byte {place}");
        assert!(count(&bench.file(), "source") >= 8, "byte {place}");
    }
}

/// A checkpoint of another process, held up in the middle until the test releases it.
mod copier {
    use super::*;
    use std::sync::{Condvar, Mutex};

    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Coming,
        InTheMiddle,
        Leaving,
    }

    static STATE: Mutex<State> = Mutex::new(State::Coming);
    static TURN: Condvar = Condvar::new();

    pub(super) fn copy(file: &Path) {
        let mut db = Connection::open(file).unwrap();
        db.busy_handler(Some(|_| {
            enter(State::InTheMiddle);
            wait_for(State::Leaving);
            false
        }))
        .unwrap();
        let is_busy = db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0));
        assert_eq!(is_busy, Ok(1));
    }

    pub(super) fn wait_until_in_the_middle() {
        wait_for(State::InTheMiddle);
    }

    pub(super) fn leave() {
        enter(State::Leaving);
    }

    fn enter(state: State) {
        *STATE.lock().unwrap() = state;
        TURN.notify_all();
    }

    fn wait_for(state: State) {
        drop(TURN.wait_while(STATE.lock().unwrap(), |now| *now != state).unwrap());
    }
}

#[test]
fn repair_waits_for_foreign_checkpoint() {
    let mut bench = Bench::new();
    bench.append("one", &["a", "b"]);
    bench.tamper("UPDATE event SET body = x'00' WHERE pk & 0xFFFFFFFF = 2");
    // A reader on an older state keeps newer frames from being checkpointed.
    let reader = Connection::open(bench.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    bench.append("one", &["c"]);
    let file = bench.file();
    let copying = std::thread::spawn(move || copier::copy(&file));
    copier::wait_until_in_the_middle();
    let refused = bench.store.check(true, None).unwrap_err();
    assert!(format!("{refused:?}").contains("repair again"), "{refused:?}");
    assert!(!bench.dir.path().join("quarantine").exists());

    copier::leave();
    copying.join().unwrap();
    reader.execute_batch("ROLLBACK").unwrap();
    assert_eq!(bench.check(true).len(), 1);
    let kept = bench.dir.path().join("quarantine").join("journal.db.1");
    assert_eq!(count(&kept, "event"), 3);
    assert_eq!(bench.render()[2], r#"3 {"content":"c"}"#);
}

#[test]
fn copies_are_no_wrong_counters() {
    let mut bench = Bench::new();
    let mut changes = bench.changes("one", &["a", "b", "c", "d"]);
    let row = &mut changes.sessions[0];
    *row = SessionRow::new(1, &row.id, Time::EPOCH);
    for (place, event) in changes.events.iter_mut().enumerate() {
        let mut draft = Draft::clone(&event.draft);
        if place < 2 {
            let origin = Raw::parse(format!(
                r#"{{"session_id":"elsewhere","event_id":"{}"}}"#,
                draft.id.with_tail([7; 10])
            ));
            draft.metadata.insert(event::FORK_ORIGIN.to_owned(), origin.unwrap());
        }
        event.packed = bench.store.pack(&draft);
        row.apply_event(&draft, event.seq, event.position, json_size(&draft));
        event.draft = Arc::new(draft);
    }
    assert_eq!((row.tail_seq, row.events), (4, 2));
    bench.store.begin().unwrap().apply(&changes).unwrap();
    assert_eq!(bench.check(false), [""; 0]);
    bench.tamper("DELETE FROM event WHERE pk & 0xFFFFFFFF = 2");
    assert_eq!(bench.render()[1], "2 broken: the row is missing");
    bench.check(true);
    let mended = bench.store.reader().unwrap().session_numbered(1).unwrap().unwrap();
    assert_eq!((mended.base_seq, mended.tail_seq), (0, 4));
    assert_eq!(bench.check(false), [""; 0]);
}
