//! The daemon over HTTP: the same answers as the commands give, with the token.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use event::{EventId, Time};
use serde_json::{Value, json};
use testkit::World;

use crate::follow::prompt;
use crate::up::{millis, up};
use crate::writer::append;
use crate::{empty, import, json as lines};

/// The ways in, as the command says.
pub(crate) fn ways_in(world: &World) -> (String, String) {
    let said: Value = serde_json::from_str(&world.run(&["--json", "web"]).stdout).unwrap();
    let file = said["token_file"].as_str().unwrap().replace('~', world.home().to_str().unwrap());
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let login = said["login"].as_str().unwrap();
    assert!(login.split('/').nth(2).unwrap().contains(".localhost:"), "{login}");
    let address = said["address"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    (address, std::fs::read_to_string(file).unwrap().trim().to_owned())
}

pub(crate) fn get(address: &str, token: &str, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn http_equals_command_output() {
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s0.jsonl");
    (0..3).for_each(|number| append(&file, prompt("s0", number).as_bytes()));
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    let daemon = up(&world);
    let (address, token) = ways_in(&world);
    assert_eq!(get(&address, "wrong", "/api/health").0, 401);
    assert_eq!(get(&address, &token, "/api/health").1["parts"]["http"], "running");
    for (path, command) in [
        ("/api/sessions?limit=10", &["sessions", "--limit", "10"][..]),
        ("/api/sessions/s0/capture/events?limit=2", &["show", "s0", "--events", "--limit", "2"]),
        ("/api/search?q=question&limit=20", &["search", "question"]),
        ("/api/usage?by=model", &["usage", "model"]),
    ] {
        let (status, answered) = get(&address, &token, path);
        let printed: Value = lines(&world.run(&[&["--json"], command].concat())).remove(0);
        assert_eq!((status, answered), (200, printed), "{path}");
    }
    let (_, shown) = get(&address, &token, "/api/sessions/s0");
    let printed: Value = lines(&world.run(&["--json", "show", "s0"])).remove(0);
    assert_eq!(shown["turns"], printed["turns"]);
    let (_, recent) = get(&address, &token, "/api/sessions/s0/recent");
    assert_eq!(recent["turns"].as_array().unwrap().len(), 3, "{recent}");
    assert_eq!(recent["said"][2]["text"], "question 2");
    let (_, statuses) = get(&address, &token, "/api/status");
    assert!(statuses["items"].is_array(), "{statuses}");
    assert_eq!(daemon.terminate().code, Some(0));
    assert!(!world.home().join(".local/share/hansard/health/http.address").exists());
    assert_eq!(world.run(&["web"]).code, Some(3));
}

#[test]
fn totals_follow_a_deleted_session() {
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s0.jsonl");
    (0..3).for_each(|number| append(&file, prompt("s0", number).as_bytes()));
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    let picture = json!({"type": "user", "uuid": "p", "sessionId": "s1", "cwd": "/home/dev/app",
        "timestamp": "2026-11-16T09:00:00Z", "message": {"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "source":
                {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}}]}});
    let other = world.home().join(".claude/projects/-home-dev-app/s1.jsonl");
    append(&other, format!("{picture}\n").as_bytes());
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    let daemon = up(&world);
    let (address, token) = ways_in(&world);
    let told = |path: &str| get(&address, &token, path);
    let (_, feed) = told("/api/feed?limit=2");
    let texts: Vec<&Value> =
        feed["items"].as_array().unwrap().iter().map(|item| &item["text"]).collect();
    assert_eq!(texts, ["look", "question 2"], "{feed}");
    let (_, rest) = told(&format!("/api/feed?after={}", feed["next"].as_str().unwrap()));
    assert_eq!(rest["items"].as_array().unwrap().len(), 2, "{rest}");
    let (_, work) = told("/api/activity");
    assert_eq!((&work["sessions"], &work["all"]["turns"]), (&json!(2), &json!(4)), "{work}");
    let (_, adapters) = told("/api/capture");
    let adapters = adapters["items"].as_array().unwrap();
    let claude = adapters.iter().find(|adapter| adapter["provider"] == "claude").unwrap();
    assert_eq!((&claude["sessions"], &claude["unknown"]), (&json!(2), &json!([])), "{claude}");
    assert_eq!(claude["hooks"]["events"], json!([]), "{claude}");
    let (_, family) = told("/api/sessions/s0/family");
    assert_eq!(family["items"][0]["id"], "claude:s0", "{family}");
    let (_, way) = told("/api/sessions/s0/resume");
    let line = world.run(&["resume", "s0"]).stdout;
    assert_eq!(way["line"].as_str(), Some(line.trim()), "{way}");
    let (_, page) = told("/api/sessions/s1/capture/events");
    let events = page["items"].as_array().unwrap();
    let seq = &events.iter().find(|event| event["kind"] == "user.prompt").unwrap()["seq"];
    assert_eq!(told(&format!("/api/sessions/s1/pictures/{seq}/0")).0, 200);
    assert_eq!(told(&format!("/api/sessions/s1/pictures/{seq}/1")).0, 404);
    assert_eq!(told("/api/sessions/s0/handoff").0, 200);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn approvals_are_listed_with_decisions() {
    let world = empty();
    let now = Time::from_millis(millis());
    let lines: Vec<String> = [
        ("session.started", json!({"entry_point": "cli"})),
        ("user.prompt", json!({"content": "go"})),
        (
            "approval.requested",
            json!({"approval_id": "a1", "tool": "Bash",
            "input": {"command": "rm -r x"}}),
        ),
        ("approval.resolved", json!({"approval_id": "a1", "decision": "deny"})),
        ("approval.requested", json!({"approval_id": "a2", "tool": "Edit"})),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, (kind, data))| {
        let id = EventId::derived(now, "made up", "s", &[u8::try_from(number).unwrap()]);
        json!({"id": id, "session_id": "made-up:s", "kind": kind, "data": data,
            "created_at": now, "source": "hook"})
        .to_string()
    })
    .collect();
    let said = import(&world, &lines.join("\n"));
    assert_eq!(said.code, Some(0), "{said}");
    let daemon = up(&world);
    let (address, token) = ways_in(&world);
    let (status, all) = get(&address, &token, "/api/approvals");
    assert_eq!(status, 200, "{all}");
    let told = |page: &Value| -> Vec<(String, String)> {
        let items = page["items"].as_array().unwrap().iter();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        items.map(|item| (word(&item["id"]), word(&item["state"]))).collect()
    };
    let state = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    assert_eq!(told(&all), [state("a2", "pending"), state("a1", "resolved")]);
    assert_eq!(all["items"][1]["decision"], "deny");
    assert_eq!(all["items"][1]["input"]["command"], "rm -r x");
    let (_, pending) = get(&address, &token, "/api/approvals?pending=true");
    assert_eq!(told(&pending), [state("a2", "pending")]);
    assert_eq!(daemon.terminate().code, Some(0));
}

/// What another user could read or write below a folder, each on a line.
fn open_to_nobody(folder: &Path) -> String {
    let nobody = 65_534;
    let mut shell = Command::new("/bin/sh");
    let script = "find \"$1\" ! -type d \\( -readable -o -writable \\) 2>/dev/null";
    shell.args(["-c", script, "sh"]).arg(folder).current_dir("/").uid(nobody).gid(nobody);
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

#[test]
fn other_users_have_no_access() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can send somebody else");
        return;
    }
    // Where another user may get to, if nothing keeps it out.
    let folder = tempfile::Builder::new().prefix("hansard-").tempdir_in("/tmp").unwrap();
    let journal = folder.path().join("journal");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let world = empty();
    let file = world.home().join(".claude/projects/-home-dev-app/s0.jsonl");
    append(&file, prompt("s0", 0).as_bytes());
    let named = ["--journal", journal.to_str().unwrap()];
    let run = |words: &[&str]| world.run(&[&named, words].concat());
    let said = run(&["up", "--detach"]);
    assert_eq!(said.code, Some(0), "{said}");
    let hook = [&named[..], &["hook", "claude", "Stop"]].concat();
    let mut hook = world.command(&hook);
    hook.stdin(Stdio::null());
    assert!(hook.status().unwrap().success());
    assert_eq!(open_to_nobody(&journal), "");
    // The folder keeps other users out; without it every single file does.
    let mut folders = vec![journal.clone()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(inside.filter(|path| path.is_dir()));
    }
    let open = open_to_nobody(&journal);
    assert_eq!(run(&["down"]).code, Some(0));
    assert_eq!(open, "");
}

#[test]
fn http_failure_stops_nothing_else() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let world = empty();
    let folder = world.home().join(".local/share/hansard");
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    let config = folder.join("config.toml");
    std::fs::write(&config, format!("[http]\nport = {port}\n")).unwrap();
    let daemon = up(&world);
    let said = world.run(&["web"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("does not serve HTTP"), "{said}");
    let ended = daemon.terminate();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains(&format!("cannot listen on `127.0.0.1:{port}`")), "{ended}");
    std::fs::write(&config, "[http]\nenabled = false\n").unwrap();
    let daemon = up(&world);
    assert_eq!(world.run(&["web"]).code, Some(1));
    let ended = daemon.terminate();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

/// A rollout of Codex with a prompt, and its session.
fn codex(world: &World) -> &'static str {
    let session = "00000000-0000-0000-0000-00000000000a";
    let name = format!("rollout-2026-11-15T10-00-00-{session}.jsonl");
    let file = world.home().join(".codex/sessions/2026/11/15").join(name);
    let lines = [
        ("session_meta", json!({"id": session, "cwd": "/home/dev/app", "originator": "codex-tui"})),
        (
            "response_item",
            json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "go"}]}),
        ),
    ];
    for (kind, payload) in lines {
        let line = json!({"timestamp": "2026-11-15T10:00:00Z", "type": kind, "payload": payload});
        append(&file, format!("{line}\n").as_bytes());
    }
    session
}

#[test]
fn telemetry_is_recorded_once() {
    let world = empty();
    let session = codex(&world);
    assert_eq!(world.run(&["ingest", "--once"]).code, Some(0));
    let _daemon = up(&world);
    let (address, token) = ways_in(&world);
    let record = |number: u64, name: &str, status: &str| {
        let attribute =
            |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        json!({"observedTimeUnixNano": (1_794_769_723_000_000_000 + number).to_string(),
            "attributes": [attribute("event.name", name), attribute("conversation.id", session),
            attribute("http.response.status_code", status), attribute("attempt", "1")]})
    };
    let records = [
        record(1, "codex.api_request", "503"),
        record(2, "codex.sse_event", ""),
        record(3, "codex.api_request", "429"),
    ];
    let service = json!([{"key": "service.name", "value": {"stringValue": "codex_cli"}}]);
    let body = json!({"resourceLogs": [{"resource": {"attributes": service},
        "scopeLogs": [{"logRecords": records}]}]});
    let mut follower = world.start(&["--json", "show", session, "--follow"]);
    // An exporter that heard no answer sends it again.
    for _ in 0..2 {
        assert_eq!(post(&address, &token, "/v1/logs", &body), 200);
    }
    let mut retries = Vec::new();
    while retries.len() < 2 {
        let event: Value = serde_json::from_str(&follower.line().unwrap()).unwrap();
        if event["kind"] == "retry" {
            retries.push(event);
        }
    }
    let errors: Vec<&Value> = retries.iter().map(|event| &event["data"]["error"]).collect();
    assert_eq!(errors, ["503", "429"]);
    assert_eq!(
        (&retries[0]["source"], &retries[0]["confidence"]),
        (&json!("telemetry"), &json!("medium"))
    );
    let (_, health) = get(&address, &token, "/api/health");
    assert_eq!(health["telemetry"], json!({"codex_cli codex.sse_event": 2}));
    let events = lines(&world.run(&["--json", "show", session, "--events"]));
    assert_eq!(events.iter().filter(|event| event["kind"] == "retry").count(), 2);
}

fn post(address: &str, token: &str, path: &str, body: &Value) -> u16 {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said.split(' ').nth(1).unwrap().parse().unwrap()
}
