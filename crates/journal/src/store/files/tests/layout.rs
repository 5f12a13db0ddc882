//! What stands in which file, and how.

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn count(dir: &Path, folder: &str) -> usize {
    fs::read_dir(dir.join(folder)).unwrap().count()
}

#[test]
fn any_name_is_a_file_of_its_own() {
    let dir = private_dir();
    let journal = open(dir.path());
    let long = "x".repeat(255);
    let names = [
        "ancestry",
        ".jsonl",
        "../x",
        "a/b",
        "CON",
        "con",
        "..",
        ".",
        "ledger",
        "commit.log",
        "catalogue.db",
        "A",
        "a",
        "é",
        "e\u{301}",
        &long,
    ];
    for (number, name) in names.iter().enumerate() {
        append(&journal, name, number as u64 + 1..=number as u64 + 1);
    }
    drop(journal);
    assert_eq!(count(dir.path(), "sessions"), names.len());
    assert!(!dir.path().parent().unwrap().join("x.jsonl").exists());
    let rendered = assert_lasting(dir.path());
    assert_eq!(rendered.matches("SessionRow").count(), names.len());
}

#[test]
fn nobody_else_can_read_anything() {
    let dir = private_dir();
    let journal = furnished(dir.path());
    for folder in ["sessions", "payloads"] {
        assert_eq!(mode(&dir.path().join(folder)), 0o700);
        for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
    }
    for name in ["commit.log", "ledger.jsonl", "catalogue.db"] {
        assert_eq!(mode(&dir.path().join(name)), 0o600, "{name}");
    }
    drop(journal);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = FilesStore::open_or_create(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::NotPrivate { mode: 0o755, .. }));
}

#[test]
fn linked_session_is_refused() {
    let dir = private_dir();
    let outside = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=1);
    let target = outside.path().join("victim");
    std::os::unix::fs::symlink(&target, file(dir.path(), "b")).unwrap();
    journal.append(Batch::observed().with(note("b", 2, "x"))).unwrap_err();
    assert!(!target.exists());
    fs::write(&target, "precious").unwrap();
    journal.append(Batch::observed().with(note("b", 2, "x"))).unwrap_err();
    append(&journal, "a", 3..=3);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    drop(journal);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn shared_payload_survives_deletion() {
    let dir = private_dir();
    let journal = open(dir.path());
    let (shared, own) = ("shared ".repeat(3_000), "own ".repeat(5_000));
    for (number, session, text) in [(1, "a", &shared), (2, "b", &shared), (3, "a", &own)] {
        journal.append(Batch::observed().with(note(session, number, text))).unwrap();
    }
    assert_eq!(count(dir.path(), "payloads"), 2);
    journal.delete(&id("a"), Time::from_millis(1), crate::ForkPolicy::Refuse).unwrap();
    assert_eq!((count(dir.path(), "payloads"), count(dir.path(), "sessions")), (1, 1));
    let crashed = copy(dir.path());
    let expected = render(&store(dir.path()));
    drop(journal);
    for dir in [dir, crashed] {
        assert_same(&assert_lasting(dir.path()), &expected, "deleted");
        assert_eq!((count(dir.path(), "payloads"), count(dir.path(), "sessions")), (1, 1));
    }
}

#[test]
fn copied_fork_survives_rebuild() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "parent", 1..=4);
    fork(&journal, "parent", "kid", 3);
    append(&journal, "kid", 9..=9);
    let shown = |journal: &Journal| -> Vec<String> {
        let events = journal.events(&id("kid"), crate::Selection::all()).unwrap();
        events.map(|event| event.unwrap().encode()).collect()
    };
    let before = shown(&journal);
    journal.delete(&id("parent"), Time::from_millis(1), crate::ForkPolicy::Copy).unwrap();
    let after = shown(&journal);
    assert_eq!(after.len(), before.len());
    drop(journal);
    without_catalogue(dir.path());
    let journal = open(dir.path());
    assert_eq!(shown(&journal), after);
}

#[test]
fn the_lines_are_the_events() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=3);
    let text = fs::read_to_string(file(dir.path(), "a")).unwrap();
    let mut lines = text.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&header["format"], &header["version"]), (&"hansard-session".into(), &1.into()));
    assert_eq!(header["session_id"], "a");
    let events = journal.events(&id("a"), crate::Selection::all()).unwrap();
    for (event, line) in events.zip(lines) {
        let text = event.unwrap().encode();
        assert!(line.starts_with(&text[..text.len() - 1]), "{line}");
    }
}
