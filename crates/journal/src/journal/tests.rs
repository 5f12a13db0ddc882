//! What runs before a batch is queued, and what works without derived data.

use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use event::{EventKey, Kind};

use super::*;
use crate::StorageError;
use crate::originals::OriginalPart;
use crate::recovery::Recovery;
use crate::store::{PackedEvent, StoreReader, StoreWriter};

/// A store that notes which threads pack texts for it.
#[derive(Default)]
struct Watched {
    store: MemoryStore,
    packers: Mutex<Vec<String>>,
    /// A commit fails as no commit should.
    panics: bool,
}

impl Watched {
    /// The threads since it was asked last, once for each text.
    fn packers(&self) -> Vec<String> {
        std::mem::take(&mut self.packers.lock().unwrap())
    }
}

impl Store for Watched {
    fn capabilities(&self) -> &'static Capabilities {
        self.store.capabilities()
    }

    fn pack(&self, draft: &Draft) -> PackedEvent {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.packers.lock().unwrap().push(thread);
        assert!(!self.panics, "the store has a fault");
        self.store.pack(draft)
    }

    fn reader(&self) -> Result<Box<dyn StoreReader + '_>, StorageError> {
        self.store.reader()
    }

    fn begin(&self) -> Result<Box<dyn StoreWriter + '_>, AppendError> {
        self.store.begin()
    }

    fn tail(&self) -> Result<u64, StorageError> {
        self.store.tail()
    }

    fn check(
        &self,
        repair: bool,
        recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError> {
        self.store.check(repair, recovery)
    }

    fn open_findings(&self) -> Vec<CheckFinding> {
        self.store.open_findings()
    }

    fn checkpoint(&self) -> Result<(), StorageError> {
        self.store.checkpoint()
    }

    fn dir(&self) -> Option<&Path> {
        self.store.dir()
    }
}

fn batch(count: u8) -> Batch {
    let draft = |number: u8| {
        let at = Time::from_millis(i64::from(number));
        let data = event::Raw::from_value(&serde_json::json!({ "content": number })).unwrap();
        let session_id = SessionId::new("one").unwrap();
        Draft::with_data(EventId::new(at, [number; 10]), session_id, at, Kind::UserPrompt, data)
    };
    Batch::observed().with_all((1..=count).map(draft))
}

#[test]
fn import_is_packed_before_lock() {
    const WRITER: &str = "journal writer";
    let store = Arc::new(Watched::default());
    let (artifacts, originals) = (Artifacts::in_memory(), Originals::disabled());
    let journal =
        Journal::over(Arc::clone(&store) as _, artifacts, originals, None, Access::ReadWrite);
    journal.import(batch(3)).unwrap();
    let packers = store.packers();
    assert!(packers.len() == 3 && !packers.contains(&WRITER.to_owned()), "{packers:?}");
    // What is recorded already is left out, which only the writer can tell.
    journal.import(batch(5)).unwrap();
    let packers = store.packers();
    assert_eq!(packers.iter().filter(|name| *name == WRITER).count(), 2, "{packers:?}");
    let texts = journal.events(&SessionId::new("one").unwrap(), Selection::all()).unwrap();
    let texts: Vec<String> = texts.map(|event| event.unwrap().data.get().to_owned()).collect();
    let expected: Vec<String> = (1..=5).map(|n| format!(r#"{{"content":{n}}}"#)).collect();
    assert_eq!(texts, expected);
}

#[test]
fn panic_of_writer_answers_its_callers() {
    let store = Arc::new(Watched { panics: true, ..Watched::default() });
    let (artifacts, originals) = (Artifacts::in_memory(), Originals::disabled());
    let journal = Journal::over(store, artifacts, originals, None, Access::ReadWrite);
    let error = journal.append(batch(1)).unwrap_err();
    assert!(matches!(error, AppendError::NotDurable(_)), "{error}");
    let error = journal.append(batch(1)).unwrap_err();
    assert!(matches!(error, AppendError::Closed), "{error}");
}

fn open(dir: &Path) -> Journal {
    Journal::open_or_create(dir, &Options::default()).unwrap()
}

/// A journal with three events, whose derived data a newer program has made.
fn under_a_newer_index() -> (tempfile::TempDir, rusqlite::Connection) {
    let dir = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir();
    let dir = dir.unwrap();
    open(dir.path()).append(batch(3)).unwrap();
    let newer = rusqlite::Connection::open(dir.path().join("derived.db")).unwrap();
    for number in ["user_version", "application_id"] {
        newer.pragma_update(None, number, 999).unwrap();
    }
    (dir, newer)
}

#[test]
fn lost_record_is_not_begun_anew() {
    let (dir, _newer) = under_a_newer_index();
    let part = OriginalPart { bytes: b"one\n", ..OriginalPart::default() };
    open(dir.path()).originals().append("00c0ffee", 0, part).unwrap();
    for is_empty in [true, false] {
        std::fs::remove_file(dir.path().join("journal.db")).unwrap();
        if is_empty {
            std::fs::write(dir.path().join("journal.db"), b"").unwrap();
        }
        let options = Options::default();
        let opened =
            [Journal::open(dir.path(), &options), Journal::open_or_create(dir.path(), &options)];
        for opened in opened {
            assert!(matches!(opened.err(), Some(OpenError::RecordMissing { .. })));
        }
        let journal = Journal::open_to_repair(dir.path(), &options).unwrap();
        assert_eq!(journal.open_findings().len(), 1);
    }
}

#[test]
fn immutable_journal_is_read_and_not_touched() {
    let (dir, newer) = under_a_newer_index();
    drop(newer);
    let files = || {
        let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let journal = Journal::open_immutable(dir.path()).unwrap();
    let one = SessionId::new("one").unwrap();
    assert_eq!(journal.events(&one, Selection::all()).unwrap().count(), 3);
    assert_eq!(journal.sessions(&SessionFilter::default(), None, 10).unwrap().items.len(), 1);
    assert!(journal.search(&Query::new("2")).is_ok(), "without an index it reads the log");
    assert!(matches!(journal.append(batch(4)), Err(AppendError::ReadOnly)));
    assert!(journal.doctor(false, Time::EPOCH).unwrap().iter().all(|check| check.ok));
    drop(journal);
    assert_eq!(files(), before);
}

#[test]
fn newer_index_gets_no_backlog() {
    let (dir, _newer) = under_a_newer_index();
    let journal = open(dir.path());
    // As the indexer does, but now.
    journal.inner.feed.state().backlog().enable();
    let id = SessionId::new("long").unwrap();
    let long =
        event::Raw::from_value(&serde_json::json!({ "content": "x".repeat(512 * 1024) })).unwrap();
    let draft = |number: u8| {
        let (at, data) = (Time::from_millis(i64::from(number)), long.clone());
        let event_id = EventId::new(at, [number; 10]);
        Draft::with_data(event_id, id.clone(), at, Kind::UserPrompt, data)
    };
    for number in 100..116 {
        journal.append(Batch::observed().with(draft(number))).unwrap();
    }
    assert!(journal.is_index_behind());
    assert_eq!(journal.index().unwrap(), None);
    assert!(!journal.is_index_behind());
}

#[test]
fn newer_derived_file_blocks_nothing() {
    let (dir, newer) = under_a_newer_index();
    let (journal, session_id) = (open(dir.path()), SessionId::new("one").unwrap());
    journal.append(batch(5)).unwrap();
    assert_eq!(journal.events(&session_id, Selection::all()).unwrap().count(), 5);
    assert_eq!(journal.find(&session_id, &EventKey::new(event::KeyFamily::Call, "a")).unwrap(), []);
    assert_eq!(journal.index().unwrap(), None);
    journal.save_view(&session_id, "facts", 5, b"five").unwrap();
    assert_eq!(journal.saved_view(&session_id, "facts").unwrap(), None);
    assert!(journal.search(&Query::new("5")).unwrap_err().is_newer_format());
    let checks = journal.doctor(false, Time::from_millis(1)).unwrap();
    let search = checks.iter().find(|check| check.name == "search").unwrap();
    assert!(!search.ok, "{search:?}");
    let format: u32 = newer.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(format, 999);
}
