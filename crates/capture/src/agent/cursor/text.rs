//! Cursor's older transcripts: text in blocks, with a mark in front of each.

use event::payload::{AssistantMessage, AssistantThinking, Content, ToolCall, ToolResult};
use event::{Confidence, Raw, Time};
use serde::{Deserialize, Serialize};

use super::lines::tell_prompt;
use crate::agent::Parser;
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;

/// Calls that wait for their result. Of more, the oldest stay without one.
const OPEN_CALLS_MAX: usize = 16;

#[derive(Default)]
pub(super) struct CursorText {
    state: CursorTextState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CursorTextState {
    at: Option<Time>,
    /// What the last block was: text that has no mark goes on with it.
    last: CursorKind,
    /// Tool and id of calls without result.
    open: Vec<(String, String)>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
enum CursorKind {
    /// Before the first mark.
    #[default]
    Head,
    User,
    Assistant,
    Thinking,
    Call,
    Result,
}

const MARKS: &[(&str, CursorKind)] = &[
    ("user:", CursorKind::User),
    ("assistant:", CursorKind::Assistant),
    ("[Thinking]", CursorKind::Thinking),
    ("[Tool call]", CursorKind::Call),
    ("[Tool result]", CursorKind::Result),
];

const THINK: (&str, &str) = ("<think>", "</think>");

impl CursorText {
    pub(super) fn new(saved: Option<&str>) -> CursorText {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        CursorText { state }
    }
}

impl Parser for CursorText {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let marked = MARKS.iter().find_map(|(mark, kind)| {
            let rest = record.text.strip_prefix(mark)?;
            Some((rest.trim(), *kind))
        });
        // Text without a mark goes on with the block before it.
        let (text, kind) = marked.unwrap_or((record.text.trim(), self.state.last));
        self.state.last = kind;
        match kind {
            _ if text.is_empty() => builder.count_silent(),
            CursorKind::Head => {
                let identity = EventIdentity::in_session(&["head", &builder.record_name()]);
                builder.add_context(identity, self.state.at, None, text.to_owned());
            }
            CursorKind::User => tell_prompt(text, false, &mut self.state.at, builder),
            CursorKind::Assistant => self.assistant(text, builder),
            CursorKind::Thinking => self.thinking(text, 0, builder),
            CursorKind::Call => self.parse_call(text, builder),
            CursorKind::Result => self.parse_result(text, marked.is_some(), builder),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl CursorText {
    /// Words, and thoughts between their tags. A tag that is not closed ends with the block.
    fn assistant(&mut self, text: &str, builder: &mut EventBuilder<'_>) {
        let mut block = 0;
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(THINK.0) {
            self.add_message(before, &mut block, builder);
            let (thought, behind) = after.split_once(THINK.1).unwrap_or((after, ""));
            self.thinking(thought.trim(), block, builder);
            block += 1;
            rest = behind;
        }
        self.add_message(rest, &mut block, builder);
    }

    fn add_message(&self, text: &str, block: &mut u32, builder: &mut EventBuilder<'_>) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let message_id = builder.record_name();
        let identity = EventIdentity::in_session(&["message", &message_id, &block.to_string()]);
        let message = AssistantMessage {
            message_id,
            block: *block,
            content: Content::text(text),
            ..AssistantMessage::default()
        };
        builder.add_message(identity, self.state.at, &message);
        *block += 1;
    }

    fn thinking(&self, text: &str, block: u32, builder: &mut EventBuilder<'_>) {
        let message_id = builder.record_name();
        let identity = EventIdentity::in_session(&["thinking", &message_id, &block.to_string()]);
        let thinking = AssistantThinking {
            message_id,
            block,
            thinking: text.to_owned(),
            ..AssistantThinking::default()
        };
        builder.thinking(identity, self.state.at, &thinking);
    }

    /// The name on the first line, then `key: value`, a value on as many lines as it takes.
    fn parse_call(&mut self, text: &str, builder: &mut EventBuilder<'_>) {
        let (tool, rest) = text.split_once('\n').unwrap_or((text, ""));
        let tool = tool.trim().to_owned();
        let call_id = builder.record_name();
        let call = ToolCall {
            call_id: call_id.clone(),
            tool: tool.clone(),
            input: arguments(rest),
            message_id: call_id.clone(),
            ..ToolCall::default()
        };
        let identity = EventIdentity::in_session(&["call", &call_id]);
        // Marks are not escaped, so that a file which quotes one looks like a call.
        builder.add_call(identity, self.state.at, &call).confidence = Confidence::Medium;
        if self.state.open.len() == OPEN_CALLS_MAX {
            self.state.open.remove(0);
        }
        self.state.open.push((tool, call_id));
    }

    /// All text up to the next mark, for the first open call of that name.
    fn parse_result(&mut self, text: &str, is_marked: bool, builder: &mut EventBuilder<'_>) {
        let (tool, output) = match text.split_once('\n') {
            _ if !is_marked => ("", text),
            Some((tool, output)) => (tool.trim(), output),
            None => (text, ""),
        };
        let open = &mut self.state.open;
        // Results name the tool only. Those of one name come in the order of their calls.
        let place =
            open.iter().position(|(name, _)| name == tool).or((!open.is_empty()).then_some(0));
        let call = place.map(|place| open.remove(place));
        let (tool, call_id) = call.unwrap_or((tool.to_owned(), String::new()));
        let result = ToolResult {
            call_id,
            tool: Some(tool).filter(|tool| !tool.is_empty()),
            output: Some(Raw::from_value(output.trim_end()).expect("a text encodes")),
            ..ToolResult::default()
        };
        let identity = EventIdentity::in_session(&["result", &builder.record_name()]);
        builder.add_result(identity, self.state.at, &result).confidence = Confidence::Medium;
    }
}

fn arguments(text: &str) -> Raw {
    let mut arguments: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        // A value stands behind its name, or on the lines below it.
        let named = line.trim_start().split_once(": ").or(line.trim().split_once(':'));
        // Values contain colons, too: only a plain word is a name.
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match (named, arguments.last_mut()) {
            (Some((name, value)), _) if is_name(name) => {
                arguments.push((name.to_owned(), value.trim_start().to_owned()));
            }
            (_, Some((_, value))) => {
                value.push('\n');
                value.push_str(line);
            }
            _ => {}
        }
    }
    let map = arguments.into_iter().map(|(name, value)| (name, value.trim_end().into()));
    let map: serde_json::Map<String, serde_json::Value> = map.collect();
    Raw::from_value(&map).expect("texts encode")
}
