//! Goose: a database of sessions, and before it files of lines.
//!
//! A conversation is rewritten under new row ids from time to time, so a message is known by its
//! role, its time, its words, and how many equal ones came before.

mod recent; // the last messages, to know them again
mod record; // rows and lines

use std::path::Path;

use event::payload::{
    ApprovalRequested, AssistantMessage, AssistantThinking, Content, ContentPart, ContextKind,
    ExternalInput, InputStatus, Outcome, StepCompleted, TokenUsage, ToolCall, ToolResult,
};
use event::{AMENDS, EventId, Raw, Time};
use serde::{Deserialize, Serialize};

use self::recent::{GooseNovelty, GooseRecent};
use self::record::{Action, GooseBlock, GooseMessage, GooseSession};
use crate::agent::{Agent, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot};
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::row_reader::{DatabaseSchema, RowQuery};
use crate::source::{Source, short_hash};
use crate::thread_state::SessionSettings;

pub struct Goose;

impl Agent for Goose {
    fn provider(&self) -> &'static str {
        "goose"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let data = match environment.absolute("GOOSE_PATH_ROOT") {
            Some(root) => root.join("data"),
            None => environment.data_folder("goose"),
        };
        vec![SourceRoot { path: data.join("sessions"), depth_max: 0 }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let name = path.to_str().filter(|name| !name.contains('/'))?;
        let (session, form) = match name.rsplit_once('.')? {
            ("sessions", "db") => ("sessions", SourceForm::Rows),
            (stem, "jsonl") => (stem, SourceForm::Lines),
            _ => return None,
        };
        Some(RecognizedSource { form, session: session.to_owned(), role: SourceRole::Main })
    }

    /// The database took over what the files had.
    fn form_rank(&self, form: SourceForm) -> u8 {
        u8::from(form != SourceForm::Rows)
    }

    fn database_schemas(&self) -> &'static [DatabaseSchema] {
        SCHEMAS
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        let command = ["goose", "session", "--resume", "--session-id", session];
        Some(command.map(str::to_owned).to_vec())
    }

    fn create_parser(&self, _source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(GooseParser { state })
    }
}

static SCHEMAS: &[DatabaseSchema] = &[DatabaseSchema {
    tables: &["sessions", "messages"],
    // The digest changes with every row and every total, so that an unchanged session is not read.
    // Ids are unique in one database only (`YYYYMMDD_n`).
    sessions: "
        SELECT s.id AS id, NULL AS parent, NULL AS family, NULL AS since, 'messages' AS way,
            coalesce(CAST(strftime('%s', s.updated_at) AS INTEGER) * 1000, 0) AS active,
            coalesce(s.updated_at, '') || '/' || coalesce(s.accumulated_total_tokens, 0)
            || '/' || (
                SELECT count(*) || '/' || coalesce(max(m.id), 0)
                FROM messages m WHERE m.session_id = s.id) AS digest
        FROM sessions s ORDER BY s.created_at DESC, s.id DESC",
    ways: &[RowQuery {
        name: "messages",
        head: Some("SELECT 'session' AS type, s.* FROM sessions s WHERE s.id = :session"),
        // Equal messages of one second stand close together. Lengths are compared first, because
        // SQLite knows them without loading what may be long.
        rows: "
            SELECT printf('%019d', m.id) AS after, 'message ' || m.id AS key,
                'message' AS type,
                (SELECT max(p.id) FROM messages p
                    WHERE p.session_id = m.session_id AND p.id < m.id) AS previous,
                (SELECT count(*) FROM messages e
                    WHERE e.id BETWEEN m.id - 100 AND m.id - 1
                        AND e.session_id = m.session_id
                        AND octet_length(e.role) = octet_length(m.role) AND e.role = m.role
                        AND e.created_timestamp = m.created_timestamp
                        AND octet_length(e.content_json) = octet_length(m.content_json)
                        AND e.content_json = m.content_json) AS occurrence,
                m.*
            FROM messages m
            WHERE m.session_id = :session AND m.id > :since AND printf('%019d', m.id) > :after",
        order: "id",
        at: None,
        json: &["content_json", "metadata_json", "model_config_json"],
        newest: Some("SELECT max(id) FROM messages WHERE session_id = :session"),
    }],
}];

struct GooseParser {
    state: GooseState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct GooseState {
    /// It works for another session.
    is_child: bool,
    recent: GooseRecent,
    answer: GooseAnswer,
    /// The last prompt, and whether the history was replaced since.
    prompt: String,
    is_compacted: bool,
    usage: Option<EventId>,
    usage_said: String,
}

/// The answer that may still grow: rows of one answer share its id.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct GooseAnswer {
    id: String,
    blocks: u32,
}

/// One message, what it is known by, and where it stands.
struct GooseMessageRef<'m> {
    message: &'m GooseMessage,
    blocks: &'m [GooseBlock],
    key: &'m str,
    record: &'m SourceRecord<'m>,
}

const DECLINED: &str = "The user has declined to run this tool";
/// From here on a number is milliseconds: as seconds it would be the year 5138.
const SECONDS_MAX: i64 = 100_000_000_000;

impl Parser for GooseParser {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        #[derive(Deserialize)]
        struct Names {
            role: Option<serde::de::IgnoredAny>,
        }
        // Sessions and messages have no types: only messages have a role.
        let is_message = record.read::<Names>().is_ok_and(|names| names.role.is_some());
        if is_message {
            match record.read() {
                Ok(message) => self.parse_message(&message, record, builder),
                Err(error) => builder.add_unknown(record, "message", Some(&error.to_string())),
            }
        } else {
            match record.read() {
                Ok(session) => self.parse_session(&session, builder),
                Err(error) => builder.add_unknown(record, "session", Some(&error.to_string())),
            }
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl GooseParser {
    fn parse_session(&mut self, session: &GooseSession, builder: &mut EventBuilder<'_>) {
        #[derive(Deserialize)]
        struct Model {
            model_name: Option<String>,
        }
        let at = session.updated_at.as_deref().and_then(parse_time);
        let kind = session.session_type.clone();
        self.state.is_child = kind.as_deref() == Some("sub_agent");
        let titles = [&session.name, &session.description];
        let title = titles.into_iter().flatten().find(|title| !title.trim().is_empty());
        let model = session.model_config_json.as_ref().and_then(|model| model.read().ok());
        let news = SessionSettings {
            cwd: session.working_dir.clone(),
            title: title.cloned(),
            model: model.and_then(|model: Model| model.model_name),
            permission_mode: session.goose_mode.clone(),
            entry_point: kind,
            ..SessionSettings::default()
        };
        builder.settings(at, news);
        self.parse_usage(session, at, builder);
    }

    /// Only sums are recorded: what the session has used by now stands in for what it had.
    fn parse_usage(
        &mut self,
        session: &GooseSession,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // 1.52.0 has a `usage_ledger` with a row per call as well, which is not read.
        let usage = TokenUsage {
            input_tokens: session.accumulated_input_tokens,
            output_tokens: session.accumulated_output_tokens,
            total_tokens: session.accumulated_total_tokens,
            ..TokenUsage::default()
        };
        let said = Raw::from_value(&usage).expect("usage encodes");
        let is_news = usage != TokenUsage::default() && self.state.usage_said != said.get();
        if !is_news {
            return builder.count_silent();
        }
        let model = builder.known_settings().model.clone();
        let step = StepCompleted { model, usage: Some(usage), ..StepCompleted::default() };
        let draft = builder.add_event(EventIdentity::in_session(&["usage", said.get()]), at, &step);
        // An amendment of the first: sums must not be added up.
        if let Some(first) = &self.state.usage {
            draft
                .metadata
                .insert(AMENDS.to_owned(), Raw::from_value(first).expect("an id encodes"));
        }
        self.state.usage.get_or_insert(draft.id);
        self.state.usage_said = said.get().to_owned();
    }

    fn parse_message(
        &mut self,
        message: &GooseMessage,
        record: &SourceRecord<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let blocks: Vec<GooseBlock> = match message.content.read() {
            Ok(blocks) => blocks,
            Err(error) => return builder.add_unknown(record, "content", Some(&error.to_string())),
        };
        // The query has counted the equal rows in front of this one.
        let key = match message.row_number() {
            Some(_) => message_key(message, &blocks, message.occurrence),
            // Lines do not say how many equal ones came before.
            None => self.state.recent.first_free(|before| message_key(message, &blocks, before)),
        };
        builder.name_record(&key);
        let at = Some(unix_time(message.created));
        match self.state.recent.classify(&key, message) {
            GooseNovelty::Before => return builder.count_silent(),
            GooseNovelty::New => {}
            GooseNovelty::After(event) => {
                let identity = EventIdentity::in_session(&["rewind", &key]);
                builder.add_rewind(identity, at, event);
            }
        }
        let said = GooseMessageRef { message, blocks: &blocks, key: &key, record };
        let event = match message.role.as_str() {
            "user" => self.parse_user(&said, builder),
            "assistant" => self.assistant(&said, builder),
            role => {
                builder.add_unknown(record, role, None);
                None
            }
        };
        // Also a message without an event: the next row follows it.
        self.state.recent.push(key, message, event);
    }

    /// What stands on the user's side. The last event it gave.
    fn parse_user(
        &mut self,
        said: &GooseMessageRef<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Option<EventId> {
        let GooseMessageRef { message, blocks, key, record } = *said;
        let at = Some(unix_time(message.created));
        let mut last = None;
        let mut pieces = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let identity = EventIdentity::in_session(&[key, &number.to_string()]);
            match block.kind.as_str() {
                "text" => pieces.push(content_part("text", Some(&block.text), None)),
                "image" => pieces.push(content_part("image", None, block.mime_type.as_deref())),
                "toolResponse" => {
                    last = Some(builder.add_result(identity, at, &tool_result(block)).id)
                }
                "actionRequired" => last = parse_action(block, identity, at, builder).or(last),
                kind => builder.add_unknown(record, &format!("user {kind}"), None),
            }
        }
        let content = Content(pieces);
        // A message of tool results only.
        if !content.has_substance() {
            return last;
        }
        let text = content.joined_text();
        let identity = EventIdentity::in_session(&["said", key]);
        let hash = short_hash(&[&text]);
        if message.visibility().turn_context {
            return Some(builder.add_context(identity, at, Some(ContextKind::Harness), text).id);
        }
        // Taken by whatever follows: only the first message behind a summary can be the prompt
        // again.
        let was_compacted = std::mem::take(&mut self.state.is_compacted);
        let event = if message.is_for_the_model() && self.state.recent.is_newest(message) {
            self.state.is_compacted = true;
            let identity = EventIdentity::in_session(&["compaction", key]);
            builder.compacted(identity, at, Some(text), None)
        } else if message.is_for_the_model() {
            // Two old tool calls in other words.
            builder.add_context(identity, at, Some(ContextKind::Summary), text).id
        } else if self.state.is_child || was_compacted && self.state.prompt == hash {
            // A task, or the last prompt again behind the summary.
            builder.add_context(identity, at, None, text).id
        } else {
            builder.turn_opened(Some(key));
            self.state.prompt = hash;
            builder.add_prompt(identity, at, content).id
        };
        Some(event)
    }

    /// What stands on the model's side. The last event it gave.
    fn assistant(
        &mut self,
        said: &GooseMessageRef<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Option<EventId> {
        let GooseMessageRef { message, blocks, key, record } = *said;
        let at = Some(unix_time(message.created));
        let id = message.message_id.clone().unwrap_or(key.to_owned());
        // An answer may be spread over rows that share its id.
        if self.state.answer.id != id {
            self.state.answer = GooseAnswer { id, blocks: 0 };
        }
        let mut last = None;
        for (number, block) in blocks.iter().enumerate() {
            let identity = EventIdentity::in_session(&[key, &number.to_string()]);
            let event = match block.kind.as_str() {
                "text" if block.text.trim().is_empty() => continue,
                // The agent's words in the model's place.
                "text" if message.is_for_the_model() => {
                    builder.add_context(identity, at, None, block.text.clone()).id
                }
                "text" => {
                    let (message_id, block_number) = self.state.answer.next();
                    let message = AssistantMessage {
                        message_id,
                        block: block_number,
                        content: Content::text(block.text.as_str()),
                        ..AssistantMessage::default()
                    };
                    builder.add_message(identity, at, &message).id
                }
                "thinking" | "redactedThinking" => {
                    let (message_id, block_number) = self.state.answer.next();
                    let thinking = AssistantThinking {
                        message_id,
                        block: block_number,
                        thinking: block.thinking.clone(),
                        signature: block.signature.clone(),
                        redacted: block.data.as_ref().and_then(Raw::text),
                    };
                    builder.thinking(identity, at, &thinking).id
                }
                // The row comes after the user's decision (1.52.0), so that an open approval is in
                // no row.
                "toolRequest" | "frontendToolRequest" => {
                    let (message_id, block_number) = self.state.answer.next();
                    let called = block.parse_call();
                    let call = ToolCall {
                        call_id: block.id.clone(),
                        tool: called.as_ref().map(|call| call.name.clone()).unwrap_or_default(),
                        input: called.map(|call| call.arguments).unwrap_or_default(),
                        message_id,
                        block: block_number,
                        ..ToolCall::default()
                    };
                    builder.add_call(identity, at, &call).id
                }
                "toolConfirmationRequest" => {
                    let approval = ApprovalRequested {
                        approval_id: block.id.clone(),
                        tool: block.tool_name.clone(),
                        input: Some(block.arguments.clone()),
                        call_id: Some(block.id.clone()),
                        ..ApprovalRequested::default()
                    };
                    let draft = builder.add_event(identity, at, &approval);
                    draft.text.clone_from(&block.prompt);
                    draft.id
                }
                "actionRequired" => match parse_action(block, identity, at, builder) {
                    Some(event) => event,
                    None => continue,
                },
                "systemNotification" => {
                    builder.add_note(identity, at, "notice", block.msg.clone()).id
                }
                kind => {
                    builder.add_unknown(record, &format!("assistant {kind}"), None);
                    continue;
                }
            };
            last = Some(event);
        }
        last
    }
}

impl GooseAnswer {
    fn next(&mut self) -> (String, u32) {
        let block = self.blocks;
        self.blocks = block.saturating_add(1);
        (self.id.clone(), block)
    }
}

/// The role, the time and the words, and how many equal ones came before. Only what is said
/// counts: the same block is written in more than one way.
fn message_key(message: &GooseMessage, blocks: &[GooseBlock], occurrence: u64) -> String {
    // Not the row's id, which a rewritten conversation changes.
    let mut said = vec![message.role.clone(), message.created.to_string()];
    for block in blocks {
        let words = [&block.kind, &block.text, &block.thinking, &block.id, &block.msg];
        said.extend(words.into_iter().cloned());
    }
    said.push(occurrence.to_string());
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    short_hash(&said)
}

fn tool_result(block: &GooseBlock) -> ToolResult {
    let returned = block.returned();
    let text = returned.texts.join("\n");
    // A denial is an error as well; only its words tell it apart.
    let outcome = match returned.is_error {
        _ if text.starts_with(DECLINED) => Outcome::Rejected,
        true => Outcome::Error,
        false => Outcome::Ok,
    };
    let images = returned.images.iter().map(|mime| content_part("image", None, mime.as_deref()));
    ToolResult {
        call_id: block.id.clone(),
        outcome,
        output: (!returned.texts.is_empty())
            .then(|| Raw::from_value(&text).expect("a text encodes")),
        parts: images.collect(),
        error: returned.error,
        ..ToolResult::default()
    }
}

/// A question to the user, or the answer.
fn parse_action(
    block: &GooseBlock,
    identity: EventIdentity,
    at: Option<Time>,
    builder: &mut EventBuilder<'_>,
) -> Option<EventId> {
    let action: Action = block.data.as_ref()?.read().ok()?;
    let input = |status, prompt: &Option<String>, input: &Option<Raw>| ExternalInput {
        request_id: action.id.clone(),
        prompt: prompt.clone().unwrap_or_default(),
        status,
        input: input.clone(),
    };
    let draft = match action.action_type.as_str() {
        "toolConfirmation" => {
            let approval = ApprovalRequested {
                approval_id: action.id.clone(),
                tool: action.tool_name.clone(),
                input: Some(action.arguments.clone()),
                call_id: Some(action.id.clone()),
                ..ApprovalRequested::default()
            };
            builder.add_event(identity, at, &approval)
        }
        "elicitation" => {
            builder.add_event(identity, at, &input(InputStatus::Pending, &action.message, &None))
        }
        "elicitationResponse" => {
            builder.add_event(identity, at, &input(InputStatus::Received, &None, &action.user_data))
        }
        _ => return None,
    };
    Some(draft.id)
}

fn content_part(kind: &str, text: Option<&str>, mime_type: Option<&str>) -> ContentPart {
    ContentPart {
        kind: kind.to_owned(),
        text: text.map(str::to_owned),
        mime_type: mime_type.map(str::to_owned),
        ..ContentPart::default()
    }
}

/// Seconds, or milliseconds where they are too many.
fn unix_time(created: i64) -> Time {
    let millis = if created < SECONDS_MAX { created.saturating_mul(1_000) } else { created };
    Time::from_millis(millis)
}

/// A time without a zone is in UTC.
fn parse_time(text: &str) -> Option<Time> {
    // SQLite writes `2026-11-18 02:30:00`.
    let text = text.trim();
    text.parse().ok().or_else(|| format!("{}Z", text.replacen(' ', "T", 1)).parse().ok())
}
