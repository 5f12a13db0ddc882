//! One file that several processes have open, and that any of them may replace.

use super::*;

#[test]
fn reading_opens_one_connection() {
    let dir = tempfile::tempdir().unwrap();
    let derived = Derived::open(&dir.path().join("derived.db")).unwrap();
    for _ in 0..2 {
        assert_eq!(derived.views("facts").unwrap(), []);
        assert_eq!(lock(&derived.readers).idle.len(), 1);
        assert!(lock(&derived.writer).is_none());
    }
    save(&derived, "claude:a");
    assert_eq!(saved_sessions(&derived), ["claude:a"]);
}

/// The sessions of all views.
fn saved_sessions(derived: &Derived) -> Vec<String> {
    let views = derived.views("facts").unwrap().into_iter();
    views.map(|(session_id, _)| session_id).collect()
}

fn save(derived: &Derived, session_id: &str) {
    let session_id = SessionId::new(session_id).unwrap();
    let view = View { session_id: &session_id, up_to_seq: 1, bytes: b"kept" };
    derived.put_views("facts", &[view], &|_| Ok(true)).unwrap();
}

#[test]
fn small_views_share_pages() {
    let dir = tempfile::tempdir().unwrap();
    let derived = Derived::open(&dir.path().join("derived.db")).unwrap();
    let pages = || {
        let count = |connection: &Connection| {
            Ok(connection.pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0))?)
        };
        derived.read("count pages of", count).unwrap()
    };
    let before = pages();
    for number in 0..100 {
        let session_id = SessionId::new(format!("claude:{number}")).unwrap();
        // About as long as the facts of a session with one prompt.
        let fields = (0..60).map(|field| format!("\"field{field}\":{{\"count\":{number}}}"));
        let json = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        let view = View { session_id: &session_id, up_to_seq: 1, bytes: json.as_bytes() };
        derived.put_views("facts", &[view], &|_| Ok(true)).unwrap();
        assert_eq!(derived.view(&session_id, "facts").unwrap().unwrap().bytes, json.as_bytes());
    }
    let added = pages() - before;
    assert!(added < 30, "{added} pages for 100 views");
}

#[test]
fn views_that_are_not_packed_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let derived = Derived::open(&dir.path().join("derived.db")).unwrap();
    let session_id = SessionId::new("claude:a").unwrap();
    let read = || derived.view(&session_id, "facts").unwrap().unwrap().bytes;
    // No text, whatever it begins with.
    for first in 0..=255 {
        let bytes = [first, 0xff, 0xfe, 0];
        let view = View { session_id: &session_id, up_to_seq: 1, bytes: &bytes };
        derived.put_views("facts", &[view], &|_| Ok(true)).unwrap();
        assert_eq!(read(), bytes);
    }
    // As an earlier version saved it.
    let (json, check) = ("{\"version\":1}", crc32fast::hash(b"{\"version\":1}"));
    let put = |tx: &Transaction<'_>| {
        let row = params![json.as_bytes(), check];
        Ok(tx.execute("UPDATE views SET bytes = ?1, bytes_check = ?2", row)?)
    };
    derived.write("save views in", put).unwrap();
    assert_eq!(read(), json.as_bytes());
}

#[test]
fn replaced_file_is_used_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let (ours, theirs) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    save(&ours, "a");
    theirs.clear().unwrap();
    save(&theirs, "b");
    assert_eq!(saved_sessions(&ours), ["b"]);
    theirs.clear().unwrap();
    save(&ours, "c");
    save(&theirs, "d");
    assert_eq!(saved_sessions(&ours), ["c", "d"]);
    assert_eq!(saved_sessions(&theirs), ["c", "d"]);
}

#[test]
fn deleted_file_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let (ours, theirs) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    save(&ours, "a");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(saved_sessions(&ours), [""; 0]);
    save(&theirs, "b");
    assert_eq!(saved_sessions(&ours), ["b"]);
    std::fs::remove_file(&path).unwrap();
    save(&ours, "c");
    assert_eq!(saved_sessions(&theirs), ["c"]);
}

/// The error that SQLite gives for a deleted file depends on how far it got.
#[test]
fn action_on_deleted_file_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let derived = Derived::open(&path).unwrap();
    let deleted = |attempts: &mut u32, code| {
        *attempts += 1;
        if *attempts == ATTEMPTS_MAX {
            return Ok(());
        }
        std::fs::remove_file(&path).unwrap();
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into())
    };
    let mut attempts = 0;
    derived.read("read", |_| deleted(&mut attempts, ffi::SQLITE_CANTOPEN)).unwrap();
    attempts = 0;
    derived.write("write", |_| deleted(&mut attempts, ffi::SQLITE_IOERR_FSTAT)).unwrap();
    attempts = 0;
    // Where the file is there, it is an error like any other.
    let fails = |attempts: &mut u32| {
        *attempts += 1;
        let code = ffi::Error::new(ffi::SQLITE_CANTOPEN);
        Err::<(), _>(rusqlite::Error::SqliteFailure(code, None).into())
    };
    derived.read("read", |_| fails(&mut attempts)).unwrap_err();
    assert_eq!(attempts, 1);
}

#[test]
fn missing_file_is_not_the_open_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let ours = Derived::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The state of a process that was opening the file when it was deleted.
    lock(&ours.readers).file = None;
    save(&ours, "a");
    assert_eq!(saved_sessions(&Derived::open(&path).unwrap()), ["a"]);
}

#[test]
fn damage_of_replaced_file_spares_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let (ours, theirs) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    let mut asked = 0;
    let ask = |_: &Connection| {
        asked += 1;
        if asked > 1 {
            return Ok(());
        }
        theirs.clear().unwrap();
        save(&theirs, "a");
        let damaged = ffi::Error::new(ffi::SQLITE_CORRUPT);
        Err(rusqlite::Error::SqliteFailure(damaged, None).into())
    };
    ours.read("read", ask).unwrap();
    assert_eq!(asked, 2);
    assert_eq!(saved_sessions(&ours), ["a"]);
    assert_eq!(saved_sessions(&theirs), ["a"]);
}

#[test]
fn returning_connection_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let derived = Derived::open(&path).unwrap();
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let held = derived.read("read", |_| {
            let lock = lock_file(&path, BUSY_TIMEOUT)?;
            scope.spawn(|| {
                started.wait();
                assert_eq!(saved_sessions(&derived), [""; 0]);
            });
            started.wait();
            Ok(lock)
        });
        drop(held.unwrap());
    });
}

#[test]
fn held_lock_is_waited_for_briefly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    drop(Derived::open(&path).unwrap());
    let held = lock_file(&path, Duration::ZERO).unwrap();
    let derived = Derived::open_within(&path, Duration::ZERO).unwrap();
    let ReadError::Storage(error) = derived.views("facts").unwrap_err() else { panic!() };
    assert!(error.cause.to_string().starts_with("another program has kept it for"), "{error:?}");
    drop(held);
    assert_eq!(saved_sessions(&derived), [""; 0]);
}

/// SQLite removes a log by its name, which may be that of another file by then.
#[test]
fn closing_under_held_lock_keeps_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let log = dir.path().join("derived.db-wal");
    let derived = Derived::open(&path).unwrap();
    save(&derived, "a");
    let held = lock_file(&path, Duration::ZERO).unwrap();
    drop(derived);
    assert!(log.metadata().unwrap().len() > 0);
    drop(held);
    // The next opening reads the log that is left, and the last closing removes it.
    let (first, last) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    assert_eq!(saved_sessions(&first), ["a"]);
    drop(first);
    assert!(log.exists());
    drop(last);
    assert!(!log.exists());
    assert_eq!(saved_sessions(&Derived::open(&path).unwrap()), ["a"]);
}

#[test]
fn file_of_newer_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let ours = Derived::open(&path).unwrap();
    save(&ours, "a");
    std::fs::remove_file(&path).unwrap();
    let theirs = create_empty(&path).unwrap();
    become_newer(&theirs);
    for ours in [&ours, &Derived::open(&path).unwrap()] {
        let error = ours.read("read", |_| Ok(())).unwrap_err();
        assert!(error.is_newer_format(), "{error:?}");
        save(ours, "b");
        assert_eq!(saved_sessions(ours), [""; 0]);
    }
    let count = |db: &Connection| db.query_row("SELECT count(*) FROM views", [], |row| row.get(0));
    assert_eq!(count(&theirs), Ok(0));
    // An explicit request to clear the file is carried out.
    ours.clear().unwrap();
    save(&ours, "c");
    assert_eq!(saved_sessions(&ours), ["c"]);
}

fn become_newer(db: &Connection) {
    for number in ["user_version", "application_id"] {
        db.pragma_update(None, number, FORMAT + 1).unwrap();
    }
}

#[test]
fn damaged_version_is_not_newer_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    create_empty(&path).unwrap().pragma_update(None, "user_version", FORMAT + 1).unwrap();
    let derived = Derived::open(&path).unwrap();
    save(&derived, "a");
    assert_eq!(saved_sessions(&derived), ["a"]);
}

#[test]
fn deleted_folder_stays_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("journal");
    folder::create_private(&folder).unwrap();
    let derived = Derived::open(&folder.join("derived.db")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    derived.views("facts").unwrap_err();
    assert!(!folder.exists());
}
