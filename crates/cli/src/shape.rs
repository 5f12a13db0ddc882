//! The JSON contracts of the commands. Fields are added, never renamed; unknown is `null`.

use std::collections::BTreeMap;

use event::payload::SessionMode;
use event::{Cost, Event, EventId, Kind, SessionId, Time};
use journal::{Ancestry, Hit, SessionInfo};
use serde::Serialize;
use session::Turn;
use session::view::HistoryEntry;

/// A session. What no adapter has told yet is `null`.
#[derive(Serialize, Default)]
pub(crate) struct SessionShape {
    pub id: String,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub agent_version: Option<String>,
    pub parent_id: Option<SessionId>,
    pub relation: &'static str,
    pub project: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    pub model: Option<String>,
    pub title: Option<String>,
    pub started_at: Option<Time>,
    pub last_event_at: Option<Time>,
    pub status: Option<String>,
    pub ending: Option<String>,
    pub epochs: Option<u64>,
    pub counts: CountsShape,
    pub tokens: Option<TokensShape>,
    pub usd: Option<Cost>,
    pub basis: Option<&'static str>,
    pub source_missing: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<TurnShape>>,
}

/// What a session did by itself.
#[derive(Serialize, Default)]
pub(crate) struct CountsShape {
    pub prompts: Option<u64>,
    pub queued: Option<u64>,
    pub responses: Option<u64>,
    pub tool_calls: Option<u64>,
    pub tool_results: Option<u64>,
    pub compactions: Option<u64>,
    pub events: u64,
    pub unknown: Option<u64>,
}

#[derive(Serialize, Default)]
pub(crate) struct TokensShape {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub reasoning: u64,
}

#[derive(Serialize)]
pub(crate) struct TurnShape {
    pub id: String,
    pub seq_from: u64,
    pub seq_to: u64,
    pub started_at: Time,
    pub completed_at: Option<Time>,
    pub status: &'static str,
    pub prompt: Option<String>,
    pub answer: Option<String>,
    pub tools: BTreeMap<String, u64>,
    pub approvals: u64,
    pub errors: u64,
    pub files: FilesShape,
}

#[derive(Serialize)]
pub(crate) struct FilesShape {
    pub read: Vec<String>,
    pub modified: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct EntryShape {
    pub event_id: Option<EventId>,
    pub kind: String,
    pub role: &'static str,
    pub placement: Option<String>,
    pub content: serde_json::Value,
    pub tool: Option<ToolShape>,
}

#[derive(Serialize)]
pub(crate) struct ToolShape {
    pub call_id: String,
    pub name: String,
    pub is_error: bool,
}

#[derive(Serialize)]
pub(crate) struct EffectiveShape {
    pub entries: Vec<EntryShape>,
    pub tokens_estimate: u64,
}

#[derive(Serialize)]
pub(crate) struct HitShape {
    pub session_id: SessionId,
    pub seq: u64,
    pub event_id: EventId,
    pub kind: String,
    pub provider: String,
    pub project: Option<String>,
    pub created_at: Time,
    pub snippet: String,
    /// Where the words stand in the snippet: first and behind the last byte.
    pub highlights: Vec<(usize, usize)>,
    pub score: f64,
}

#[derive(Serialize)]
pub(crate) struct FoundShape {
    pub total: usize,
    pub total_is_exact: bool,
    pub complete: bool,
    pub hits: Vec<HitShape>,
    pub next: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct LineageShape {
    pub lineage: Vec<Ancestry>,
    pub children: Vec<Ancestry>,
}

#[derive(Serialize)]
pub(crate) struct DoctorShape {
    pub ok: bool,
    pub checks: Vec<CheckShape>,
}

#[derive(Serialize)]
pub(crate) struct CheckShape {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    pub fix: Option<String>,
}

/// A page of something.
#[derive(Serialize)]
pub(crate) struct PageShape<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

impl From<&SessionInfo> for SessionShape {
    fn from(info: &SessionInfo) -> SessionShape {
        SessionShape {
            id: info.id.to_string(),
            provider: info.provider.clone(),
            provider_session_id: info.provider_session_id.clone(),
            parent_id: info.ancestry.parent_session_id.clone(),
            relation: match info.mode() {
                None => "main",
                Some(SessionMode::Fork) => "fork",
                Some(SessionMode::Resume) => "resume",
                Some(SessionMode::Child | SessionMode::Other(_)) => "child",
            },
            project: info.project.clone(),
            cwd: info.cwd.clone(),
            model: info.model.clone(),
            title: info.title.clone(),
            started_at: Some(info.started_at),
            last_event_at: Some(info.last_event_at),
            counts: CountsShape { events: info.events, ..CountsShape::default() },
            usd: Some(info.cost),
            basis: Some("incomplete"),
            ..SessionShape::default()
        }
    }
}

impl CountsShape {
    /// Counts a session's own events.
    pub(crate) fn of(events: &[Event]) -> CountsShape {
        let own = || events.iter().filter(|event| event.fork_origin().is_none());
        let count = |kind: Kind| Some(own().filter(|event| event.kind == kind).count() as u64);
        let mut answers = std::collections::BTreeSet::new();
        for event in own().filter(|event| event.kind.is_answer()) {
            let members = event.data.members().unwrap_or_default();
            let id = members.into_iter().find(|(name, _)| name == "message_id");
            let id = id.and_then(|(_, id)| id.text()).filter(|id| !id.is_empty());
            answers.insert(id.unwrap_or_else(|| event.id.to_string()));
        }
        CountsShape {
            prompts: count(Kind::UserPrompt),
            queued: None,
            responses: Some(answers.len() as u64),
            tool_calls: count(Kind::ToolCall),
            tool_results: count(Kind::ToolResult),
            compactions: count(Kind::Compaction),
            events: own().count() as u64,
            unknown: count(Kind::Unknown),
        }
    }
}

impl From<Turn> for TurnShape {
    fn from(turn: Turn) -> TurnShape {
        TurnShape {
            id: turn.id,
            seq_from: turn.seq_from,
            seq_to: turn.seq_to,
            started_at: turn.started_at,
            completed_at: turn.completed_at,
            status: turn.status.as_str(),
            prompt: turn.prompt,
            answer: turn.answer,
            tools: turn.tools,
            approvals: turn.approvals,
            errors: turn.errors,
            files: FilesShape { read: turn.read_files, modified: turn.modified_files },
        }
    }
}

impl From<&HistoryEntry> for EntryShape {
    fn from(entry: &HistoryEntry) -> EntryShape {
        EntryShape {
            event_id: entry.event_id,
            kind: entry.kind.to_string(),
            role: entry.role.as_str(),
            placement: entry.placement.as_ref().map(ToString::to_string),
            content: serde_json::to_value(&*entry.content).unwrap_or_default(),
            tool: entry.note.as_ref().map(|note| ToolShape {
                call_id: note.call_id.clone(),
                name: note.name.clone(),
                is_error: note.is_error,
            }),
        }
    }
}

impl From<Hit> for HitShape {
    fn from(hit: Hit) -> HitShape {
        HitShape {
            session_id: hit.session_id,
            seq: hit.seq,
            event_id: hit.event_id,
            kind: hit.kind.to_string(),
            provider: hit.provider,
            project: hit.project,
            created_at: hit.created_at,
            snippet: hit.snippet,
            highlights: hit.highlights.into_iter().map(|range| (range.start, range.end)).collect(),
            score: hit.score,
        }
    }
}
