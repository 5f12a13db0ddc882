//! Claude Code: one transcript a session, one a subagent, below `~/.claude/projects`.
//!
//! Records with a `uuid` are the same fact wherever they stand: a fork repeats them. One answer of
//! the model is several records, a block each, every one with the usage so far.
//!
//! Not here: the registry of live processes, hooks, telemetry.

mod line; // the shape of a record
mod user; // what people say, and what only looks so
mod wrapper; // texts in a person's place that no person typed
mod answer; // what the model says
mod request; // what the model was asked, and what it used
mod meaning; // calls that are more than calls
mod result; // what tools give back
mod attachment; // what is put in front of the model
mod state; // settings and marks between the talk
mod cost_state; // what the agent says a session has cost
mod hooks; // what its hooks say

use std::path::Path;

use event::payload::SessionMode;
use serde::{Deserialize, Serialize};

use crate::agent::calls::{Calls, Nothing};
use crate::agent::{
    Agent, LineageHint, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::branches::Branches;
use crate::environment::Environment;
use crate::event_builder::EventBuilder;
use crate::hook::HookMap;
use crate::identity::EventIdentity;
use crate::lineage::lineage_hint_by_uuid;
use crate::record::SourceRecord;
use crate::source::{Source, short_hash};
use crate::thread_state::SessionSettings;
use line::ClaudeLine;
use request::Requests;
use state::Boundary;

pub(crate) struct Claude;

/// `<project>/<session>/subagents/workflows/<run>` is the deepest folder with transcripts.
const DEPTH_MAX: usize = 5;

impl Agent for Claude {
    fn provider(&self) -> &'static str {
        "claude"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let path = environment.agent_folder("CLAUDE_CONFIG_DIR", ".claude").join("projects");
        vec![SourceRoot { path, depth_max: DEPTH_MAX }]
    }

    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        // Claude writes ASCII names only (in a project's, every other character becomes `-`), so a
        // name that is not UTF-8 is no transcript.
        let names: Option<Vec<&str>> = path.iter().map(|name| name.to_str()).collect();
        let names = names?;
        let stem = names.last()?.strip_suffix(".jsonl").filter(|stem| !stem.is_empty())?;
        let role = match names[..] {
            // `<project>/<session>/subagents/[workflows/<run>/]agent-<id>.jsonl`.
            [_, session, "subagents", .., _] if stem.starts_with("agent-") => {
                SourceRole::Subagent { parent: session.to_owned() }
            }
            // Beside the sessions, its name does not contain the parent.
            [_, _] if stem.starts_with("agent-") => SourceRole::Subagent { parent: String::new() },
            [_, _] => SourceRole::Main,
            _ => return None,
        };
        Some(RecognizedSource { form: SourceForm::Lines, session: stem.to_owned(), role })
    }

    fn lineage_hint(&self, head: &[u8]) -> LineageHint {
        lineage_hint_by_uuid(head)
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        // `--resume` takes sessions; a subagent's transcript is only a part of one.
        let is_subagent = session.starts_with("agent-");
        (!is_subagent).then(|| ["claude", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let state = saved.and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        let below_project = source.path.strip_prefix(&source.root).unwrap_or(Path::new(""));
        Box::new(ClaudeTranscript {
            role: source.role.clone(),
            stem: source.stem().to_owned(),
            // Below the root stand the project, the folders and the file: two of the names are no
            // folders.
            folders: below_project.iter().count().saturating_sub(2),
            state,
        })
    }
}

/// Records that say nothing to people.
const SILENT: &[&str] = &[
    // Steps of tools; the results tell them better.
    "progress",
    // Copies of files, and the origin of their lines.
    "file-history-snapshot",
    "file-history-delta",
    "attribution-snapshot",
    // Requests as they were sent, and what was left out of them.
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "content-replacement",
    "fork-context-ref",
    "marble-origami-commit",
    "marble-origami-reset",
    "marble-origami-snapshot",
    "speculation-accept",
    // Marks for the agent's own screen and its other halves.
    "agent-color",
    "agent-setting",
    "atis-latch",
    "bridge-session",
    "goal-state",
    "history-suppression",
    "isolation-latch",
    "last-prompt",
    "mode",
    "tag",
    "task-summary",
    "tools-used",
    "worktree-state",
];

/// One transcript while it is read.
struct ClaudeTranscript {
    role: SourceRole,
    stem: String,
    /// How many folders it lies below its project's.
    folders: usize,
    state: ClaudeState,
}

/// What has to be known of the records before.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ClaudeState {
    is_begun: bool,
    /// The turn has ended; a second end of it is no news.
    is_turn_over: bool,
    /// The agent was closed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_left: bool,
    /// A hash of the sums that were told last: the agent writes them again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_report: Option<String>,
    /// A person named the session; what the agent would call it does not count any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_own_title: bool,
    requests: Requests,
    calls: Calls<Nothing>,
    branches: Branches,
    /// A compaction that still waits for its summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    boundary: Option<Boundary>,
}

impl Parser for ClaudeTranscript {
    fn read_record(&mut self, record: &SourceRecord<'_>, builder: &mut EventBuilder<'_>) {
        let line: ClaudeLine<'_> = match record.read() {
            Ok(line) => line,
            Err(error) => {
                // The shape did not fit, but the type alone mostly still reads and names the
                // unknown record.
                let kind = record.read::<line::ClaudeLineKind<'_>>().ok();
                let kind = kind.as_ref().map_or("no record", |kind| &kind.kind);
                return builder.add_unknown(record, kind, Some(&error.to_string()));
            }
        };
        if let Err(error) = self.parse_line(record, &line, builder) {
            builder.add_unknown(record, &line.kind, Some(&error.to_string()));
        }
    }

    fn holds_event(&self) -> bool {
        self.state.requests.holds_usage() || self.state.boundary.is_some()
    }

    fn flush_held(&mut self, builder: &mut EventBuilder<'_>) {
        self.state.requests.tell_held(builder);
        self.close_boundary(None, builder);
    }

    fn save_state(&self) -> String {
        serde_json::to_string(&self.state).expect("the state always encodes")
    }
}

impl ClaudeTranscript {
    /// One record by its type. Everything that is not in this table is unknown.
    fn parse_line(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        // This order has to hold: a parent is set before the first event, and a resume is told
        // before the record that resumes.
        self.link_parent(line, builder);
        link_fork_parent(line, builder);
        self.come_back(line, builder);
        match &*line.kind {
            "user" => self.parse_user(line, builder)?,
            "assistant" => self.assistant(record, line, builder)?,
            "system" => self.parse_system(record, line, builder)?,
            "attachment" => self.attachment(record, line, builder)?,
            "queue-operation" => self.note_queued(line, builder),
            // State records have no uuid, and Claude writes them again and again: the last one
            // wins, and `settings` tells only what changed.
            "permission-mode" => {
                let permission_mode = line.permission_mode.as_deref().map(str::to_owned);
                builder.settings(
                    line.parse_time(),
                    SessionSettings { permission_mode, ..SessionSettings::default() },
                );
            }
            // Titles that a person gave, then those that the agent made up.
            "custom-title" | "agent-name" => self.set_title(line, true, builder),
            "ai-title" | "summary" => self.set_title(line, false, builder),
            "relocated" => {
                let cwd = line.relocated_cwd.as_deref().map(str::to_owned);
                builder.settings(
                    line.parse_time(),
                    SessionSettings { cwd, ..SessionSettings::default() },
                );
            }
            "pr-link" => {
                let url = line.pr_url.as_deref().unwrap_or_default().to_owned();
                builder.add_note(
                    identity(line, "note", builder),
                    line.parse_time(),
                    "pull request",
                    url,
                );
            }
            // Written when the agent is closed.
            "cost-state" => {
                self.state.is_left = true;
                // The sums have requests in them that are held back, so those go first.
                self.flush_held(builder);
                cost_state::add_report(line, &mut self.state.last_report, builder)?;
            }
            kind if SILENT.contains(&kind) => builder.count_silent(),
            kind => {
                // What is new mostly comes with a new version.
                self.surroundings(line, builder);
                builder.add_unknown(record, kind, None);
            }
        }
        Ok(())
    }

    /// The first message after the agent was closed: the user has resumed the session.
    fn come_back(&mut self, line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
        // State records, which have no uuid, may follow the closing one: only a record of the talk
        // is a return.
        let Some(uuid) = line.uuid.as_deref().filter(|_| self.state.is_left) else { return };
        self.state.is_left = false;
        // What is held back belongs to the run that was closed, so it goes before the new one.
        self.flush_held(builder);
        // A copy of the session does not mean that this one was resumed.
        builder.add_resume(EventIdentity::in_session(&["resumed", uuid]), line.parse_time());
    }

    /// Sets the parent of a subagent before its first event.
    fn link_parent(&mut self, line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
        let SourceRole::Subagent { parent } = &self.role else { return };
        if self.state.is_begun {
            return;
        }
        // The folder names the parent. A transcript beside the sessions names it in its records
        // only.
        let named = line.session_id.as_deref();
        let parent = Some(parent.as_str()).filter(|parent| !parent.is_empty()).or(named);
        let Some(parent) = parent else { return };
        self.state.is_begun = true;
        // `agent-<id>.meta.json` names the parent's call. Without it the subagent is linked to the
        // session as a whole.
        let meta = builder.read_beside(&format!("{}.meta.json", self.stem));
        let meta =
            meta.and_then(|parse_meta| serde_json::from_str::<line::ClaudeMeta>(&parse_meta).ok());
        builder.set_parent(parent, SessionMode::Child, meta.and_then(|meta| meta.tool_use_id));
    }

    /// What every record of the talk says beside it.
    fn surroundings(&self, line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
        // What a subagent does in its parent's file says nothing of the session.
        if line.is_sidechain && self.role == SourceRole::Main {
            return;
        }
        let known = builder.known_settings();
        let news = |known: &Option<String>, said: Option<&str>| {
            said.filter(|said| known.as_deref() != Some(said)).map(str::to_owned)
        };
        let settings = SessionSettings {
            agent_version: news(&known.agent_version, line.version.as_deref()),
            cwd: news(&known.cwd, line.cwd.as_deref()),
            branch: news(&known.branch, line.git_branch.as_deref()),
            entry_point: news(&known.entry_point, line.entrypoint.as_deref()),
            permission_mode: news(&known.permission_mode, line.permission_mode.as_deref()),
            ..SessionSettings::default()
        };
        if settings != SessionSettings::default() {
            builder.settings(line.parse_time(), settings);
        }
    }

    /// Whether the record is about what a subagent does.
    fn is_subagent(&self, line: &ClaudeLine<'_>) -> bool {
        line.is_sidechain || self.role != SourceRole::Main
    }
}

/// Every copied record of a fork names the session it comes from, which may be unknown here.
fn link_fork_parent(line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
    // Every copied record repeats the origin, so the first one is enough: the others are not parsed
    // for it.
    let copied = line.forked_from.filter(|_| !builder.has_parent());
    let copied = copied.and_then(|from| serde_json::from_str::<line::Copied<'_>>(from.get()).ok());
    // The TUI's `/branch` writes `forkedFrom` (2.1.325). `--fork-session` names no origin: there
    // the copies are found by their uuids.
    if let Some(session) = copied.and_then(|copied| copied.session_id)
        && line.session_id.as_ref() != Some(&session)
    {
        builder.set_parent(&session, SessionMode::Fork, None);
    }
}

/// Which fact of a record it is. Records without a name of their own are known by their place.
fn identity(line: &ClaudeLine<'_>, part: &str, builder: &EventBuilder<'_>) -> EventIdentity {
    match line.uuid.as_deref() {
        Some(uuid) => EventIdentity::everywhere(&[uuid, part]),
        None => EventIdentity::in_session(&["at", &builder.record_name(), part]),
    }
}

/// An id that fits into the state, however long the agent's is.
fn shorten_id(id: &str) -> String {
    // A uuid has 36 characters: ids as Claude writes them stay readable in the state.
    const LEN_MAX: usize = 64;
    if id.len() <= LEN_MAX { id.to_owned() } else { short_hash(&[id]) }
}
