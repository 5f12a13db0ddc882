//! Sessions written down in a few words, and views printed as text.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContextAdded, ContextKind, Outcome, Payload,
    Placement, ToolCall, ToolResult, ToolStarted, UserPrompt,
};
use event::{AMENDS, Draft, Event, EventId, Kind, Raw, SessionId, Time};
use journal::ReadError;
use session::builder::ViewBuilder;
use session::view::{EffectiveView, EventLog, HistoryEntry, Role, View, ViewOptions};

/// A session in memory. Events are numbered as they are written; each method answers with the
/// number.
#[derive(Clone, Default)]
pub(crate) struct TestLog {
    pub(crate) events: Vec<Event>,
}

impl EventLog for TestLog {
    fn read(
        &self,
        from_seq: u64,
        to_seq: u64,
        each: &mut dyn FnMut(&Event),
    ) -> Result<(), ReadError> {
        let wanted = |event: &&Event| (from_seq..=to_seq).contains(&event.seq);
        self.events.iter().filter(wanted).for_each(each);
        Ok(())
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        Ok(self.events.iter().find(|event| event.id == id).map(|event| event.seq))
    }
}

/// The id that the event at `seq` has, or would have.
pub(crate) fn id_at(seq: u64) -> EventId {
    let mut tail = [0; 10];
    tail[2..].copy_from_slice(&seq.to_be_bytes());
    EventId::new(time_at(seq), tail)
}

/// One second per event.
pub(crate) fn time_at(seq: u64) -> Time {
    Time::from_millis(seq as i64 * 1_000)
}

impl TestLog {
    pub(crate) fn new() -> TestLog {
        TestLog::default()
    }

    pub(crate) fn tail(&self) -> u64 {
        self.events.len() as u64
    }

    /// Any payload of a known kind.
    pub(crate) fn add<P: Payload>(&mut self, payload: &P) -> u64 {
        self.raw(P::KIND, Raw::from_value(payload).unwrap().get())
    }

    /// Any JSON under any kind, fitting or not.
    pub(crate) fn raw(&mut self, kind: Kind, json: &str) -> u64 {
        let seq = self.tail() + 1;
        let session_id = SessionId::new("s").unwrap();
        let data = Raw::parse(json).unwrap();
        let draft = Draft::with_data(id_at(seq), session_id, time_at(seq), kind, data);
        self.events.push(draft.with_seq(seq));
        seq
    }

    pub(crate) fn prompt(&mut self, text: &str) -> u64 {
        self.add(&UserPrompt::text(text))
    }

    /// A prompt that continues after an earlier event.
    pub(crate) fn prompt_after(&mut self, parent_seq: u64, text: &str) -> u64 {
        let seq = self.prompt(text);
        self.last().parent_id = Some(id_at(parent_seq));
        seq
    }

    pub(crate) fn message(&mut self, message_id: &str, block: u32, text: &str) -> u64 {
        self.add(&AssistantMessage {
            message_id: message_id.to_owned(),
            block,
            content: Content::text(text),
            ..AssistantMessage::default()
        })
    }

    pub(crate) fn thinking(&mut self, message_id: &str, block: u32, text: &str) -> u64 {
        self.add(&AssistantThinking {
            message_id: message_id.to_owned(),
            block,
            thinking: text.to_owned(),
            ..AssistantThinking::default()
        })
    }

    pub(crate) fn call(&mut self, message_id: &str, block: u32, call_id: &str) -> u64 {
        self.call_tool(message_id, block, call_id, "run", "{}")
    }

    pub(crate) fn call_tool(
        &mut self,
        message_id: &str,
        block: u32,
        call_id: &str,
        tool: &str,
        input: &str,
    ) -> u64 {
        self.add(&ToolCall {
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            input: Raw::parse(input).unwrap(),
            message_id: message_id.to_owned(),
            block,
            ..ToolCall::default()
        })
    }

    pub(crate) fn started(&mut self, call_id: &str, key: &str) -> u64 {
        self.add(&ToolStarted {
            call_id: call_id.to_owned(),
            tool: "run".to_owned(),
            idempotency_key: key.to_owned(),
            effect: event::payload::Effect::ReplaySafe,
        })
    }

    pub(crate) fn result(&mut self, call_id: &str, output: &str) -> u64 {
        self.add(&result(call_id, output))
    }

    pub(crate) fn context(&mut self, kind: ContextKind, text: &str) -> u64 {
        self.context_placed(kind, None, text)
    }

    pub(crate) fn context_placed(
        &mut self,
        kind: ContextKind,
        placement: Option<Placement>,
        text: &str,
    ) -> u64 {
        self.add(&ContextAdded {
            kind: Some(kind),
            placement,
            content: Content::text(text),
            covers: None,
        })
    }

    /// Something the model is not shown.
    pub(crate) fn fact(&mut self) -> u64 {
        self.raw(Kind::StatusChanged, r#"{"status":"idle","reason":"quiet"}"#)
    }

    /// Makes the last event a fuller account of an earlier one.
    pub(crate) fn amending(&mut self, seq: u64) -> u64 {
        self.last().metadata.insert(AMENDS.to_owned(), Raw::from_value(&id_at(seq)).unwrap());
        self.tail()
    }

    pub(crate) fn last(&mut self) -> &mut Draft {
        &mut self.events.last_mut().expect("an event was added").draft
    }
}

pub(crate) fn result(call_id: &str, output: &str) -> ToolResult {
    ToolResult {
        call_id: call_id.to_owned(),
        tool: None,
        idempotency_key: None,
        outcome: Outcome::Ok,
        output: Some(Raw::from_value(&output).unwrap()),
        ..ToolResult::default()
    }
}

/// A view as text: its base, one line per entry, one per repair.
pub(crate) fn render(view: &EffectiveView) -> String {
    let mut lines = Vec::new();
    if let Some(base_seq) = view.base_seq() {
        lines.push(format!("base {base_seq}"));
    }
    lines.extend(view.entries().map(|entry| render_entry(entry)));
    let mut repairs: Vec<(u64, String)> =
        view.repairs().map(|repair| (repair.seq, repair.why.to_string())).collect();
    repairs.sort();
    lines.extend(repairs.iter().map(|(seq, why)| format!("! {seq} {why}")));
    lines.join("\n") + "\n"
}

fn render_entry(entry: &HistoryEntry) -> String {
    let mut line = match entry.seq {
        Some(seq) => format!("{seq} "),
        None => "- ".to_owned(),
    };
    line.push_str(match entry.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    });
    if let (Some(kind), Some(placement)) = (&entry.context_kind, &entry.placement) {
        line.push_str(&format!(" ({kind}, {placement})"));
    }
    if let Some(note) = &entry.note {
        line.push_str(&format!(" [{} {} {}", note.call_id, note.name, note.input.get()));
        if let Some(key) = &note.idempotency_key {
            line.push_str(&format!(" key={key}"));
        }
        if note.is_error {
            line.push_str(" failed");
        }
        line.push(']');
    }
    for thinking in &entry.thinking {
        line.push_str(&format!(" <{}>", thinking.thinking));
    }
    for part in &entry.content.0 {
        match &part.text {
            Some(text) => line.push_str(&format!(" {text:?}")),
            None => line.push_str(&format!(" {}", part.kind)),
        }
    }
    for call in &entry.calls {
        line.push_str(&format!(" -> {}", call.call_id));
    }
    line
}

/// Both views of a log, which must be one; printed.
pub(crate) fn shown(log: &TestLog) -> String {
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, log).unwrap();
    }
    let maintained = render(view.effective(log).unwrap());
    let built = render(&ViewBuilder::default().build(&log.events).unwrap());
    assert_eq!(maintained, built);
    built
}
