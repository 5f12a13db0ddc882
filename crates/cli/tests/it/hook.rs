//! `hansard hook`: it prints nothing and succeeds in every case.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use expect_test::expect;
use serde_json::{Value, json};
use testkit::World;

use crate::follow::prompt;
use crate::up::up;
use crate::writer::append;
use crate::{empty, json as lines};

pub(crate) fn journal(world: &World) -> PathBuf {
    world.home().join(".local/share/hansard")
}

pub(crate) fn transcript(world: &World, session: &str) -> PathBuf {
    world.home().join(format!(".claude/projects/-home-dev-app/{session}.jsonl"))
}

/// A world with a journal that has one session.
pub(crate) fn with_session() -> World {
    let world = empty();
    append(&transcript(&world, "s0"), prompt("s0", 0).as_bytes());
    ingest(&world);
    world
}

pub(crate) fn ingest(world: &World) {
    let said = world.run(&["ingest", "--once"]);
    assert_eq!(said.code, Some(0), "{said}");
}

/// What Claude tells a hook.
pub(crate) fn payload(world: &World, session: &str, rest: &Value) -> Value {
    let mut payload = json!({"session_id": session, "cwd": "/home/dev/app",
        "transcript_path": transcript(world, session)});
    payload.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    payload
}

/// Calls a hook, which says nothing.
#[track_caller]
fn call_with(world: &World, agent: &str, event: &str, input: &[u8]) {
    let said = world.run_with_input(&["hook", agent, event], input);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "", ""));
}

#[track_caller]
pub(crate) fn call(world: &World, event: &str, rest: &Value) {
    call_in(world, "s0", event, rest);
}

#[track_caller]
pub(crate) fn call_in(world: &World, session: &str, event: &str, rest: &Value) {
    call_with(world, "claude", event, payload(world, session, rest).to_string().as_bytes());
}

pub(crate) fn asked() -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": "npm test"}})
}

/// The events of the session, by kind.
pub(crate) fn events(world: &World, kind: &str) -> Vec<Value> {
    events_of(world, "claude:s0", kind)
}

pub(crate) fn events_of(world: &World, session: &str, kind: &str) -> Vec<Value> {
    let said = world.run(&["--json", "show", session, "--events"]);
    lines(&said).into_iter().filter(|event| event["kind"] == kind).collect()
}

/// What lies in a folder, but for what is hidden.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

pub(crate) fn failures(world: &World) -> Vec<String> {
    let text = fs::read_to_string(journal(world).join("health/hooks/failures.jsonl"));
    let text = text.unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["problem"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn invalid_payload_is_only_counted() {
    let world = with_session();
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(20 * 1_024 * 1_024));
    for input in ["", "no json", "[1]", "\"text\"", "{\"session_id\"", "\u{0}\u{1}"] {
        call_with(&world, "claude", "Stop", input.as_bytes());
    }
    assert_eq!(failures(&world).len(), 6);
    for input in ["{}", "{\"session_id\":7}", &long] {
        call_with(&world, "claude", "Stop", input.as_bytes());
    }
    call_with(&world, "claude", "Stop", &[0xff, 0xfe, b'{']);
    call(&world, "FromTheFuture", &json!({"new": 1}));
    call_with(&world, "nobody", "Stop", b"{\"session_id\":\"s0\"}");
    // The last two as well: of one nothing is left within the limit, one is no text.
    assert_eq!(failures(&world).len(), 8);
    assert_eq!(names(&journal(&world).join("spool")), [""; 0]);
    assert_eq!(names(&journal(&world).join("signals")), [""; 0]);
    for arguments in [&["hook"][..], &["hook", "claude"], &["hook", "claude", "Stop", "--what"]] {
        assert_eq!(world.run(arguments).to_string(), "");
    }
}

#[test]
fn endless_payload_is_cut_off() {
    let world = with_session();
    let mut hook = world.command(&["hook", "claude", "Stop"]);
    let said = hook.stdin(fs::File::open("/dev/zero").unwrap()).output().unwrap();
    assert_eq!((said.status.code(), said.stdout, said.stderr), (Some(0), vec![], vec![]));
}

#[test]
fn hook_creates_no_journal() {
    let world = empty();
    call(&world, "Stop", &json!({}));
    call(&world, "PermissionRequest", &asked());
    assert!(!journal(&world).exists());
}

#[test]
fn readonly_journal_does_not_fail_a_hook() {
    let world = with_session();
    let folder = journal(&world);
    fs::remove_dir_all(folder.join("signals")).ok();
    // A file is in the place of the folder, so not even root can write there.
    for name in ["signals", "spool"] {
        fs::write(folder.join(name), "").unwrap();
    }
    call(&world, "Stop", &json!({}));
    call(&world, "PermissionRequest", &asked());
    assert_eq!(
        failures(&world),
        ["the signal could not be written", "the spool could not be written"]
    );
    let world = empty().with("HANSARD_JOURNAL", "/dev/null");
    call(&world, "Stop", &json!({}));
}

#[test]
fn spooled_call_is_recorded_once() {
    let world = with_session();
    call(&world, "PreToolUse", &asked());
    call(&world, "PermissionRequest", &asked());
    call(&world, "PostToolUse", &asked());
    call(&world, "Stop", &json!({}));
    call(&world, "SessionEnd", &json!({"reason": "other"}));
    let spool = journal(&world).join("spool");
    assert_eq!(names(&spool).len(), 1, "only what no record tells is kept");
    assert_eq!(names(&journal(&world).join("signals")).len(), 2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spool), 0o700);
    assert_eq!(mode(&spool.join(&names(&spool)[0])), 0o600);
    let left = spool.join(&names(&spool)[0]);
    let again = fs::read(&left).unwrap();
    ingest(&world);
    assert_eq!(names(&spool), [""; 0]);
    let asked = events(&world, "approval.requested");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["data"]["input"], json!({"command": "npm test"}));
    assert_eq!(
        (&asked[0]["source"], &asked[0]["text"]),
        (&json!("hook"), &json!("Bash: npm test"))
    );
    assert_eq!(events(&world, "session.exited").len(), 1);
    // As after a power cut between handling and removing it.
    fs::write(&left, again).unwrap();
    ingest(&world);
    assert_eq!(names(&spool), [""; 0]);
    assert_eq!(events(&world, "approval.requested").len(), 1);
}

#[test]
fn call_of_unknown_session_waits() {
    let world = with_session();
    let later = payload(&world, "s1", &asked()).to_string();
    call_with(&world, "claude", "PermissionRequest", later.as_bytes());
    ingest(&world);
    let spool = journal(&world).join("spool");
    assert_eq!(names(&spool).len(), 1);
    append(&transcript(&world, "s1"), prompt("s1", 0).as_bytes());
    ingest(&world);
    assert_eq!(names(&spool), [""; 0]);
    assert_eq!(events_of(&world, "claude:s1", "approval.requested").len(), 1);
}

#[test]
fn compaction_waits_in_one_file() {
    let world = with_session();
    let (spool, signals) = (journal(&world).join("spool"), journal(&world).join("signals"));
    call(&world, "PreCompact", &json!({"trigger": "auto"}));
    assert_eq!((names(&spool).len(), names(&signals).len()), (1, 0));
    // The version before left the signal beside it, under the same name.
    let name = names(&spool).remove(0);
    let message: Value = serde_json::from_slice(&fs::read(spool.join(&name)).unwrap()).unwrap();
    let ts =
        serde_json::from_value::<event::Time>(message["at"].clone()).unwrap().nanos() as f64 / 1e9;
    let signal = json!({"v": 1, "type": "compact", "provider": "claude", "session_id": "s0",
        "ts": ts, "hook": "PreCompact"});
    let signal_name = format!("{}.json", message["name"].as_str().unwrap());
    fs::create_dir_all(&signals).unwrap();
    fs::write(signals.join(signal_name), signal.to_string()).unwrap();
    call(&world, "SessionEnd", &json!({"reason": "other"}));
    assert_eq!((names(&spool).len(), names(&signals).len()), (1, 2));
    ingest(&world);
    assert_eq!((names(&spool).len(), names(&signals).len()), (0, 0));
    assert_eq!(events(&world, "compaction.started").len(), 1);
    assert_eq!(events(&world, "session.exited").len(), 1);
}

/// Fills the spool with files that are no messages.
fn fill_spool(world: &World, count: u32) {
    let spool = journal(world).join("spool");
    fs::create_dir_all(&spool).unwrap();
    for number in 0..count {
        let file = fs::File::create(spool.join(format!("{number:019}-00000000-1.json"))).unwrap();
        // What is young may still be written.
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
}

#[test]
fn compaction_counts_before_its_clear() {
    let world = with_session();
    // So many that a pass does not reach the compaction, which stands in the spool.
    fill_spool(&world, 1_200);
    call(&world, "PreCompact", &json!({"trigger": "auto"}));
    call(&world, "SessionEnd", &json!({"reason": "clear"}));
    ingest(&world);
    ingest(&world);
    let closed = events(&world, "epoch.closed");
    assert_eq!(
        closed.iter().map(|event| &event["data"]["cause"]).collect::<Vec<_>>(),
        ["compaction"]
    );
}

#[test]
fn full_spool_drops_and_counts() {
    let world = with_session();
    let spool = journal(&world).join("spool");
    fill_spool(&world, 10_000);
    call(&world, "PermissionRequest", &asked());
    assert_eq!(names(&spool).len(), 10_000);
    assert_eq!(failures(&world), ["the spool is full"]);
    // Once they are ingested there is room again.
    ingest(&world);
    call(&world, "PermissionRequest", &asked());
    assert_eq!(failures(&world), ["the spool is full"]);
}

#[test]
fn spool_limit_holds_under_load() {
    let world = with_session();
    let taken = || fs::metadata(journal(&world).join("spool/.taken")).map(|file| file.len()).ok();
    assert_eq!(taken(), None);
    let long = json!({"tool_name": "Bash", "tool_input": {"command": "x".repeat(100_000)}});
    for (asks, place) in [(asked(), 1), (asked(), 2), (long, 6)] {
        call(&world, "PermissionRequest", &asks);
        assert_eq!(taken(), Some(place));
    }
    ingest(&world);
    assert_eq!((names(&journal(&world).join("spool")).len(), taken()), (0, Some(0)));
}

/// Waits until a session has so many events of a kind.
#[track_caller]
pub(crate) fn wait_for(world: &World, session: &str, kind: &str, count: usize) -> Vec<Value> {
    let listener = world.start(&["bus", "listen", "--tract", "cortex", "--from", "0"]);
    let mut listener = listener;
    loop {
        let found = events_of(world, session, kind);
        if found.len() >= count {
            return found;
        }
        listener.line().expect("there is more to hear");
    }
}

#[test]
fn daemon_records_hook_facts_once() {
    let world = with_session();
    let daemon = up(&world);
    let socket = journal(&world).join("health/hook.sock");
    let found = fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let call_id = json!({"tool_name": "Bash", "tool_input": {"command": "npm test"},
        "tool_use_id": "toolu_1"});
    append(&transcript(&world, "s0"), prompt("s0", 1).as_bytes());
    call(&world, "UserPromptSubmit", &json!({"prompt": "question 1"}));
    call(&world, "PreToolUse", &call_id);
    call(&world, "PermissionRequest", &asked());
    let asked = wait_for(&world, "claude:s0", "approval.requested", 1);
    assert_eq!(asked[0]["data"]["call_id"], "toolu_1");
    assert_eq!(asked[0]["confidence"], "high");
    // What the transcript tells, a hook does not tell a second time.
    assert_eq!(events(&world, "user.prompt").len(), 2);
    assert_eq!(events(&world, "tool.call").len(), 0);
    assert_eq!(names(&journal(&world).join("spool")), [""; 0]);
    call(&world, "SessionEnd", &json!({"reason": "other"}));
    wait_for(&world, "claude:s0", "session.exited", 1);
    let status = lines(&world.run(&["--json", "hooks", "status", "claude"])).remove(0);
    assert!(status["last_call_at"].is_string(), "{status}");
    assert_eq!(daemon.terminate().code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn daemon_keeps_a_compaction_before_its_clear() {
    let world = with_session();
    let _daemon = up(&world);
    call(&world, "PreCompact", &json!({"trigger": "auto"}));
    // Until then the compaction waits for the agent's own record.
    wait_for(&world, "claude:s0", "compaction.started", 1);
    call(&world, "SessionEnd", &json!({"reason": "clear"}));
    let closed = wait_for(&world, "claude:s0", "epoch.closed", 1);
    assert_eq!(closed[0]["data"]["cause"], "compaction");
}

#[test]
fn stuck_daemon_does_not_delay_a_hook() {
    let world = with_session();
    let daemon = up(&world);
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &daemon.process_id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    call(&world, "PermissionRequest", &asked());
    assert_eq!(names(&journal(&world).join("spool")).len(), 1);
    signal("-CONT");
    // It finds the call at its door and on disk, and takes it for one.
    call(&world, "SessionEnd", &json!({"reason": "other"}));
    wait_for(&world, "claude:s0", "session.exited", 1);
    assert_eq!(events(&world, "approval.requested").len(), 1);
    assert_eq!(daemon.kill().code, None);
    let other = json!({"tool_name": "Bash", "tool_input": {"command": "make"}});
    call(&world, "PermissionRequest", &other);
    assert_eq!(names(&journal(&world).join("spool")).len(), 1);
}

#[test]
fn accepted_call_survives_a_killed_daemon() {
    let world = with_session();
    for number in 1..=8 {
        let daemon = up(&world);
        let command = format!("make part_{number}");
        let asks = json!({"tool_name": "Bash", "tool_input": {"command": command}});
        call(&world, "PermissionRequest", &asks);
        daemon.kill();
    }
    let daemon = up(&world);
    wait_for(&world, "claude:s0", "approval.requested", 8);
    assert_eq!(daemon.terminate().code, Some(0));
    assert_eq!(events(&world, "approval.requested").len(), 8);
}

#[test]
fn subagent_call_is_recorded_under_it() {
    let world = with_session();
    let file = world.home().join(".claude/projects/-home-dev-app/s0/subagents/agent-a1.jsonl");
    let line = prompt("s0", 1).replace("\"isSidechain\":false", "\"isSidechain\":true");
    append(&file, line.as_bytes());
    let mut rest = asked();
    rest["agent_id"] = json!("a1");
    call(&world, "PermissionRequest", &rest);
    ingest(&world);
    assert_eq!(events_of(&world, "claude:agent-a1", "approval.requested").len(), 1);
    assert_eq!(events(&world, "approval.requested").len(), 0);
}

#[test]
fn claude_hook_run_by_cursor_counts_as_cursor() {
    let world = with_session();
    let made = json!({"conversation_id": "c1", "session_id": "c1", "cursor_version": "2.4",
        "tool_name": "Shell", "tool_input": {"command": "ls"}, "tool_output": "a"});
    call_with(&world, "claude", "PostToolUse", made.to_string().as_bytes());
    let spool = journal(&world).join("spool");
    let left = fs::read_to_string(spool.join(&names(&spool)[0])).unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!((&left["provider"], &left["event"]), (&json!("cursor"), &json!("postToolUse")));
    // Cursor's own hook is there, too: that one tells it.
    let hooks = world.home().join(".cursor/hooks.json");
    fs::create_dir_all(hooks.parent().unwrap()).unwrap();
    fs::write(hooks, "{\"command\": \"'/bin/hansard' hook cursor postToolUse\"}").unwrap();
    call_with(&world, "claude", "PostToolUse", made.to_string().as_bytes());
    assert_eq!(names(&spool).len(), 1);
}

#[test]
fn payload_may_be_an_argument() {
    let world = with_session();
    let payload = json!({"type": "agent-turn-complete", "thread-id": "t1"}).to_string();
    assert_eq!(world.run(&["hook", "codex", "notify", &payload]).to_string(), "");
    let signals = journal(&world).join("signals");
    let left = fs::read_to_string(signals.join(&names(&signals)[0])).unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!((&left["type"], &left["session_id"]), (&json!("turn_end"), &json!("t1")));
}

#[test]
fn open_stdin_is_not_waited_for() {
    let world = with_session();
    let mut hook = world.command(&["hook", "claude", "Stop"]);
    let mut child = hook.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    assert!(child.wait().unwrap().success());
    drop(stdin);
}

#[test]
fn hook_help_is_printed() {
    let said = empty().run(&["hook", "--help"]);
    assert!(said.stdout.contains("Usage: hansard hook"), "{said}");
}

#[test]
fn hooks_install_call_and_uninstall() {
    let world = with_session();
    let settings = world.home().join(".claude/settings.json");
    fs::write(&settings, "{\n  \"model\": \"opus\"\n}\n").unwrap();
    let said = world.run(&["hooks", "install"]);
    assert!(said.stderr.contains("hooks install claude"), "{said}");
    assert_eq!(said.code, Some(2));
    let said = world.run(&["hooks", "install", "claude", "gemini", "--dry-run"]);
    expect![[r#"
        claude    would change ~/.claude/settings.json
        gemini    gemini is not installed; skipped
    "#]]
    .assert_eq(&said.to_string());
    let changed = lines(&world.run(&["--json", "hooks", "install", "claude"]));
    assert_eq!(changed[0]["changed"], true);
    let status = lines(&world.run(&["--json", "hooks", "status", "claude"])).remove(0);
    assert_eq!((&status["installed"], &status["trusted"]), (&json!(true), &json!(null)));
    assert_eq!((&status["last_call_at"], &status["problem"]), (&json!(null), &json!(null)));
    // What was installed is what an agent can run.
    let written: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    let command = written["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env_clear().env("HOME", world.home());
    let mut child = shell.stdin(Stdio::piped()).spawn().unwrap();
    let input = payload(&world, "s0", &json!({})).to_string();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(names(&journal(&world).join("signals")).len(), 1);
    let status = lines(&world.run(&["--json", "hooks", "status", "claude"])).remove(0);
    assert!(status["last_call_at"].is_string(), "{status}");
    let tested = lines(&world.run(&["--json", "hooks", "test", "claude"]));
    assert!(tested.len() > 10 && tested.iter().all(|test| test["ok"] == true), "{tested:?}");
    assert_eq!(world.run(&["hooks", "uninstall", "claude"]).code, Some(0));
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{\n  \"model\": \"opus\"\n}\n");
    fs::write(&settings, "{oops").unwrap();
    let said = world.run(&["hooks", "install", "claude"]);
    assert!(said.stdout.contains("line 1, column 2"), "{said}");
    assert_eq!(said.code, Some(1));
    assert_eq!(world.run(&["hooks", "install", "nobody"]).code, Some(1));
}

#[test]
fn entries_name_a_stable_link() {
    let world = with_session();
    let bin = world.home().join("bin");
    let (versions, link) = (world.home().join("opt/hansard"), bin.join("hansard"));
    fs::create_dir_all(versions.join("1.2.3")).unwrap();
    fs::create_dir_all(&bin).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_hansard"), versions.join("1.2.3/hansard"))
        .or_else(|_| {
            let copied = fs::copy(env!("CARGO_BIN_EXE_hansard"), versions.join("1.2.3/hansard"));
            copied.map(drop)
        })
        .unwrap();
    symlink(versions.join("1.2.3/hansard"), &link).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(versions.join("1.2.3/hansard"));
        command.args(arguments).env_clear().env("HOME", world.home()).env("PATH", &bin);
        command.output().unwrap()
    };
    assert!(run(&["hooks", "install", "claude"]).status.success());
    let settings = fs::read_to_string(world.home().join(".claude/settings.json")).unwrap();
    assert!(settings.contains(&format!("'{}' hook claude Stop", link.display())), "{settings}");
    assert!(run(&["hooks", "test", "claude"]).status.success());
    // Trying it out is no call, and no failure.
    let status = lines(&world.run(&["--json", "hooks", "status", "claude"])).remove(0);
    assert_eq!((&status["last_call_at"], &status["failures"]), (&json!(null), &json!(0)));

    fs::remove_file(&link).unwrap();
    let said = world.run(&["--json", "hooks", "test", "claude"]);
    assert_eq!(said.code, Some(1));
    let tested: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(tested.len() > 10 && tested.iter().all(|test| test["ok"] == false), "{tested:?}");
    assert!(tested[0]["problem"].as_str().unwrap().contains("127"), "{}", tested[0]);
}

#[test]
fn status_lists_failed_calls() {
    let world = with_session();
    call_with(&world, "claude", "Stop", b"no json");
    call_with(&world, "claude", "Stop", b"");
    let status = lines(&world.run(&["--json", "hooks", "status", "claude"])).remove(0);
    assert_eq!(status["failures"], 2);
    assert_eq!(status["last_failure"], "the payload is not a JSON object");
    let said = world.run(&["hooks", "status", "claude"]).stdout;
    assert!(said.contains("2 calls failed, the last (Stop) "), "{said}");
}

#[test]
fn accepted_call_survives_a_waiting_daemon() {
    let world = with_session();
    // Another process holds the claim, so the daemon has to wait.
    let mut reader = world.start(&["--json", "ingest"]);
    append(&transcript(&world, "s0"), prompt("s0", 1).as_bytes());
    reader.line().unwrap();
    let daemon = up(&world);
    call(&world, "PermissionRequest", &asked());
    assert_eq!(daemon.terminate().code, Some(0));
    reader.terminate();
    ingest(&world);
    assert_eq!(events(&world, "approval.requested").len(), 1);
}

#[test]
fn exit_without_a_daemon_cancels_approvals() {
    let world = empty();
    let thread = "00000000-0000-0000-0000-000000000001";
    let rollout = world
        .home()
        .join(format!(".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-{thread}.jsonl"));
    let at = "2026-11-15T10:00:01.000Z";
    let meta = json!({"timestamp": at, "type": "session_meta", "payload": {"id": thread}});
    append(&rollout, format!("{meta}\n").as_bytes());
    ingest(&world);
    let about = json!({"session_id": thread, "transcript_path": rollout});
    for (event, rest) in [("PermissionRequest", asked()), ("SessionEnd", json!({}))] {
        let mut payload = about.clone();
        payload.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        call_with(&world, "codex", event, payload.to_string().as_bytes());
    }
    assert_eq!(names(&journal(&world).join("signals")).len(), 1, "the exit is only a signal");
    ingest(&world);
    let events = |kind| events_of(&world, &format!("codex:{thread}"), kind).len();
    assert_eq!((events("approval.requested"), events("session.exited")), (1, 1));
    assert_eq!(events("approval.canceled"), 1);
}

#[test]
fn approvals_are_listed_until_decided() {
    let world = with_session();
    // Written now: what was said long ago is not what a session does.
    let at = event::Time::from_millis(now_millis());
    let line = prompt("s2", 0).replace("2026-03-02T09:00:00.000Z", &at.to_string());
    append(&transcript(&world, "s2"), line.as_bytes());
    crate::status::register(&world, "s2", "busy");
    let command = "rm -rf target\nnpm test";
    let asks = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    let asked = payload(&world, "s2", &asks).to_string();
    call_with(&world, "claude", "PermissionRequest", asked.as_bytes());
    ingest(&world);
    let listed = lines(&world.run(&["--json", "approvals"]));
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["input"]["command"], command);
    assert_eq!(
        (&listed[0]["risk"], &listed[0]["state"]),
        (&json!("destructive"), &json!("pending"))
    );
    assert_eq!(
        (&listed[0]["cwd"], &listed[0]["source"]),
        (&json!("/home/dev/app"), &json!("hook"))
    );
    let said = world.run(&["approvals"]).stdout;
    assert!(said.ends_with("  Bash: rm -rf target\n  npm test\n"), "{said}");
    let status = lines(&world.run(&["--json", "status"])).remove(0);
    assert_eq!(status["status"], "waiting_approval");
    assert_eq!(status["pending_approvals"], json!([listed[0]["id"]]));
    assert_eq!(status["evidence"][0]["source"], "hook");
    // The next prompt is an answer, too.
    let later = event::Time::from_millis(now_millis() + 1_000);
    let line = prompt("s2", 1).replace("2026-03-02T09:00:01.000Z", &later.to_string());
    append(&transcript(&world, "s2"), line.as_bytes());
    ingest(&world);
    assert_eq!(world.run(&["approvals"]).stdout, "");
    let status = lines(&world.run(&["--json", "status"])).remove(0);
    assert_eq!(status["pending_approvals"], json!([]));
}

/// A process that stands for Claude Code: it calls the hooks that it is told to.
struct Agent(Child);

impl Agent {
    fn start(world: &World) -> Agent {
        let file = world.home().join("payload.json");
        fs::write(&file, payload(world, "s9", &json!({})).to_string()).unwrap();
        let hansard = world.command(&[]);
        let calls = r#"while read event; do "$0" hook claude "$event" < "$1"; echo done; done"#;
        let mut shell = Command::new("/bin/sh");
        shell.arg0("claude").args(["-c", calls]).arg(hansard.get_program()).arg(&file);
        let variables = hansard.get_envs().filter_map(|(name, value)| Some((name, value?)));
        shell.env_clear().envs(variables).stdin(Stdio::piped()).stdout(Stdio::piped());
        Agent(shell.spawn().unwrap())
    }

    /// Calls a hook and waits for its end.
    fn call(&mut self, event: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{event}").unwrap();
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_agent_is_resumed_without_a_prompt() {
    let world = empty();
    let daemon = up(&world);
    let mut agent = Agent::start(&world);
    let now = event::Time::from_millis(now_millis());
    let line = prompt("s9", 1).replace("2026-03-02T09:00:01.000Z", &now.to_string());
    append(&transcript(&world, "s9"), line.as_bytes());
    let wait_for_processes = |count: usize| {
        let shown = || world.run(&["--json", "show", "claude:s9", "--events"]);
        // The session may not be recorded yet.
        while shown().stdout.matches(r#""kind":"settings.changed""#).count() < count {
            std::thread::yield_now();
        }
    };
    let wait_for_status = |expected: [&str; 2]| {
        let asked = || lines(&world.run(&["--json", "status"])).remove(0);
        loop {
            let status = asked();
            if status["status"] == expected[0] && status["reason"] == expected[1] {
                break;
            }
            std::thread::yield_now();
        }
    };
    agent.call("UserPromptSubmit");
    wait_for_processes(1);
    // A second call of the same process is no news.
    agent.call("SessionStart");
    let told = events_of(&world, "claude:s9", "settings.changed");
    assert_eq!(told[0]["data"]["process"]["pid"], agent.0.id());
    wait_for_status(["running", "turn"]);
    drop(agent);
    wait_for_status(["exited", "gone"]);
    let mut agent = Agent::start(&world);
    agent.call("SessionStart");
    wait_for_processes(2);
    wait_for_status(["waiting", "resumed"]);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn spooled_call_names_its_process() {
    let world = with_session();
    let mut agent = Agent::start(&world);
    agent.call("PermissionRequest");
    let spool = journal(&world).join("spool");
    let message = fs::read(spool.join(&names(&spool)[0])).unwrap();
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!(message["process"]["pid"], agent.0.id());
}

fn now_millis() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
