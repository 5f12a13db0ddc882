//! One file that several have open, and that anybody may throw away.

use super::*;

#[test]
fn whoever_only_reads_has_one_connection() {
    let dir = tempfile::tempdir().unwrap();
    let derived = Derived::open(&dir.path().join("derived.db")).unwrap();
    for _ in 0..2 {
        assert_eq!(derived.views("facts").unwrap(), []);
        assert_eq!(lock(&derived.readers).idle.len(), 1);
        assert!(lock(&derived.writer).is_none());
    }
    save(&derived, "claude:a");
    assert_eq!(seen(&derived), ["claude:a"]);
}

/// The sessions of all views.
fn seen(derived: &Derived) -> Vec<String> {
    let views = derived.views("facts").unwrap().into_iter();
    views.map(|(session_id, _)| session_id).collect()
}

fn save(derived: &Derived, session_id: &str) {
    let session_id = SessionId::new(session_id).unwrap();
    let view = View { session_id: &session_id, up_to_seq: 1, bytes: b"kept" };
    derived.put_views("facts", &[view], &|_| Ok(true)).unwrap();
}

#[test]
fn a_file_that_another_process_began_again_is_the_one_that_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let (ours, theirs) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    save(&ours, "a");
    theirs.clear().unwrap();
    save(&theirs, "b");
    assert_eq!(seen(&ours), ["b"]);
    theirs.clear().unwrap();
    save(&ours, "c");
    save(&theirs, "d");
    assert_eq!(seen(&ours), ["c", "d"]);
    assert_eq!(seen(&theirs), ["c", "d"]);
}

#[test]
fn a_file_that_somebody_deletes_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let (ours, theirs) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    save(&ours, "a");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(seen(&ours), [""; 0]);
    save(&theirs, "b");
    assert_eq!(seen(&ours), ["b"]);
    std::fs::remove_file(&path).unwrap();
    save(&ours, "c");
    assert_eq!(seen(&theirs), ["c"]);
}

/// What SQLite says of it depends on how far it got.
#[test]
fn what_fails_because_the_file_was_deleted_is_done_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let derived = Derived::open(&path).unwrap();
    let deleted = |tries: &mut u32, code| {
        *tries += 1;
        if *tries == FILES_MAX {
            return Ok(());
        }
        std::fs::remove_file(&path).unwrap();
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into())
    };
    let mut tries = 0;
    derived.read("read", |_| deleted(&mut tries, ffi::SQLITE_CANTOPEN)).unwrap();
    tries = 0;
    derived.write("write", |_| deleted(&mut tries, ffi::SQLITE_IOERR_FSTAT)).unwrap();
    tries = 0;
    // Where the file is there, it is an error like any other.
    let fails = |tries: &mut u32| {
        *tries += 1;
        let code = ffi::Error::new(ffi::SQLITE_CANTOPEN);
        Err::<(), _>(rusqlite::Error::SqliteFailure(code, None).into())
    };
    derived.read("read", |_| fails(&mut tries)).unwrap_err();
    assert_eq!(tries, 1);
}

#[test]
fn no_file_is_not_the_file_that_was_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let ours = Derived::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // As whoever opens it sees it if that was done just then.
    lock(&ours.readers).file = None;
    save(&ours, "a");
    assert_eq!(seen(&Derived::open(&path).unwrap()), ["a"]);
}

#[test]
fn damage_of_a_file_that_was_replaced_costs_nothing_of_the_new_one() {
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
    assert_eq!(seen(&ours), ["a"]);
    assert_eq!(seen(&theirs), ["a"]);
}

#[test]
fn who_gives_a_connection_back_does_not_wait_for_one_who_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let derived = Derived::open(&path).unwrap();
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let held = derived.read("read", |_| {
            let turn = turn(&path, BUSY_TIMEOUT)?;
            scope.spawn(|| {
                started.wait();
                assert_eq!(seen(&derived), [""; 0]);
            });
            started.wait();
            Ok(turn)
        });
        drop(held.unwrap());
    });
}

#[test]
fn whoever_keeps_the_turn_holds_up_nobody_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    drop(Derived::open(&path).unwrap());
    let kept = turn(&path, Duration::ZERO).unwrap();
    let derived = Derived::open_within(&path, Duration::ZERO).unwrap();
    let ReadError::Storage(error) = derived.views("facts").unwrap_err() else { panic!() };
    assert!(error.cause.to_string().starts_with("another program has kept it for"), "{error:?}");
    drop(kept);
    assert_eq!(seen(&derived), [""; 0]);
}

/// SQLite removes a log by its name, which may be that of another file by then.
#[test]
fn who_closes_while_another_has_the_turn_removes_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let log = dir.path().join("derived.db-wal");
    let derived = Derived::open(&path).unwrap();
    save(&derived, "a");
    let kept = turn(&path, Duration::ZERO).unwrap();
    drop(derived);
    assert!(log.metadata().unwrap().len() > 0);
    drop(kept);
    // What is left is read by whoever comes next, and put away by whoever goes last.
    let (first, last) = (Derived::open(&path).unwrap(), Derived::open(&path).unwrap());
    assert_eq!(seen(&first), ["a"]);
    drop(first);
    assert!(log.exists());
    drop(last);
    assert!(!log.exists());
    assert_eq!(seen(&Derived::open(&path).unwrap()), ["a"]);
}

#[test]
fn a_file_that_a_newer_program_puts_in_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    let ours = Derived::open(&path).unwrap();
    save(&ours, "a");
    std::fs::remove_file(&path).unwrap();
    let theirs = begin(&path).unwrap();
    become_newer(&theirs);
    for ours in [&ours, &Derived::open(&path).unwrap()] {
        let error = ours.read("read", |_| Ok(())).unwrap_err();
        assert!(error.is_newer_format(), "{error:?}");
        save(ours, "b");
        assert_eq!(seen(ours), [""; 0]);
    }
    let count = |db: &Connection| db.query_row("SELECT count(*) FROM views", [], |row| row.get(0));
    assert_eq!(count(&theirs), Ok(0));
    // What somebody asks for by name is done.
    ours.clear().unwrap();
    save(&ours, "c");
    assert_eq!(seen(&ours), ["c"]);
}

fn become_newer(db: &Connection) {
    for number in ["user_version", "application_id"] {
        db.pragma_update(None, number, FORMAT + 1).unwrap();
    }
}

#[test]
fn a_damaged_number_is_not_a_newer_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("derived.db");
    begin(&path).unwrap().pragma_update(None, "user_version", FORMAT + 1).unwrap();
    let derived = Derived::open(&path).unwrap();
    save(&derived, "a");
    assert_eq!(seen(&derived), ["a"]);
}

#[test]
fn a_folder_that_somebody_deleted_stays_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("journal");
    folder::create_private(&folder).unwrap();
    let derived = Derived::open(&folder.join("derived.db")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    derived.views("facts").unwrap_err();
    assert!(!folder.exists());
}
