//! The JSON contracts of the commands. Fields are added, never renamed; unknown is `null`.

use std::collections::BTreeMap;

use daemon::SessionStatus;
use event::payload::SessionMode;
use event::{Cost, EventId, SessionId, Time};
use journal::{Ancestry, Hit, SessionInfo};
use projection::status::Evidence;
use projection::{Counts, DigestFact, Epoch, Facts, Outcome, PriceTable, Spent, Tokens, Turn};
use serde::Serialize;
use session::view::HistoryEntry;

/// A session. What no adapter has told yet is `null`.
#[derive(Serialize)]
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
    pub ending: Option<&'static str>,
    pub epochs: Option<u64>,
    pub counts: CountsShape,
    pub tokens: Option<TokensShape>,
    pub usd: Option<Cost>,
    pub basis: Option<&'static str>,
    pub source_missing: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<TurnShape>>,
}

/// What a session is doing, and why we think so.
#[derive(PartialEq, Eq, Serialize)]
pub(crate) struct StatusShape {
    pub session_id: SessionId,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub project: Option<String>,
    pub title: Option<String>,
    pub status: &'static str,
    pub reason: &'static str,
    pub since: Time,
    pub confidence: String,
    pub evidence: Vec<EvidenceShape>,
    pub turn_id: Option<String>,
    pub pending_approvals: Vec<String>,
    pub pid: Option<u32>,
    pub summary: SummaryShape,
    /// The agent's file has news that is not in the journal.
    pub behind: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overruled: Option<Vec<OverruledShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<ChangeShape>>,
}

#[derive(PartialEq, Eq, Serialize)]
pub(crate) struct EvidenceShape {
    pub what: String,
    pub source: String,
    pub at: Time,
    pub event_id: Option<EventId>,
    pub confidence: String,
    pub ends: &'static str,
}

#[derive(PartialEq, Eq, Serialize)]
pub(crate) struct OverruledShape {
    #[serde(flatten)]
    pub evidence: EvidenceShape,
    pub says: &'static str,
    pub why: String,
}

#[derive(PartialEq, Eq, Serialize)]
pub(crate) struct ChangeShape {
    pub at: Time,
    pub status: &'static str,
    pub because: &'static str,
}

#[derive(PartialEq, Eq, Serialize)]
pub(crate) struct SummaryShape {
    pub current: String,
    pub recent: Option<String>,
    pub last_prompt: Option<String>,
}

/// What a session did by itself.
#[derive(Serialize)]
pub(crate) struct CountsShape {
    pub prompts: u64,
    pub queued: u64,
    pub responses: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    pub compactions: u64,
    pub events: u64,
    pub unknown: u64,
}

#[derive(Serialize)]
pub(crate) struct TokensShape {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    pub reasoning: u64,
}

/// Tokens and money, grouped.
#[derive(Serialize)]
pub(crate) struct UsageShape {
    pub rows: Vec<UsageRowShape>,
    pub total: SpentShape,
}

#[derive(Serialize)]
pub(crate) struct UsageRowShape {
    pub key: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    #[serde(flatten)]
    pub spent: SpentShape,
}

#[derive(Serialize)]
pub(crate) struct SpentShape {
    #[serde(flatten)]
    pub tokens: TokensShape,
    pub usd: Option<Cost>,
    pub basis: &'static str,
}

#[derive(Serialize)]
pub(crate) struct TurnShape {
    pub id: String,
    pub seq_from: u64,
    pub seq_to: u64,
    pub started_at: Time,
    pub completed_at: Option<Time>,
    /// `open`, `completed` or `failed`.
    pub status: &'static str,
    /// `done`, `failed`, `interrupted`, `died` or `replaced`, once it has ended.
    pub outcome: Option<&'static str>,
    pub prompt: Option<String>,
    /// What was typed meanwhile and handed over in the middle.
    pub queued: Vec<String>,
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
    pub failed: Vec<String>,
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

impl StatusShape {
    pub(crate) fn of(status: &SessionStatus) -> StatusShape {
        let SessionStatus { info, verdict, summary, .. } = status;
        StatusShape {
            session_id: info.id.clone(),
            provider: info.provider.clone(),
            provider_session_id: info.provider_session_id.clone(),
            project: status.project.clone(),
            title: status.title.clone(),
            status: verdict.status.as_str(),
            reason: verdict.reason.as_str(),
            since: verdict.since,
            confidence: verdict.confidence.to_string(),
            evidence: verdict.evidence.iter().map(EvidenceShape::of).collect(),
            turn_id: verdict.turn_id.clone(),
            pending_approvals: verdict.pending_approvals.clone(),
            pid: verdict.pid,
            summary: SummaryShape {
                current: summary.current.clone(),
                recent: summary.recent.clone(),
                last_prompt: summary.last_prompt.clone(),
            },
            behind: status.is_behind,
            overruled: None,
            history: None,
        }
    }

    /// The same with everything that speaks against it, and what it was before.
    pub(crate) fn explained(status: &SessionStatus) -> StatusShape {
        let overruled = status.verdict.overruled.iter().map(|other| OverruledShape {
            evidence: EvidenceShape::of(&other.evidence),
            says: other.evidence.says.as_str(),
            why: other.why.clone(),
        });
        let history = status.signs.history().map(|change| ChangeShape {
            at: change.at,
            status: change.status.as_str(),
            because: change.reason.as_str(),
        });
        StatusShape {
            overruled: Some(overruled.collect()),
            history: Some(history.collect()),
            ..StatusShape::of(status)
        }
    }
}

impl EvidenceShape {
    fn of(evidence: &Evidence) -> EvidenceShape {
        EvidenceShape {
            what: evidence.what.clone(),
            source: evidence.source.clone(),
            at: evidence.at,
            event_id: evidence.event_id,
            confidence: evidence.confidence.to_string(),
            ends: evidence.ends,
        }
    }
}

impl SessionShape {
    /// A session as the catalogue knows it, with what its events add up to.
    pub(crate) fn of(info: &SessionInfo, facts: &Facts, prices: &PriceTable) -> SessionShape {
        let about = facts.about().clone();
        let spent = Spent::of(facts, prices);
        SessionShape {
            id: info.id.to_string(),
            provider: info.provider.clone(),
            provider_session_id: info.provider_session_id.clone(),
            agent_version: about.agent_version,
            parent_id: info.ancestry.parent_session_id.clone(),
            relation: match info.mode() {
                None => "main",
                Some(SessionMode::Fork) => "fork",
                Some(SessionMode::Resume) => "resume",
                // What we run ourselves are children; what others ran, their subagents.
                Some(SessionMode::Child) if info.provider != OURS => "subagent",
                Some(SessionMode::Child | SessionMode::Other(_)) => "child",
            },
            project: info.project.clone().or(about.project),
            cwd: about.cwd.or(info.cwd.clone()),
            branch: about.branch,
            model: about.model.or(info.model.clone()),
            title: facts.title().map(str::to_owned).or(info.title.clone()),
            started_at: Some(info.started_at),
            last_event_at: Some(info.last_event_at),
            status: None,
            ending: Some(facts.ending().as_str()),
            epochs: Some(facts.epochs()),
            counts: CountsShape::from(facts.counts()),
            tokens: Some(TokensShape::from(&spent.tokens)),
            usd: spent.money.usd,
            basis: Some(spent.basis().as_str()),
            source_missing: None,
            turns: None,
        }
    }
}

/// The provider of sessions we host.
const OURS: &str = "hansard";

impl From<&Counts> for CountsShape {
    fn from(counts: &Counts) -> CountsShape {
        let Counts {
            prompts,
            queued,
            responses,
            tool_calls,
            tool_results,
            compactions,
            events,
            unknown,
        } = *counts;
        CountsShape {
            prompts,
            queued,
            responses,
            tool_calls,
            tool_results,
            compactions,
            events,
            unknown,
        }
    }
}

impl From<&Tokens> for TokensShape {
    fn from(tokens: &Tokens) -> TokensShape {
        TokensShape {
            requests: tokens.requests,
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_creation: tokens.cache_creation,
            reasoning: tokens.reasoning,
        }
    }
}

impl From<&Spent> for SpentShape {
    fn from(spent: &Spent) -> SpentShape {
        SpentShape {
            tokens: TokensShape::from(&spent.tokens),
            usd: spent.money.usd,
            basis: spent.basis().as_str(),
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
            status: match turn.outcome {
                None => "open",
                Some(Outcome::Failed | Outcome::Died) => "failed",
                Some(Outcome::Done | Outcome::Interrupted | Outcome::Replaced) => "completed",
            },
            outcome: turn.outcome.map(Outcome::as_str),
            prompt: turn.prompt,
            queued: turn.queued,
            answer: turn.answer,
            tools: turn.tools.into_iter().map(|(tool, count)| (tool, count.calls)).collect(),
            approvals: turn.approval_count,
            errors: turn.errors,
            files: FilesShape {
                read: turn.read_files,
                modified: turn.modified_files,
                failed: turn.failed_files,
            },
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

/// One epoch with what is worth keeping of it.
#[derive(Serialize)]
pub(crate) struct EpochShape<'a> {
    pub epoch: u64,
    pub tag: String,
    pub cause: Option<&'a str>,
    pub from_seq: u64,
    pub to_seq: u64,
    pub started_at: Time,
    pub last_at: Time,
    pub facts: Vec<DigestFact>,
}

impl<'a> EpochShape<'a> {
    pub(crate) fn of(
        info: &SessionInfo,
        epoch: &'a Epoch,
        facts: Vec<DigestFact>,
    ) -> EpochShape<'a> {
        let own = info.provider_session_id.as_deref().unwrap_or(info.id.as_str());
        EpochShape {
            epoch: epoch.number,
            tag: epoch.tag(&info.provider, own),
            cause: epoch.closed.as_ref().map(|closed| closed.cause.as_str()),
            from_seq: epoch.from_seq,
            to_seq: epoch.to_seq,
            started_at: epoch.started_at,
            last_at: epoch.last_at,
            facts,
        }
    }
}
