//! What only this store can show. What every store promises is tested for all of them at once.

mod blocks;
mod damage;
mod payloads;
mod place;
mod tails;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use event::{EventId, Kind, Time};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::prepare::json_size;
use crate::store::{Direction, EventRow, SeqRange, SessionRow, StoredEvent};

/// A journal in a folder of its own, and the rows a commit layer would have worked out.
struct Bench {
    dir: TempDir,
    store: SqliteStore,
    sessions: Vec<SessionRow>,
    tail: u64,
}

impl Bench {
    fn new() -> Bench {
        let dir = private_dir();
        let store = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap();
        Bench { dir, store, sessions: Vec::new(), tail: 0 }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(FILE_NAME)
    }

    /// The rows that append `texts` to a session, which is made if it is not there.
    fn changes(&mut self, session: &str, texts: &[&str]) -> ChangeSet {
        let id = SessionId::new(session).unwrap();
        let place = self.sessions.iter().position(|row| row.id == id).unwrap_or_else(|| {
            self.sessions.push(SessionRow::new(self.sessions.len() as u32 + 1, &id, Time::EPOCH));
            self.sessions.len() - 1
        });
        let row = &mut self.sessions[place];
        let mut changes = ChangeSet::default();
        for text in texts {
            self.tail += 1;
            let draft = draft(&id, self.tail, text);
            row.apply_event(&draft, row.tail_seq + 1, self.tail, json_size(&draft));
            changes.events.push(EventRow {
                position: self.tail,
                session: row.number,
                seq: row.tail_seq,
                packed: self.store.pack(&draft),
                draft: Arc::new(draft),
            });
        }
        changes.sessions.push(row.clone());
        changes
    }

    /// The same, packed together.
    fn changes_together(&mut self, session: &str, texts: &[&str]) -> ChangeSet {
        let mut changes = self.changes(session, texts);
        let drafts: Vec<&Draft> = changes.events.iter().map(|event| &*event.draft).collect();
        let packed = self.store.pack_all(&drafts);
        for (event, packed) in changes.events.iter_mut().zip(packed) {
            event.packed = packed;
        }
        changes
    }

    fn append(&mut self, session: &str, texts: &[&str]) {
        let changes = self.changes(session, texts);
        self.store.begin().unwrap().apply(&changes).unwrap();
    }

    fn delete(&mut self, session: &str) {
        let place = self.sessions.iter().position(|row| row.id.as_str() == session).unwrap();
        let row = self.sessions.remove(place);
        let changes = ChangeSet { deleted: vec![(row, Time::EPOCH)], ..ChangeSet::default() };
        self.store.begin().unwrap().apply(&changes).unwrap();
    }

    /// All events of session 1, a line each.
    fn render(&self) -> Vec<String> {
        render(&self.store.reader().unwrap().events(1, ALL).unwrap())
    }

    /// Works on the file behind the store's back, with the log emptied into it.
    fn tamper(&self, sql: &str) {
        self.store.checkpoint().unwrap();
        Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }
}

/// Text that no compressor makes much smaller.
struct Noise(u64);

impl Noise {
    fn text(&mut self, length: usize) -> String {
        let bytes = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        bytes.take(length).map(|byte| char::from(b'0' + byte % 64)).collect()
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn private_dir() -> TempDir {
    let mode = PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

const ALL: SeqRange = SeqRange { from: 1, to: u64::MAX, order: Direction::OldestFirst };

fn draft(session_id: &SessionId, number: u64, text: &str) -> Draft {
    let at = Time::from_nanos(i128::from(number) * 1_000_000_007);
    let mut tail = [0; 10];
    tail[2..].copy_from_slice(&number.to_be_bytes());
    let data = Raw::from_value(&serde_json::json!({ "content": text })).unwrap();
    Draft::with_data(EventId::new(at, tail), session_id.clone(), at, Kind::UserPrompt, data)
}

fn render(page: &[StoredEvent]) -> Vec<String> {
    let line = |stored: &StoredEvent| match &stored.event {
        Ok(event) => format!("{} {}", stored.seq, event.data.get()),
        Err(broken) => format!("{} broken: {}", stored.seq, broken.damage.why),
    };
    page.iter().map(line).collect()
}

fn count(file: &Path, table: &str) -> i64 {
    let db = Connection::open(file).unwrap();
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn folder_and_files_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a").join("journal");
    let _store = SqliteStore::open_or_create(&dir, Durability::Full).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm", "lock/writer"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}

#[test]
fn readable_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o750)).unwrap();
    let refused = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap_err();
    assert!(matches!(refused, OpenError::NotPrivate { mode: 0o750, .. }), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn foreign_file_is_refused() {
    let dir = private_dir();
    let file = dir.path().join(FILE_NAME);
    std::fs::write(&file, "a letter to a friend").unwrap();
    let refused = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt(_)), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"a letter to a friend");

    std::fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    let refused = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt(_)), "{refused}");
}

#[test]
fn large_payload_is_shared_and_freed() {
    let mut bench = Bench::new();
    let large = "x".repeat(INLINE_DATA_MAX);
    bench.append("one", &[&large, "small", &large]);
    bench.append("two", &[&large]);
    assert_eq!(count(&bench.file(), "payload"), 1);
    let page = bench.store.reader().unwrap().events(1, ALL).unwrap();
    assert_eq!(page[2].event.as_ref().unwrap().data.get().len(), large.len() + 14);
    bench.delete("one");
    assert_eq!(count(&bench.file(), "payload"), 1);
    bench.delete("two");
    assert_eq!(count(&bench.file(), "payload"), 0);
    assert_eq!(count(&bench.file(), "event"), 0);
}

#[test]
fn position_is_never_reused() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    bench.append("two", &["b", "c"]);
    bench.delete("two");
    assert_eq!(bench.store.tail().unwrap(), 3);
    let again = SqliteStore::open_or_create(bench.dir.path(), Durability::Full).unwrap();
    assert_eq!(again.tail().unwrap(), 3);
}

#[test]
fn reader_sees_state_at_its_start() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    let changes = bench.changes("one", &["b"]);
    let before = bench.store.reader().unwrap();
    bench.store.begin().unwrap().apply(&changes).unwrap();
    let after = bench.store.reader().unwrap();
    assert_eq!((before.tail().unwrap(), after.tail().unwrap()), (1, 2));
    assert_eq!(before.events(1, ALL).unwrap().len(), 1);
    assert_eq!(after.events(1, ALL).unwrap().len(), 2);
}

#[test]
fn unapplied_changes_are_absent() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    drop(bench.store.begin().unwrap());
    let mut changes = bench.changes("one", &["b", "c"]);
    changes.events[1].draft = Arc::new(draft(&changes.sessions[0].id, 1, "a"));
    let refused = bench.store.begin().unwrap().apply(&changes).unwrap_err();
    assert!(matches!(refused, CommitError::IdTaken), "{refused}");
    assert_eq!(bench.render(), [r#"1 {"content":"a"}"#]);
}

#[test]
fn full_disk_refuses_one_batch() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    let noise: String =
        (0..50_000u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    let large = bench.changes("two", &[&noise]);
    bench.store.catalogue.limit_pages(24);
    let refused = bench.store.begin().unwrap().apply(&large).unwrap_err();
    assert!(matches!(refused, CommitError::OutOfSpace), "{refused}");
    assert_eq!(count(&bench.file(), "event"), 1);
    bench.store.catalogue.limit_pages(u32::MAX - 1);
    bench.store.begin().unwrap().apply(&large).unwrap();
    assert_eq!(count(&bench.file(), "event"), 2);
}

#[test]
fn damaged_row_keeps_its_place() {
    let mut bench = Bench::new();
    bench.append("one", &["a", "b", "c", "d"]);
    bench.tamper(
        "UPDATE event SET body = x'00' WHERE pk & 0xFFFFFFFF = 2; \
         DELETE FROM event WHERE pk & 0xFFFFFFFF = 3",
    );
    assert_eq!(
        bench.render(),
        [
            r#"1 {"content":"a"}"#,
            "2 broken: the checksum does not fit",
            "3 broken: the row is missing",
            r#"4 {"content":"d"}"#,
        ]
    );
    let reader = bench.store.reader().unwrap();
    let range = SeqRange { from: 2, to: 3, order: Direction::NewestFirst };
    assert_eq!(
        render(&reader.events(1, range).unwrap()),
        ["3 broken: the row is missing", "2 broken: the checksum does not fit"]
    );
    let positions = reader.positions(ALL).unwrap();
    let broken = positions[1].event.as_ref().unwrap_err();
    assert_eq!((positions.len(), broken.bytes.as_slice()), (3, [0].as_slice()));
    assert_eq!(broken.damage.file, bench.file());
    assert_eq!(broken.damage.session_id.as_ref().unwrap().as_str(), "one");
}

#[test]
fn checksum_covers_every_column() {
    for change in [
        "position = position + 100",
        "id = x'00112233445566778899AABBCCDDEEFF'",
        "kind = 1",
        "created_at = created_at + 1",
        "created_ns = created_ns + 1",
        "observed_at = observed_at + 1",
        "observed_ns = observed_ns + 1",
        "checksum = checksum + 1",
        "body = substr(body, 1, length(body) - 1)",
        "pk = pk + 1",
    ] {
        let mut bench = Bench::new();
        bench.append("one", &["a", "b"]);
        bench.tamper(&format!("UPDATE event SET {change} WHERE pk & 0xFFFFFFFF = 2"));
        let broken = bench.render().iter().filter(|line| line.contains("broken")).count();
        assert!(broken > 0, "{change}");
    }
}

#[test]
fn lost_payload_is_reported() {
    let mut bench = Bench::new();
    let large = "x".repeat(INLINE_DATA_MAX);
    bench.append("one", &[&large, "b"]);
    bench.tamper("UPDATE payload SET bytes = CAST(bytes || x'00' AS BLOB)");
    assert_eq!(bench.render()[0], "1 broken: the checksum of its payload does not fit");
    bench.tamper("PRAGMA foreign_keys = OFF; DELETE FROM payload");
    assert_eq!(bench.render()[0], "1 broken: its payload is missing");
    assert_eq!(bench.render()[1], r#"2 {"content":"b"}"#);
}

#[test]
fn newer_journal_is_untouched() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    bench.tamper("PRAGMA user_version = 99");
    let Bench { dir, store, .. } = bench;
    drop(store);
    let bytes = std::fs::read(dir.path().join(FILE_NAME)).unwrap();
    let refused = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap_err();
    assert!(matches!(refused, OpenError::NewerFormat { found: 99, supported: 5, .. }), "{refused}");
    assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), bytes);
    assert!(!dir.path().join("journal.db-wal").exists());
}

#[test]
fn newer_format_stops_open_writer() {
    let mut bench = Bench::new();
    bench.append("one", &["a"]);
    // As a newer program would, which does not wait until others have closed it.
    let db = Connection::open(bench.file()).unwrap();
    db.execute_batch("PRAGMA user_version = 99").unwrap();
    let changes = bench.changes("one", &["b"]);
    let Err(refused) = bench.store.begin().map(|commit| commit.apply(&changes)) else {
        panic!("it was written to");
    };
    let AppendError::Storage(refused) = refused else { panic!("{refused:?}") };
    let why = refused.cause.to_string();
    assert!(why.ends_with("was written in format 99; this program reads up to 5"), "{why}");
    assert_eq!(count(&bench.file(), "event"), 1);
    bench.tamper("UPDATE event SET checksum = 1");
    bench.store.check(true, None).unwrap_err();
    assert!(!bench.dir.path().join("quarantine").exists());
}

#[test]
fn long_wal_begins_anew() {
    let mut bench = Bench::new();
    let log = bench.dir.path().join("journal.db-wal");
    let mut noise = Noise(1);
    let mut longest = 0;
    loop {
        let length = if longest < 32 * 1024 * 1024 { 4 * 1024 * 1024 } else { 64 * 1024 };
        bench.append("one", &[&noise.text(length)]);
        let bytes = log.metadata().unwrap().len();
        if bytes < longest {
            break;
        }
        longest = bytes;
        assert!(longest < 128 * 1024 * 1024, "nobody copies it");
    }
    let file = bench.file().metadata().unwrap().len();
    assert!(file > 32 * 1024 * 1024, "{file} bytes were copied");
    assert_eq!(bench.store.check(false, None).unwrap(), []);
}

/// The database that format 1 left behind.
fn format_1(dir: &Path) {
    let db = Connection::open(dir.join(FILE_NAME)).unwrap();
    let migration = include_str!("../../../migrations/0001_record.sql");
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA application_id = 0x484E5344").unwrap();
    db.execute_batch(migration).unwrap();
    db.execute_batch(include_str!("../../../fixtures/format-1.sql")).unwrap();
    db.execute_batch("PRAGMA user_version = 1").unwrap();
}

fn format(file: &Path) -> u32 {
    let db = Connection::open(file).unwrap();
    db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn older_journal_is_migrated() {
    let dir = private_dir();
    format_1(dir.path());
    let store = SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.tail().unwrap(), 5);
    let root = reader.events(1, ALL).unwrap();
    assert_eq!(render(&root)[..2], [r#"1 {"content":"first"}"#, r#"2 {"content":"second"}"#]);
    assert!(root[2].event.as_ref().unwrap().data.get().ends_with(r#"again; the same again; "}"#));
    assert_eq!(render(&reader.events(3, ALL).unwrap()), [r#"3 {"content":"of its own"}"#]);
    let depth = |number| {
        let row = reader.session_numbered(number).unwrap().unwrap();
        row.parent.map(|parent| parent.depth)
    };
    assert_eq!((depth(1), depth(2), depth(3)), (None, Some(1), Some(2)));
    assert_eq!(reader.source("/home/dev/a.jsonl").unwrap().as_deref(), Some("120"));
    assert_eq!(reader.consumer("search").unwrap(), Some(4));
    assert_eq!(reader.sightings(1, 1).unwrap(), []);

    let kept = dir.path().join("journal.db.v1.bak");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((format(&kept), count(&kept, "event")), (1, 5));
    assert_eq!(format(&dir.path().join(FILE_NAME)), 5);
}

#[test]
fn failed_migration_changes_nothing() {
    let dir = private_dir();
    format_1(dir.path());
    let file = dir.path().join(FILE_NAME);
    // The table the migration makes is there already.
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE sighting (a)").unwrap();
    for _ in 0..2 {
        SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap_err();
        assert_eq!((format(&file), count(&file, "event")), (1, 5));
    }
    Connection::open(&file).unwrap().execute_batch("DROP TABLE sighting").unwrap();
    SqliteStore::open_or_create(dir.path(), Durability::Full).unwrap();
    assert_eq!((format(&file), count(&file, "event")), (5, 5));
}
