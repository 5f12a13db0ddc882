//! Files that a person wrote or changed by hand.

use super::*;

/// A line as a user would write it, with as few members as possible.
fn plain(session: &str, number: u64) -> String {
    let event = note(session, number, "by hand");
    format!(
        r#"{{"id":"{}","session_id":"{session}","kind":"note","created_at":"2026-01-01T00:00:00Z","data":{{"text":"by hand {number}"}}}}"#,
        event.id
    )
}

fn texts(journal: &Journal, session: &str) -> Vec<String> {
    let events = journal.events(&id(session), crate::Selection::all()).unwrap();
    let text = |event: event::Event| {
        let data: serde_json::Value = event.data.read().unwrap();
        format!("{} {}", event.seq, data["text"].as_str().unwrap())
    };
    events.map(|event| text(event.unwrap())).collect()
}

/// An empty journal, closed, with the folder for its sessions.
fn empty() -> TempDir {
    let dir = private_dir();
    drop(open(dir.path()));
    dir
}

#[test]
fn foreign_file_is_a_session() {
    let dir = empty();
    let lines = format!(
        "\n  {}  \r\n\n\t\n{}\n \n{}",
        plain("mine", 1),
        plain("mine", 2),
        plain("mine", 3)
    );
    fs::write(file(dir.path(), "mine"), lines).unwrap();
    let journal = open(dir.path());
    assert_eq!(texts(&journal, "mine"), ["1 by hand 1", "2 by hand 2", "3 by hand 3"]);
    append(&journal, "mine", 4..=4);
    append(&journal, "other", 5..=5);
    assert_eq!(texts(&journal, "mine").last().unwrap(), "4 text 4");
    drop(journal);
    let rendered = assert_lasting(dir.path());
    assert!(rendered.contains("positions [1, 2, 3, 4, 5]"), "{rendered}");
}

#[test]
fn a_line_may_have_any_length() {
    let dir = empty();
    let long = plain("mine", 1).replace("by hand 1", &"x".repeat(3_000_000));
    fs::write(file(dir.path(), "mine"), format!("{long}\n{}\n", plain("mine", 2))).unwrap();
    let journal = open(dir.path());
    let texts = texts(&journal, "mine");
    assert_eq!((texts[0].len(), texts[1].as_str()), (3_000_002, "2 by hand 2"));
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn lines_added_offline_are_read() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    append(&journal, "b", 3..=3);
    drop(journal);
    let path = file(dir.path(), "a");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(&plain("a", 9));
    fs::write(&path, text).unwrap();
    let journal = open(dir.path());
    append(&journal, "a", 10..=10);
    assert_eq!(texts(&journal, "a"), ["1 text 1", "2 text 2", "3 by hand 9", "4 text 10"]);
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn lines_added_online_are_read() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    let path = file(dir.path(), "a");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(&format!("{}\n{}\n", plain("a", 8), plain("a", 9)));
    fs::write(&path, text).unwrap();
    append(&journal, "a", 10..=10);
    let expected = ["1 text 1", "2 text 2", "3 by hand 8", "4 by hand 9", "5 text 10"];
    assert_eq!(texts(&journal, "a"), expected);
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn inserted_line_goes_to_end() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=3);
    drop(journal);
    let path = file(dir.path(), "a");
    let text = fs::read_to_string(&path).unwrap();
    let (head, tail) = text.split_at(text.match_indices('\n').nth(1).unwrap().0 + 1);
    fs::write(&path, format!("{head}{}\n{tail}", plain("a", 9))).unwrap();
    without_catalogue(dir.path());
    let journal = open(dir.path());
    assert_eq!(texts(&journal, "a"), ["1 text 1", "2 text 2", "3 text 3", "4 by hand 9"]);
    append(&journal, "a", 10..=10);
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn duplicate_line_is_reported() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "a", 1..=2);
    drop(journal);
    let path = file(dir.path(), "a");
    let text = fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap();
    fs::write(&path, format!("{text}{last}\n")).unwrap();
    let store = store(dir.path());
    let found = store.check(false, None).unwrap();
    assert!(found.iter().any(|finding| finding.damage.line == Some(4)), "{found:?}");
    drop(store);
    assert_lasting(dir.path());
}

#[test]
fn handwritten_fork_shows_parent() {
    let dir = private_dir();
    let journal = open(dir.path());
    append(&journal, "parent", 1..=3);
    drop(journal);
    let started =
        plain("kid", 9).replace("\"kind\":\"note\"", "\"kind\":\"session.started\"").replace(
            "\"text\":\"by hand 9\"",
            "\"mode\":\"fork\",\"parent\":{\"session_id\":\"parent\",\"seq\":2}",
        );
    fs::write(file(dir.path(), "kid"), started).unwrap();
    let journal = open(dir.path());
    let events = journal.events(&id("kid"), crate::Selection::all()).unwrap();
    assert_eq!(events.map(|event| event.unwrap().seq).collect::<Vec<_>>(), [1, 2, 3]);
    drop(journal);
    assert_lasting(dir.path());
}

#[test]
fn other_files_are_reported() {
    let dir = empty();
    let sessions = dir.path().join("sessions");
    fs::write(sessions.join("notes.txt"), "hello").unwrap();
    fs::write(sessions.join("garbage.jsonl"), "no event\n").unwrap();
    fs::write(sessions.join("other name.jsonl"), plain("mine", 1)).unwrap();
    let store = store(dir.path());
    let found = store.check(false, None).unwrap();
    let names = ["notes.txt", "garbage.jsonl", "other name.jsonl"];
    for name in names {
        assert!(found.iter().any(|finding| finding.damage.file.ends_with(name)), "{name}");
        assert!(sessions.join(name).exists());
    }
    assert!(store.reader().unwrap().sessions(None, 9).unwrap().is_empty());
}
