//! Files that are no transcripts, or broken ones: a warning where one is due, and the rest goes on.

use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use testkit::World;

use crate::follow::prompt;
use crate::ingest::ingest;
use crate::writer::append;
use crate::{empty, json};

/// Longer than any line may be.
const GIGABYTE: u64 = 1 << 30;

/// What the program may hold of it: a fraction, whatever the length of the line.
const MEMORY_MAX: u64 = GIGABYTE / 4;

/// A home with one good session beside which tests put bad ones.
struct Bad {
    world: World,
    project: PathBuf,
}

impl Bad {
    fn new() -> Bad {
        let world = empty();
        let project = world.home().join(".claude/projects/-home-dev-app");
        let bad = Bad { world, project };
        bad.write("good", both("good").concat().as_bytes());
        bad
    }

    fn path(&self, session: &str) -> PathBuf {
        self.project.join(format!("{session}.jsonl"))
    }

    /// Writes a finished transcript.
    fn write(&self, session: &str, bytes: &[u8]) {
        append(&self.path(session), bytes);
        age(&self.path(session));
    }

    /// The prompts of a session, as they are recorded.
    fn prompts(&self, session: &str) -> Vec<String> {
        let id = format!("claude:{session}");
        let events = json(&self.world.run(&["--json", "show", &id, "--events"]));
        let prompts = events.iter().filter(|event| event["kind"] == "user.prompt");
        prompts.map(|event| event["data"]["content"].to_string()).collect()
    }

    /// The unknown records of a session, and why they are.
    fn unknown(&self, session: &str) -> Vec<String> {
        let id = format!("claude:{session}");
        let events = json(&self.world.run(&["--json", "show", &id, "--events"]));
        let unknown = events.iter().filter(|event| event["kind"] == "unknown");
        unknown.map(|event| event["data"]["error"].as_str().unwrap_or("").to_owned()).collect()
    }
}

fn both(session: &str) -> [String; 2] {
    [prompt(session, 0), prompt(session, 1)]
}

fn age(path: &Path) {
    let day = Duration::from_secs(24 * 60 * 60);
    File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - day).unwrap();
}

/// The kinds of the warnings about a file.
fn warned(report: &Value, name: &str) -> Vec<String> {
    let kind = |warning: &Value| warning["kind"].as_str().unwrap().to_owned();
    about(report, name).into_iter().map(kind).collect()
}

/// What the warnings about a file say.
fn words(report: &Value, name: &str) -> String {
    let words = |warning: &Value| warning["message"].as_str().unwrap().to_owned();
    about(report, name).into_iter().map(words).collect::<Vec<_>>().join("; ")
}

fn about<'r>(report: &'r Value, name: &str) -> Vec<&'r Value> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    let is_about = |warning: &&Value| {
        let path = warning["path"].as_str().unwrap_or_default();
        path.ends_with(&format!("/{name}.jsonl"))
    };
    warnings.filter(is_about).collect()
}

/// Reads everything once as a user without root privileges, because permissions do not stop root.
/// `None` where privileges cannot be dropped.
fn ingest_with_permissions(world: &World) -> Option<Value> {
    let mut plain = world.command(&["--json", "ingest", "--once"]);
    let probe = world.home().join("probe");
    fs::write(&probe, "").unwrap();
    fs::set_permissions(&probe, Permissions::from_mode(0o000)).unwrap();
    let run = if File::open(&probe).is_err() {
        plain.output()
    } else {
        let program = plain.get_program().to_owned();
        let given_away = "-dac_override,-dac_read_search";
        let mut command = std::process::Command::new("setpriv");
        command.args(["--bounding-set", given_away, "--inh-caps", given_away]).arg(program);
        command.args(plain.get_args()).env("HOME", world.home()).current_dir(world.home());
        command.output()
    };
    let said = run.ok().filter(|said| said.status.success())?;
    serde_json::from_slice(&said.stdout).ok()
}

#[test]
fn unreadable_file_is_reported() {
    let bad = Bad::new();
    fs::create_dir(bad.path("folder")).unwrap();
    let outside = bad.world.home().join("outside.jsonl");
    fs::write(&outside, prompt("outside", 0)).unwrap();
    symlink(&outside, bad.path("outside")).unwrap();
    symlink(bad.path("circle"), bad.path("circle")).unwrap();
    symlink(bad.path("nowhere"), bad.path("dangling")).unwrap();
    bad.write("locked", prompt("locked", 0).as_bytes());
    fs::set_permissions(bad.path("locked"), Permissions::from_mode(0o000)).unwrap();

    let with_permissions = ingest_with_permissions(&bad.world);
    let report = with_permissions.clone().unwrap_or_else(|| ingest(&bad.world));
    assert_eq!(warned(&report, "folder"), ["unreadable"], "{report}");
    assert_eq!(words(&report, "folder"), "it is a folder that has the name of a transcript");
    assert_eq!(warned(&report, "outside"), ["leads_out"], "{report}");
    let leads_out = "the link leads out of the agent's folder and is not followed";
    assert_eq!(words(&report, "outside"), leads_out);
    assert_eq!(warned(&report, "circle"), ["unreadable"], "{report}");
    assert_eq!(warned(&report, "dangling"), [""; 0], "{report}");
    match with_permissions {
        None => println!("not shown: a file without permission, this user may read everything"),
        Some(report) => {
            assert_eq!(warned(&report, "locked"), ["unreadable"], "{report}");
            assert!(words(&report, "locked").starts_with("Permission denied"), "{report}");
            fs::set_permissions(bad.path("locked"), Permissions::from_mode(0o600)).unwrap();
            ingest(&bad.world);
            assert_eq!(bad.prompts("locked").len(), 1);
        }
    }
    assert_eq!(bad.prompts("good").len(), 2);
}

#[test]
fn odd_bytes_lose_nothing() {
    let bad = Bad::new();
    let [first, second] = both("windows");
    bad.write("windows", (first + &second).replace('\n', "\r\n").as_bytes());
    let [first, second] = both("marked");
    bad.write("marked", format!("\u{feff}{first}{second}").as_bytes());
    let [first, second] = both("gaps");
    bad.write("gaps", format!("\n\n{first}\n \t\n\r\n{second}\n\n").as_bytes());
    bad.write("zeros", &[0; 100_000]);
    let [first, second] = both("some-zeros");
    bad.write("some-zeros", &[first.as_bytes(), &[0; 500], b"\n", second.as_bytes()].concat());
    let [first, second] = both("latin");
    let mut latin = first.into_bytes();
    let place = latin.windows(8).position(|word| word == b"question").unwrap();
    latin[place] = 0xE4;
    bad.write("latin", &[&latin[..], second.as_bytes()].concat());
    let [first, torn] = both("torn");
    let (begun, rest) = torn.split_at(torn.len() / 2);
    bad.write("torn", (first + begun).as_bytes());
    let [first, second] = both("unended");
    bad.write("unended", (first + second.trim_end()).as_bytes());

    let report = ingest(&bad.world);
    for (session, prompts, unknown, warnings) in [
        ("good", 2, 0, &[][..]),
        ("windows", 2, 0, &[]),
        ("marked", 2, 0, &[]),
        ("gaps", 2, 0, &[]),
        ("zeros", 0, 1, &["not_text"]),
        ("some-zeros", 2, 1, &["not_text"]),
        ("latin", 2, 0, &["not_text"]),
        ("torn", 1, 1, &["torn"]),
        ("unended", 2, 0, &[]),
    ] {
        assert_eq!(bad.prompts(session).len(), prompts, "{session}: {report}");
        assert_eq!(bad.unknown(session).len(), unknown, "{session}: {report}");
        assert_eq!(warned(&report, session), warnings, "{session}: {report}");
    }
    let no_text = "1 line holds bytes that are no text; it is kept";
    assert_eq!(words(&report, "zeros"), no_text);
    // All of it is told once.
    let report = ingest(&bad.world);
    assert_eq!(report["events"], 0, "{report}");
    assert_eq!(report["warnings"], Value::Array(Vec::new()), "{report}");
    // The rest of a line that was torn takes its place.
    append(&bad.path("torn"), rest.as_bytes());
    ingest(&bad.world);
    assert_eq!(bad.prompts("torn").len(), 2);
}

#[test]
fn gigabyte_line_needs_bounded_memory() {
    let bad = Bad::new();
    for session in ["long", "endless"] {
        bad.write(session, prompt(session, 0).as_bytes());
        let mut file = File::options().write(true).open(bad.path(session)).unwrap();
        let end = file.seek(SeekFrom::End(0)).unwrap();
        file.set_len(end + GIGABYTE).unwrap();
        if session == "long" {
            file.seek(SeekFrom::End(0)).unwrap();
            file.write_all(format!("\n{}", prompt(session, 1)).as_bytes()).unwrap();
        }
        age(&bad.path(session));
    }
    let mut running = bad.world.start(&["--json", "ingest"]);
    let round = running.line().expect("there is something to tell");
    match running.memory_peak() {
        Some(peak) => assert!(peak < MEMORY_MAX, "{peak} bytes for lines of {GIGABYTE}"),
        None => println!("this system does not tell how much memory a program held"),
    }
    let said = running.terminate();
    assert_eq!(said.code, Some(0), "{round} {said}");
    for session in ["long", "endless"] {
        let words = match session {
            "long" => {
                "a line of 1024 MiB is longer than the 64 MiB that are understood; it is kept"
            }
            _ => "its last line has 1024 MiB and no end; it is left where it is",
        };
        assert!(said.stderr.contains(&format!("{session}.jsonl: {words}")), "{said}");
        assert_eq!(bad.unknown(session).len(), 1, "{said}");
    }
    assert_eq!(bad.prompts("long").len(), 2, "{said}");
    assert_eq!(bad.prompts("endless").len(), 1, "{said}");
    assert_eq!(bad.prompts("good").len(), 2, "{said}");
    // Read and told once.
    let report = ingest(&bad.world);
    assert_eq!(report["bytes"], 0, "{report}");
    assert_eq!(report["files"], 0, "{report}");
}

#[test]
fn repeated_warnings_are_counted() {
    let bad = Bad::new();
    for number in 0..5 {
        let session = format!("torn-{number}");
        bad.write(&session, format!("{}{{\"type\":\"us", prompt(&session, 1)).as_bytes());
    }
    let said = bad.world.run(&["ingest", "--once"]);
    assert_eq!(said.code, Some(0), "{said}");
    let told = said.stderr.lines().filter(|line| line.contains("was never finished")).count();
    assert_eq!(told, 3, "{said}");
    assert!(said.stderr.contains("2 more of the kind `torn`"), "{said}");
}
