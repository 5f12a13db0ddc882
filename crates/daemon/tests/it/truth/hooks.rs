//! What hooks told, as events: the calls of a recording, read and remembered as the daemon does.

use std::fs;
use std::path::Path;

use capture::{HookMemory, HookOnlyEvent, Payload, hook_only_events, read_hook};
use event::{Draft, Event, EventId, Kind, Raw, SessionId, SignalKind, Source};
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

/// What the hooks of a recording told that its files do not; `None` where it has none.
pub(crate) fn read(dir: &Path, tool: &str) -> Option<Vec<Event>> {
    let text = fs::read_to_string(dir.join("lab/hooks.jsonl")).ok()?;
    let calls = text.lines().map(|line| serde_json::from_str::<Call>(line).unwrap());
    let mut memory = HookMemory::default();
    let told = calls.enumerate().flat_map(|(number, call)| told(&call, number, tool, &mut memory));
    Some(told.collect())
}

fn told(call: &Call, number: usize, tool: &str, memory: &mut HookMemory) -> Vec<Event> {
    let payload = Payload::parse(&call.stdin.to_string()).unwrap();
    let at = time(call.t);
    let name = number.to_string();
    let Some(message) = read_hook(tool, &call.event, &payload, name, at) else { return Vec::new() };
    let mut told = hook_only_events(&message, memory);
    told.extend(message.signal.and_then(|signal| said(signal, tool)));
    let session_id = SessionId::new(format!("{tool}:{}", message.session)).unwrap();
    let events = told.into_iter().enumerate().map(|(place, HookOnlyEvent { kind, data, .. })| {
        let key = [number.to_be_bytes(), place.to_be_bytes()].concat();
        let id = EventId::derived(at, "hook", &message.session, &key);
        let mut draft = Draft::with_data(id, session_id.clone(), at, kind, data);
        draft.provider = tool.to_owned();
        draft.source = Source::Hook;
        draft.with_seq(0)
    });
    events.collect()
}

/// What a signal comes to while the files are silent about it.
fn said(signal: SignalKind, tool: &str) -> Option<HookOnlyEvent> {
    let (kind, data) = match signal {
        SignalKind::Stop => (Kind::SessionExited, json!({})),
        // The others write ends of turns down, and theirs is waited for.
        SignalKind::TurnEnd if ["gemini", "qwen"].contains(&tool) => {
            (Kind::TurnCompleted, json!({"agent_id": "", "stop_reason": "completed"}))
        }
        _ => return None,
    };
    Some(HookOnlyEvent { kind, data: Raw::from_value(&data).unwrap(), text: None })
}
