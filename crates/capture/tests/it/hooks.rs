//! What calls of hooks say: every call that was recorded, and what was not recorded but is known.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use capture::{
    Environment, HookMemory, HookOnlyEvent, IngestSummary, Ingester, Payload, SignalOutcome,
    hook_only_events, read_hook,
};
use event::payload::{ApprovalResolved, Decision, SettingsChanged, StopReason, TurnCompleted};
use event::{
    EventId, HookFact, HookMessage, Kind, ProcessIdentity, ProcessStart, Raw, SignalKind, Source,
    Time,
};
use expect_test::expect_file;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files::Failing;
use crate::memory::Memory;
use crate::scenario::{NOW, agent, fixtures, read as read_home};

/// A call of a recording.
#[derive(Deserialize)]
pub(crate) struct Call {
    t: f64,
    pub(crate) event: String,
    pub(crate) stdin: Value,
}

/// The message of a call, with a number for its name.
fn read_at(
    agent: &str,
    event: &str,
    payload: &str,
    number: usize,
    at: Time,
) -> Option<HookMessage> {
    read_hook(agent, event, &Payload::parse(payload).unwrap(), number.to_string(), at)
}

fn read(agent: &str, event: &str, payload: &Value) -> Option<HookMessage> {
    read_at(agent, event, &payload.to_string(), 0, Time::from_millis(NOW))
}

/// What only hooks tell, of several calls in a row, a second apart.
fn told(agent: &str, calls: &[(&str, Value)]) -> Vec<(String, Value)> {
    let mut memory = HookMemory::default();
    let told = calls.iter().enumerate().flat_map(|(number, (event, payload))| {
        let at = Time::from_millis(1_800_000_000_000 + number as i64 * 1_000);
        let message = read_at(agent, event, &payload.to_string(), number, at);
        message.map(|message| hook_only_events(&message, &mut memory)).unwrap_or_default()
    });
    told.map(|told| (told.kind.to_string(), told.data.read().unwrap())).collect()
}

/// The recordings that have calls of hooks: the agent, the folder, the calls.
pub(crate) fn recordings() -> Vec<(String, PathBuf, Vec<Call>)> {
    let folders = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    let mut recordings = Vec::new();
    for tool in folders(&fixtures()) {
        let name = tool.file_name().unwrap().to_str().unwrap().to_owned();
        for scenario in folders(&tool) {
            let Ok(text) = fs::read_to_string(scenario.join("lab/hooks.jsonl")) else { continue };
            let calls = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            recordings.push((name.clone(), scenario, calls));
        }
    }
    recordings
}

/// `UPDATE_EXPECT=1` writes the table anew.
#[test]
fn every_recorded_call_is_understood() {
    let mut rows: BTreeMap<(String, String, String), u32> = BTreeMap::new();
    for (tool, _, calls) in recordings() {
        let mut memory = HookMemory::default();
        for (number, call) in calls.iter().enumerate() {
            let at = Time::from_millis((call.t * 1_000.0) as i64);
            let said = match read_at(&tool, &call.event, &call.stdin.to_string(), number, at) {
                None => "nothing".to_owned(),
                Some(message) => describe(&message, &hook_only_events(&message, &mut memory)),
            };
            *rows.entry((tool.clone(), call.event.clone(), said)).or_default() += 1;
        }
    }
    let mut table = String::new();
    for ((tool, event, said), count) in rows {
        writeln!(table, "{tool:<9} {event:<32} {count:>3}  {said}").unwrap();
    }
    expect_file!["../fixtures/hooks.txt"].assert_eq(&table);
}

fn describe(message: &HookMessage, told: &[HookOnlyEvent]) -> String {
    let mut words = vec!["news".to_owned()];
    words.extend(message.signal.map(|signal| format!("sign {signal:?}")));
    words.extend(message.facts.iter().map(|fact| format!("says {}", fact.kind)));
    words.extend(told.iter().map(|told| format!("tells {}", told.kind)));
    words.join(", ")
}

#[test]
fn no_approval_of_a_recording_is_left_open() {
    for (tool, _, calls) in recordings() {
        let calls: Vec<_> = calls.into_iter().map(|call| (call.event, call.stdin)).collect();
        let calls: Vec<(&str, Value)> =
            calls.iter().map(|(event, stdin)| (event.as_str(), stdin.clone())).collect();
        let mut open: Vec<Value> = Vec::new();
        for (kind, data) in told(&tool, &calls) {
            match kind.as_str() {
                "approval.requested" => open.push(data["approval_id"].clone()),
                "approval.resolved" | "approval.canceled" => {
                    open.retain(|id| *id != data["approval_id"]);
                }
                _ => {}
            }
        }
        // Its own records tell the decision.
        assert!(tool == "claude" || open.is_empty(), "{tool}: {open:?}");
    }
}

#[test]
fn hooks_only_add_events() {
    for (tool, dir, calls) in recordings() {
        let home = dir.join("home");
        let mut without = Memory::default();
        read_home(agent(&tool), &home, &mut without);
        let mut with = Memory::default();
        call_all(&tool, &home, &calls, &mut with);
        read_home(agent(&tool), &home, &mut with);
        let place = dir.display();
        let ids = |memory: &Memory| -> Vec<EventId> {
            let told = memory.events().filter(|event| event.source != Source::Hook);
            told.map(|event| event.id).collect()
        };
        assert_eq!(ids(&with), ids(&without), "{place}");
        let kinds = [Kind::UserPrompt, Kind::AssistantMessage, Kind::ToolCall];
        let twice = with.events().filter(|event| event.source == Source::Hook);
        assert_eq!(twice.filter(|event| kinds.contains(&event.kind)).count(), 0, "{place}");
    }
}

/// Ingests every call of a recording, in its order, with all its files there.
fn call_all(tool: &str, home: &Path, calls: &[Call], sink: &mut Memory) {
    let environment = Environment::new(home, []);
    let agents = [agent(tool)];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    for (number, call) in calls.iter().enumerate() {
        let text = call.stdin.to_string().replace("/home/dev/", &format!("{}/", home.display()));
        let at = Time::from_millis((call.t * 1_000.0) as i64);
        let Some(message) = read_at(tool, &call.event, &text, number, at) else { continue };
        if let Some(path) = &message.transcript {
            pump.read_transcript(tool, path, sink, &mut summary).unwrap();
        }
        pump.ingest_hook(&message, &mut memory, sink, &mut summary).unwrap();
        pump.apply_signal(&message, false, sink, &mut summary).unwrap();
    }
}

fn claude(rest: Value) -> Value {
    let mut payload = json!({"session_id": "s1", "cwd": "/home/dev/app",
        "transcript_path": "/home/dev/.claude/projects/app/s1.jsonl"});
    payload.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    payload
}

#[test]
fn unnamed_source_is_searched_once() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".claude/projects/app");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/home/dev/app",
        "timestamp": "2026-03-02T09:00:00.000Z", "message": {"role": "user", "content": "go"}});
    fs::write(folder.join("s1.jsonl"), format!("{line}\n")).unwrap();
    let environment = Environment::new(home.path(), []);
    let agents = [agent("claude")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Memory::default();
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    sink.asked_for_all.set(0);
    // Another one has to look for itself.
    let pump = Ingester::new(&agents, &environment, &clock);
    for number in 0..20 {
        let command = format!("make part_{number}");
        let asked = json!({"session_id": "s1", "tool_name": "Bash",
            "tool_input": {"command": command}});
        let at = Time::from_millis(NOW);
        let asked = asked.to_string();
        let message = read_at("claude", "PermissionRequest", &asked, number, at).unwrap();
        pump.ingest_hook(&message, &mut memory, &mut sink, &mut summary).unwrap();
    }
    let asked = sink.events().filter(|event| event.kind == Kind::ApprovalRequested);
    assert_eq!((asked.count(), sink.asked_for_all.get()), (20, 1));
}

#[test]
fn process_is_recorded_when_it_changes() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".claude/projects/app");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/home/dev/app",
        "timestamp": "2026-03-02T09:00:00.000Z", "message": {"role": "user", "content": "go"}});
    let environment = Environment::new(home.path(), []);
    let agents = [agent("claude")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Memory::default();
    let mut call = |pid: u32, second: i64, memory: &mut HookMemory, sink: &mut Memory| {
        let at = Time::from_millis(NOW + second * 1_000);
        let start = ProcessStart::Ticks(u64::from(pid));
        let process = Some(ProcessIdentity { pid, start, started_at: Time::from_millis(NOW) });
        let message = read_at("claude", "SessionStart", r#"{"session_id": "s1"}"#, 0, at).unwrap();
        let message = HookMessage { process, name: second.to_string(), ..message };
        let outcome = pump.ingest_hook(&message, memory, sink, &mut summary).unwrap();
        assert_eq!(outcome, SignalOutcome::Done);
        let events = sink.events().filter(|event| event.kind == Kind::SettingsChanged);
        let told = events.map(|event| event.readable::<SettingsChanged>().unwrap().process);
        told.map(|process| process.unwrap().pid).collect::<Vec<u32>>()
    };
    // Nothing is written yet, so there is no session to record it in.
    assert_eq!(call(7, 0, &mut memory, &mut sink), Vec::<u32>::new());
    fs::write(folder.join("s1.jsonl"), format!("{line}\n")).unwrap();
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    assert_eq!(call(7, 1, &mut memory, &mut sink), [7]);
    assert_eq!(call(7, 2, &mut memory, &mut sink), [7]);
    // A restart forgets the memory, but not what was recorded.
    let mut memory = HookMemory::default();
    assert_eq!(call(7, 3, &mut memory, &mut sink), [7]);
    assert_eq!(call(8, 4, &mut memory, &mut sink), [7, 8]);
    // A message that waited on disk is older than what is known.
    assert_eq!(call(7, 2, &mut memory, &mut sink), [7, 8]);
}

#[test]
fn approval_of_a_dead_process_answers_nothing() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".qwen/projects/app/chats");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/home/dev/app",
        "timestamp": "2026-03-02T09:00:00.000Z",
        "message": {"role": "user", "parts": [{"text": "go"}]}});
    fs::write(folder.join("s1.jsonl"), format!("{line}\n")).unwrap();
    let environment = Environment::new(home.path(), []);
    let agents = [agent("qwen")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Memory::default();
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    // The first process is killed while it asks; the second one asks for the same and is allowed.
    let calls = [(7, "PermissionRequest", 1), (8, "PermissionRequest", 5), (8, "PreToolUse", 9)];
    for (pid, event, second) in calls {
        let at = |second: i64| Time::from_millis(NOW + second * 1_000);
        let payload = json!({"session_id": "s1", "tool_name": "run_shell_command",
            "tool_input": {"command": "make"}});
        let message = read_at("qwen", event, &payload.to_string(), 0, at(second)).unwrap();
        let started_at = at(if pid == 7 { 0 } else { 4 });
        let start = ProcessStart::Ticks(u64::from(pid));
        let process = Some(ProcessIdentity { pid, start, started_at });
        let message = HookMessage { process, name: second.to_string(), ..message };
        pump.ingest_hook(&message, &mut memory, &mut sink, &mut summary).unwrap();
    }
    let resolved = sink.events().filter(|event| event.kind == Kind::ApprovalResolved);
    let resolved = resolved.map(|event| event.readable::<ApprovalResolved>().unwrap().approval_id);
    assert_eq!(resolved.collect::<Vec<_>>(), ["hook-5"]);
}

#[test]
fn process_is_recorded_once_its_session_is() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".claude/projects/app");
    fs::create_dir_all(&folder).unwrap();
    let environment = Environment::new(home.path(), []);
    let agents = [agent("claude")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Memory::default();
    let (pid, started_at) = (7, Time::from_millis(NOW));
    let process = ProcessIdentity { pid, start: ProcessStart::Ticks(7), started_at };
    let message = read_at("claude", "SessionStart", r#"{"session_id": "s1"}"#, 0, started_at);
    let message = HookMessage { process: Some(process), ..message.unwrap() };
    pump.ingest_hook(&message, &mut memory, &mut sink, &mut summary).unwrap();
    let mut ingest_unwritten = |sink: &mut Memory| {
        for message in memory.take_unwritten(clock()) {
            pump.ingest_hook(&message, &mut memory, sink, &mut summary).unwrap();
        }
    };
    ingest_unwritten(&mut sink);
    assert_eq!(sink.events().count(), 0);

    let line = json!({"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/home/dev/app",
        "timestamp": "2026-03-02T09:00:00.000Z", "message": {"role": "user", "content": "go"}});
    fs::write(folder.join("s1.jsonl"), format!("{line}\n")).unwrap();
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    ingest_unwritten(&mut sink);
    ingest_unwritten(&mut sink);
    let changes = sink.events().filter(|event| event.kind == Kind::SettingsChanged);
    let named = changes.map(|event| event.readable::<SettingsChanged>().unwrap().process);
    assert_eq!(named.map(|process| process.unwrap().pid).collect::<Vec<u32>>(), [7]);
}

#[test]
fn failed_commit_leaves_the_memory() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".qwen/projects/app/chats");
    fs::create_dir_all(&folder).unwrap();
    let line = json!({"type": "user", "sessionId": "s1", "uuid": "u1", "cwd": "/home/dev/app",
        "timestamp": "2026-03-02T09:00:00.000Z",
        "message": {"role": "user", "parts": [{"text": "go"}]}});
    fs::write(folder.join("s1.jsonl"), format!("{line}\n")).unwrap();
    let environment = Environment::new(home.path(), []);
    let agents = [agent("qwen")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Failing { memory: Memory::default(), puts_left: usize::MAX };
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    let payload = json!({"session_id": "s1", "tool_name": "run_shell_command",
        "tool_input": {"command": "make"}});
    // Each message fails at first: the disk is full.
    for (number, event) in ["PermissionRequest", "PreToolUse"].into_iter().enumerate() {
        let message = read_at("qwen", event, &payload.to_string(), number, clock()).unwrap();
        let (pid, start) = (7, ProcessStart::Ticks(7));
        let process = Some(ProcessIdentity { pid, start, started_at: clock() });
        let message = HookMessage { process, ..message };
        sink.puts_left = 0;
        pump.ingest_hook(&message, &mut memory, &mut sink, &mut summary).unwrap_err();
        sink.puts_left = usize::MAX;
        pump.ingest_hook(&message, &mut memory, &mut sink, &mut summary).unwrap();
    }
    let told = sink.memory.events().filter(|event| event.source == Source::Hook);
    let told: Vec<Kind> = told.map(|event| event.kind.clone()).collect();
    let expected = [Kind::SettingsChanged, Kind::ApprovalRequested, Kind::ApprovalResolved];
    assert_eq!(told, expected);
}

#[test]
fn unmentioned_sessions_are_not_searched() {
    let home = tempfile::TempDir::new().unwrap();
    let folder = home.path().join(".codex/sessions/2026/03/02");
    fs::create_dir_all(&folder).unwrap();
    let environment = Environment::new(home.path(), []);
    let agents = [agent("codex")];
    let clock = || Time::from_millis(NOW);
    let pump = Ingester::new(&agents, &environment, &clock);
    let (mut memory, mut summary) = (HookMemory::default(), IngestSummary::default());
    let mut sink = Memory::default();
    let retry = event::payload::Retry { attempt: 1, ..Default::default() };
    let fact = HookFact { kind: Kind::Retry, data: Raw::from_value(&retry).unwrap() };
    let mut ingest_session = |session: &str, sink: &mut Memory| {
        let message = HookMessage {
            source: Source::Telemetry,
            facts: vec![fact.clone()],
            ..HookMessage::new(session.to_owned(), "codex", session, Time::from_millis(NOW))
        };
        pump.ingest_hook(&message, &mut memory, sink, &mut summary).unwrap()
    };
    for number in 0..5_000 {
        ingest_session(&format!("thread-{number}"), &mut sink);
    }
    assert_eq!((sink.events().count(), sink.asked_for_all.get()), (0, 1));
    // One that begins meanwhile is known at once.
    let thread = "00000000-5e55-4000-8000-00000000c0de";
    let line = json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "session_meta",
        "payload": {"id": thread, "cwd": "/home/dev/app"}});
    let prompt = json!({"timestamp": "2026-03-02T09:00:01.000Z", "type": "event_msg",
        "payload": {"type": "user_message", "message": "go"}});
    let file = folder.join(format!("rollout-2026-03-02T09-00-00-{thread}.jsonl"));
    fs::write(file, format!("{line}\n{prompt}\n")).unwrap();
    pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
    ingest_session(thread, &mut sink);
    assert!(sink.events().any(|event| event.kind == Kind::Retry));
}

#[test]
fn a_question_is_about_the_last_call_with_the_same_input() {
    let call = |id: &str, command: &str| {
        claude(json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id}))
    };
    let asked = claude(json!({"tool_name": "Bash",
        "tool_input": {"description": "why", "command": "npm test"}}));
    let calls = [
        ("PreToolUse", call("c1", "npm test")),
        ("PreToolUse", call("c2", "ls")),
        ("PermissionRequest", asked.clone()),
    ];
    let told = told("claude", &calls);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1["call_id"], "c1");
    assert_eq!(told[0].1["approval_id"], "c1");
    assert_eq!(told[0].1["input"]["command"], "npm test");
}

#[test]
fn a_question_that_two_hooks_were_told_is_one() {
    let asked = claude(json!({"tool_name": "Bash", "tool_input": {"command": "npm test"}}));
    let calls = [("PermissionRequest", asked.clone()), ("PermissionRequest", asked)];
    assert_eq!(told("claude", &calls).len(), 1);
}

#[test]
fn a_question_to_the_user_is_no_approval() {
    let asked = claude(json!({"tool_name": "AskUserQuestion", "tool_input": {"questions": []}}));
    assert_eq!(told("claude", &[("PermissionRequest", asked)]), []);
}

#[test]
fn what_codex_asked_is_answered_by_what_it_does_next() {
    let payload = |rest: Value| {
        let mut payload = json!({"session_id": "t1", "tool_name": "Bash"});
        payload.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        payload
    };
    let call = payload(json!({"tool_input": {"command": "make"}, "tool_use_id": "e1"}));
    let asked = payload(json!({"tool_input": {"command": "make", "description": "May I?"}}));
    let begin = [("PreToolUse", call.clone()), ("PermissionRequest", asked)];
    let then = |event: &'static str, payload: Value| {
        let calls = [begin.as_slice(), &[(event, payload)]].concat();
        told("codex", &calls).pop().unwrap()
    };
    let (kind, data) = then("PostToolUse", call);
    assert_eq!((kind.as_str(), &data["decision"]), ("approval.resolved", &json!("allow")));
    for (event, reason) in [("Interrupt", "interrupted"), ("Stop", "the turn ended")] {
        let (kind, data) = then(event, json!({"session_id": "t1"}));
        assert_eq!((kind.as_str(), &data["reason"]), ("approval.canceled", &json!(reason)));
        assert_eq!(data["approval_id"], "e1");
    }
}

#[test]
fn what_gemini_asks_the_user_waits_until_it_goes_on() {
    let tool =
        json!({"session_id": "g1", "tool_name": "ask_user", "tool_input": {"questions": []}});
    let asked = json!({"session_id": "g1", "notification_type": "ToolPermission",
        "details": {"type": "ask_user", "questions": [{"question": "Which port?"}]}});
    let begin = [("BeforeTool", tool.clone()), ("Notification", asked)];
    let then = |event: &'static str, payload: Value| {
        let calls = [begin.as_slice(), &[(event, payload)]].concat();
        let told = told("gemini", &calls).into_iter();
        let inputs = told.filter(|(kind, _)| kind == "external.input").map(|(_, data)| data);
        inputs
            .map(|data| {
                (data["status"].clone(), data["prompt"].clone(), data["request_id"].clone())
            })
            .collect::<Vec<_>>()
    };
    let open = (json!("pending"), json!("Which port?"), json!("hook-1"));
    assert_eq!(then("BeforeAgent", json!({})), std::slice::from_ref(&open));
    for (event, payload, status) in [
        ("AfterTool", tool, "received"),
        ("AfterAgent", json!({"session_id": "g1"}), "canceled"),
        ("SessionEnd", json!({"session_id": "g1"}), "canceled"),
    ] {
        let closed = (json!(status), json!(""), json!("hook-1"));
        assert_eq!(then(event, payload), [open.clone(), closed]);
    }
}

#[test]
fn question_without_words_has_those_of_its_call() {
    let input = json!({"questions": [{"question": "Which port?"}]});
    let tool = json!({"session_id": "g1", "tool_name": "ask_user", "tool_input": input});
    let asked = json!({"session_id": "g1", "notification_type": "ToolPermission",
        "details": {"type": "ask_user", "title": "Ask User"}});
    let told = told("gemini", &[("BeforeTool", tool), ("Notification", asked)]);
    let (kind, data) = told.last().unwrap();
    assert_eq!((kind.as_str(), &data["prompt"]), ("external.input", &json!("Which port?")));
}

#[test]
fn only_a_compression_that_was_asked_for_is_told() {
    let call = |trigger: &str| json!({"session_id": "g1", "trigger": trigger});
    let told = |trigger: &str| told("gemini", &[("PreCompress", call(trigger))]);
    assert_eq!(told("auto"), []);
    assert_eq!(told("manual")[0].0, "compaction.started");
}

#[test]
fn readiness_of_qwen_ends_a_turn_as_interrupted() {
    let ready = json!({"session_id": "q1", "notification_type": "idle_prompt"});
    let message = read("qwen", "Notification", &ready).unwrap();
    assert_eq!(message.signal, Some(SignalKind::TurnEnd));
    let sign = json!({"session_id": "q1", "notification_type": "permission_prompt"});
    assert_eq!(read("qwen", "Notification", &sign).unwrap().signal, None);
    let home = tempfile::tempdir().unwrap();
    let chat = home.path().join(".qwen/projects/-home-dev-project/chats/q1.jsonl");
    fs::create_dir_all(chat.parent().unwrap()).unwrap();
    let prompt = json!({"uuid": "u1", "parentUuid": null, "sessionId": "q1", "type": "user",
        "timestamp": "2026-11-18T07:00:00.000Z", "cwd": "/home/dev/project", "version": "0.21.10",
        "message": {"role": "user", "parts": [{"text": "Go."}]}});
    fs::write(&chat, format!("{prompt}\n")).unwrap();
    let mut sink = Memory::default();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("qwen")];
    let ingester = Ingester::new(&agents, &environment, &clock);
    let mut summary = IngestSummary::default();
    ingester.ingest_all(&mut sink, &mut |_| {}).unwrap();
    for _ in 0..2 {
        ingester.apply_signal(&message, false, &mut sink, &mut summary).unwrap();
    }
    let ends = sink.events().filter_map(|event| event.readable::<TurnCompleted>());
    let reasons: Vec<_> = ends.map(|end| end.stop_reason).collect();
    assert_eq!(reasons, [Some(StopReason::Interrupted)]);
}

#[test]
fn question_of_qwen_is_no_approval() {
    let asked = json!({"session_id": "q1", "tool_name": "ask_user_question",
        "tool_input": {"questions": []}});
    assert_eq!(told("qwen", &[("PermissionRequest", asked)]), []);
}

#[test]
fn what_qwen_begins_was_allowed() {
    let call = |command: &str| {
        json!({"session_id": "q1", "tool_name": "run_shell_command",
            "tool_input": {"command": command, "description": "why"}})
    };
    let asked = [("PermissionRequest", call("make")), ("PreToolUse", call("ls"))];
    assert_eq!(told("qwen", &asked).len(), 1, "another call says nothing of it");
    let allowed = [asked.as_slice(), &[("PreToolUse", call("make"))]].concat();
    let (kind, data) = told("qwen", &allowed).pop().unwrap();
    assert_eq!((kind.as_str(), &data["decision"]), ("approval.resolved", &json!("allow")));
    assert_eq!(data["approval_id"], "hook-0");
}

#[test]
fn a_decision_that_is_told_twice_is_one() {
    let call = json!({"session_id": "t1", "tool_name": "Bash", "tool_use_id": "e1",
        "tool_input": {"command": "make"}});
    let mut memory = HookMemory::default();
    let at = Time::from_millis(1_800_000_000_000);
    for (number, event) in [(1, "PreToolUse"), (2, "PermissionRequest"), (3, "PostToolUse")] {
        let message = read_at("codex", event, &call.to_string(), number, at).unwrap();
        hook_only_events(&message, &mut memory);
    }
    let decided = ApprovalResolved {
        approval_id: "e1".to_owned(),
        decision: Decision::Allow,
        reason: None,
        by: Some("person".to_owned()),
        automated: false,
    };
    let fact = HookFact { kind: Kind::ApprovalResolved, data: Raw::from_value(&decided).unwrap() };
    let exported = HookMessage {
        source: Source::Telemetry,
        facts: vec![fact],
        ..HookMessage::new("4".to_owned(), "codex", "t1", at)
    };
    assert_eq!(hook_only_events(&exported, &mut memory), []);
}

#[test]
fn a_subagent_is_told_by_its_own_session() {
    let call = claude(json!({"agent_id": "a7", "agent_type": "Explore", "tool_name": "Bash"}));
    let message = read("claude", "PreToolUse", &call).unwrap();
    assert_eq!(message.session, "agent-a7");
    let transcript = "/home/dev/.claude/projects/app/s1/subagents/agent-a7.jsonl";
    assert_eq!(message.transcript.as_deref(), Some(Path::new(transcript)));
    let call = json!({"session_id": "root", "agent_id": "child", "tool_name": "Bash"});
    assert_eq!(read("codex", "PreToolUse", &call).unwrap().session, "child");
}

#[test]
fn the_output_of_cursors_tools_is_told_by_hooks_alone() {
    let made = json!({"conversation_id": "c", "generation_id": "g", "cursor_version": "2.4",
        "tool_name": "Shell", "tool_input": "{\"command\":\"ls\"}", "tool_use_id": "t1",
        "tool_output": "{\"stdout\":\"a\\n\"}", "workspace_roots": ["/home/dev/app"]});
    let told = told("cursor", &[("postToolUse", made)]);
    let expected = json!({"call_id": "t1", "tool": "Shell", "outcome": "ok",
        "output": {"stdout": "a\n"}});
    assert_eq!(told, [("tool.result".to_owned(), expected)]);
}

#[test]
fn an_end_that_clears_is_a_clear() {
    let sign = |reason: &str| {
        read("claude", "SessionEnd", &claude(json!({"reason": reason}))).unwrap().signal
    };
    assert_eq!(sign("clear"), Some(SignalKind::Clear));
    assert_eq!(sign("other"), Some(SignalKind::Stop));
}

#[test]
fn unknown_hook_event_means_news() {
    let message = read("claude", "FromTheFuture", &claude(json!({"new": {"deep": [1]}}))).unwrap();
    assert_eq!((message.session.as_str(), message.signal, message.facts.len()), ("s1", None, 0));
    assert_eq!(read("claude", "Stop", &json!({"session_id": 7})), None);
    assert_eq!(read("claude", "Stop", &json!({})), None);
    assert_eq!(read("nobody", "Stop", &claude(json!({}))), None);
}

#[test]
fn of_a_payload_that_was_cut_the_beginning_counts() {
    let whole = r#"{"session_id":"s1","reason":"other","last":"some long text"}"#;
    let cut = Payload::parse(&whole[..50]).unwrap();
    let at = Time::from_millis(NOW);
    let message = read_hook("claude", "SessionEnd", &cut, String::new(), at).unwrap();
    assert_eq!((message.session.as_str(), message.signal), ("s1", Some(SignalKind::Stop)));
    for nothing in ["", "null", "[1]", "\"text\"", "7", "{", "not json"] {
        assert!(Payload::parse(nothing).is_err(), "{nothing}");
    }
}

/// A payload of the kinds there are, its members in any order, some of them wrong.
fn any_payload() -> impl Strategy<Value = Value> {
    let session = prop_oneof![Just(json!("s1")), Just(json!(7)), Just(json!(null))];
    let text = prop_oneof![Just(json!("c1")), Just(json!("Bash")), Just(json!(7))];
    let input = prop_oneof![
        Just(json!({"command": "ls"})),
        Just(json!({"path": "a"})),
        Just(json!("{\"command\":\"ls\"}")),
        Just(json!([1])),
    ];
    (session, text.clone(), input, text).prop_map(|(session, tool, input, call)| {
        json!({"session_id": session, "tool_name": tool, "tool_input": input,
            "tool_use_id": call, "details": input, "notification_type": "ToolPermission"})
    })
}

const EVENTS: &[&str] = &[
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "Interrupt",
    "Stop",
    "SessionEnd",
    "BeforeTool",
    "Notification",
    "AfterTool",
    "AfterAgent",
];

proptest! {
    /// Whatever comes in whatever order: a decision is about a question that was asked before, and
    /// there is one at most.
    #[test]
    fn a_question_is_closed_once(
        agent in prop_oneof![Just("codex"), Just("gemini")],
        calls in prop::collection::vec((prop::sample::select(EVENTS), any_payload()), 0..24),
    ) {
        let mut open: Vec<Value> = Vec::new();
        for (kind, data) in told(agent, &calls) {
            let id = data["approval_id"].clone();
            match Kind::from(kind.as_str()) {
                Kind::ApprovalRequested => {
                    prop_assert!(!open.contains(&id));
                    open.push(id);
                }
                Kind::ApprovalResolved | Kind::ApprovalCanceled => {
                    let place = open.iter().position(|known| *known == id);
                    prop_assert!(place.is_some(), "{id} was never asked");
                    open.remove(place.unwrap());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn match_of_a_rule_is_recorded_for_every_agent() {
    for agent in capture::AGENTS.iter().filter(|agent| agent.hook_map().is_some()) {
        let name = "1".to_owned();
        let at = Time::from_millis(NOW);
        let mut message = HookMessage::new(name, agent.provider(), "s", at);
        let data = Raw::parse(r#"{"tool":"Bash","verdict":"block","told":"deny","rules":[]}"#);
        message.facts.push(HookFact { kind: Kind::RuleMatched, data: data.unwrap() });
        assert!(capture::has_hook_only_facts(&message), "{}", agent.provider());
        let told = hook_only_events(&message, &mut HookMemory::default());
        let kinds: Vec<_> = told.into_iter().map(|told| told.kind).collect();
        assert_eq!(kinds, [Kind::RuleMatched], "{}", agent.provider());
    }
}

#[test]
fn question_of_a_rule_is_asked_until_the_call_is_over() {
    let call = json!({"session_id": "s", "tool_name": "run_shell_command",
        "tool_input": {"command": "touch x"}, "hook_event_name": "PreToolUse"});
    let mut memory = HookMemory::default();
    let kinds_of = |message: HookMessage, memory: &mut HookMemory| -> Vec<Kind> {
        hook_only_events(&message, memory).into_iter().map(|told| told.kind).collect()
    };
    let mut asked = read("qwen", "PreToolUse", &call).unwrap();
    let request = r#"{"tool":"run_shell_command","input":{"command":"touch x"}}"#;
    let data = Raw::parse(request).unwrap();
    asked.facts.push(HookFact { kind: Kind::ApprovalRequested, data });
    assert_eq!(kinds_of(asked, &mut memory), [Kind::ApprovalRequested]);
    let over = read_at("qwen", "PostToolUse", &call.to_string(), 1, Time::from_millis(NOW));
    assert_eq!(kinds_of(over.unwrap(), &mut memory), [Kind::ApprovalResolved]);
}
