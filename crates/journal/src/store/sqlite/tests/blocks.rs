//! Events that were recorded together: what comes back, what goes, and what damage costs.

use super::*;
use crate::{Batch, Journal, Options};

/// Texts that fill some blocks, a large one among them.
fn texts() -> Vec<String> {
    let text = |number: usize| format!("{number} {}", format!("word{number} ").repeat(number * 7));
    let large = "large ".repeat(INLINE_DATA_MAX / 4);
    (0..90).map(|number| if number == 50 { large.clone() } else { text(number) }).collect()
}

fn append_together(bench: &mut Bench, session: &str) {
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let changes = bench.changes_together(session, &texts);
    bench.store.begin().unwrap().apply(&changes).unwrap();
}

#[test]
fn block_unpacks_event_by_event() {
    let mut alone = Bench::new();
    let texts = texts();
    alone.append("one", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut together = Bench::new();
    append_together(&mut together, "one");
    assert_eq!(together.render(), alone.render());
    let payloads = count(&together.file(), "payload");
    assert!((3..20).contains(&payloads), "{payloads} payloads");
    let reader = together.store.reader().unwrap();
    for seq in [90, 1, 51, 50, 2] {
        let range = SeqRange { from: seq, to: seq, order: Direction::NewestFirst };
        let line = render(&reader.events(1, range).unwrap());
        assert_eq!(line, [&*alone.render()[seq as usize - 1]]);
    }
    assert_eq!(together.store.check(false, None).unwrap(), []);
}

#[test]
fn block_holds_one_session() {
    let bench = Bench::new();
    let ids = ["one", "two"].map(|id| SessionId::new(id).unwrap());
    let text = "some text ".repeat(200);
    let drafts: Vec<Draft> =
        (0..40u64).map(|n| draft(&ids[(n / 10 % 2) as usize], n, &text)).collect();
    let packed = bench.store.pack_all(&drafts.iter().collect::<Vec<_>>());
    let name = |place: usize| packed[place].payload.as_ref().map(|payload| payload.digest);
    for place in 1..drafts.len() {
        let is_same = drafts[place].session_id == drafts[place - 1].session_id;
        assert_eq!(name(place) == name(place - 1), is_same, "{place}");
    }
}

#[test]
fn small_and_single_events_need_no_block() {
    let bench = Bench::new();
    let id = SessionId::new("one").unwrap();
    for drafts in [
        vec![draft(&id, 1, &"long ".repeat(1_000))],
        vec![draft(&id, 1, "a"), draft(&id, 2, "b")],
        Vec::new(),
    ] {
        let packed = bench.store.pack_all(&drafts.iter().collect::<Vec<_>>());
        assert_eq!(packed.len(), drafts.len());
        assert!(packed.iter().all(|packed| packed.payload.is_none()));
    }
}

#[test]
fn blocks_go_with_their_session() {
    let mut bench = Bench::new();
    append_together(&mut bench, "one");
    append_together(&mut bench, "two");
    let both = count(&bench.file(), "payload");
    bench.delete("one");
    // The large text is the same in both.
    assert_eq!(count(&bench.file(), "payload"), both / 2 + 1);
    bench.delete("two");
    assert_eq!(count(&bench.file(), "payload"), 0);
}

#[test]
fn damaged_block_keeps_places() {
    let mut bench = Bench::new();
    append_together(&mut bench, "one");
    let whole = bench.render();
    bench.tamper("UPDATE payload SET bytes = zeroblob(length(bytes)) WHERE number = 1");
    let damaged = bench.render();
    let is_lost = |(line, right): &(&String, &String)| line != right;
    let lost = damaged.iter().zip(&whole).filter(is_lost).count();
    assert!((2..60).contains(&lost), "{lost} of {}", whole.len());
    assert!(damaged.iter().zip(&whole).all(|(line, right)| line == right
        || line.ends_with("broken: the checksum of its payload does not fit")));
    assert_eq!(bench.store.check(true, None).unwrap().len(), lost);
    assert_eq!(bench.render().len(), whole.len());
    assert_eq!(bench.store.check(false, None).unwrap(), []);
}

/// The bytes that texts take, in rows and in blocks.
fn bytes_of_texts(file: &Path) -> i64 {
    let sql =
        "SELECT (SELECT sum(length(body)) FROM event) + (SELECT sum(length(bytes)) FROM payload)";
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_repair_packs_events_as_they_were() {
    // What is wrong with the session costs no event; without the page that leads to all events,
    // they are found again in the bytes of the file.
    for is_cut_off in [false, true] {
        let mut bench = Bench::new();
        for _ in 0..3 {
            append_together(&mut bench, "one");
            append_together(&mut bench, "two");
        }
        let whole = [render(&bench.all(1)), render(&bench.all(2))];
        let before = bytes_of_texts(&bench.file());
        if is_cut_off {
            let mut bytes = bench.bytes();
            let db = Connection::open(bench.file()).unwrap();
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'event'";
            let root = db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
            bytes[(root - 1) * 8_192..][..200].fill(0xA5);
            bench = Bench::with_bytes(&bytes).unwrap();
        } else {
            bench.tamper("UPDATE session SET events = 1");
        }
        assert!(!bench.check(true).is_empty());
        assert_eq!([render(&bench.all(1)), render(&bench.all(2))], whole);
        let after = bytes_of_texts(&bench.file());
        assert!(after < before + before / 10, "{is_cut_off}: {before} bytes, then {after}");
        assert_eq!(bench.check(false), [""; 0]);
    }
}

#[test]
fn duplicates_take_no_block_room() {
    let dir = private_dir();
    let journal = Journal::open_or_create(dir.path(), &Options::default()).unwrap();
    let id = SessionId::new("one").unwrap();
    let told = |count: u64| {
        // No two have much in common, so that a block is as large as what is in it.
        let text = |number: u64| (number * 500..).take(500).map(|n| format!("{n} ")).collect();
        let drafts = (1..=count).map(|number| draft(&id, number, &text(number) as &String));
        journal.append(Batch::observed().with_all(drafts)).unwrap()
    };
    let packed = || -> i64 {
        let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
        db.query_row("SELECT sum(length(bytes)) FROM payload", [], |row| row.get(0)).unwrap()
    };
    told(40);
    let before = packed();
    told(43);
    let grown = packed() - before;
    assert!((1..before / 8).contains(&grown), "{before} bytes, then {grown} more");
}
