//! What `status` and `explain` say, from a journal and a home alone.

use expect_test::expect;
use serde_json::{Value, json};
use testkit::World;

use crate::up::up;
use crate::{empty, import, json as lines};

/// A session of Claude whose last turn is open, begun ten minutes ago.
pub(crate) fn session(id: &str, rest: &[(&str, Value)]) -> String {
    session_begun(now_millis() - 600_000, id, rest)
}

fn now_millis() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// The same, begun at another time, with an event each millisecond.
fn session_begun(begun_millis: i64, id: &str, rest: &[(&str, Value)]) -> String {
    let mut text = String::new();
    let begin = [
        (
            "session.started",
            json!({"agent": "claude", "agent_version": "2.1.325", "entry_point": "cli", "cwd": "/home/dev/app"}),
        ),
        ("user.prompt", json!({"content": format!("Build it with AKIA{}.", "Q3ZR7TBXKWPL2MNV")})),
    ];
    for (number, (kind, data)) in begin.iter().chain(rest).enumerate() {
        let at = event::Time::from_millis(begun_millis + number as i64);
        let event_id = event::EventId::derived(at, "claude", id, &number.to_be_bytes());
        let event = json!({"id": event_id, "session_id": format!("claude:{id}"), "kind": kind,
            "seq": number + 1, "created_at": at, "observed_at": at, "provider": "claude",
            "provider_session_id": id, "source": "transcript", "confidence": "high",
            "data": data, "metadata": {}});
        text += &format!("{event}\n");
    }
    text
}

/// Says in Claude's own list that this test runs the session.
pub(crate) fn register(world: &World, id: &str, status: &str) {
    register_as(world, id, status, std::process::id());
}

/// The same of another process.
pub(crate) fn register_as(world: &World, id: &str, status: &str, pid: u32) {
    register_at(world, id, status, pid, now_millis());
}

/// The same, said at this time.
pub(crate) fn register_at(world: &World, id: &str, status: &str, pid: u32, at_millis: i64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    let entry = json!({"pid": pid, "sessionId": id, "procStart": ticks, "status": status,
        "waitingFor": "permission prompt", "statusUpdatedAt": at_millis});
    let folder = world.home().join(".claude/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{pid}.json")), entry.to_string()).unwrap();
}

fn status(world: &World) -> Vec<Value> {
    lines(&world.run(&["--json", "status"]))
}

#[test]
fn session_waiting_for_approval_needs_you() {
    let world = empty();
    let call = json!({"call_id": "c1", "tool": "Bash", "input": {"command": "npm test"}});
    import(&world, &session("11112222", &[("tool.call", call)]));
    register(&world, "11112222", "waiting");
    let status = status(&world).remove(0);
    assert_eq!(status["status"], "waiting_approval");
    assert_eq!(status["reason"], "permission");
    assert_eq!(status["pid"], std::process::id());
    assert_eq!(status["evidence"][0]["source"], "registry");
    assert_eq!(world.run(&["statusline"]).stdout, "1 needs you\n");
    let said = world.run(&["explain", "11112222"]);
    assert!(said.stdout.contains("\n  Needs you since "), "{said}");
    assert_eq!(status["summary"]["current"], "waits for approval, probably to run npm test");
    let prompt = status["summary"]["last_prompt"].as_str().unwrap();
    assert!(prompt.starts_with("Build it with [redacted:aws_access_key_id:"), "{prompt}");
    let said = world.run(&["status"]);
    assert!(said.stdout.starts_with("needs you (1)\n  11112222  claude app"), "{said}");
    // That it asks is known; what it asks for is concluded from the open call.
    let asked = lines(&world.run(&["--json", "approvals"])).remove(0);
    assert_eq!(
        (&asked["state"], &asked["input"]["command"]),
        (&json!("pending"), &json!("npm test"))
    );
    assert_eq!(
        (&asked["source"], &asked["risk"]),
        (&json!("from the transcript"), &json!("write"))
    );
    let said = world.run(&["approvals"]);
    assert!(said.stdout.ends_with("  Bash (from the transcript): npm test\n"), "{said}");
    assert!(said.stderr.contains("`hansard hooks install claude`"), "{said}");
    register(&world, "11112222", "busy");
    assert_eq!(world.run(&["approvals"]).stdout, "");
}

#[test]
fn exited_session_is_shown_with_all() {
    let world = empty();
    import(&world, &session("33334444", &[]));
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    register(&world, "33334444", "busy");
    let folder = world.home().join(".claude/sessions");
    let entry = folder.join(format!("{}.json", std::process::id()));
    let text = std::fs::read_to_string(&entry).unwrap();
    let text = text.replace(&format!(":{},", std::process::id()), &format!(":{},", child.id()));
    std::fs::write(&entry, text).unwrap();
    let status = status(&world).remove(0);
    assert_eq!((&status["status"], &status["reason"]), (&json!("exited"), &json!("gone")));
    expect![[r#"
        no session was active in the last day; `hansard sessions` lists all
    "#]]
    .assert_eq(&world.run(&["status"]).to_string());
    assert!(world.run(&["status", "--all"]).stdout.starts_with("exited (1)"));
}

#[test]
fn explain_lists_evidence_and_overruled() {
    let world = empty();
    // The process of this test, which is named as the agent's, is older than the turn.
    import(&world, &session_begun(now_millis(), "55556666", &[]));
    register(&world, "55556666", "idle");
    let status = lines(&world.run(&["--json", "explain", "55556666"])).remove(0);
    assert_eq!(status["status"], "waiting");
    assert_eq!(status["overruled"][0]["says"], "running");
    assert_eq!(status["overruled"][0]["why"], "the agent says that it is ready");
    assert_eq!(status["history"][0]["status"], "running");
    assert_eq!(status["history"][0]["because"], "turn");
    let said = world.run(&["explain", "55556666"]).stdout;
    for part in ["waiting (prompt), ", "because\n", "although\n", "before\n"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn finished_session_needs_you_until_seen() {
    let world = empty();
    let over = json!({"agent_id": "", "stop_reason": "completed"});
    import(&world, &session("99990000", &[("turn.completed", over)]));
    register(&world, "99990000", "idle");
    let attention = || status(&world).remove(0)["attention"].clone();
    assert_eq!(attention()["want"], "finished");
    assert_eq!(attention()["can"], json!(["show", "resume", "seen"]));
    assert_eq!(world.run(&["seen", "99990000"]).stdout, "99990000 marked as seen\n");
    assert_eq!(attention(), json!(null));
    assert_eq!(world.run(&["seen", "nobody"]).code, Some(1));
}

#[test]
fn watch_prints_each_change_once() {
    let world = empty();
    import(&world, &session("77778888", &[]));
    register(&world, "77778888", "busy");
    let mut watcher = world.start(&["--json", "status", "--watch"]);
    let first: Value = serde_json::from_str(&watcher.line().unwrap()).unwrap();
    assert_eq!(first["status"], "running");
    register(&world, "77778888", "idle");
    let second: Value = serde_json::from_str(&watcher.line().unwrap()).unwrap();
    assert_eq!(second["status"], "waiting");
}

#[test]
fn watch_draws_only_what_changes() {
    let world = empty();
    // An age in minutes, which stays the same for longer than the test takes.
    let long_ago = now_millis() - 602_000;
    let call = json!({"call_id": "c1", "tool": "Bash", "input": {"command": "npm test"}});
    import(&world, &session("77778888", &[("tool.call", call)]));
    register_at(&world, "77778888", "busy", std::process::id(), long_ago);
    let mut watcher = world.start(&["status", "--watch"]);
    watcher.wait_first_line();
    // It looks once a second.
    watcher.goes_on_for(std::time::Duration::from_millis(2_500));
    register_at(&world, "77778888", "waiting", std::process::id(), long_ago);
    while watcher.line().is_some_and(|line| line != "needs you (1)") {}
    let said = watcher.terminate();
    let heads = said.stdout.lines().filter(|line| line.ends_with("(1)")).collect::<Vec<_>>();
    assert_eq!(heads, ["running (1)", "needs you (1)"], "{said}");
}

#[test]
fn command_asks_the_daemon_that_runs() {
    let world = empty();
    import(&world, &session("99990000", &[]));
    register(&world, "99990000", "waiting");
    let elsewhere = world.home().join("elsewhere");
    // Its own look would find no list of Claude there, and so no process of the session.
    let ask = |words: &[&str]| {
        let mut command = world.command(words);
        command.env("CLAUDE_CONFIG_DIR", &elsewhere);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let found = |said: String| -> Value { serde_json::from_str(said.trim_end()).unwrap() };
    assert_ne!(found(ask(&["--json", "status"]))["status"], "waiting_approval");
    let daemon = up(&world);
    let status = found(ask(&["--json", "status"]));
    assert_eq!((&status["status"], &status["behind"]), (&json!("waiting_approval"), &json!(false)));
    assert_eq!(found(ask(&["--json", "explain", "99990000"]))["status"], "waiting_approval");
    assert_eq!(found(ask(&["--json", "approvals"]))["state"], "pending");
    assert_eq!(ask(&["statusline"]), "1 needs you\n");
    assert!(ask(&["status"]).starts_with("needs you (1)\n  99990000  claude app"));
    assert_eq!(daemon.terminate().code, Some(0));
    assert_ne!(found(ask(&["--json", "status"]))["status"], "waiting_approval");
}
