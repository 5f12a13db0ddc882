//! Hooks with a closed stdout, ended or killed, on a full disk, beside a broken journal: the agent
//! never notices, and neither a call nor an install is left half done.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Dice, RunningProgram};

use crate::follow::prompt;
use crate::hook::{
    asked, call, call_in, events, events_of, failures, ingest, journal, names, payload, transcript,
    with_session,
};
use crate::ingest_crash::crashes;
use crate::up::up;
use crate::up_disk::run_with_disk;
use crate::writer::append;

/// Kills, as a part of those `HANSARD_TEST_CRASHES` sets.
const SHARE: u32 = 4;

/// A question whether a command may be run.
fn asks(command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}})
}

#[test]
fn closed_stdout_is_ignored() {
    let world = with_session();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" hook claude PermissionRequest >&- 2>&-"]);
    shell.arg(env!("CARGO_BIN_EXE_hansard")).env_clear().env("HOME", world.home());
    let mut hook = shell.stdin(Stdio::piped()).spawn().unwrap();
    let input = payload(&world, "s0", &asked()).to_string();
    hook.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(hook.wait().unwrap().success());
    assert_eq!(names(&journal(&world).join("spool")).len(), 1);
}

#[test]
fn hook_ends_silently_on_signal() {
    let world = with_session();
    let mut command = world.command(&["hook", "claude", "PermissionRequest"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = command.spawn().unwrap();
    // Half of what it waits for.
    hook.stdin.as_mut().unwrap().write_all(b"{\"session_id\":").unwrap();
    let told = Command::new("kill").args(["-TERM", &hook.id().to_string()]).status();
    assert!(told.unwrap().success());
    let said = hook.wait_with_output().unwrap();
    assert_eq!((said.stdout, said.stderr), (vec![], vec![]));
    assert_eq!(names(&journal(&world).join("spool")), [""; 0]);
}

#[test]
fn broken_journal_does_not_fail_a_hook() {
    let world = with_session();
    for file in fs::read_dir(journal(&world)).unwrap().map(|entry| entry.unwrap().path()) {
        if file.is_file() {
            fs::write(file, "from another time").unwrap();
        }
    }
    call(&world, "PermissionRequest", &asked());
    call(&world, "Stop", &json!({}));
    assert_eq!(names(&journal(&world).join("spool")).len(), 1);
    assert_eq!(failures(&world), [""; 0]);
}

#[test]
fn killed_call_leaves_all_or_nothing() {
    let world = with_session();
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let kills = crashes().div_ceil(SHARE);
    for number in 0..kills {
        let mut command = world.command(&["hook", "claude", "PermissionRequest"]);
        let mut hook = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = payload(&world, "s0", &asks(&format!("make part_{number}"))).to_string();
        // One that is killed at once may not live to read it.
        let _ = hook.stdin.take().unwrap().write_all(input.as_bytes());
        wait(Duration::from_micros(dice.below(8_000)));
        let _ = hook.kill();
        hook.wait().unwrap();
    }
    let spool = journal(&world).join("spool");
    let left = names(&spool);
    for name in &left {
        let text = fs::read(spool.join(name)).unwrap();
        assert!(serde_json::from_slice::<Value>(&text).is_ok(), "{name} is whole");
    }
    ingest(&world);
    assert_eq!(events(&world, "approval.requested").len(), left.len());
    assert_eq!(names(&spool), [""; 0]);
}

#[test]
fn spooled_calls_are_recorded_once_after_kills() {
    let world = with_session();
    let calls = 40;
    for number in 0..calls {
        call(&world, "PermissionRequest", &asks(&format!("make part_{number}")));
    }
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    for _ in 0..crashes().div_ceil(SHARE).min(20) {
        let mut daemon: RunningProgram = up(&world);
        daemon.goes_on_for(Duration::from_micros(dice.below(40_000)));
        daemon.kill();
    }
    ingest(&world);
    let asked = events(&world, "approval.requested");
    assert_eq!(asked.len(), calls);
    assert_eq!(names(&journal(&world).join("spool")), [""; 0]);
}

/// A compaction takes three steps: its fact is recorded, its signal is written, its file is removed.
#[test]
fn compactions_are_recorded_once_after_kills() {
    let world = with_session();
    let sessions: Vec<String> = (1..=12).map(|number| format!("s{number}")).collect();
    for session in &sessions {
        append(&transcript(&world, session), prompt(session, 0).as_bytes());
    }
    ingest(&world);
    for session in &sessions {
        call_in(&world, session, "PreCompact", &json!({"trigger": "auto"}));
    }
    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let waiting = || names(&journal(&world).join("spool")).len();
    for _ in 0..crashes() {
        let mut command = world.command(&["ingest", "--once"]);
        let mut pass = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait(Duration::from_micros(dice.below(150_000)));
        let _ = pass.kill();
        pass.wait().unwrap();
        println!("{} of {} wait in the spool", waiting(), sessions.len());
        if waiting() == 0 {
            break;
        }
    }
    for session in &sessions {
        call_in(&world, session, "SessionEnd", &json!({"reason": "clear"}));
    }
    ingest(&world);
    for session in sessions.iter().map(|session| format!("claude:{session}")) {
        assert_eq!(events_of(&world, &session, "compaction.started").len(), 1, "{session}");
        let closed = events_of(&world, &session, "epoch.closed");
        let causes: Vec<&Value> = closed.iter().map(|event| &event["data"]["cause"]).collect();
        assert_eq!(causes, ["compaction"], "{session}");
    }
    for folder in ["spool", "signals"] {
        assert_eq!(names(&journal(&world).join(folder)), [""; 0]);
    }
}

#[test]
fn killed_install_leaves_old_or_new_settings() {
    let world = with_session();
    let files = [
        (".claude/settings.json", "{\r\n  \"model\": \"opus\"\r\n}\r\n"),
        (".codex/hooks.json", "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}}"),
        (".gemini/settings.json", "{\n\t// as I like it\n\t\"theme\": \"x\"\n}\n"),
    ]
    .map(|(name, old)| (world.home().join(name), old.to_owned()));
    for (path, old) in &files {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, old).unwrap();
    }
    let run = |word: &str| world.command(&["hooks", word, "claude", "codex", "gemini"]);
    let read = || files.each_ref().map(|(path, _)| fs::read_to_string(path).unwrap());
    let old = read();
    assert!(run("install").status().unwrap().success());
    let new = read();
    assert!(run("uninstall").status().unwrap().success());
    assert_eq!(read(), old);

    let mut dice = Dice::from_environment();
    println!("HANSARD_TEST_SEED={}", dice.seed());
    let mut states = [0; 2];
    for number in 0..crashes().div_ceil(SHARE) {
        let word = if number % 2 == 0 { "install" } else { "uninstall" };
        let mut command = run(word);
        let mut hooks = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait(Duration::from_micros(dice.below(40_000)));
        let _ = hooks.kill();
        hooks.wait().unwrap();
        for ((found, old), new) in read().iter().zip(&old).zip(&new) {
            assert!(found == old || found == new, "{word} was killed: {found}");
            states[usize::from(found == new)] += 1;
        }
    }
    println!("{states:?} were old and new");
    for (word, whole) in [("install", &new), ("uninstall", &old)] {
        assert!(run(word).status().unwrap().success());
        assert_eq!(&read(), whole);
    }
}

/// Everything happens in one shell, because other processes do not see the mount. `$1` is the disk, `$2` the
/// program, `$3` what an agent tells a hook.
const FULL_DISK: &str = r#"
    set -e
    mount -t tmpfs -o size=6m,mode=700 tmpfs "$1"
    export HANSARD_JOURNAL="$1/journal"
    "$2" ingest --once >/dev/null
    dd if=/dev/zero of="$1/ballast" bs=64k count=1000 2>/dev/null || true
    dd if=/dev/zero of="$1/rest" bs=1 count=100000 2>/dev/null || true
    for event in PermissionRequest Stop PreToolUse; do
        echo "$3" | "$2" hook claude "$event"
        echo "$event ended with $?"
    done
"#;

#[test]
fn full_disk_does_not_fail_a_hook() {
    let world = with_session();
    let asked = payload(&world, "s0", &asked()).to_string();
    let Some(said) = run_with_disk(&world, FULL_DISK, &asked) else {
        println!("SKIPPED: no disk can be mounted here");
        return;
    };
    let ended = "PermissionRequest ended with 0\nStop ended with 0\nPreToolUse ended with 0\n";
    assert_eq!(String::from_utf8_lossy(&said.stdout), ended);
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
}

/// Lets time pass: a kill comes at any instant.
fn wait(time: Duration) {
    std::thread::park_timeout(time);
}
