//! Journals that an earlier version has made, in `stored/COMMIT`: this program gives the same answers
//! from them, and records more into them.
//!
//! `stored/make.sh` made them with the program of that commit: saved views, an index, a position on
//! the bus, and calls of hooks that no daemon took. `answers` is what that program printed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use event::Time;
use serde_json::Value;
use testkit::World;

use crate::follow::prompt;
use crate::hook::{events, events_of, ingest, journal, names, transcript, wait_for};
use crate::up::up;
use crate::writer::append;
use crate::{empty, json};

/// The session in them that a hook spoke of.
const HOOKED: &str = "claude:235e1f7e-be5c-453a-a910-15146fed5a79";

/// Checks of `doctor` about the journal alone. The others look at this machine.
const JOURNAL_CHECKS: &[&str] = &["events", "ancestry", "artifacts", "search", "formats"];

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stored/31444dc")
}

/// A world with a copy of a stored journal.
fn with_journal(store: &str) -> World {
    let world = empty();
    copy_folder(&stored().join("journals").join(store), &journal(&world));
    world
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    // The program refuses a folder that others can read, and git keeps no such modes.
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let copy = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &copy),
            false => drop(fs::copy(entry.path(), copy).unwrap()),
        }
    }
}

/// The lines of JSON that the earlier program printed.
fn answer(store: &str, name: &str) -> Vec<Value> {
    let path = stored().join("answers").join(store).join(name).with_extension("json");
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ask(world: &World, arguments: &[&str]) -> Vec<Value> {
    json(&world.run(&[&["--json"], arguments].concat()))
}

/// Compares what both programs say. Fields that were added since are no difference.
#[track_caller]
fn check_same(mut now: Vec<Value>, before: &[Value]) {
    assert_eq!(now.len(), before.len());
    now.iter_mut().zip(before).for_each(|(now, before)| keep_known_fields(now, before));
    assert_eq!(now, before);
}

/// Removes the fields of objects that the earlier program did not know.
fn keep_known_fields(now: &mut Value, before: &Value) {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            now.retain(|name, _| before.contains_key(name));
            for (name, value) in now {
                keep_known_fields(value, &before[name]);
            }
        }
        (Value::Array(now), Value::Array(before)) => {
            now.iter_mut().zip(before).for_each(|(now, before)| keep_known_fields(now, before));
        }
        _ => {}
    }
}

fn check_answers(store: &str) {
    let world = with_journal(store);
    let sessions = answer(store, "sessions");
    check_same(ask(&world, &["sessions"]), &sessions);
    let mut ids: Vec<&str> = sessions.iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let shown: Vec<Value> = ids.iter().flat_map(|id| ask(&world, &["show", id])).collect();
    check_same(shown, &answer(store, "show"));
    check_texts(&world, store);
    let doctor = ask(&world, &["doctor"]);
    assert_eq!(journal_checks(&doctor), journal_checks(&answer(store, "doctor")));
}

/// Compares what needs the index and the saved views.
fn check_texts(world: &World, store: &str) {
    let found = ask(world, &["search", "the", "--order", "oldest"]);
    check_same(found, &answer(store, "search"));
    check_same(ask(world, &["usage", "session"]), &answer(store, "usage"));
}

/// What `doctor` found about the journal, without the words, which may change.
fn journal_checks(doctor: &[Value]) -> Vec<(&str, bool)> {
    let checks = doctor[0]["checks"].as_array().unwrap().iter();
    let named =
        checks.map(|check| (check["name"].as_str().unwrap(), check["ok"].as_bool().unwrap()));
    named.filter(|(name, _)| JOURNAL_CHECKS.contains(name)).collect()
}

#[test]
fn stored_sqlite_journal_answers_as_before() {
    check_answers("sqlite");
}

#[test]
fn stored_files_journal_answers_as_before() {
    check_answers("files");
}

#[test]
fn stored_journals_take_in_more() {
    for store in ["sqlite", "files"] {
        let world = with_journal(store);
        append(&transcript(&world, "s0"), prompt("s0", 0).as_bytes());
        ingest(&world);
        check_texts(&world, store);
        assert_eq!(ask(&world, &["sessions"]).len(), answer(store, "sessions").len() + 1);
        assert_eq!(events(&world, "user.prompt").len(), 1, "{store}");
    }
}

/// A call that waits for more than a week is dropped, so the calls happen again today.
fn move_calls_to_today(world: &World) {
    let now = Time::from_millis(crate::up::millis());
    for (folder, field) in [("spool", "at"), ("signals", "ts")] {
        let folder = journal(world).join(folder);
        for name in names(&folder) {
            let text = fs::read_to_string(folder.join(&name)).unwrap();
            let mut call: Value = serde_json::from_str(&text).unwrap();
            call[field] = match field {
                "at" => serde_json::to_value(now).unwrap(),
                _ => (now.nanos() as f64 / 1e9).into(),
            };
            fs::write(folder.join(&name), call.to_string()).unwrap();
        }
    }
}

#[test]
fn stored_hook_calls_are_recorded() {
    let world = with_journal("sqlite");
    move_calls_to_today(&world);
    ingest(&world);
    assert_eq!(events_of(&world, HOOKED, "approval.requested").len(), 1);
    for folder in ["spool", "signals"] {
        assert_eq!(names(&journal(&world).join(folder)), [""; 0]);
    }
}

#[test]
fn daemon_continues_a_stored_journal() {
    let world = with_journal("sqlite");
    append(&transcript(&world, "s0"), prompt("s0", 0).as_bytes());
    ingest(&world);
    let _daemon = up(&world);
    append(&transcript(&world, "s0"), prompt("s0", 1).as_bytes());
    assert_eq!(wait_for(&world, "claude:s0", "user.prompt", 2).len(), 2);
    check_texts(&world, "sqlite");
}
