//! The editor's key-value store: one entry per conversation, with the order of its bubbles, and
//! one per bubble. An entry that changes gets a new row, so rows tell what changed.

use std::collections::VecDeque;

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ErrorRaised, Outcome, SessionMode, StepCompleted,
    TokenUsage, ToolCall, ToolResult,
};
use event::{AMENDS, Draft, EventId, Raw, Time};
use serde::{Deserialize, Serialize};

use crate::agent::Parser;
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::row_reader::{DatabaseSchema, RowQuery};
use crate::source::short_hash;
use crate::thread_state::SessionSettings;

pub(super) static SCHEMAS: &[DatabaseSchema] = &[DatabaseSchema {
    tables: &["cursorDiskKV"],
    // `composerData:` has 13 characters, hence the 14. `;` follows `:` in ASCII, so that a range of
    // keys, which the index answers, finds the bubbles of one conversation.
    sessions: "
        SELECT substr(c.key, 14) AS id, NULL AS parent, NULL AS family, NULL AS since, 'bubbles' AS way,
            0 AS active,
            c.rowid || '/' || coalesce((
                SELECT max(b.rowid) FROM cursorDiskKV b
                WHERE b.key >= 'bubbleId:' || substr(c.key, 14) || ':'
                    AND b.key < 'bubbleId:' || substr(c.key, 14) || ';'), 0) AS digest
        FROM cursorDiskKV c WHERE c.key >= 'composerData:' AND c.key < 'composerData;'
        ORDER BY c.rowid DESC",
    ways: &[RowQuery {
        name: "bubbles",
        head: None,
        // The place sorts: the conversation (0), bubbles within it (1, older versions), bubbles in
        // rows of their own (2). Text that is no JSON counts as an empty conversation. One that is
        // too long is told with its length.
        rows: "
            WITH composer AS (
                SELECT c.rowid AS number, c.key AS key, octet_length(c.value) AS bytes,
                    CASE WHEN octet_length(c.value) > :bytes THEN '{}'
                    WHEN json_valid(CAST(c.value AS TEXT)) THEN CAST(c.value AS TEXT)
                    ELSE '{}' END AS json
                FROM cursorDiskKV c WHERE c.key = 'composerData:' || :session
            )
            SELECT place AS after, key || '@' || number AS key, type, value, long_bytes FROM (
                SELECT '0' AS place, number, key, 'composer' AS type, bytes AS long_bytes,
                    json_object(
                        'name', json_extract(json, '$.name'),
                        'createdAt', json_extract(json, '$.createdAt'),
                        'model', json_extract(json, '$.modelConfig.modelName'),
                        'cwd', json_extract(json, '$.workspaceIdentifier.uri.fsPath'),
                        'parent', json_extract(json, '$.subagentInfo.parentComposerId')
                    ) AS value
                FROM composer WHERE number > :since
                UNION ALL
                SELECT printf('1%09d', h.key), c.number, c.key || '/' || h.key, 'bubble',
                    octet_length(h.value), h.value
                FROM composer c, json_each(c.json, '$.conversation') h
                WHERE c.number > :since AND h.type = 'object'
                UNION ALL
                SELECT printf('2%09d', h.key), b.rowid, b.key, 'bubble', octet_length(b.value),
                    CASE WHEN octet_length(b.value) <= :bytes THEN CAST(b.value AS TEXT) END
                FROM composer c, json_each(c.json, '$.fullConversationHeadersOnly') h
                JOIN cursorDiskKV b ON b.key = 'bubbleId:' || :session || ':'
                    || CASE h.type WHEN 'object' THEN json_extract(h.value, '$.bubbleId') END
                WHERE b.rowid > :since
            )
            WHERE place > :after",
        order: "after",
        at: None,
        json: &["value"],
        // The store has one counter for all sessions; the parameter is named because it is bound.
        newest: Some("SELECT max(rowid) FROM cursorDiskKV WHERE :session IS NOT NULL"),
    }],
}];

/// Facts of bubbles that may still change. What an older one becomes is told beside it.
const RECENT_MAX: usize = 24;

#[derive(Default)]
pub(super) struct Store {
    state: CursorStoreState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CursorStoreState {
    parent: Option<String>,
    /// Facts of bubbles: which, what it said, and its first event.
    recent: VecDeque<(String, String, EventId)>,
}

#[derive(Deserialize)]
struct CursorRow {
    #[serde(rename = "type")]
    kind: String,
    value: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Composer {
    name: Option<String>,
    created_at: Option<Raw>,
    model: Option<String>,
    cwd: Option<String>,
    parent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bubble {
    #[serde(default)]
    bubble_id: String,
    #[serde(rename = "type")]
    kind: i64,
    capability_type: Option<i64>,
    #[serde(default)]
    text: Option<String>,
    created_at: Option<Raw>,
    thinking: Option<Raw>,
    tool_former_data: Option<Tool>,
    token_count: Option<TokenCount>,
    error_details: Option<Raw>,
}

/// A call and its result in one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    tool_call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    status: Option<String>,
    raw_args: Option<Raw>,
    params: Option<Raw>,
    result: Option<Raw>,
    error: Option<Raw>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TokenCount {
    input_tokens: u64,
    output_tokens: u64,
}

const USER: i64 = 1;
const ASSISTANT: i64 = 2;
/// What a bubble stands for beside words.
const COMPACTION: i64 = 22;

impl Store {
    pub(super) fn new(saved: Option<&str>) -> Store {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Store { state }
    }
}

impl Parser for Store {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let row: CursorRow = match record.read() {
            Ok(row) => row,
            Err(error) => return builder.add_unknown(record, "row", Some(&error.to_string())),
        };
        // The conversation's own row comes first and only when it changed, so the parent is kept.
        if let Some(parent) = &self.state.parent {
            builder.set_parent(parent, SessionMode::Child, None);
        }
        let value = row.value.filter(|value| !value.is_null());
        let Some(value) = value else { return builder.count_silent() };
        let known = match row.kind.as_str() {
            "composer" => value.read().map(|composer| self.composer(composer, builder)),
            _ => value.read().map(|bubble| self.parse_bubble(&bubble, builder)),
        };
        match known {
            Ok(true) => {}
            Ok(false) => builder.add_unknown(record, &row.kind, None),
            Err(error) => builder.add_unknown(record, &row.kind, Some(&error.to_string())),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl Store {
    fn composer(&mut self, composer: Composer, builder: &mut EventBuilder<'_>) -> bool {
        let Composer { name, created_at, model, cwd, parent } = composer;
        if let Some(parent) = parent {
            builder.set_parent(&parent, SessionMode::Child, None);
            self.state.parent = Some(parent);
        }
        let at = created_at.as_ref().and_then(parse_time);
        builder.settings(
            at,
            SessionSettings { title: name, model, cwd, ..SessionSettings::default() },
        );
        builder.count_silent();
        true
    }

    /// One bubble. Whether its type is known.
    fn parse_bubble(&mut self, bubble: &Bubble, builder: &mut EventBuilder<'_>) -> bool {
        let at = bubble.created_at.as_ref().and_then(parse_time);
        let id = bubble.bubble_id.as_str();
        let text = bubble.text.as_deref().unwrap_or_default();
        match bubble.kind {
            USER if text.trim().is_empty() => builder.count_silent(),
            USER => self.add_prompt(id, text, at, builder),
            ASSISTANT if bubble.capability_type == Some(COMPACTION) => {
                let summary = Some(text.to_owned()).filter(|text| !text.is_empty());
                if self.is_new(id, "compaction") {
                    let identity = EventIdentity::in_session(&["compaction", id]);
                    let event = builder.compacted(identity, at, summary, None);
                    self.remember(id, "compaction", "", event);
                }
            }
            ASSISTANT => self.add_answer(bubble, at, builder),
            _ => return false,
        }
        true
    }

    fn add_prompt(
        &mut self,
        id: &str,
        text: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        if self.state.parent.is_some() {
            self.add_fact(id, "prompt", text, builder, |identity, builder| {
                builder.add_context(identity, at, None, text.to_owned())
            });
            return;
        }
        builder.turn_opened(Some(id));
        self.add_fact(id, "prompt", text, builder, |identity, builder| {
            builder.add_prompt(identity, at, Content::text(text))
        });
    }

    fn add_answer(&mut self, bubble: &Bubble, at: Option<Time>, builder: &mut EventBuilder<'_>) {
        let id = bubble.bubble_id.as_str();
        let mut block = 0;
        let thinking = bubble.thinking.as_ref().map(thought_text).unwrap_or_default();
        if !thinking.is_empty() {
            let event = AssistantThinking {
                message_id: id.to_owned(),
                block,
                thinking: thinking.clone(),
                ..AssistantThinking::default()
            };
            self.add_fact(id, "thinking", &thinking, builder, |identity, builder| {
                builder.thinking(identity, at, &event)
            });
            block += 1;
        }
        let text = bubble.text.as_deref().unwrap_or_default();
        if !text.trim().is_empty() {
            let event = AssistantMessage {
                message_id: id.to_owned(),
                block,
                content: Content::text(text),
                ..AssistantMessage::default()
            };
            self.add_fact(id, "message", text, builder, |identity, builder| {
                builder.add_message(identity, at, &event)
            });
            block += 1;
        }
        if let Some(tool) = &bubble.tool_former_data {
            self.add_tool(id, block, tool, at, builder);
        }
        if let Some(error) = bubble.error_details.as_ref().filter(|error| !error.is_null()) {
            let message = error.text().unwrap_or_else(|| error.get().to_owned());
            let raised = ErrorRaised { message: message.clone(), ..ErrorRaised::default() };
            self.add_fact(id, "error", &message, builder, |identity, builder| {
                builder.add_error(identity, at, &raised)
            });
        }
        // What is not recorded is zero here.
        let counted = bubble.token_count.as_ref();
        let counted = counted.filter(|count| count.input_tokens > 0 || count.output_tokens > 0);
        if let Some(count) = counted {
            let usage = TokenUsage {
                input_tokens: Some(count.input_tokens),
                output_tokens: Some(count.output_tokens),
                ..TokenUsage::default()
            };
            let said = format!("{}/{}", count.input_tokens, count.output_tokens);
            let step = StepCompleted {
                model: builder.known_settings().model.clone(),
                response_id: Some(id.to_owned()),
                usage: Some(usage),
                ..StepCompleted::default()
            };
            self.add_fact(id, "step", &said, builder, |identity, builder| {
                builder.add_event(identity, at, &step)
            });
        }
    }

    fn add_tool(
        &mut self,
        id: &str,
        block: u32,
        tool: &Tool,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // A bubble holds one call: without an id it is known by the bubble.
        let call_id = tool.tool_call_id.clone().unwrap_or(id.to_owned());
        let name = tool.name.clone().unwrap_or_default();
        let input = tool.raw_args.as_ref().or(tool.params.as_ref()).map(embedded);
        let call = ToolCall {
            call_id: call_id.clone(),
            tool: name.clone(),
            input: input.unwrap_or_default(),
            message_id: id.to_owned(),
            block,
            ..ToolCall::default()
        };
        // Arguments grow while the model writes them; the call is told when it is made.
        let outcome = match tool.status.as_deref().unwrap_or_default() {
            "completed" | "success" => Some(Outcome::Ok),
            "error" | "failed" => Some(Outcome::Error),
            "rejected" => Some(Outcome::Rejected),
            "cancelled" | "canceled" | "aborted" => Some(Outcome::Canceled),
            _ => None,
        };
        let said = call.input.get().to_owned();
        self.add_fact(id, "call", &said, builder, |identity, builder| {
            builder.add_call(identity, at, &call)
        });
        // It still runs, or waits for the user.
        let Some(outcome) = outcome else { return };
        let result = ToolResult {
            call_id,
            tool: Some(name),
            outcome,
            output: tool.result.as_ref().map(embedded).filter(|output| !output.is_null()),
            error: tool.error.as_ref().and_then(|error| embedded(error).text()),
            ..ToolResult::default()
        };
        let said = Raw::from_value(&result).expect("payloads encode").get().to_owned();
        self.add_fact(id, "result", &said, builder, |identity, builder| {
            builder.add_result(identity, at, &result)
        });
    }

    /// Tells a fact of a bubble. What it says now stands in for what it said before.
    fn add_fact<'t, 's>(
        &mut self,
        id: &str,
        fact: &str,
        said: &str,
        builder: &'t mut EventBuilder<'s>,
        tell: impl FnOnce(EventIdentity, &'t mut EventBuilder<'s>) -> &'t mut Draft,
    ) {
        let said = short_hash(&[said]);
        let name = short_hash(&[id, fact]);
        let known = self.state.recent.iter().find(|known| known.0 == name).cloned();
        // The row was written again, and this fact stayed as it was.
        if known.as_ref().is_some_and(|known| known.1 == said) {
            return builder.count_silent();
        }
        // What it says is part of the identity: a change is another event, which amends the first.
        let identity = EventIdentity::in_session(&[fact, id, &said]);
        let draft = tell(identity, builder);
        if let Some((_, _, first)) = known {
            let first = Raw::from_value(&first).expect("an id encodes");
            draft.metadata.insert(AMENDS.to_owned(), first);
        }
        let event = draft.id;
        self.remember(id, fact, &said, event);
    }

    fn is_new(&self, id: &str, fact: &str) -> bool {
        let name = short_hash(&[id, fact]);
        self.state.recent.iter().all(|known| known.0 != name)
    }

    fn remember(&mut self, id: &str, fact: &str, said: &str, event: EventId) {
        let name = short_hash(&[id, fact]);
        let recent = &mut self.state.recent;
        match recent.iter_mut().find(|known| known.0 == name) {
            // It is always the first one that is stood in for.
            Some(known) => known.1 = said.to_owned(),
            None => {
                if recent.len() == RECENT_MAX {
                    recent.pop_front();
                }
                recent.push_back((name, said.to_owned(), event));
            }
        }
    }
}

/// A thought is a text, or has one.
fn thought_text(thinking: &Raw) -> String {
    #[derive(Deserialize)]
    struct Thought {
        #[serde(default)]
        text: String,
    }
    let text = thinking.text();
    text.or_else(|| thinking.read::<Thought>().ok().map(|thought| thought.text)).unwrap_or_default()
}

/// JSON that was put into a text.
fn embedded(raw: &Raw) -> Raw {
    match raw.text() {
        Some(text) if text.is_empty() => Raw::null(),
        // A text that is no JSON stays the text it is.
        Some(text) => Raw::parse(text).unwrap_or_else(|_| raw.clone()),
        None => raw.clone(),
    }
}

/// Milliseconds, or a time as text.
fn parse_time(raw: &Raw) -> Option<Time> {
    let text = raw.text();
    text.and_then(|text| text.parse().ok()).or_else(|| raw.read().ok().map(Time::from_millis))
}
