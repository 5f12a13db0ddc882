//! Gemini CLI: lines with updates, and before them whole documents.
//!
//! A message is written again under its id when its tools are done, and the client retells its
//! history from time to time; each fact is told once.

mod recent; // the last messages, to know them again
mod record; // the lines
mod tools; // calls and results
mod hooks; // what its hooks say

use std::collections::VecDeque;
use std::path::Path;

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContentPart, ContextKind, ErrorRaised,
    SessionMode, StepCompleted, StopReason, TokenUsage,
};
use event::{EventId, Time};
use serde::{Deserialize, Serialize};

use self::recent::GeminiRecent;
use self::record::{GeminiHead, GeminiLine, GeminiMessage, GeminiPart, GeminiTokens};
pub(super) use self::tools::exit_code;
use crate::agent::{Agent, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot};
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::hook::HookMap;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::source::{Source, short_hash};
use crate::thread_state::SessionSettings;

pub struct Gemini;

impl Agent for Gemini {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        // The variable replaces the user's home, not the `.gemini` in it.
        let home = environment.absolute("GEMINI_CLI_HOME");
        let home = home.unwrap_or_else(|| environment.home().to_owned());
        vec![SourceRoot { path: home.join(".gemini/tmp"), depth_max: 3 }]
    }

    /// `<project>/chats/session-<minute>-<id>.jsonl`, or `<project>/chats/<parent>/<id>.jsonl`.
    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        // The first name is the project's: a short name in 0.61, a hash before.
        let mut names = path.iter().map(|name| name.to_str().unwrap_or_default()).skip(1);
        let ("chats", second, third) = (names.next()?, names.next()?, names.next()) else {
            return None;
        };
        let (parent, name) = match third {
            Some(name) => (Some(second), name),
            None => (None, second),
        };
        let (stem, form) = match name.rsplit_once('.')? {
            // The older form is one document, which the client writes anew each time.
            (stem, "jsonl") => (stem, SourceForm::Lines),
            (stem, "json") => (stem, SourceForm::Document { list: "messages" }),
            _ => return None,
        };
        let session = match parent {
            Some(_) => stem,
            // The file's name has only the beginning of the id; the first line has it whole.
            None => stem.strip_prefix("session-")?.rsplit('-').next()?,
        };
        let role = match parent {
            Some(parent) => SourceRole::Subagent { parent: parent.to_owned() },
            None => SourceRole::Main,
        };
        Some(RecognizedSource { form, session: session.to_owned(), role })
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["gemini", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        let parent = match &source.role {
            SourceRole::Subagent { parent } => Some(parent.clone()),
            SourceRole::Main => None,
        };
        Box::new(GeminiParser { parent, state })
    }
}

struct GeminiParser {
    /// The session this one works for.
    parent: Option<String>,
    state: GeminiState,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct GeminiState {
    session: Option<String>,
    /// The context the client put in front of the talk.
    context: String,
    context_event: Option<EventId>,
    recent: GeminiRecent,
    /// The last talk that was told.
    last_event: Option<EventId>,
    answer: GeminiAnswer,
    /// Calls with a result that was told. Older ones are known by the journal.
    results: VecDeque<String>,
    /// The message that holds the last summary.
    snapshot: String,
    phase: Phase,
}

/// The answer that may still grow.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct GeminiAnswer {
    id: String,
    blocks: u32,
    has_message: bool,
    has_usage: bool,
    /// Calls that are told with their results.
    calls: usize,
}

/// What the client is doing between two messages.
#[derive(Default, Serialize, Deserialize)]
enum Phase {
    #[default]
    Talk,
    /// It was started and has said nothing yet.
    Start,
    /// It named the session again: the list that follows is that of a resume or a compression.
    Named,
    /// It repeats what was said, since then.
    Retelling(Option<Time>),
}

/// The client retells all at once; what comes later is news.
const RETELLING_MILLIS_MAX: i128 = 2_000;

/// What the client puts in front of the talk.
const CONTEXT_MARK: &str = "<session_context>";
/// What a hook puts into a prompt.
const HOOK_MARK: &str = "<hook_context>";
/// What follows it in a prompt was put there by the client.
const REFERENCES_MARK: &str = "--- Content from referenced files ---";
const CANCELLED: &str = "Request cancelled.";

fn is_context(text: &str) -> bool {
    text.trim_start().starts_with(CONTEXT_MARK)
}

impl Parser for GeminiParser {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        match GeminiLine::parse_line(record) {
            Ok(GeminiLine::Head(head)) => self.parse_head(head, builder),
            Ok(GeminiLine::Patch(set)) => self.apply_patch(set, builder),
            Ok(GeminiLine::Rewind(id)) => self.add_rewind(&id, builder),
            Ok(GeminiLine::Message(message)) => {
                // A message is written again under its id, so its events are known by that and not
                // by their place.
                builder.name_record(&message.id);
                if !self.parse_message(&message, builder) {
                    builder.add_unknown(record, &message.kind, None);
                }
            }
            Ok(GeminiLine::Other) => builder.add_unknown(record, "line", None),
            Err(error) => builder.add_unknown(record, "line", Some(&error.to_string())),
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.state.session.as_deref()
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl GeminiParser {
    /// The first line of a session, written again when it is resumed.
    fn parse_head(&mut self, head: GeminiHead, builder: &mut EventBuilder<'_>) {
        let at = parse_time(head.start_time.as_deref());
        let session = head.session_id.clone().unwrap_or_default();
        // The first head names the session; a later one belongs to the same file.
        builder.switch_session(self.state.session.get_or_insert(session));
        self.state.phase = Phase::Start;
        match &self.parent {
            Some(parent) => builder.set_parent(parent, SessionMode::Child, None),
            None => {
                // Does nothing for the first head: a session that has not begun cannot be resumed.
                let start = head.start_time.as_deref().unwrap_or_default();
                builder.add_resume(EventIdentity::in_session(&["resumed", start]), at);
            }
        }
        // The file with the folder lies in the project's; a subagent's session is one folder
        // deeper.
        let root = if self.parent.is_some() { "../../.project_root" } else { "../.project_root" };
        let cwd = head.directories.first().cloned();
        let cwd = cwd.or_else(|| builder.read_beside(root).map(|cwd| cwd.trim().to_owned()));
        let title = head.summary.filter(|_| self.parent.is_none());
        builder.settings(at, SessionSettings { cwd, title, ..SessionSettings::default() });
        match head.messages {
            Some(messages) => self.apply_history(&messages, head.last_updated.as_deref(), builder),
            None => builder.count_silent(),
        }
    }

    /// A patch of the session as a whole.
    fn apply_patch(&mut self, set: GeminiHead, builder: &mut EventBuilder<'_>) {
        let at = parse_time(set.last_updated.as_deref());
        // A resume writes the session's id into a patch, and then retells the history in a list.
        if set.session_id.is_some() && !matches!(self.state.phase, Phase::Start) {
            self.state.phase = Phase::Named;
        }
        // The summary of a subagent is its result, which its parent's call has.
        let title = set.summary.filter(|_| self.parent.is_none());
        let cwd = set.directories.first().cloned();
        builder.settings(at, SessionSettings { cwd, title, ..SessionSettings::default() });
        match set.messages {
            Some(messages) => self.apply_history(&messages, set.last_updated.as_deref(), builder),
            None => builder.count_silent(),
        }
    }

    /// The client's history as it is from now on. What is known in it is not told again.
    fn apply_history(
        &mut self,
        messages: &[GeminiMessage],
        updated: Option<&str>,
        builder: &mut EventBuilder<'_>,
    ) {
        let at = parse_time(updated);
        // Taken: what follows the list is talk again.
        let phase = std::mem::take(&mut self.state.phase);
        // Before the rest, because a compaction ends the function.
        for message in messages {
            self.parse_context(message, builder);
        }
        if self.compaction(messages, builder) {
            return;
        }
        let talk: Vec<&GeminiMessage> =
            messages.iter().filter(|message| !is_all_context(message)).collect();
        match phase {
            // Before a resume the new process shows its context alone.
            Phase::Start if talk.is_empty() => {
                self.state.phase = Phase::Start;
                return;
            }
            Phase::Named => {
                let updated = updated.unwrap_or_default();
                builder.add_resume(EventIdentity::in_session(&["resumed", updated]), at);
            }
            _ => {}
        }
        // The newest message of the list that was told parts the two:
        //
        //     told:  a b c d        `c` and `d` are gone from the history: they were taken back.
        //     list:  a b e          `b` is the newest known one, `e` is news.
        let known = talk.iter().enumerate().rev().find_map(|(number, message)| {
            self.state.recent.find_message(message).map(|place| (number, place))
        });
        match known {
            // Behind `place` is what was taken back, behind `number` what is new.
            Some((number, place)) => {
                let event = self.state.recent.event_at(place);
                self.take_back(place + 1, event, &talk[number].id, at, builder);
                self.tell_all(&talk[number + 1..], builder);
            }
            // The history is empty, or begins before all that is remembered.
            None if talk.is_empty() || !self.state.recent.is_empty() => {
                let last = messages.last().map_or("", |message| &message.id);
                self.take_back(0, self.state.context_event, last, at, builder);
            }
            // Nothing was told yet, so all of it is news.
            None => self.tell_all(&talk, builder),
        }
    }

    fn tell_all(&mut self, messages: &[&GeminiMessage], builder: &mut EventBuilder<'_>) {
        for message in messages {
            self.parse_message(message, builder);
        }
    }

    /// Everything from this message on was taken back.
    fn add_rewind(&mut self, id: &str, builder: &mut EventBuilder<'_>) {
        let place = self.state.recent.find_by_id(id);
        let before = place.and_then(|place| place.checked_sub(1));
        let event = before.and_then(|before| self.state.recent.event_at(before));
        let to = event.or(self.state.context_event);
        self.take_back(place.unwrap_or(0), to, id, None, builder);
    }

    fn take_back(
        &mut self,
        len: usize,
        to: Option<EventId>,
        name: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // With the newest message in the name, a second rewind to the same place is another fact.
        let identity =
            EventIdentity::in_session(&["rewind", name, self.state.recent.newest_name()]);
        if self.state.recent.truncate(len) {
            builder.add_rewind(identity, at, to);
            self.state.last_event = to;
        } else {
            builder.count_silent();
        }
    }

    /// Whether the list begins with a new summary of what was said.
    fn compaction(&mut self, messages: &[GeminiMessage], builder: &mut EventBuilder<'_>) -> bool {
        let snapshot = messages.iter().find(|message| is_snapshot(message));
        // Every later list begins with the same summary again.
        let Some(snapshot) = snapshot.filter(|message| message.id != self.state.snapshot) else {
            return false;
        };
        self.compacted(snapshot, builder);
        // The messages that the client kept were told before: they are remembered only.
        for message in messages.iter().filter(|message| !is_all_context(message)) {
            self.state.recent.remember(message, self.state.last_event);
        }
        true
    }

    fn compacted(&mut self, snapshot: &GeminiMessage, builder: &mut EventBuilder<'_>) {
        let identity = EventIdentity::in_session(&["compaction", &snapshot.id]);
        let at = parse_time(snapshot.timestamp.as_deref());
        let event = builder.compacted(identity, at, Some(snapshot.content.join_texts()), None);
        self.state.snapshot.clone_from(&snapshot.id);
        // What was said before is gone from the client's history, so the session cannot go back to
        // it.
        self.state.recent = GeminiRecent::default();
        self.state.last_event = Some(event);
        self.state.context_event = Some(event);
    }

    /// One message. Whether its type is known.
    fn parse_message(&mut self, message: &GeminiMessage, builder: &mut EventBuilder<'_>) -> bool {
        if self.is_retold(message) {
            builder.count_silent();
            return true;
        }
        self.state.phase = Phase::Talk;
        match message.kind.as_str() {
            "user" => self.parse_user(message, builder),
            "gemini" => self.parse_answer(message, builder),
            "info" | "warning" => self.parse_notice(message, builder),
            "error" => {
                let identity = EventIdentity::in_session(&["error", &message.id]);
                let error =
                    ErrorRaised { message: message.content.join_texts(), ..ErrorRaised::default() };
                builder.add_error(identity, parse_time(message.timestamp.as_deref()), &error);
            }
            _ => return false,
        }
        true
    }

    /// After an interruption the client writes its history line by line before it sets it. The
    /// context stands at its beginning, where no prompt has it.
    fn is_retold(&mut self, message: &GeminiMessage) -> bool {
        let at = parse_time(message.timestamp.as_deref());
        let first = message.content.texts().next();
        let begins = message.kind == "user" && first.is_some_and(is_context);
        // Only a retelling puts the context behind talk.
        if begins && !self.state.recent.is_empty() {
            self.state.phase = Phase::Retelling(at);
            return true;
        }
        let Phase::Retelling(since) = &self.state.phase else { return false };
        let age = at.zip(*since).map(|(at, since)| at.nanos() - since.nanos());
        let is_late = age.is_some_and(|age| age > RETELLING_MILLIS_MAX * 1_000_000);
        // Retold answers have no tokens: one that has them is fresh.
        message.tokens.is_none() && !is_late
    }

    fn parse_user(&mut self, message: &GeminiMessage, builder: &mut EventBuilder<'_>) {
        let at = parse_time(message.timestamp.as_deref());
        if is_snapshot(message) {
            return self.compacted(message, builder);
        }
        self.parse_context(message, builder);
        let mut has_told = false;
        // Results stand in a user's message, as the API wants them.
        for part in &message.content.0 {
            if let Some(response) = &part.function_response {
                has_told = true;
                self.response(response, at, builder);
            }
        }
        let typed = Typed::from_message(message);
        if !typed.prompt.0.is_empty() {
            has_told = true;
            let identity = EventIdentity::in_session(&["prompt", &message.id]);
            let event = match &self.parent {
                // A subagent's prompt is its parent's task.
                Some(_) => builder.add_context(identity, at, None, typed.prompt.joined_text()).id,
                None => {
                    builder.turn_opened(Some(&message.id));
                    builder.add_prompt(identity, at, typed.prompt).id
                }
            };
            self.state.last_event = Some(event);
        }
        if !typed.added.is_empty() {
            has_told = true;
            let identity = EventIdentity::in_session(&["added", &message.id]);
            self.state.last_event = Some(builder.add_context(identity, at, None, typed.added).id);
        }
        // A message that told nothing is no place to go back to.
        if has_told {
            self.state.recent.remember(message, self.state.last_event);
        }
    }

    /// What the client puts in front of the talk; it is told when it changes.
    fn parse_context(&mut self, message: &GeminiMessage, builder: &mut EventBuilder<'_>) {
        if message.kind != "user" {
            return;
        }
        let at = parse_time(message.timestamp.as_deref());
        for text in message.content.texts().filter(|text| is_context(text)) {
            // Known by its hash: the text is long, and the state has to stay small.
            let hash = short_hash(&[text]);
            if self.state.context == hash {
                continue;
            }
            if builder.known_settings().cwd.is_none() {
                let cwd = workspace(text).map(str::to_owned);
                builder.settings(at, SessionSettings { cwd, ..SessionSettings::default() });
            }
            let identity = EventIdentity::in_session(&["context", &message.id, &hash]);
            let kind = Some(ContextKind::Bootstrap);
            let event = builder.add_context(identity, at, kind, text.to_owned()).id;
            self.state.context = hash;
            self.state.context_event = Some(event);
        }
    }

    fn parse_answer(&mut self, message: &GeminiMessage, builder: &mut EventBuilder<'_>) {
        let at = parse_time(message.timestamp.as_deref());
        let text = message.content.join_texts();
        let thoughts = thoughts(message);
        let has_words = !text.is_empty() || !thoughts.is_empty();
        // Calls that were cancelled are written apart from the answer that asked for them.
        let belongs_to_last =
            !has_words && message.tokens.is_none() && !self.state.answer.id.is_empty();
        if !belongs_to_last && self.state.answer.id != message.id {
            self.state.answer = GeminiAnswer { id: message.id.clone(), ..GeminiAnswer::default() };
        }
        builder.settings(
            at,
            SessionSettings { model: message.model.clone(), ..SessionSettings::default() },
        );
        // The client writes an answer again when its tools are done: words and usage are told once.
        if has_words && !self.state.answer.has_message {
            self.add_answer(&message.id, at, thoughts, text, builder);
        }
        if let Some(tokens) = message.tokens.as_ref().filter(|_| !self.state.answer.has_usage) {
            self.state.answer.has_usage = true;
            let step = StepCompleted {
                model: message.model.clone(),
                response_id: Some(message.id.clone()),
                usage: Some(tokens.token_usage()),
                ..StepCompleted::default()
            };
            builder.add_event(EventIdentity::in_session(&["step", &message.id]), at, &step);
        }
        // The second line of an answer repeats its first calls. Calls in a message of their own are
        // all new.
        let new = if belongs_to_last { 0 } else { self.state.answer.calls };
        for call in message.tool_calls.iter().skip(new) {
            self.parse_call(&message.id, call, at, builder);
        }
        if !belongs_to_last {
            self.state.answer.calls = message.tool_calls.len();
        }
        self.state.recent.remember(message, self.state.last_event);
    }

    fn add_answer(
        &mut self,
        id: &str,
        at: Option<Time>,
        thinking: String,
        text: String,
        builder: &mut EventBuilder<'_>,
    ) {
        let answer = &mut self.state.answer;
        answer.has_message = true;
        if !thinking.is_empty() {
            let block = answer.next_block();
            let thinking = AssistantThinking {
                message_id: id.to_owned(),
                block,
                thinking,
                ..AssistantThinking::default()
            };
            let draft =
                builder.thinking(EventIdentity::in_session(&["thinking", id]), at, &thinking);
            self.state.last_event = Some(draft.id);
        }
        if !text.is_empty() {
            let message = AssistantMessage {
                message_id: id.to_owned(),
                block: answer.next_block(),
                content: Content::text(text),
                ..AssistantMessage::default()
            };
            let draft =
                builder.add_message(EventIdentity::in_session(&["message", id]), at, &message);
            self.state.last_event = Some(draft.id);
        }
    }

    fn parse_notice(&mut self, message: &GeminiMessage, builder: &mut EventBuilder<'_>) {
        let at = parse_time(message.timestamp.as_deref());
        let text = message.content.join_texts();
        // Esc and a denial write this notice, and no end of the turn.
        if text.trim() == CANCELLED {
            let identity = EventIdentity::in_session(&["cancelled", &message.id]);
            builder.turn_completed(at, identity, StopReason::Interrupted, None);
        } else if text.trim().is_empty() {
            builder.count_silent();
        } else {
            let identity = EventIdentity::in_session(&["notice", &message.id]);
            builder.add_note(identity, at, &message.kind, text);
        }
    }
}

impl GeminiAnswer {
    fn next_block(&mut self) -> u32 {
        let block = self.blocks;
        self.blocks = block.saturating_add(1);
        block
    }
}

impl GeminiTokens {
    fn token_usage(&self) -> TokenUsage {
        // Some servers do not count what was cached.
        let fresh = self.input.checked_sub(self.cached).unwrap_or(self.input);
        TokenUsage {
            // `tool` counts beside `input`, thoughts beside `output`; in an event's usage they are
            // part of it.
            input_tokens: Some(fresh.saturating_add(self.tool)),
            output_tokens: Some(self.output.saturating_add(self.thoughts)),
            cache_read_tokens: Some(self.cached),
            reasoning_tokens: Some(self.thoughts),
            total_tokens: Some(self.total),
            ..TokenUsage::default()
        }
    }
}

/// A prompt, and what the client added to it.
struct Typed {
    prompt: Content,
    added: String,
}

impl Typed {
    fn from_message(message: &GeminiMessage) -> Typed {
        let mut prompt = Vec::new();
        let mut added = Vec::new();
        let mut is_reference = false;
        for part in &message.content.0 {
            let text = part.text.as_deref().unwrap_or_default();
            // From this mark on all parts are the contents of `@file` references.
            is_reference |= text.trim_start().starts_with(REFERENCES_MARK);
            let is_added = is_reference || text.trim_start().starts_with(HOOK_MARK);
            match content_part(part) {
                Some(piece) if is_added => added.extend(piece.text),
                Some(piece) => prompt.push(piece),
                None => {}
            }
        }
        // The client tells what it showed of the prompt: the rest was added for the model.
        if let Some(display) = &message.display_content {
            let shown: Vec<ContentPart> = display.0.iter().filter_map(content_part).collect();
            let hidden = prompt.into_iter().filter(|piece| !shown.contains(piece));
            let hidden: Vec<String> = hidden.filter_map(|piece| piece.text).collect();
            added.splice(0..0, hidden);
            prompt = shown;
        }
        Typed { prompt: Content(prompt), added: added.join("\n") }
    }
}

/// What a person may have put into a prompt.
fn content_part(part: &GeminiPart) -> Option<ContentPart> {
    if let Some(text) = part.text.as_ref().filter(|text| !text.trim().is_empty()) {
        let piece = ContentPart {
            kind: "text".to_owned(),
            text: Some(text.clone()),
            ..ContentPart::default()
        };
        return (!is_context(text)).then_some(piece);
    }
    let data = part.inline_data.as_ref().or(part.file_data.as_ref())?;
    let mime_type = data.mime_type.clone();
    let is_image = mime_type.as_deref().is_some_and(|mime| mime.starts_with("image/"));
    let kind = if is_image { "image" } else { "file" };
    Some(ContentPart {
        kind: kind.to_owned(),
        mime_type,
        url: data.file_uri.clone(),
        ..ContentPart::default()
    })
}

fn is_all_context(message: &GeminiMessage) -> bool {
    let mut texts = message.content.texts().peekable();
    message.kind == "user" && texts.peek().is_some() && texts.all(is_context)
}

/// A message that stands for everything before it.
fn is_snapshot(message: &GeminiMessage) -> bool {
    // Compression leaves no other marker. The tag has to stand at the end, because a person may
    // write about one.
    let text = message.content.join_texts();
    let text = text.trim_end();
    message.kind == "user"
        && text.ends_with("</state_snapshot>")
        && text.contains("<state_snapshot>")
}

fn thoughts(message: &GeminiMessage) -> String {
    let texts = message.thoughts.iter().map(|thought| {
        let lines = [thought.subject.trim(), thought.description.trim()];
        lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The first folder the context names.
fn workspace(context: &str) -> Option<&str> {
    let (_, rest) = context.split_once("**Workspace Directories:**")?;
    let line = rest.lines().map(str::trim).find(|line| !line.is_empty())?;
    line.strip_prefix("- ").filter(|path| path.starts_with('/'))
}

fn parse_time(text: Option<&str>) -> Option<Time> {
    text?.parse().ok()
}
