//! Output on disk and on the bus.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use supervise::{DaemonTask, RunEvent};

use crate::harness::{Guest, PATIENCE, TOOL, TestSupervisor, is, lives};

fn text_of(path: &Value) -> String {
    fs::read_to_string(path.as_str().unwrap()).unwrap()
}

/// Lines of a log without their timestamps.
fn lines_of(path: &Value) -> Vec<String> {
    let text = text_of(path);
    text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

/// Runs a script to its end; returns the messages heard meanwhile.
fn run(guest: &mut Guest, reference: &str, script: &str) -> Vec<Value> {
    guest.script(reference, "job", script);
    guest.until(|message| is(message, "logs", "exit") && message["ref"] == reference)
}

#[test]
fn million_lines_reach_the_file() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    guest.script("flood", "job", "seq 1000000");
    let mut told = 0;
    let mut dropped = 0;
    let mut stopped = None;
    let exit = loop {
        let line = guest.line();
        if line.contains(r#""event":"line""#) && line.contains(r#""ref":"flood""#) {
            assert_eq!(stopped, None, "no line comes after the end");
            told += 1;
            continue;
        }
        let message: Value = serde_json::from_str(&line).unwrap();
        if is(&message, "callosum", "lagged") {
            dropped += message["by"]["bulk"].as_u64().unwrap_or(0);
        } else if is(&message, "supervisor", "stopped") {
            stopped = Some(message);
        } else if is(&message, "logs", "exit") {
            break message;
        }
    };
    assert_eq!(stopped.unwrap()["exit_code"], 0);
    assert_eq!(exit["lines"], 1_000_000);
    let untold = exit["untold"].as_u64().unwrap_or(0);
    assert_eq!(told + dropped + untold, 1_000_000, "every line is told or counted");
    let text = text_of(&exit["log_path"]);
    let mut count = 0_u64;
    for line in text.lines() {
        count += 1;
        assert_eq!(line.rsplit_once("[job:stdout] ").unwrap().1, count.to_string());
    }
    assert_eq!(count, 1_000_000);
}

#[test]
fn unheard_lines_reach_the_file() {
    let house = TestSupervisor::open("");
    let cmd = ["sh", "-c", "seq 100000"].map(str::to_owned).to_vec();
    let run = house.supervisor().run(DaemonTask::new(cmd)).unwrap();
    let ended = std::iter::from_fn(|| run.next(PATIENCE)).find(|it| *it != RunEvent::Started);
    assert_eq!(ended, Some(RunEvent::Ended(0)));
    let log = fs::read_to_string(house.journal().join("health/sh.log")).unwrap();
    assert_eq!(log.lines().count(), 100_000);
}

#[test]
fn invalid_utf8_ends_nothing() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let heard = run(&mut guest, "r", r"printf 'a\377\376b\nlater\r\nno break'");
    let lines: Vec<&Value> =
        heard.iter().filter(|it| is(it, "logs", "line")).map(|it| &it["line"]).collect();
    assert_eq!(lines, ["a\u{fffd}\u{fffd}b", "later", "no break"]);
    let exit = heard.last().unwrap();
    assert_eq!(exit["exit_code"], 0);
    assert_eq!(
        lines_of(&exit["log_path"]),
        ["[job:stdout] a\u{fffd}\u{fffd}b", "[job:stdout] later", "[job:stdout] no break"]
    );
}

#[test]
fn ten_megabyte_line_comes_in_pieces() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let heard = run(&mut guest, "r", "head -c 10000000 /dev/zero | tr '\\0' x; echo; echo after");
    // A guest that is slow to read misses pieces and is told how many.
    let is_lag = |it: &&Value| is(it, "callosum", "lagged");
    let dropped: u64 = heard.iter().filter(is_lag).filter_map(|it| it["by"]["bulk"].as_u64()).sum();
    let told: Vec<&Value> = heard.iter().filter(|it| is(it, "logs", "line")).collect();
    let parts: Vec<u64> = told.iter().filter_map(|it| it["part"].as_u64()).collect();
    assert!(parts.is_sorted_by(|one, next| one < next), "{parts:?}");
    let exit = heard.last().unwrap();
    assert_eq!((&exit["lines"], &exit["bytes"]), (&json!(2), &json!(10_000_007)));
    let lines = lines_of(&exit["log_path"]);
    assert_eq!(lines.len() as u64, told.len() as u64 + dropped);
    let (last, pieces) = lines.split_last().unwrap();
    assert_eq!(last, "[job:stdout] after");
    let mut len = 0;
    for (number, piece) in (1..).zip(pieces) {
        let prefix = if number == 1 { "[job:stdout] " } else { "[job:stdout+] " };
        let text = piece.strip_prefix(prefix).expect("a piece of the line");
        len += text.len();
        if let Some(at) = parts.iter().position(|part| *part == number) {
            assert_eq!(told[at]["line"], text);
        }
    }
    assert_eq!(len, 10_000_000);
}

#[test]
fn late_output_is_in_the_file_only() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    // It has a session of its own, so it may live on.
    let child = format!("{}; echo late", gate.wait());
    let heard = run(&mut guest, "r", &format!("echo soon; setsid sh -c '{child}' & exit 0"));
    assert!(heard.iter().any(|it| is(it, "logs", "line") && it["line"] == "soon"));
    let path = heard.last().unwrap()["log_path"].as_str().unwrap().to_owned();
    gate.open();
    let other = run(&mut guest, "other", &format!("while ! grep -q late {path}; do :; done"));
    assert!(!other.iter().any(|it| it["line"] == "late"));
}

#[test]
fn group_does_not_outlive_its_task() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let script =
        "trap '' TERM; (trap '' TERM; while :; do sleep 1000; done) >/dev/null 2>&1 & echo $!";
    let heard = run(&mut guest, "r", script);
    let line = heard.iter().find(|it| is(it, "logs", "line")).unwrap();
    let child: u64 = line["line"].as_str().unwrap().parse().unwrap();
    // The list of children has it until it is gone.
    while lives(child) {
        guest.hear("supervisor", "status");
    }
}

#[test]
fn log_is_in_place_and_private() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "r1", "day": "20250213",
        "cmd": ["tool", "job", "echo one"]}));
    let exit = guest.hear("logs", "exit");
    let journal = house.journal();
    let path = journal.join("20250213/health/r1_job.log");
    assert_eq!(exit["log_path"], path.to_str().unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let folder = journal.join("20250213/health");
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let target = |link: &Path| fs::read_link(link).unwrap().to_str().unwrap().to_owned();
    assert_eq!(target(&folder.join("job.log")), "r1_job.log");
    assert_eq!(target(&journal.join("health/job.log")), "../20250213/health/r1_job.log");
    // Another run of the same name takes over the links.
    run(&mut guest, "r2", "echo two");
    let text = fs::read_to_string(journal.join("health/job.log")).unwrap();
    assert!(text.ends_with(" [job:stdout] two\n"), "{text}");
    assert_eq!(target(&folder.join("job.log")), "r1_job.log");
    let stamp = text.split(' ').next().unwrap();
    assert_eq!(stamp.len(), "2025-02-13T10:30:45".len());
}

#[test]
fn names_cannot_leave_the_journal() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let outside = house.place.path("outside");
    fs::create_dir(&outside).unwrap();
    for reference in ["../../x", "..", "/etc/x", "a/b", ".hidden", "", &"x".repeat(256)] {
        guest.script(reference, "../../up", "true");
        let exit = guest.find(|it| is(it, "logs", "exit") && it["ref"] == reference);
        let path = Path::new(exit["log_path"].as_str().unwrap());
        assert!(path.is_file(), "{}", path.display());
        assert_eq!(path.parent().unwrap().parent().unwrap().parent().unwrap(), house.journal());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!name.starts_with('.') && name.len() < 255, "{name}");
    }
    // A folder that is a link could lead anywhere, so nothing is written there.
    symlink(&outside, house.journal().join("20250101")).unwrap();
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "link", "day": "20250101",
        "cmd": ["tool", "job", "echo one"]}));
    let exit = guest.find(|it| is(it, "logs", "exit") && it["ref"] == "link");
    assert_eq!(exit["unwritten"], 1);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn full_disk_stops_no_process() {
    let house = TestSupervisor::open(TOOL);
    // A file is in the way of the folder.
    fs::write(house.journal().join("20250102"), "").unwrap();
    let mut guest = house.guest();
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "r", "day": "20250102",
        "cmd": ["tool", "job", "echo one; echo two; exit 5"]}));
    let heard = guest.until(|it| is(it, "logs", "exit") && it["ref"] == "r");
    let lines: Vec<&Value> =
        heard.iter().filter(|it| is(it, "logs", "line")).map(|it| &it["line"]).collect();
    assert_eq!(lines, ["one", "two"]);
    let exit = heard.last().unwrap();
    assert_eq!((&exit["exit_code"], &exit["unwritten"]), (&json!(5), &json!(2)));
    // The error stays visible after the run, until a log can be written again.
    for _ in 0..2 {
        assert_ne!(guest.hear("supervisor", "status")["disk"], "ok");
    }
    run(&mut guest, "well", "echo three");
    guest.find(|it| is(it, "supervisor", "status") && it["disk"] == "ok");
}
