//! Codex: one rollout a thread, `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`.
//!
//! Every line says itself in which of the vocabularies it is written: what the model saw and said
//! (`response_item`) owns the talk, what the screen was told (`event_msg`) adds turns, usage and
//! commands, and owns the talk only where there are no response items. A fork repeats its
//! parent's lines under new times, or begins where the parent's file was left; a subagent's file
//! repeats lines it does not own.

mod event_msg; // what the screen was told
mod item; // what the model saw and said
mod rollout; // the shapes
mod state; // what has to be known of the lines before
mod hooks; // what its hooks say
mod telemetry; // what it exports

use std::path::Path;

use event::payload::{SessionMode, StepCompleted, TokenUsage};
use event::{Draft, Time, json};
use serde_json::value::RawValue;

use self::rollout::{CodexLine, CodexTokens, Compacted, Meta, TurnContext, UsageRecord};
use self::state::CodexState;
use crate::agent::calls::ID_BYTES_MAX;
use crate::agent::{
    Agent, LineageHint, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::hook::HookMap;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;
use crate::source::Source;
use crate::telemetry::TelemetryMap;
use crate::thread_state::SessionSettings;

pub(crate) struct Codex;

/// Lines that say nothing to people.
const SILENT: &[&str] =
    &["world_state", "retained_context", "inter_agent_communication_metadata", "ghost_snapshot"];

impl Agent for Codex {
    fn provider(&self) -> &'static str {
        "codex"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let home = environment.agent_folder("CODEX_HOME", ".codex");
        // Three folders deep: year, month and day.
        let root = |folder: &str| SourceRoot { path: home.join(folder), depth_max: 3 };
        vec![root("sessions"), root("archived_sessions")]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let name = path.file_name()?.to_str()?;
        let (stem, form) = match name.strip_suffix(".zst") {
            Some(packed) => (packed, SourceForm::PackedLines),
            None => (name, SourceForm::Lines),
        };
        let stem = stem.strip_suffix(".jsonl")?;
        let rest = stem.strip_prefix("rollout-")?;
        // A name without a uuid still is a rollout; its head tells the thread.
        let session = thread_in(rest).unwrap_or(stem).to_owned();
        Some(RecognizedSource { form, session, role: SourceRole::Main })
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        // What a subagent repeats is told by number where it can be.
        if json::number_member(line, "subagent_history_start_ordinal").is_some() {
            return LineageHint::default();
        }
        let parent = json::string_member(line, "forked_from_id").map(str::to_owned);
        // A fork of 0.166 holds its own lines only, from the ordinal at which it left the parent's
        // file.
        let begins_at = json::number_member(line, "ordinal").filter(|ordinal| *ordinal > 0);
        LineageHint { parent, begins_at, ..LineageHint::default() }
    }

    fn telemetry(&self) -> Option<&'static TelemetryMap> {
        Some(&telemetry::TELEMETRY)
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["codex", "resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        Box::new(Rollout { named: source.session.clone(), state })
    }
}

/// The thread in the name of a rollout: a uuid at its end, or before the uuid of a continuation.
fn thread_in(name: &str) -> Option<&str> {
    const UUID_LEN: usize = 36;
    // A backtrack (Esc Esc) goes on in `rollout-<time>-<thread>_<uuid>.jsonl`.
    let name = name.split_once('_').map_or(name, |(name, _)| name);
    let uuid = name.get(name.len().checked_sub(UUID_LEN)?..)?;
    let is_uuid = uuid.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uuid.then_some(uuid)
}

/// Reads one rollout.
struct Rollout {
    /// The session as the file's name tells it.
    named: String,
    state: CodexState,
}

impl Parser for Rollout {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let line: CodexLine<'_> = match serde_json::from_str(&record.text) {
            Ok(line) => line,
            Err(error) => {
                return builder.add_unknown(record, "malformed", Some(&error.to_string()));
            }
        };
        // The builder begins each record with the session of the file's name; the head may have
        // told another.
        if let Some(thread) = &self.state.thread {
            builder.switch_session(thread);
        }
        // A subagent's file begins with a copy of its parent's items.
        if line.ordinal.zip(self.state.own_from).is_some_and(|(ordinal, own)| ordinal < own) {
            return builder.count_silent();
        }
        let at = line.parse_time();
        let known = match (line.kind.as_deref(), line.payload) {
            // Lines in an envelope: the two views of the talk, usage, and settings.
            (Some("response_item"), Some(payload)) => self.parse_item(payload.get(), at, builder),
            (Some("event_msg"), Some(payload)) => self.event_msg(payload.get(), at, builder),
            (Some("token_usage_record"), Some(payload)) => self.usage_record(payload, at, builder),
            (Some("turn_context"), Some(payload)) => self.turn_context(payload, at, builder),
            (Some("session_meta"), Some(payload)) => {
                self.parse_meta(payload.get(), line.ordinal, at, builder)
            }
            (Some("compacted"), Some(payload)) => self.compacted(payload, at, builder),
            (Some(kind), _) if SILENT.contains(&kind) => Ok(CodexOutcome::Silent),
            // The first versions: bookkeeping, the head, and items without an envelope.
            (None, None) if line.record_type.is_some() => Ok(CodexOutcome::Silent),
            (None, None) => self.parse_meta(&record.text, None, at, builder),
            (Some(_), None) => self.parse_item(&record.text, at, builder),
            _ => Ok(CodexOutcome::Unknown(line.kind.clone().unwrap_or_default())),
        };
        match known {
            Ok(CodexOutcome::Added) => {}
            Ok(CodexOutcome::Silent) => builder.count_silent(),
            Ok(CodexOutcome::Unknown(kind)) => builder.add_unknown(record, &kind, None),
            Err(error) => {
                let kind = line.kind.as_deref().unwrap_or("without type");
                builder.add_unknown(record, kind, Some(&error.to_string()));
            }
        }
    }

    fn own_begins(&mut self) {
        // What a parent was asked is not what its subagent is asked.
        self.state.has_task = false;
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("state always encodes")
    }
}

/// What became of a line.
enum CodexOutcome {
    Added,
    Silent,
    /// By what the agent calls it.
    Unknown(String),
}

type Understood = Result<CodexOutcome, serde_json::Error>;

impl Rollout {
    /// The first head is the thread's own. Further ones come with lines of another thread.
    fn parse_meta(
        &mut self,
        json: &str,
        ordinal: Option<u64>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let meta: Meta<'_> = serde_json::from_str(json)?;
        let id = meta.id.as_ref().filter(|id| id.len() <= ID_BYTES_MAX);
        let Some(id) = id else { return Ok(CodexOutcome::Unknown("without type".to_owned())) };
        let own = self.state.thread.as_ref().unwrap_or(&self.named);
        // The lines that a subagent copies contain their own thread's head.
        if self.state.has_meta && id != own {
            return Ok(CodexOutcome::Silent);
        }
        if !self.state.has_meta && *id != self.named {
            self.state.thread = Some(id.clone());
            builder.switch_session(id);
        }
        let is_first = !std::mem::replace(&mut self.state.has_meta, true);
        self.state.is_child = meta.is_child();
        // The lower ordinals of a fork are in its parent's file; only a subagent has copies to
        // skip.
        self.state.own_from = meta.subagent_history_start_ordinal.filter(|_| meta.is_child());
        if meta.is_child() {
            if let Some(parent) = meta.parent_thread() {
                builder.set_parent(&parent, SessionMode::Child, meta.agent_path.clone());
            }
            // Without a number nothing tells which lines are its own.
            if meta.forked_from_id.is_some() && self.state.own_from.is_none() {
                builder.repeats_parent();
            }
        } else if let Some(parent) = &meta.forked_from_id {
            builder.set_parent(parent, SessionMode::Fork, None);
        }
        // What a child is told to do may be encrypted; what it is called is not.
        let title = meta.agent_path.as_deref().filter(|_| meta.is_child()).map(agent_title);
        let entry_point = meta.entry_point();
        let (branch, remote) =
            meta.git.map(|git| (git.branch, git.repository_url)).unwrap_or_default();
        builder.settings(
            at,
            SessionSettings {
                agent_version: meta.cli_version,
                cwd: meta.cwd,
                branch,
                remote,
                entry_point,
                title,
                ..SessionSettings::default()
            },
        );
        // A file that does not begin at the beginning takes back what the thread said since.
        let goes_on = is_first && ordinal.is_some_and(|ordinal| ordinal > 0);
        // A fork begins at a higher ordinal as well and takes nothing back. The continuation of a
        // forked thread names the same origin, but the event it goes back to is known by now.
        let effective = builder.rewound_to();
        let is_fork = meta.forked_from_id.is_some() && effective.is_none();
        if goes_on && !is_fork && !self.state.is_child {
            let identity = EventIdentity::in_session(&["rewind", &builder.record_name()]);
            builder.add_rewind(identity, at, effective);
        }
        Ok(CodexOutcome::Added)
    }

    fn turn_context(
        &mut self,
        json: &RawValue,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let context: TurnContext<'_> = serde_json::from_str(json.get())?;
        self.state.enter_turn(context.turn_id.as_deref());
        builder.settings(
            at,
            SessionSettings {
                model: context.model,
                cwd: context.cwd,
                permission_mode: context.approval_policy.and_then(json::text),
                ..SessionSettings::default()
            },
        );
        Ok(CodexOutcome::Added)
    }

    fn compacted(
        &mut self,
        json: &RawValue,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let compacted: Compacted = json::read(json.get())?;
        let summary = compacted.message.filter(|message| !message.is_empty());
        let identity = self.state.identity(builder, "compaction");
        builder.compacted(identity, at, summary, None);
        self.state.compacted();
        Ok(CodexOutcome::Added)
    }

    fn usage_record(
        &mut self,
        json: &RawValue,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let record: UsageRecord = json::read(json.get())?;
        // From here on the running totals of `token_count` would count the same tokens again.
        self.state.usage_told(record.thread_token_usage.map(|tokens| tokens.total_tokens));
        // The response's id is the same in a fork's copy; without it only the order in the turn is.
        let identity = match &record.response_id {
            Some(response) => self.state.turn_identity("usage", response),
            None => self.state.identity(builder, "usage"),
        };
        let mode = self.state.mode.clone();
        add_step_usage(identity, at, record.response_id, &record.usage, mode, builder);
        Ok(CodexOutcome::Added)
    }
}

/// A name in a tree of agents, in words.
fn agent_title(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().replace('_', " ")
}

/// What one request to the model used.
fn add_step_usage<'a>(
    identity: EventIdentity,
    at: Option<Time>,
    response_id: Option<String>,
    tokens: &CodexTokens,
    mode: Option<String>,
    builder: &'a mut EventBuilder<'_>,
) -> &'a mut Draft {
    // Usage names no model: it is the one that the last `turn_context` set.
    let model = builder.known_settings().model.clone();
    let usage = Some(TokenUsage { mode, ..tokens.token_usage() });
    let step = StepCompleted { model, response_id, usage, ..StepCompleted::default() };
    builder.add_event(identity, at, &step)
}
