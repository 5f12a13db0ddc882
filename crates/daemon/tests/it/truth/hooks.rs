//! What hooks told, as events: a plain reading of each call, good enough to weigh.

use std::fs;
use std::path::Path;

use event::{Draft, Event, EventId, Kind, Raw, SessionId, Source};
use serde::Deserialize;
use serde_json::{Value, json};

use super::timeline::time;

/// A call of a hook.
#[derive(Deserialize)]
struct Call {
    t: f64,
    event: String,
    stdin: Value,
}

/// What the hooks of a recording told; nothing where none were kept.
pub(crate) fn read(dir: &Path, tool: &str) -> Vec<Event> {
    let Ok(text) = fs::read_to_string(dir.join("lab/hooks.jsonl")) else { return Vec::new() };
    let calls = text.lines().map(|line| serde_json::from_str::<Call>(line).unwrap());
    let told = calls.enumerate().filter_map(|(number, call)| {
        let (kind, data) = meaning(&call, number)?;
        let at = time(call.t);
        let session = call.stdin["session_id"].as_str().unwrap();
        let id = EventId::derived(at, "hook", session, &number.to_be_bytes());
        let session_id = SessionId::new(format!("{tool}:{session}")).unwrap();
        let data = Raw::of(&data).unwrap();
        let mut draft = Draft::with_data(id, session_id, at, Kind::from(kind), data);
        draft.provider = tool.to_owned();
        draft.source = Source::Hook;
        Some(draft.at(0))
    });
    told.collect()
}

fn meaning(call: &Call, number: usize) -> Option<(&'static str, Value)> {
    let told = &call.stdin;
    let (name, input) = (told["tool_name"].as_str().unwrap_or_default(), &told["tool_input"]);
    // Not every agent names its calls to hooks.
    let unnamed = || format!("{name} {input}");
    let call_id = told["tool_use_id"].as_str().map_or_else(unnamed, str::to_owned);
    let ended =
        |reason: &str| Some(("turn.completed", json!({"agent_id": "", "stop_reason": reason})));
    match call.event.as_str() {
        "UserPromptSubmit" | "BeforeAgent" if told["prompt"] != "" => {
            Some(("user.prompt", json!({"content": told["prompt"]})))
        }
        "PreToolUse" | "BeforeTool" => {
            Some(("tool.call", json!({"call_id": call_id, "tool": name, "input": input})))
        }
        "PostToolUse" | "PostToolUseFailure" | "AfterTool" => {
            Some(("tool.result", json!({"call_id": call_id, "outcome": "ok"})))
        }
        "PermissionRequest" => {
            let id = format!("hook {number}");
            Some(("approval.requested", json!({"approval_id": id, "tool": name, "input": input})))
        }
        "Notification" if told["notification_type"] == "ToolPermission" => {
            Some(("approval.requested", json!({"approval_id": format!("hook {number}")})))
        }
        "Stop" | "AfterAgent" => ended("completed"),
        "Interrupt" => ended("interrupted"),
        "SessionEnd" => Some(("session.exited", json!({}))),
        _ => None,
    }
}
