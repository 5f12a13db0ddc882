//! What people do not want recorded, and what they want gone.

use std::fs;

use event::{SessionId, Time};
use journal::{ForkPolicy, Journal, Options};
use testkit::{Dice, World};

use crate::follow::prompt;
use crate::ingest::ingest;
use crate::ingest_crash::{share, timed};
use crate::writer::append;
use crate::{empty, json};

/// How often a deletion is killed.
const KILLS: u32 = 60;

/// Writes a session with this many prompts, in a folder of the home.
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

/// What the doctor says under a name.
fn told(world: &World, name: &str) -> Vec<(String, Option<String>)> {
    let report = json(&world.run(&["--json", "doctor"])).remove(0);
    let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name);
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    checks.map(|check| (text(&check["detail"]).unwrap(), text(&check["fix"]))).collect()
}

#[test]
fn doctor_shows_privacy_settings() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    let usual = "originals are kept; nothing is sent anywhere".to_owned();
    assert_eq!(told(&world, "privacy"), [(usual, None)]);
    let settings = r#"
        capture.off = [{ agent = "goose" }]
        originals.days = 90
        notifications.command = ["tell", "{title}"]
        model = { kind = "openai", name = "small", endpoint = "http://127.0.0.1:9/v1" }
    "#;
    fs::write(journal(&world).join("config.toml"), settings).unwrap();
    let said = "originals are kept for 90 days; one rule leaves out sessions; `small` at \
        http://127.0.0.1:9/v1 is asked, without secrets; `tell` gets notifications about sessions";
    assert_eq!(told(&world, "privacy"), [(said.to_owned(), None)]);
}

#[test]
fn originals_can_be_disabled() {
    let world = empty();
    ingest(&world);
    fs::write(journal(&world).join("config.toml"), "originals.keep = false").unwrap();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    assert_eq!((prompts(&world, "claude:s0"), originals(&world)), (2, 0));
    assert_eq!(told(&world, "privacy")[0].0, "originals are not kept; nothing is sent anywhere");
    // On again is from now on.
    fs::write(journal(&world).join("config.toml"), "").unwrap();
    ask(&world, "s0", "work/app", 2..4);
    ingest(&world);
    assert_eq!((prompts(&world, "claude:s0"), originals(&world)), (4, 1));
}

#[test]
fn doctor_lists_source_problems() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    assert_eq!(told(&world, "sources"), [("claude: 1 source, all read".to_owned(), None)]);
    ask(&world, "s1", "work/app", 0..2);
    let [(detail, None)] = &told(&world, "sources")[..] else { panic!("nothing is wrong") };
    assert_eq!(detail, "claude: 2 sources, 1 with something new");
    let folder = world.home().join(".claude/projects");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(folder.join("-s2/s2.jsonl")).unwrap();
    let [(detail, Some(trouble))] = &told(&world, "sources")[..] else { panic!("it is seen") };
    assert_eq!(detail, "claude: 0 sources, all read");
    assert!(trouble.contains("projects` had sessions before and has none now; "), "{trouble}");
    assert!(trouble.contains("s2.jsonl`: "), "{trouble}");
}

#[test]
fn excluded_sessions_are_not_recorded() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    let rules = r#"capture.off = [{ path = "**/private" }, { session = "claude:s0" }]"#;
    fs::write(journal(&world).join("config.toml"), rules).unwrap();
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
    fs::remove_file(journal(&world).join("config.toml")).unwrap();
    assert_eq!(ingest(&world)["events"], 0);
    ask(&world, "s0", "work/app", 4..5);
    ingest(&world);
    assert_eq!(prompts(&world, "claude:s0"), 3);
}

#[test]
fn session_can_be_listed_without_content() {
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
fn faulty_settings_stop_capture() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..1);
    ingest(&world);
    fs::write(journal(&world).join("config.toml"), "[[capture.off]]\nagnet = \"claude\"\n")
        .unwrap();
    ask(&world, "s0", "work/app", 1..2);
    let said = world.run(&["ingest", "--once"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("config.toml`, line 2: unknown field `agnet`"), "{said}");
    assert_eq!(prompts(&world, "claude:s0"), 1);
}

#[test]
fn deleted_session_stays_deleted() {
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
fn interrupted_deletion_is_finished_later() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ask(&world, "s1", "work/app", 0..2);
    ingest(&world);
    let opened = Journal::open(&journal(&world), &Options::default()).unwrap();
    let session = SessionId::new("claude:s0").unwrap();
    opened.delete(&session, Time::from_millis(0), ForkPolicy::Refuse).unwrap();
    drop(opened);
    assert_eq!(originals(&world), 2);
    let said = world.run(&["delete", "claude:s0", "--yes"]);
    assert_eq!((said.code, originals(&world)), (Some(0), 1), "{said}");
    assert_eq!(world.run(&["delete", "claude:nobody", "--yes"]).code, Some(1));
}

/// The next deletion or the next ingest finishes it.
#[test]
fn killed_deletion_is_all_or_nothing() {
    let world = empty();
    ask(&world, "s", "work/app", 0..1);
    ingest(&world);
    let time = timed(|| assert_eq!(world.run(&["delete", "claude:s", "--yes"]).code, Some(0)));
    let mut dice = Dice::from_environment();
    println!("{KILLS} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    let mut halves = 0;
    for round in 0..KILLS {
        let name = format!("s{round}");
        let session = format!("claude:{name}");
        ask(&world, &name, "work/app", 0..40);
        ingest(&world);
        let mut running = world.start(&["delete", &session, "--yes"]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
        let left = prompts(&world, &session);
        assert!(left == 0 || left == 40, "{left} of 40 are left of {session}");
        halves += u32::from(left == 0 && originals(&world) > 0);
        if left > 0 || round % 2 == 0 {
            assert_eq!(world.run(&["delete", &session, "--yes"]).code, Some(0));
        } else {
            ingest(&world);
        }
        assert_eq!((prompts(&world, &session), originals(&world)), (0, 0), "{session}");
        assert_eq!(indexed(&world), 0, "{session}");
    }
    println!("{halves} were cut between the session and its originals");
}

#[test]
fn deletion_during_ingest_wins() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    let mut running = world.start(&["--json", "ingest"]);
    let mut wait_for = |session: &str, count: usize| {
        while prompts(&world, session) < count {
            running.line().expect("it goes on");
        }
    };
    wait_for("claude:s0", 2);
    assert_eq!(world.run(&["delete", "claude:s0", "--yes"]).code, Some(0));
    // What is said in the other session shows that what was said before it was read.
    for round in 0..2 {
        ask(&world, "s0", "work/app", 2 + round..3 + round);
        ask(&world, "s1", "work/app", round..round + 1);
        wait_for("claude:s1", round as usize + 1);
    }
    running.terminate();
    assert_eq!((prompts(&world, "claude:s0"), prompts(&world, "claude:s1")), (0, 2));
    assert_eq!(originals(&world), 1);
}

/// Events that the search index holds of any session here, whether the log has them or not.
fn indexed(world: &World) -> u64 {
    let said = world.run(&["--json", "search", "question", "--limit", "1"]);
    let found: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    found["total"].as_u64().unwrap()
}

#[test]
fn excess_originals_go_but_events_stay() {
    let world = empty();
    ask(&world, "s0", "work/app", 0..2);
    ingest(&world);
    fs::write(journal(&world).join("config.toml"), "originals.bytes = 0\n").unwrap();
    ask(&world, "s0", "work/app", 2..3);
    ingest(&world);
    assert_eq!((prompts(&world, "claude:s0"), originals(&world)), (3, 0));
}
