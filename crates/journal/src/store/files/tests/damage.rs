//! Flipped bits and torn tails cost what they hit, and are told.

use proptest::prelude::*;

use super::*;

/// A journal with two sessions of five lines, closed.
fn closed() -> TempDir {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=5);
    append(&journal, "b", 11..=15);
    drop(journal);
    dir
}

/// Where the lines of a file begin, and its length.
fn starts(text: &[u8]) -> Vec<usize> {
    let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect()
}

/// The events of a session as `seq`, or `seq!` for one that is damaged.
fn shape(store: &FilesStore, session: &str) -> Vec<String> {
    let reader = store.reader().unwrap();
    let row = reader.session(&id(session)).unwrap().unwrap();
    let mark = |stored: &crate::store::StoredEvent| match &stored.event {
        Ok(_) => stored.seq.to_string(),
        Err(_) => format!("{}!", stored.seq),
    };
    reader.events(row.number, ALL).unwrap().iter().map(mark).collect()
}

#[test]
fn torn_last_line_is_quarantined() {
    let dir = closed();
    let path = file(dir.path(), "a");
    let whole = fs::read(&path).unwrap();
    let torn = b"{\"id\":\"01HF7YAT";
    fs::write(&path, [&whole[..], torn].concat()).unwrap();
    let opened = store(dir.path());
    assert_eq!(fs::read(&path).unwrap(), whole);
    let kept = opened.quarantine.list().unwrap();
    assert_eq!(fs::read(&kept[0]).unwrap(), torn);
    let found = opened.check(false, None).unwrap();
    let told = found.iter().find(|finding| finding.damage.file == path).unwrap();
    assert_eq!((told.repaired, told.damage.line), (true, Some(7)));
    assert_eq!(told.damage.byte, Some(whole.len() as u64));
    drop(opened);
    let journal = open(dir.path());
    append(&journal, "a", 6..=6);
    drop(journal);
    assert_eq!(shape(&store(dir.path()), "a"), ["1", "2", "3", "4", "5", "6"]);
    assert_lasting(dir.path());
}

#[test]
fn bad_line_keeps_its_place() {
    for is_indexed in [true, false] {
        let dir = closed();
        let path = file(dir.path(), "a");
        let mut text = fs::read(&path).unwrap();
        let start = starts(&text)[3];
        text[start + 60] ^= 1;
        fs::write(&path, &text).unwrap();
        if !is_indexed {
            without_catalogue(dir.path());
        }
        let opened = store(dir.path());
        assert_eq!(shape(&opened, "a"), ["1", "2", "3!", "4", "5"]);
        assert_eq!(shape(&opened, "b"), ["1", "2", "3", "4", "5"]);
        let reader = opened.reader().unwrap();
        let row = reader.session(&id("a")).unwrap().unwrap();
        let stored = reader.events(row.number, SeqRange { from: 3, to: 3, ..ALL }).unwrap();
        let broken = stored[0].event.as_ref().unwrap_err();
        assert_eq!(broken.damage.file, path);
        assert_eq!((broken.damage.line, broken.damage.byte), (Some(4), Some(start as u64)));
        assert_eq!((broken.damage.seq, &broken.damage.session_id), (Some(3), &Some(id("a"))));
        assert!(broken.bytes.starts_with(b"{\"id\""));
        assert_eq!(stored[0].position, 3);
        drop(reader);
        let found = opened.check(true, None).unwrap();
        assert!(found.iter().any(|finding| finding.damage.line == Some(4)), "{found:?}");
        drop(opened);
        let journal = open(dir.path());
        append(&journal, "a", 6..=6);
        drop(journal);
        let last = shape(&store(dir.path()), "a").pop();
        assert_eq!(last.as_deref(), Some("6"));
    }
}

#[test]
fn a_damaged_catalogue_is_made_anew() {
    let dir = closed();
    let expected = render(&store(dir.path()));
    let path = dir.path().join("catalogue.db");
    for damage in [&b"not a database at all"[..], &[0; 5_000], b""] {
        let mut bytes = fs::read(&path).unwrap();
        let length = damage.len().min(bytes.len());
        bytes[..length].copy_from_slice(&damage[..length]);
        let bytes = if damage.is_empty() { Vec::new() } else { bytes };
        without_catalogue(dir.path());
        fs::write(&path, bytes).unwrap();
        assert_same(&render(&store(dir.path())), &expected, "damaged");
    }
    // A format of tomorrow, at its place in the header.
    let mut bytes = fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    assert_same(&render(&store(dir.path())), &expected, "newer");
}

#[test]
fn deleted_catalogue_is_rebuilt() {
    let dir = closed();
    let expected = render(&store(dir.path()));
    let journal = open(dir.path());
    without_catalogue(dir.path());
    // A process that opens the journal now creates another one, and both would give the same
    // numbers.
    let refused = journal.append(Batch::observed().with(note("a", 99, "lost"))).unwrap_err();
    let AppendError::Storage(refused) = refused else { panic!("{refused:?}") };
    assert!(refused.cause.to_string().contains("deleted while it was open"), "{refused:?}");
    drop(journal);
    assert_same(&render(&store(dir.path())), &expected, "deleted");
}

#[test]
fn shortened_file_is_read_again() {
    let dir = closed();
    let path = file(dir.path(), "a");
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..starts(&text)[4]]).unwrap();
    let opened = store(dir.path());
    assert_eq!(shape(&opened, "a"), ["1", "2", "3"]);
    assert!(opened.check(false, None).unwrap().iter().any(|finding| finding.damage.file == path));
    drop(opened);
    let journal = open(dir.path());
    append(&journal, "a", 21..=21);
    assert_eq!(journal.stat(&id("a")).unwrap().tail_seq, 4);
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn a_missing_file_costs_its_session() {
    let dir = closed();
    fs::remove_file(file(dir.path(), "a")).unwrap();
    let opened = store(dir.path());
    assert_eq!(shape(&opened, "a"), ["1!", "2!", "3!", "4!", "5!"]);
    assert_eq!(shape(&opened, "b"), ["1", "2", "3", "4", "5"]);
    assert!(!opened.check(false, None).unwrap().is_empty());
}

#[test]
fn a_damaged_payload_costs_its_event() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    drop(journal);
    let payload =
        fs::read_dir(dir.path().join("payloads")).unwrap().next().unwrap().unwrap().path();
    fs::write(&payload, b"nothing").unwrap();
    let opened = store(dir.path());
    assert_eq!(shape(&opened, "a"), ["1", "2", "3", "4!"]);
    let found = opened.check(false, None).unwrap();
    assert!(found.iter().any(|finding| finding.damage.file == payload), "{found:?}");
    fs::remove_file(&payload).unwrap();
    assert_eq!(shape(&opened, "a"), ["1", "2", "3", "4!"]);
    // The same text in another event brings it back.
    let journal = open(dir.path());
    let again = note("b", 99, &"large ".repeat(4_000));
    journal.append(Batch::observed().with(again)).unwrap();
    assert_eq!(shape(&opened, "a"), ["1", "2", "3", "4"]);
}

#[test]
fn a_sound_journal_has_no_findings() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    assert_eq!(store(dir.path()).check(false, None).unwrap(), []);
    drop(journal);
    let opened = store(dir.path());
    assert_eq!(opened.check(false, None).unwrap(), []);
    assert_eq!(opened.check(true, None).unwrap(), []);
}

#[test]
fn wrong_row_is_repaired() {
    let dir = closed();
    let expected = render(&store(dir.path()));
    {
        let db = rusqlite::Connection::open(dir.path().join("catalogue.db")).unwrap();
        db.execute("DELETE FROM event WHERE position = 3", []).unwrap();
    }
    let opened = store(dir.path());
    assert!(opened.check(false, None).unwrap().iter().any(|finding| !finding.repaired));
    assert_ne!(render(&opened), expected);
    assert!(opened.check(true, None).unwrap().iter().any(|finding| finding.repaired));
    assert_same(&render(&opened), &expected, "repaired");
    assert_eq!(opened.check(false, None).unwrap(), []);
}

#[test]
fn unused_payloads_are_quarantined() {
    let dir = closed();
    let orphan = dir.path().join("payloads").join(format!("{}.zst", "ab".repeat(32)));
    fs::write(&orphan, b"x").unwrap();
    let opened = store(dir.path());
    assert_eq!(opened.check(false, None).unwrap().len(), 1);
    assert!(orphan.exists());
    opened.check(true, None).unwrap();
    assert!(!orphan.exists());
    assert_eq!(opened.quarantine.list().unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A flipped bit in a session's file costs one event at most, with or without a catalogue.
    #[test]
    fn flipped_bit_costs_one_event(
        at: prop::sample::Index,
        bit in 0u8..8,
        is_indexed: bool,
    ) {
        let dir = closed();
        let path = file(dir.path(), "a");
        let mut text = fs::read(&path).unwrap();
        let at = at.index(text.len());
        text[at] ^= 1 << bit;
        fs::write(&path, &text).unwrap();
        if !is_indexed {
            without_catalogue(dir.path());
        }
        let opened = store(dir.path());
        let shape = shape(&opened, "a");
        let whole = shape.iter().filter(|seq| !seq.ends_with('!')).count();
        // A line break that is gone makes two lines one.
        let is_break = starts(&text).len() != 7;
        prop_assert!(whole >= if is_break { 3 } else { 4 }, "{:?}", shape);
        prop_assert_eq!(whole_of(&opened, "b"), 5);
    }
}

fn whole_of(store: &FilesStore, session: &str) -> usize {
    shape(store, session).iter().filter(|seq| !seq.ends_with('!')).count()
}

#[test]
fn wrong_tails_are_rebuilt() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=600);
    drop(journal);
    let opened = store(dir.path());
    assert_eq!(opened.check(false, None).unwrap(), []);
    let db = rusqlite::Connection::open(opened.catalogue.file()).unwrap();
    db.execute_batch("UPDATE tails SET bytes = zeroblob(2048)").unwrap();
    let told = opened.check(true, None).unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].repaired && told[0].damage.why.contains("tails"), "{told:?}");
    assert_eq!(opened.check(false, None).unwrap(), []);
    let noted: i64 = db.query_row("SELECT count(*) FROM tails", [], |row| row.get(0)).unwrap();
    assert_eq!(noted, 1);
}
