//! `ingest --once` over generated transcripts: totals stay exact when files change.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use testkit::{Transcripts, World};

use crate::follow::prompt;
use crate::totals::{assert_same, counted, expected};
use crate::writer::append;
use crate::{empty, json};

/// A world whose agents have written these.
pub(crate) fn reading(transcripts: &Transcripts) -> World {
    let root = transcripts.root();
    empty().with("CLAUDE_CONFIG_DIR", root.join("claude")).with("CODEX_HOME", root.join("codex"))
}

/// Reads everything once; the report.
#[track_caller]
pub(crate) fn ingest(world: &World) -> Value {
    json(&world.run(&["--json", "ingest", "--once"])).remove(0)
}

/// A finished session that no other repeats: its row of the list and its file.
fn finished(transcripts: &Transcripts, agent: &str) -> (Value, PathBuf) {
    let sessions = transcripts.sessions();
    let is_finished = |session: &&Value| {
        session["agent"] == agent
            && session["role"] == "main"
            && session["termination"] == "awaiting_user"
            && session["lines"].as_u64() > Some(20)
    };
    let session = sessions.iter().find(is_finished).unwrap().clone();
    let file = transcripts.root().join(session["file"].as_str().unwrap());
    (session, file)
}

fn listed(world: &World, id: &Value) -> Value {
    let sessions = json(&world.run(&["--json", "sessions"]));
    sessions.into_iter().find(|session| session["provider_session_id"] == *id).unwrap()
}

#[test]
fn totals_equal_the_manifest() {
    for (size, seed) in [("6mb", 11), ("3mb", 12)] {
        let transcripts = Transcripts::make(size, seed, "0.6");
        let world = reading(&transcripts);
        let report = ingest(&world);
        let sessions = transcripts.sessions().len();
        assert_eq!(report["sessions"]["new"], sessions, "{report}");
        assert_eq!(report["sessions"]["total"], sessions, "{report}");
        assert_same(&counted(&world), &expected(&transcripts));
    }
}

#[test]
fn second_run_finds_nothing_new() {
    let transcripts = Transcripts::make("2mb", 13, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    for _ in 0..2 {
        let report = ingest(&world);
        for what in ["events", "bytes", "files"] {
            assert_eq!(report[what], 0, "{report}");
        }
        assert_eq!(report["sessions"]["new"], 0, "{report}");
        assert_eq!(report["sessions"]["updated"], 0, "{report}");
    }
    assert_same(&counted(&world), &expected(&transcripts));
}

#[test]
fn only_appended_lines_are_added() {
    let transcripts = Transcripts::make("2mb", 24, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    for agent in ["claude", "codex"] {
        let before = counted(&world);
        let appended = transcripts.append(agent, 100);
        let report = ingest(&world);
        assert_eq!(report["files"], 1, "{report}");
        assert_eq!(report["bytes"], appended["bytes"], "{report}");
        assert_eq!(report["sessions"]["updated"], 1, "{report}");
        let after = counted(&world);
        let grown = |name: &str| {
            let name = format!("{agent} {name}");
            after.get(&name).unwrap_or(&0) - before.get(&name).unwrap_or(&0)
        };
        let said = |name: &str| appended["delta"][name].as_u64().unwrap_or_default();
        assert_eq!(grown("prompts"), said("user_prompts"), "{agent}");
        assert_eq!(grown("queued"), said("queued_prompts"), "{agent}");
        assert_eq!(grown("tool_calls"), said("tool_calls"), "{agent}");
        assert_eq!(grown("tool_results"), said("tool_results"), "{agent}");
    }
    // Read in one go it is the same.
    let at_once = reading(&transcripts);
    ingest(&at_once);
    assert_same(&counted(&world), &counted(&at_once));
}

#[test]
fn deleted_transcripts_stay_in_the_journal() {
    let transcripts = Transcripts::make("2mb", 15, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    let (session, file) = finished(&transcripts, "claude");
    fs::remove_file(file).unwrap();
    fs::remove_dir_all(transcripts.root().join("codex/sessions")).unwrap();
    let report = ingest(&world);
    assert_eq!(report["events"], 0, "{report}");
    assert_eq!(report["warnings"], Value::Array(Vec::new()), "{report}");
    assert_same(&counted(&world), &expected(&transcripts));
    assert_eq!(listed(&world, &session["id"])["source_missing"], true);
    for session in transcripts.sessions() {
        let is_there = transcripts.root().join(session["file"].as_str().unwrap()).exists();
        assert_eq!(listed(&world, &session["id"])["source_missing"], !is_there, "{session}");
    }
}

#[test]
fn rewritten_file_counts_once() {
    let transcripts = Transcripts::make("2mb", 16, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    for agent in ["claude", "codex"] {
        let (_, file) = finished(&transcripts, agent);
        let whole = fs::read(&file).unwrap();
        let half = whole.len() / 2
            + whole[whole.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap()
            + 1;
        for part in [&whole[..half], &whole[..0], &whole[..]] {
            fs::write(&file, part).unwrap();
            transcripts.age();
            ingest(&world);
            assert_same(&counted(&world), &expected(&transcripts));
        }
        // Another file at the same path.
        fs::remove_file(&file).unwrap();
        ingest(&world);
        write_anew(&file, &whole);
        transcripts.age();
        ingest(&world);
        assert_same(&counted(&world), &expected(&transcripts));
    }
}

#[test]
fn moved_file_is_the_same_session() {
    let transcripts = Transcripts::make("3mb", 17, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    let (session, file) = finished(&transcripts, "claude");
    let elsewhere = transcripts.root().join("claude/projects/-home-dev-elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::rename(&file, elsewhere.join(file.file_name().unwrap())).unwrap();
    let report = ingest(&world);
    assert_eq!(report["events"], 0, "{report}");
    assert_eq!(report["sessions"]["new"], 0, "{report}");
    assert_same(&counted(&world), &expected(&transcripts));
    assert_eq!(listed(&world, &session["id"])["source_missing"], false);
}

/// Writes two sessions of Claude that begin alike and go on apart; the one called `parent` is
/// made and changed last. The fork begins with this mark.
fn write_kin(world: &World, fork_mark: &str) -> [PathBuf; 2] {
    let project = world.home().join(".claude/projects/-home-dev-app");
    let paths = ["parent", "fork"].map(|name| project.join(format!("{name}.jsonl")));
    let common: String = (0..3).map(|number| prompt("parent", number)).collect();
    let copied = common.replace(r#""sessionId":"parent""#, r#""sessionId":"fork""#);
    append(&paths[1], (fork_mark.to_owned() + &copied + &prompt("fork", 3)).as_bytes());
    append(&paths[0], (common + &prompt("parent", 4)).as_bytes());
    paths
}

#[track_caller]
fn check_kin(world: &World, expected: [(&str, &str, u64); 2]) {
    for (id, relation, prompts) in expected {
        let session = listed(world, &id.into());
        assert_eq!(session["relation"], relation, "{session}");
        assert_eq!(session["counts"]["prompts"], prompts, "{session}");
    }
}

#[test]
fn forked_session_remains_the_parent() {
    let world = empty();
    // The fork notes when it was made, behind the time of the first record that it copies. By its
    // file the parent is the younger one.
    let mark = r#"{"type":"mode","timestamp":"2026-03-02T09:30:00.000Z"}"#;
    write_kin(&world, &format!("{mark}\n"));
    ingest(&world);
    check_kin(&world, [("parent", "main", 4), ("fork", "fork", 1)]);
}

#[test]
fn sessions_of_equal_age_are_no_forks() {
    let world = empty();
    // Restored from a backup: both have a time from before they were made on this disk.
    let restored_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    for path in write_kin(&world, "") {
        File::options().append(true).open(path).unwrap().set_modified(restored_at).unwrap();
    }
    ingest(&world);
    let prompts = |id: &str| listed(&world, &id.into())["counts"]["prompts"].as_u64().unwrap();
    let told = [prompts("parent"), prompts("fork")];
    assert_eq!(told.iter().sum::<u64>(), 5, "the common part is recorded once");
    check_kin(&world, [("parent", "main", told[0]), ("fork", "main", told[1])]);
    let (second, first) = if told[0] > told[1] { ("fork", "parent") } else { ("parent", "fork") };
    let shown = world.run(&["show", &format!("claude:{second}"), "--events"]);
    let tie = format!("begins like claude:{first}");
    assert!(shown.stdout.contains(&tie), "{shown}");
}

fn write_anew(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("beside");
    File::create(&beside).and_then(|mut file| file.write_all(bytes)).unwrap();
    fs::rename(beside, path).unwrap();
}

#[test]
fn sessions_are_filtered_by_project() {
    let world = empty();
    let repository = world.home().join("work/app");
    let git = repository.join(".git");
    fs::create_dir_all(&git).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[remote \"origin\"]\n\turl = https://me:secret@example.org/org/app.git\n";
    fs::write(git.join("config"), config).unwrap();
    for (session, cwd) in [("s0", "work/app/src"), ("s1", "elsewhere")] {
        let cwd = world.home().join(cwd);
        let line = prompt(session, 0).replace("/home/dev/app", cwd.to_str().unwrap());
        let file = world.home().join(format!(".claude/projects/-{session}/{session}.jsonl"));
        append(&file, line.as_bytes());
    }
    ingest(&world);
    let listed = json(&world.run(&["--json", "sessions", "--project", "org/app"]));
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["project"], "org/app");
    assert_eq!(json(&world.run(&["--json", "sessions", "--project", "org/ap"])).len(), 0);
    let events = world.run(&["--json", "show", "claude:s0", "--events"]);
    assert!(!events.stdout.contains("secret"), "{events}");
}

#[test]
fn reparse_adds_nothing_new() {
    let transcripts = Transcripts::make("2mb", 27, "0.6");
    let world = reading(&transcripts);
    ingest(&world);
    fs::remove_dir_all(transcripts.root().join("codex")).unwrap();
    ingest(&world);
    let totals = counted(&world);
    for agent in ["claude", "codex"] {
        let report = json(&world.run(&["--json", "ingest", "--reparse", agent])).remove(0);
        assert_eq!(report["events"], 0, "{report}");
        assert!(report["bytes"].as_u64() > Some(100_000), "{report}");
    }
    assert_same(&counted(&world), &totals);
    assert_eq!(ingest(&world)["events"], 0);
    assert_eq!(world.run(&["ingest", "--reparse", "nobody"]).code, Some(2));
}
