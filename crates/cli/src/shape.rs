//! JSON output of single commands; shapes shared with HTTP are in `wire`. Fields are added, never
//! renamed; unknown is `null`.

use event::payload::ToolCall;
use event::{EventId, Raw, Time};
use journal::{Ancestry, SessionInfo};
use projection::{Chapter, DigestFact, FactOrigin};
use serde::Serialize;
use session::view::{EffectiveView, HistoryEntry, Repair};

#[derive(Serialize)]
pub(crate) struct EntryShape {
    pub event_id: Option<EventId>,
    pub seq: Option<u64>,
    pub kind: String,
    pub role: &'static str,
    pub context_kind: Option<String>,
    pub placement: Option<String>,
    pub content: serde_json::Value,
    /// The calls of an answer that have results.
    pub calls: Vec<CallShape>,
    /// The call that a result answers.
    pub tool: Option<ToolShape>,
}

#[derive(Serialize)]
pub(crate) struct CallShape {
    pub call_id: String,
    pub name: String,
    pub input: Raw,
}

#[derive(Serialize)]
pub(crate) struct ToolShape {
    pub call_id: String,
    pub name: String,
    pub input: Raw,
    pub is_error: bool,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct RepairShape {
    pub seq: u64,
    pub why: String,
}

#[derive(Serialize)]
pub(crate) struct EffectiveShape {
    pub entries: Vec<EntryShape>,
    pub tokens_estimate: u64,
    /// The compaction or snapshot that the history stands on.
    pub base_seq: Option<u64>,
    /// What was left out or moved, and why.
    pub repairs: Vec<RepairShape>,
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

impl From<&HistoryEntry> for EntryShape {
    fn from(entry: &HistoryEntry) -> EntryShape {
        EntryShape {
            event_id: entry.event_id,
            seq: entry.seq,
            kind: entry.kind.to_string(),
            role: entry.role.as_str(),
            context_kind: entry.context_kind.as_ref().map(ToString::to_string),
            placement: entry.placement.as_ref().map(ToString::to_string),
            content: serde_json::to_value(&*entry.content).unwrap_or_default(),
            calls: entry.calls.iter().map(|call| CallShape::from(&**call)).collect(),
            tool: entry.note.as_ref().map(|note| ToolShape {
                call_id: note.call_id.clone(),
                name: note.name.clone(),
                input: note.input.clone(),
                is_error: note.is_error,
                error: note.error.clone(),
                duration_ms: note.duration_ms,
            }),
        }
    }
}

impl From<&ToolCall> for CallShape {
    fn from(call: &ToolCall) -> CallShape {
        CallShape {
            call_id: call.call_id.clone(),
            name: call.tool.clone(),
            input: call.input.clone(),
        }
    }
}

impl From<&EffectiveView> for EffectiveShape {
    fn from(view: &EffectiveView) -> EffectiveShape {
        let repair = |repair: &Repair| RepairShape { seq: repair.seq, why: repair.why.to_string() };
        EffectiveShape {
            entries: view.entries().map(|entry| EntryShape::from(&**entry)).collect(),
            tokens_estimate: tokens_estimate(view),
            base_seq: view.base_seq(),
            repairs: view.repairs().map(repair).collect(),
        }
    }
}

/// Estimates tokens at four characters each, enough to see how full a context window is.
fn tokens_estimate(view: &EffectiveView) -> u64 {
    view.entries().map(|entry| entry.text().chars().count() as u64).sum::<u64>().div_ceil(4)
}

/// One epoch with its facts.
#[derive(Serialize)]
pub(crate) struct EpochShape<'a> {
    pub epoch: u64,
    pub tag: String,
    pub cause: Option<&'a str>,
    pub from_seq: u64,
    pub to_seq: u64,
    pub started_at: Time,
    pub last_at: Time,
    pub title: Option<String>,
    /// `heuristic` or `model`.
    pub title_origin: Option<FactOrigin>,
    /// Tags given by a model.
    pub tags: Vec<String>,
    /// The priority given by a model.
    pub priority: Option<String>,
    pub facts: Vec<DigestFact>,
}

impl<'a> EpochShape<'a> {
    pub(crate) fn from_chapter(info: &SessionInfo, chapter: Chapter<'a>) -> EpochShape<'a> {
        let (title, title_origin) = chapter.title().unzip();
        let Chapter { epoch, facts, naming, .. } = chapter;
        let own = info.provider_session_id.as_deref().unwrap_or(info.id.as_str());
        EpochShape {
            epoch: epoch.number,
            tag: epoch.tag(&info.provider, own),
            cause: epoch.closed.as_ref().map(|closed| closed.cause.as_str()),
            from_seq: epoch.from_seq,
            to_seq: epoch.to_seq,
            started_at: epoch.started_at,
            last_at: epoch.last_at,
            title,
            title_origin,
            tags: naming.map(|naming| naming.tags.clone()).unwrap_or_default(),
            priority: naming.and_then(|naming| naming.priority.clone()),
            facts,
        }
    }
}
