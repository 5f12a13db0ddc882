//! OpenCode: a database with a log of events, and tables beside it.
//!
//! Identities are made of what a fork copies: times, texts and call ids, because the ids of its
//! messages and parts are new ones.

mod memory; // what is remembered of a session
mod record; // the rows
mod schema; // how the database is asked
mod tools; // calls and results
mod hooks; // what its hooks say

use std::path::Path;

use event::payload::{
    Artifact, ArtifactRecorded, AssistantMessage, AssistantThinking, CompactionStarted, Content,
    ContentPart, ContextAdded, ErrorRaised, Retry, SessionMode, StepCompleted, StopReason,
};
use event::{Raw, Time};
use serde::de::DeserializeOwned;

use self::memory::OpenCodeMemory;
use self::record::{Data, Info, OpenCodePart, OpenCodeRow, OpenCodeSession, Removed, parse_millis};
use crate::agent::{Agent, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot};
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::hook::HookMap;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::row_reader::DatabaseSchema;
use crate::source::{Source, short_hash};
use crate::thread_state::SessionSettings;

pub struct OpenCode;

impl Agent for OpenCode {
    fn provider(&self) -> &'static str {
        "opencode"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let data = environment.data_folder("opencode");
        // The variable may name a file in the folder that is searched anyway.
        let named = environment.variable("OPENCODE_DB").map(|path| data.join(path));
        let roots = [Some(data.clone()), named.filter(|path| !path.starts_with(&data))];
        roots.into_iter().flatten().map(|path| SourceRoot { path, depth_max: 0 }).collect()
    }

    /// `opencode.db`, `opencode-<channel>.db`, or whatever its variable names.
    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let name = path.to_str().filter(|name| !name.contains('/'))?;
        let session = name.strip_suffix(".db")?.to_owned();
        Some(RecognizedSource { form: SourceForm::Rows, session, role: SourceRole::Main })
    }

    fn database_schemas(&self) -> &'static [DatabaseSchema] {
        schema::SCHEMAS
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["opencode", "--session", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let memory = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        let parent = match &source.role {
            SourceRole::Subagent { parent } => Some(parent.clone()),
            SourceRole::Main => None,
        };
        Box::new(OpenCodeParser { parent, memory })
    }
}

struct OpenCodeParser {
    /// The session this one works for.
    parent: Option<String>,
    memory: OpenCodeMemory,
}

/// Titles the agent gives before it knows better.
const NO_TITLES: &[&str] = &["New session - ", "Child session - "];
const ABORTED: &str = "MessageAbortedError";
/// Ends of an answer that are no end of the turn.
const GOES_ON: &[&str] = &["tool-calls", "unknown"];
/// Parts that say nothing to people.
const SILENT_PARTS: &[&str] = &["step-start", "snapshot", "agent"];

impl Parser for OpenCodeParser {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        if let Some(parent) = &self.parent {
            builder.set_parent(parent, SessionMode::Child, None);
        }
        let row: OpenCodeRow = match record.read() {
            Ok(row) => row,
            Err(error) => return builder.add_unknown(record, "row", Some(&error.to_string())),
        };
        match self.parse_row(&row, builder) {
            Ok(true) => {}
            Ok(false) => builder.add_unknown(record, &row.kind, None),
            Err(error) => builder.add_unknown(record, &row.kind, Some(&error.to_string())),
        }
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.memory).expect("the state always encodes")
    }
}

impl OpenCodeParser {
    /// One row. Whether its type is known.
    fn parse_row(
        &mut self,
        row: &OpenCodeRow,
        builder: &mut EventBuilder<'_>,
    ) -> Result<bool, serde_json::Error> {
        // Types of events end in the version of their shape.
        let kind = row.kind.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match kind {
            // The log has events, the tables have rows; both tell the same.
            "session.created" | "session.updated" => {
                self.parse_session(&parse_data::<Data<_>>(row)?.about, builder)
            }
            "session" => self.parse_session(&parse_data(row)?, builder),
            "message.updated" => {
                let info: Info = parse_data::<Data<_>>(row)?.about;
                self.parse_message(&info.id, &info, builder);
            }
            // As it began: it is known from now on and told when it has ended.
            "message" => {
                let id = row.id.as_deref().unwrap_or_default();
                self.memory.remember_message(id, &parse_data(row)?);
                builder.count_silent();
            }
            "message.end" => {
                let id = row.id.as_deref().unwrap_or_default();
                self.parse_message(id, &parse_data(row)?, builder);
            }
            "message.removed" => self.parse_removed(&parse_data(row)?, builder),
            "message.part.updated" => {
                let Data { about, time: at } = parse_data::<Data<OpenCodePart>>(row)?;
                return Ok(self.parse_part(&about, parse_millis(at), builder));
            }
            "part" => {
                let mut part: OpenCodePart = parse_data(row)?;
                part.id = row.id.clone().unwrap_or_default();
                part.message_id = row.message.clone().unwrap_or_default();
                // A part may change long after its message was read, so its row brings the message
                // along.
                if let Some(info) = &row.info {
                    self.memory.remember_message(&part.message_id, info);
                }
                return Ok(self.parse_part(&part, parse_millis(row.updated), builder));
            }
            // What the agent deletes stays told.
            "message.part.removed" | "session.deleted" => builder.count_silent(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn parse_session(&mut self, session: &OpenCodeSession, builder: &mut EventBuilder<'_>) {
        let at = parse_millis(session.time.updated);
        let title = session.title.clone();
        let title = title.filter(|title| !NO_TITLES.iter().any(|start| title.starts_with(start)));
        let news = SessionSettings {
            cwd: session.directory.clone(),
            agent_version: session.version.clone(),
            model: session.model.as_ref().and_then(|model| model.id.clone()),
            title,
            ..SessionSettings::default()
        };
        builder.settings(at, news);
        // The row keeps `revert` while the user may still redo; the messages go with the next
        // prompt.
        let revert = session.revert.as_ref().map(|revert| revert.message_id.clone());
        if revert == self.memory.reverted {
            return builder.count_silent();
        }
        let moment = session.time.updated.unwrap_or_default().to_string();
        let to = match &revert {
            Some(message) => self.memory.event_before(message),
            // What was taken back is there again.
            None => self.memory.last_event,
        };
        builder.add_rewind(EventIdentity::in_session(&["rewind", &moment]), at, to);
        self.memory.reverted = revert;
    }

    /// A message was taken away. After a revert that is only its end.
    fn parse_removed(&mut self, removed: &Removed, builder: &mut EventBuilder<'_>) {
        let was_reverted = self.memory.reverted.take().is_some();
        match self.memory.take_back(&removed.message_id) {
            Some(before) => {
                if !was_reverted {
                    let identity = EventIdentity::in_session(&["rewind", &removed.message_id]);
                    builder.add_rewind(identity, None, before);
                }
                self.memory.last_event = before;
            }
            None => builder.count_silent(),
        }
    }

    fn parse_message(&mut self, id: &str, info: &Info, builder: &mut EventBuilder<'_>) {
        let message = self.memory.remember_message(id, info);
        // Messages are updated in place, again and again: the end is told once.
        let is_over = !message.is_user && info.time.completed.is_some() && !message.is_done;
        message.is_done |= is_over;
        let (created, is_summary) = (message.created.to_string(), message.is_summary);
        let is_blocked = message.is_blocked;
        let at = parse_millis(info.time.completed.or(info.time.created));
        builder.settings(
            at,
            SessionSettings { model: info.model_id.clone(), ..SessionSettings::default() },
        );
        if !is_over {
            return builder.count_silent();
        }
        let end = EventIdentity::everywhere(&["turn", &created]);
        match &info.error {
            Some(error) if error.name == ABORTED => {
                builder.turn_completed(at, end, StopReason::Interrupted, None);
            }
            Some(error) => {
                let raised = ErrorRaised {
                    message: error.data.message.clone(),
                    code: Some(Raw::from_value(&error.name).expect("a text encodes")),
                    scope: Some("model".to_owned()),
                    recoverable: error.data.is_retryable,
                };
                builder.add_error(EventIdentity::everywhere(&["error", &created]), at, &raised);
                builder.turn_completed(at, end, StopReason::Completed, Some(raised.message));
            }
            // After a denied call the agent stops without an error.
            None if is_blocked => builder.turn_completed(at, end, StopReason::Interrupted, None),
            None => {
                let finish = info.finish.as_deref().unwrap_or_default();
                // A summary answers no prompt, and an answer that wants tools is followed by
                // another.
                if !is_summary && !finish.is_empty() && !GOES_ON.contains(&finish) {
                    builder.turn_completed(at, end, StopReason::Completed, None);
                } else {
                    builder.count_silent();
                }
            }
        }
    }

    /// One part. Whether its type is known.
    fn parse_part(
        &mut self,
        part: &OpenCodePart,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> bool {
        let message = self.memory.find_message(&part.message_id).cloned();
        // The text of an answer has times, that of a prompt has none.
        let is_user = message.as_ref().map_or(part.time.is_none(), |message| message.is_user);
        let message = message.unwrap_or_default();
        let created = message.created.to_string();
        match part.kind.as_str() {
            "text" if is_user => self.add_prompt(part, &created, builder),
            "text" if message.is_summary => self.add_summary(part, &created, builder),
            "text" | "reasoning" => self.add_words(part, message.is_summary, &created, builder),
            "tool" => self.parse_tool(part, &created, builder),
            "step-finish" => self.add_usage(part, &created, at, builder),
            // A user's message with this part alone asks for the summary that follows (1.18.33).
            "compaction" => {
                let started =
                    CompactionStarted { strategy: "captured".to_owned(), ..Default::default() };
                let at = Some(Time::from_millis(message.created));
                builder.add_event(
                    EventIdentity::everywhere(&["compacting", &created]),
                    at,
                    &started,
                );
            }
            "file" => {
                let name = part.filename.clone().unwrap_or_default();
                let identity = EventIdentity::everywhere(&["file", &created, &name]);
                let at = Some(Time::from_millis(message.created));
                let content = Content(vec![file_part(part)]);
                let added = ContextAdded { kind: None, placement: None, content, covers: None };
                builder.add_event(identity, at, &added).text = Some(name);
            }
            "patch" => add_patch(part, &created, at, builder),
            "retry" => {
                let error = part.error.as_ref().map(|error| error.data.message.clone());
                let retry = Retry {
                    scope: "model".to_owned(),
                    attempt: part.attempt,
                    error: error.unwrap_or_default(),
                    ..Retry::default()
                };
                let at = parse_millis(part.time.and_then(|time| time.created)).or(at);
                let attempt = part.attempt.to_string();
                builder.add_event(
                    EventIdentity::everywhere(&["retry", &created, &attempt]),
                    at,
                    &retry,
                );
            }
            // The call that does it follows, and names the child's session.
            "subtask" => {
                let text = part.description.clone().unwrap_or_default();
                builder.add_note(
                    EventIdentity::everywhere(&["subtask", &created]),
                    at,
                    "subtask",
                    text,
                );
            }
            kind if SILENT_PARTS.contains(&kind) => builder.count_silent(),
            _ => return false,
        }
        true
    }

    fn add_prompt(&mut self, part: &OpenCodePart, created: &str, builder: &mut EventBuilder<'_>) {
        let message = self.memory.find_message(&part.message_id);
        let is_first = message.as_ref().is_none_or(|message| !message.has_prompt);
        let at = message.as_ref().map(|message| Time::from_millis(message.created));
        let hash = short_hash(&[&part.text]);
        if part.text.is_empty() {
            return builder.count_silent();
        }
        // A subagent's prompt is its parent's task, and of several texts only the first was typed.
        let is_typed = !part.synthetic && !part.ignored && is_first;
        let event = if is_typed && self.parent.is_none() {
            if let Some(message) = message {
                message.has_prompt = true;
            }
            builder.turn_opened(Some(&part.message_id));
            let content = Content::text(unquoted(&part.text));
            builder
                .add_prompt(EventIdentity::everywhere(&["prompt", created, &hash]), at, content)
                .id
        } else {
            let identity = EventIdentity::everywhere(&["context", created, &hash]);
            builder.add_context(identity, at, None, part.text.clone()).id
        };
        self.memory.last_event = Some(event);
    }

    /// What stands for the talk from now on.
    fn add_summary(&mut self, part: &OpenCodePart, created: &str, builder: &mut EventBuilder<'_>) {
        match finished(part) {
            Some(at) => {
                let identity = EventIdentity::everywhere(&["compaction", created]);
                let event = builder.compacted(identity, at, Some(part.text.clone()), None);
                self.memory.last_event = Some(event);
            }
            None => builder.count_silent(),
        }
    }

    fn add_words(
        &mut self,
        part: &OpenCodePart,
        is_summary: bool,
        created: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        // Also for a part that is still written: places are given in the order of appearance.
        let block = self.memory.place_part(&part.message_id, &part.id);
        let at = match finished(part) {
            Some(at) if !is_summary => at,
            _ => return builder.count_silent(),
        };
        // A fork copies times and texts under new ids.
        let start = part.time.and_then(|time| time.start).unwrap_or_default().to_string();
        let hash = short_hash(&[&part.text]);
        let identity = EventIdentity::everywhere(&[&part.kind, created, &start, &hash]);
        let message_id = part.message_id.clone();
        let event = if part.kind == "reasoning" {
            let thinking = part.text.clone();
            let thinking =
                AssistantThinking { message_id, block, thinking, ..AssistantThinking::default() };
            builder.thinking(identity, at, &thinking).id
        } else {
            let content = Content::text(part.text.clone());
            let message =
                AssistantMessage { message_id, block, content, ..AssistantMessage::default() };
            builder.add_message(identity, at, &message).id
        };
        self.memory.last_event = Some(event);
    }

    /// What a request used. Totals of messages and sessions say the same again.
    fn add_usage(
        &mut self,
        part: &OpenCodePart,
        created: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let Some(tokens) = &part.tokens else { return builder.count_silent() };
        let usage = tokens.token_usage(part.cost);
        // A message may have several steps: what they used tells them apart.
        let said = Raw::from_value(&usage).expect("usage encodes");
        let step = StepCompleted {
            model: builder.known_settings().model.clone(),
            response_id: Some(part.message_id.clone()),
            usage: Some(usage),
            ..StepCompleted::default()
        };
        let identity = EventIdentity::everywhere(&["step", created, said.get()]);
        builder.add_event(identity, at, &step).cost = part.cost;
    }
}

/// When the text of a part was finished; `None` while it is written.
fn finished(part: &OpenCodePart) -> Option<Option<Time>> {
    let is_finished = part.time.is_none_or(|time| time.end.is_some());
    let at = parse_millis(part.time.and_then(|time| time.end));
    (is_finished && !part.text.is_empty()).then_some(at)
}

/// Files that were changed between two snapshots.
fn add_patch(part: &OpenCodePart, created: &str, at: Option<Time>, builder: &mut EventBuilder<'_>) {
    let hash = part.hash.clone().unwrap_or_default();
    let metadata = Raw::from_value(&serde_json::json!({"hash": &hash, "files": &part.files}));
    let artifact = Artifact {
        id: part.id.clone(),
        kind: "patch".to_owned(),
        label: Some(part.files.join(", ")),
        metadata: metadata.ok(),
        ..Artifact::default()
    };
    let label = artifact.label.clone();
    let recorded = ArtifactRecorded { artifact, child_id: None, session_id: None };
    builder.add_event(EventIdentity::everywhere(&["patch", created, &hash]), at, &recorded).text =
        label;
}

fn file_part(part: &OpenCodePart) -> ContentPart {
    let is_image = part.mime.as_deref().is_some_and(|mime| mime.starts_with("image/"));
    ContentPart {
        kind: if is_image { "image" } else { "file" }.to_owned(),
        text: part.filename.clone(),
        mime_type: part.mime.clone(),
        artifact: None,
        // Bytes are no address.
        url: part.url.clone().filter(|url| !url.starts_with("data:")),
    }
}

/// A prompt given to `opencode run` as one argument is stored as that argument, quoted.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        // A quote in the middle that is not escaped was typed, and so were those around it.
        Some(inner) if !inner.replace("\\\"", "").contains('"') => inner.replace("\\\"", "\""),
        _ => text.to_owned(),
    }
}

fn parse_data<T: DeserializeOwned>(row: &OpenCodeRow) -> Result<T, serde_json::Error> {
    row.data.read()
}
