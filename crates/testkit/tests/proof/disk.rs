//! A disk that is full or read-only, a folder that is not private, a journal of a newer program:
//! a clear no, and nothing that was recorded is touched.
//!
//! Full and read-only disks are real ones, small and in memory, that only the worker sees. Where
//! a process may not mount anything these proofs say so and show nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use journal::{OpenError, StoreKind};

use crate::in_every_store;
use crate::test_journal::TestJournal;
use crate::worker::{PROGRAM, Worker};

/// Room for a journal and for what is removed to go on.
const DISK_MIB: u32 = 8;

/// A format that no version writes; the commit log has one digit for it.
const NEWER: u32 = 9;

in_every_store![
    a_full_disk_refuses_and_loses_nothing,
    a_read_only_disk_is_a_clear_error,
    a_folder_others_can_enter_is_refused,
    a_journal_of_a_newer_program_is_not_touched,
];

fn a_full_disk_refuses_and_loses_nothing(store: StoreKind) {
    let place = TestJournal::new(store);
    let Some(mut shell) = on_a_small_disk(&place, r#""$2" fill "$3" "$1/journal" "$1/ballast""#)
    else {
        return;
    };
    shell.args([PROGRAM, place.store_name()]);
    let said = Worker::spawn(shell).finish();
    println!("{store:?}: {said:?}");
    let refused = said.iter().find_map(|line| line.strip_prefix("refused ")).unwrap();
    assert!(refused == "OutOfSpace" || refused.starts_with("NotDurable"), "{refused}");
    assert!(said.last().unwrap().starts_with("went on "));
}

fn a_read_only_disk_is_a_clear_error(store: StoreKind) {
    let place = TestJournal::new(store);
    let script = r#"
        "$2" append "$3" "$1/journal" 20 && mount -o remount,ro "$1" || exit 9
        "$2" open "$3" "$1/journal"
        "$2" append "$3" "$1/journal" 40
        "$2" append "$3" "$1/another" 20
        exit 0
    "#;
    let Some(mut shell) = on_a_small_disk(&place, script) else { return };
    shell.args([PROGRAM, place.store_name()]);
    let said = Worker::spawn(shell).finish();
    let failed: Vec<&String> = said.iter().filter(|line| line.starts_with("failed")).collect();
    println!("{store:?}: {failed:?}");
    assert_eq!(failed.len(), 3, "{said:?}");
    for line in failed {
        assert!(line.contains("Storage") || line.contains("ReadOnly"), "{line}");
        assert!(!line.contains("Corrupt"), "{line}");
    }
    let acknowledged = said.iter().filter(|line| line.starts_with("ack")).count();
    assert_eq!(acknowledged, 20, "nothing is acknowledged that cannot be written");
}

fn a_folder_others_can_enter_is_refused(store: StoreKind) {
    let place = TestJournal::new(store);
    drop(place.open());
    for mode in [0o750, 0o701, 0o777] {
        std::fs::set_permissions(place.dir(), PermissionsExt::from_mode(mode)).unwrap();
        match place.try_open().map(drop) {
            Err(OpenError::NotPrivate { mode: found, .. }) => assert_eq!(found, mode),
            other => panic!("{mode:o}: {other:?}"),
        }
    }
    std::fs::set_permissions(place.dir(), PermissionsExt::from_mode(0o700)).unwrap();
    drop(place.open());
}

fn a_journal_of_a_newer_program_is_not_touched(store: StoreKind) {
    let place = TestJournal::new(store);
    Worker::start(&place, "append", &["20"]).finish();
    match store {
        StoreKind::Sqlite => {
            let db = rusqlite::Connection::open(place.dir().join("journal.db")).unwrap();
            db.pragma_update(None, "user_version", NEWER).unwrap();
        }
        StoreKind::Files => {
            let path = place.dir().join("commit.log");
            let log = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
            let newer = log.replacen("commit log 1\n", &format!("commit log {NEWER}\n"), 1);
            assert_ne!(newer, log);
            std::fs::write(&path, newer).unwrap();
        }
    }
    let before = bytes(&place);
    match place.try_open().map(drop) {
        Err(OpenError::NewerFormat { found, .. }) => assert_eq!(found, NEWER),
        other => panic!("{other:?}"),
    }
    assert!(bytes(&place) == before, "its files are as they were");
}

fn bytes(place: &TestJournal) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    place.files().into_iter().map(read).collect()
}

/// Returns a shell that runs `script` with a small disk mounted on `$1`. Only the shell sees the
/// disk, and it is gone afterwards. Prints why and returns `None` where mounting is not allowed.
fn on_a_small_disk(place: &TestJournal, script: &str) -> Option<Command> {
    let mount = format!(r#"mount -t tmpfs -o size={DISK_MIB}m,mode=700 tmpfs "$1""#);
    let shell = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        unshare.arg(place.dir());
        unshare
    };
    match shell(&mount).output() {
        Ok(tried) if tried.status.success() => Some(shell(&format!("{mount} && {{ {script}\n}}"))),
        Ok(tried) => {
            println!("SKIPPED: {}", String::from_utf8_lossy(&tried.stderr).trim());
            None
        }
        Err(error) => {
            println!("SKIPPED: `unshare` does not run: {error}");
            None
        }
    }
}
