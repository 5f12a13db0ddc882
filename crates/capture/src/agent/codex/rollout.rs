//! What a rollout says, as far as it is needed.
//!
//! Values that change their shape from version to version stay JSON until they are needed.

use event::{Time, json};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line. Older ones are the payload itself.
#[derive(Deserialize)]
pub(super) struct CodexLine<'a> {
    #[serde(default, borrow)]
    pub timestamp: Option<&'a RawValue>,
    #[serde(default)]
    pub ordinal: Option<u64>,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Bookkeeping of the first versions.
    #[serde(default)]
    pub record_type: Option<String>,
    #[serde(default, borrow)]
    pub payload: Option<&'a RawValue>,
}

impl CodexLine<'_> {
    pub(super) fn parse_time(&self) -> Option<Time> {
        // Raw, so that a timestamp of another type costs the time and not the line.
        self.timestamp.and_then(|at| at.get().trim_matches('"').parse().ok())
    }
}

#[derive(Deserialize)]
pub(super) struct Meta<'a> {
    pub id: Option<String>,
    /// The root of the tree of threads, which is another thread for a subagent.
    pub session_id: Option<String>,
    pub forked_from_id: Option<String>,
    pub parent_thread_id: Option<String>,
    pub thread_source: Option<String>,
    pub subagent_history_start_ordinal: Option<u64>,
    pub agent_path: Option<String>,
    pub cwd: Option<String>,
    pub originator: Option<String>,
    pub cli_version: Option<String>,
    /// A word, or an object for a subagent.
    #[serde(default, borrow)]
    pub source: Option<&'a RawValue>,
    pub git: Option<Git>,
}

#[derive(Deserialize)]
pub(super) struct Git {
    pub branch: Option<String>,
    pub repository_url: Option<String>,
}

impl Meta<'_> {
    /// How it was started, in one word. All that goes through the app server says `vscode`,
    /// the terminal too: there the program that asked tells more.
    pub(super) fn entry_point(&self) -> Option<String> {
        // A subagent's source is an object that names its parent, not an entry point.
        let source = self.source.filter(|_| !self.is_child()).and_then(json::text);
        match source {
            Some(source) if source != "vscode" => Some(source),
            source => self.originator.clone().or(source),
        }
    }

    pub(super) fn is_child(&self) -> bool {
        self.thread_source.as_deref() == Some("subagent") || self.parse_subagent().is_some()
    }

    /// The thread it works for.
    pub(super) fn parent_thread(&self) -> Option<String> {
        // The most exact first: the root is the parent of a direct child only.
        let spawned = self.parse_subagent().and_then(|subagent| subagent.thread_spawn);
        let root = self.session_id.clone().filter(|root| Some(root) != self.id.as_ref());
        self.parent_thread_id
            .clone()
            .or_else(|| spawned.and_then(|spawn| spawn.parent_thread_id))
            .or(root)
    }

    fn parse_subagent(&self) -> Option<CodexSubagent> {
        #[derive(Deserialize)]
        struct CodexSource {
            subagent: Option<CodexSubagent>,
        }
        let source = self.source.filter(|source| source.get().starts_with('{'))?;
        json::read::<CodexSource>(source.get()).ok()?.subagent
    }
}

#[derive(Deserialize)]
#[serde(from = "SubagentForm")]
struct CodexSubagent {
    thread_spawn: Option<Spawn>,
}

#[derive(Deserialize)]
struct Spawn {
    parent_thread_id: Option<String>,
}

/// A word for those of the agent itself, such as `review`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SubagentForm {
    Spawned { thread_spawn: Option<Spawn> },
    Other(serde::de::IgnoredAny),
}

impl From<SubagentForm> for CodexSubagent {
    fn from(form: SubagentForm) -> CodexSubagent {
        match form {
            SubagentForm::Spawned { thread_spawn } => CodexSubagent { thread_spawn },
            SubagentForm::Other(_) => CodexSubagent { thread_spawn: None },
        }
    }
}

/// The settings of a turn, or of the thread.
#[derive(Deserialize)]
pub(super) struct TurnContext<'a> {
    pub turn_id: Option<String>,
    pub cwd: Option<String>,
    pub model: Option<String>,
    pub service_tier: Option<String>,
    #[serde(default, borrow)]
    pub approval_policy: Option<&'a RawValue>,
}

/// A `response_item`: what the model saw or said.
#[derive(Deserialize)]
pub(super) struct CodexItem<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: Option<String>,
    pub call_id: Option<String>,
    pub role: Option<String>,
    pub name: Option<String>,
    #[serde(default, borrow)]
    pub status: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub summary: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub arguments: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub action: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub output: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub tools: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "internal_chat_message_metadata_passthrough")]
    pub metadata: Option<&'a RawValue>,
}

impl CodexItem<'_> {
    /// What each part of the content is, in the agent's words; empty if it does not say.
    pub(super) fn part_kinds(&self) -> Vec<String> {
        #[derive(Deserialize)]
        struct CodexMetadata {
            #[serde(default)]
            content_item_kinds: Vec<String>,
        }
        let metadata = self.metadata.and_then(|raw| json::read::<CodexMetadata>(raw.get()).ok());
        metadata.map(|metadata| metadata.content_item_kinds).unwrap_or_default()
    }
}

/// A part of a content, a summary or an output.
#[derive(Deserialize, Default)]
pub(super) struct CodexPart {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
}

/// The parts of a content, which older versions give as plain text.
pub(super) fn parse_parts(content: Option<&RawValue>) -> Vec<CodexPart> {
    let Some(content) = content else { return Vec::new() };
    if let Some(text) = json::text(content) {
        return vec![CodexPart { kind: "text".to_owned(), text: Some(text) }];
    }
    json::read(content.get()).unwrap_or_default()
}

/// All texts of a content, one after the other.
pub(super) fn join_texts(content: Option<&RawValue>) -> String {
    let texts: Vec<String> =
        parse_parts(content).into_iter().filter_map(|part| part.text).collect();
    texts.join("\n")
}

/// An `event_msg`: what the agent told its screen.
#[derive(Deserialize)]
pub(super) struct RolloutNotice<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    pub turn_id: Option<String>,
    pub reason: Option<String>,
    pub num_turns: Option<u64>,
    pub thread_name: Option<String>,
    #[serde(default, borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub info: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub rate_limits: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub thread_settings: Option<&'a RawValue>,
}

/// The item of an `item_completed`, or what older versions told of a command in its own event.
#[derive(Deserialize)]
pub(super) struct Completed<'a> {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(alias = "call_id")]
    pub id: Option<String>,
    #[serde(default, borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub summary_text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub command: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub cwd: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub changes: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub status: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub aggregated_output: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub stdout: Option<&'a RawValue>,
    pub exit_code: Option<i64>,
    pub duration: Option<Duration>,
    // Subagents.
    #[serde(default, borrow)]
    pub tool: Option<&'a RawValue>,
    pub agent_thread_id: Option<String>,
    pub agent_path: Option<String>,
    #[serde(rename = "kind")]
    pub activity: Option<String>,
    #[serde(default)]
    pub receiver_thread_ids: Vec<String>,
    pub prompt: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Duration {
    #[serde(default)]
    secs: u64,
    #[serde(default)]
    nanos: u64,
}

impl Duration {
    pub(super) fn as_millis(self) -> u64 {
        // Both numbers are the file's: they may be anything.
        self.secs.saturating_mul(1_000).saturating_add(self.nanos / 1_000_000)
    }
}

#[derive(Deserialize)]
pub(super) struct TokenInfo {
    pub total_token_usage: CodexTokens,
    pub last_token_usage: CodexTokens,
}

#[derive(Deserialize)]
pub(super) struct UsageRecord {
    pub response_id: Option<String>,
    pub usage: CodexTokens,
    pub thread_token_usage: Option<CodexTokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CodexTokens {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
    pub total_tokens: u64,
}

impl CodexTokens {
    /// As everybody counts them: what was cached is no input any more. Some servers count it
    /// beside the input from the start, which shows where there is more of it.
    pub(super) fn token_usage(&self) -> event::payload::TokenUsage {
        // Caches are part of `input_tokens` in the real API and must not be counted twice.
        let cached = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        let input = self.input_tokens.checked_sub(cached).unwrap_or(self.input_tokens);
        event::payload::TokenUsage {
            input_tokens: Some(input),
            output_tokens: Some(self.output_tokens),
            cache_read_tokens: Some(self.cached_input_tokens),
            cache_creation_tokens: Some(self.cache_write_input_tokens).filter(|tokens| *tokens > 0),
            reasoning_tokens: Some(self.reasoning_output_tokens),
            ..event::payload::TokenUsage::default()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Compacted {
    #[serde(default)]
    pub message: Option<String>,
}
