//! Logs to fold, written down in a few words.

use event::{AMENDS, Draft, Event, EventId, FORK_ORIGIN, Kind, Raw, SessionId, Time};
use projection::{Chronicle, Projection};
use serde_json::{Value, json};

/// A log that grows by one event at a time, a second apart from the one before.
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) at: Time,
}

impl Log {
    /// Begins on the day all logs here begin on.
    pub(crate) fn new() -> Log {
        Log { events: Vec::new(), at: "2026-11-16T08:00:00Z".parse().unwrap() }
    }

    /// A session that works in a folder, as most do.
    pub(crate) fn started() -> Log {
        let mut log = Log::new();
        log.add("session.started", json!({"agent": "claude", "cwd": "/home/dev/app"}));
        log
    }

    /// The chapters of the whole log, the last one included.
    pub(crate) fn chronicle(&self) -> Chronicle {
        let mut chronicle = Chronicle::default();
        self.events.iter().for_each(|event| chronicle.apply(event));
        chronicle.flush();
        chronicle
    }

    /// Adds an event; what is returned can still be changed.
    pub(crate) fn add(&mut self, kind: &str, data: Value) -> &mut Event {
        let seq = self.events.len() as u64 + 1;
        self.at = Time::from_nanos(self.at.nanos() + 1_000_000_000);
        let id = EventId::derived(self.at, "claude", "s", &seq.to_be_bytes());
        let session_id = SessionId::new("claude:s").unwrap();
        let data = Raw::from_value(&data).unwrap();
        let draft = Draft::with_data(id, session_id, self.at, Kind::from(kind), data);
        self.events.push(draft.with_seq(seq));
        self.events.last_mut().unwrap()
    }

    pub(crate) fn prompt(&mut self, text: &str) -> &mut Event {
        self.add("user.prompt", json!({"content": text}))
    }

    pub(crate) fn queued(&mut self, text: &str) -> &mut Event {
        self.add("user.prompt", json!({"content": text, "queued": true}))
    }

    pub(crate) fn say(&mut self, message_id: &str, text: &str) -> &mut Event {
        self.add(
            "assistant.message",
            json!({"message_id": message_id, "block": 0, "content": text}),
        )
    }

    /// A call whose id is the number of its event.
    pub(crate) fn call(&mut self, tool: &str, input: Value) -> String {
        let call_id = format!("c{}", self.events.len() + 1);
        let data = json!({"call_id": call_id, "tool": tool, "input": input,
            "message_id": format!("m{call_id}"), "block": 0});
        self.add("tool.call", data);
        call_id
    }

    pub(crate) fn result(&mut self, call_id: &str, outcome: &str) -> &mut Event {
        self.add("tool.result", json!({"call_id": call_id, "outcome": outcome, "output": "done"}))
    }

    pub(crate) fn fail(&mut self, call_id: &str, output: &str) -> &mut Event {
        self.add("tool.result", json!({"call_id": call_id, "outcome": "error", "output": output}))
    }

    /// A call and its result.
    pub(crate) fn use_tool(&mut self, tool: &str, input: Value) {
        let call_id = self.call(tool, input);
        self.result(&call_id, "ok");
    }

    pub(crate) fn step(&mut self, model: &str, input: u64, output: u64) -> &mut Event {
        let usage = json!({"input_tokens": input, "output_tokens": output});
        self.add("step.completed", json!({"agent_id": "a", "model": model, "usage": usage}))
    }

    pub(crate) fn end(&mut self, stop_reason: &str) -> &mut Event {
        self.add("turn.completed", json!({"agent_id": "a", "stop_reason": stop_reason}))
    }
}

/// Marks an event as a fuller account of another.
pub(crate) fn amends(event: &mut Event, amended: EventId) {
    event.draft.metadata.insert(AMENDS.to_owned(), Raw::from_value(&amended).unwrap());
}

/// Marks an event as inherited from another session.
pub(crate) fn inherited(event: &mut Event) {
    let origin = json!({"session_id": "claude:parent", "event_id": event.id});
    event.draft.metadata.insert(FORK_ORIGIN.to_owned(), Raw::from_value(&origin).unwrap());
}
