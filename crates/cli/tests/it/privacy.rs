//! What people do not want recorded, and what they want gone.

use std::fs;

use event::{SessionId, Time};
use journal::{Forks, Journal, Options};
use testkit::World;

use crate::follow::prompt;
use crate::ingest::ingest;
use crate::writer::append;
use crate::{empty, json};

/// Somebody asks so many questions in a session that works in a folder of the home.
fn ask(world: &World, session: &str, folder: &str, questions: std::ops::Range<u32>) {
    let cwd = world.home().join(folder);
    fs::create_dir_all(&cwd).unwrap();
    let file = world.home().join(format!(".claude/projects/-{session}/{session}.jsonl"));
    for number in questions {
        let line = prompt(session, number).replace("/home/dev/app", cwd.to_str().unwrap());
        append(&file, line.as_bytes());
    }
}

fn journal(world: &World) -> std::path::PathBuf {
    world.home().join(".local/share/hansard")
}

fn prompts(world: &World, session: &str) -> usize {
    let said = world.run(&["--json", "show", session, "--events"]);
    if said.code != Some(0) {
        return 0;
    }
    json(&said).iter().filter(|event| event["kind"] == "user.prompt").count()
}

fn originals(world: &World) -> usize {
    fs::read_dir(journal(world).join("originals")).map_or(0, Iterator::count)
}

#[test]
fn what_is_switched_off_is_neither_told_nor_kept() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    let rules = r#"{"off": [{"path": "**/private"}, {"session": "claude:s0"}]}"#;
    fs::write(journal(&world).join("capture.json"), rules).unwrap();
    ask(&world, "s0", "work/app", 2..4);
    ask(&world, "s1", "work/private/deep", 0..2);
    ask(&world, "s2", "work/marked/deep", 0..2);
    fs::write(world.home().join("work/marked/.hansardignore"), "").unwrap();
    ask(&world, "s3", "work/other", 0..2);
    ingest(&world);
    let told = ["claude:s0", "claude:s1", "claude:s2", "claude:s3"];
    assert_eq!(told.map(|session| prompts(&world, session)), [2, 0, 0, 2]);
    assert_eq!(originals(&world), 2);
    // Off was from then on, and so is on: what was said meanwhile stays unsaid.
    fs::remove_file(journal(&world).join("capture.json")).unwrap();
    assert_eq!(ingest(&world)["events"], 0);
    ask(&world, "s0", "work/app", 4..5);
    ingest(&world);
    assert_eq!(prompts(&world, "claude:s0"), 3);
}

#[test]
fn a_session_can_be_listed_without_what_was_said() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    fs::write(world.home().join("work/.hansardignore"), "status\n").unwrap();
    ingest(&world);
    let events = json(&world.run(&["--json", "show", "claude:s0", "--events"]));
    assert!(events.iter().any(|event| event["kind"] == "session.started"), "{events:?}");
    assert!(!format!("{events:?}").contains("question"), "{events:?}");
    assert_eq!(originals(&world), 0);
}

#[test]
fn settings_that_are_not_understood_stop_capture() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..1);
    ingest(&world);
    fs::write(journal(&world).join("capture.json"), r#"{"off": [{"agnet": "claude"}]}"#).unwrap();
    ask(&world, "s0", "work/app", 1..2);
    let said = world.run(&["ingest", "--once"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("capture.json"), "{said}");
    assert_eq!(prompts(&world, "claude:s0"), 1);
}

#[test]
fn a_deleted_session_is_gone_with_its_originals_and_stays_gone() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ask(&world, "s1", "work/app", 0..2);
    ingest(&world);
    assert_eq!(originals(&world), 2);
    let said = world.run(&["delete", "claude:s0"]);
    assert_eq!((said.code, prompts(&world, "claude:s0")), (Some(1), 2), "{said}");
    let said = world.run(&["--json", "delete", "claude:s0", "--yes"]);
    assert_eq!(json(&said)[0]["deleted"], true, "{said}");
    assert_eq!(originals(&world), 1);
    ask(&world, "s0", "work/app", 2..4);
    let report = ingest(&world);
    assert_eq!(report["events"], 0, "{report}");
    assert_eq!((prompts(&world, "claude:s0"), originals(&world)), (0, 1));
    assert_eq!(prompts(&world, "claude:s1"), 2);
}

/// As a crash leaves it between the session and its originals.
#[test]
fn a_deletion_that_was_cut_off_is_finished_by_the_next() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ask(&world, "s1", "work/app", 0..2);
    ingest(&world);
    let opened = Journal::open(&journal(&world), &Options::default()).unwrap();
    let session = SessionId::new("claude:s0").unwrap();
    opened.delete(&session, Time::from_millis(0), Forks::Refuse).unwrap();
    drop(opened);
    assert_eq!(originals(&world), 2);
    let said = world.run(&["delete", "claude:s0", "--yes"]);
    assert_eq!((said.code, originals(&world)), (Some(0), 1), "{said}");
    assert_eq!(world.run(&["delete", "claude:nobody", "--yes"]).code, Some(1));
}

#[test]
fn originals_go_when_they_are_too_much_and_events_stay() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    fs::write(journal(&world).join("capture.json"), r#"{"originals": {"bytes": 0}}"#).unwrap();
    ask(&world, "s0", "work/app", 2..3);
    ingest(&world);
    assert_eq!((prompts(&world, "claude:s0"), originals(&world)), (3, 0));
}
