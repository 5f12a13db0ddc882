//! What hooks told, as events: the calls of a recording, read and remembered as the daemon does.

use std::fs;
use std::path::Path;

use capture::{Heard, HookMemory, HookOnlyEvent, Payload, SignalKind, hook_only_events, hooked};
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
    let Some(hooked) = hooked(tool, &call.event, &payload) else { return Vec::new() };
    let at = time(call.t);
    let heard = Heard {
        name: &number.to_string(),
        provider: tool,
        session: &hooked.session,
        transcript: None,
        at,
        source: &event::Source::Hook,
        sign: hooked.sign,
        facts: &hooked.facts,
    };
    let mut untold = hook_only_events(&heard, memory);
    untold.extend(hooked.sign.and_then(|sign| said(sign, tool)));
    let session_id = SessionId::new(format!("{tool}:{}", hooked.session)).unwrap();
    let events = untold.into_iter().enumerate().map(|(place, HookOnlyEvent { kind, data, .. })| {
        let key = [number.to_be_bytes(), place.to_be_bytes()].concat();
        let id = EventId::derived(at, "hook", &hooked.session, &key);
        let mut draft = Draft::with_data(id, session_id.clone(), at, kind, data);
        draft.provider = tool.to_owned();
        draft.source = Source::Hook;
        draft.with_seq(0)
    });
    events.collect()
}

/// What a signal comes to while the files are silent about it.
fn said(sign: SignalKind, tool: &str) -> Option<HookOnlyEvent> {
    let (kind, data) = match sign {
        SignalKind::Stop => (Kind::SessionExited, json!({})),
        // The others write ends of turns down, and theirs is waited for.
        SignalKind::TurnEnd if ["gemini", "qwen"].contains(&tool) => {
            (Kind::TurnCompleted, json!({"agent_id": "", "stop_reason": "completed"}))
        }
        _ => return None,
    };
    Some(HookOnlyEvent { kind, data: Raw::from_value(&data).unwrap(), text: None })
}
