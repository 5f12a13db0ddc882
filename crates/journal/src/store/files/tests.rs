//! What only this store can show. What every store promises is tested for all of them at once.

mod crash; // acknowledged means present
mod damage; // one bad line costs one line
mod golden; // formats that were ever written
mod handmade; // files that people write
mod layout; // names, folders, deletion

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use event::{EventId, Kind, Raw, SessionId, Time};
use tempfile::TempDir;

use super::*;
use crate::store::{Direction, SeqRange, SessionCursor};
use crate::{Access, Batch, Durability, Journal, Options, SourceMove, StoreKind};

const ALL: SeqRange = SeqRange { from: 0, to: u64::MAX, order: Direction::OldestFirst };

fn private_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn open(dir: &Path) -> Journal {
    let (durability, access) = (Durability::Full, Access::ReadWrite);
    let options = Options { store: StoreKind::Files, durability, access };
    Journal::open_or_create(dir, &options).unwrap()
}

fn store(dir: &Path) -> FilesStore {
    FilesStore::open_or_create(dir).unwrap()
}

fn id(session: &str) -> SessionId {
    SessionId::new(session).unwrap()
}

/// A note, the same for the same number.
fn note(session: &str, number: u64, text: &str) -> Draft {
    let mut tail = [7; 10];
    tail[..8].copy_from_slice(&number.to_be_bytes());
    let at = Time::from_millis(1_700_000_000_000 + number as i64);
    let data = Raw::from_value(&serde_json::json!({ "text": text })).unwrap();
    Draft::with_data(EventId::new(at, tail), id(session), at, Kind::Note, data)
}

fn append(journal: &Journal, session: &str, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let draft = note(session, number, &format!("text {number}"));
        journal.append(Batch::observed().with(draft)).unwrap();
    }
}

fn file(dir: &Path, session: &str) -> PathBuf {
    dir.join("sessions").join(session_file::file_name(&id(session)))
}

/// The journal as another process finds it when the machine stops now.
fn copy(dir: &Path) -> TempDir {
    let to = private_dir();
    copy_into(dir, to.path());
    to
}

fn copy_into(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_into(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn without_catalogue(dir: &Path) {
    for name in ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"] {
        let _ = fs::remove_file(dir.join(name));
    }
}

/// Everything a store has, as text.
fn render(store: &FilesStore) -> String {
    let reader = store.reader().unwrap();
    let mut sessions = BTreeMap::new();
    let mut after = None;
    loop {
        let page = reader.sessions(after, 7).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(SessionCursor { last_at: last.last_at, number: last.number });
        sessions.extend(page.into_iter().map(|row| (row.id.clone(), row)));
    }
    let mut text = String::new();
    writeln!(text, "tail {}", reader.tail().unwrap()).unwrap();
    for row in sessions.values() {
        writeln!(text, "{row:?}").unwrap();
        let mut from = 0;
        loop {
            let page = reader.events(row.number, SeqRange { from, ..ALL }).unwrap();
            let Some(last) = page.last() else { break };
            from = last.seq + 1;
            for stored in page {
                let told = match &stored.event {
                    Ok(event) => shortened(&event.encode()),
                    Err(broken) => format!("broken: {}", broken.damage.why),
                };
                writeln!(text, "  {} {} {told}", stored.seq, stored.position).unwrap();
                for sighting in reader.sightings(row.number, stored.seq).unwrap() {
                    writeln!(text, "    {sighting:?}").unwrap();
                }
            }
        }
    }
    let positions: Vec<u64> =
        reader.positions(ALL).unwrap().iter().map(|stored| stored.position).collect();
    writeln!(text, "positions {positions:?}").unwrap();
    writeln!(text, "source {:?}", reader.source("log").unwrap()).unwrap();
    writeln!(text, "consumer {:?}", reader.consumer("shipper").unwrap()).unwrap();
    writeln!(text, "deleted {:?}", reader.tombstone(&id("gone")).unwrap()).unwrap();
    text
}

fn shortened(text: &str) -> String {
    let head: String = text.chars().take(300).collect();
    format!("{head} ({} {:08x})", text.len(), crc32fast::hash(text.as_bytes()))
}

/// The same journal opened again, and opened without its catalogue, says the same.
#[track_caller]
fn assert_lasting(dir: &Path) -> String {
    let rendered = render(&store(dir));
    assert_same(&render(&store(dir)), &rendered, "opened again");
    without_catalogue(dir);
    assert_same(&render(&store(dir)), &rendered, "without its catalogue");
    rendered
}

#[track_caller]
fn assert_same(actual: &str, expected: &str, when: &str) {
    for (actual, expected) in actual.lines().zip(expected.lines()) {
        assert_eq!(actual, expected, "{when}");
    }
    assert_eq!(actual.lines().count(), expected.lines().count(), "{when}");
}

/// A journal with everything a journal can have.
fn furnished(dir: &Path) -> Journal {
    let journal = open(dir);
    append(&journal, "a", 1..=3);
    append(&journal, "b", 11..=12);
    let source = SourceMove { source_id: "log".to_owned(), from: None, to: "12".to_owned() };
    let large = note("a", 20, &"large ".repeat(4_000));
    let batch =
        Batch::observed().with(large.clone()).with(note("c", 21, "new")).from_source(source);
    journal.append(batch).unwrap();
    let mut again = large;
    again.source = event::Source::Hook;
    journal.append(Batch::observed().with(again)).unwrap();
    journal.advance_consumer("shipper", 4).unwrap();
    append(&journal, "gone", 31..=32);
    journal.delete(&id("gone"), Time::from_millis(5), crate::ForkPolicy::Refuse).unwrap();
    fork(&journal, "a", "fork", 2);
    let ancestry = crate::Ancestry {
        session_id: id("child"),
        parent_session_id: Some(id("b")),
        mode: Some(event::payload::SessionMode::Child),
        fork_point_seq: 1,
        fork_point_event_id: None,
        label: Some("label".to_owned()),
        reason: None,
        depth: 0,
        created_at: Time::from_millis(9),
    };
    journal.import_ancestry(vec![ancestry]).unwrap();
    append(&journal, "fork", 41..=42);
    journal
}

fn fork(journal: &Journal, parent: &str, fork: &str, seq: u64) {
    use event::payload::{SessionMode, SessionParent, SessionStarted};
    let started = SessionStarted {
        parent: Some(SessionParent { session_id: id(parent), seq, event_id: None }),
        mode: Some(SessionMode::Fork),
        ..SessionStarted::default()
    };
    let at = Time::from_millis(77);
    let draft = Draft::new(EventId::new(at, [fork.len() as u8; 10]), id(fork), at, &started);
    journal.append(Batch::hosted().with(draft.unwrap())).unwrap();
}
