//! Converts sessions, statuses and usage into the types of `wire`, for commands and HTTP alike.

use event::payload::SessionMode;
use journal::SessionInfo;
use projection::status::{Attention, AttentionKind};
use projection::{Facts, PriceTable, Projection, TitleOrigin, TurnOutcome};

use crate::status::SessionStatus;

/// The provider of sessions that this program runs itself.
const OURS: &str = "hansard";

/// A session as the catalogue knows it, with what its events add up to.
pub fn session(info: &SessionInfo, facts: &Facts, prices: &PriceTable) -> wire::Session {
    let about = facts.about().clone();
    let spent = projection::Spent::from_facts(facts, prices);
    wire::Session {
        id: info.id.to_string(),
        provider: info.provider.clone(),
        provider_session_id: info.provider_session_id.clone(),
        agent_version: about.agent_version,
        parent_id: info.ancestry.parent_session_id.clone(),
        relation: match info.mode() {
            None => "main",
            Some(SessionMode::Fork) => "fork",
            Some(SessionMode::Resume) => "resume",
            // Other agents call their children subagents; only sessions of this program are called
            // children.
            Some(SessionMode::Child) if info.provider != OURS => "subagent",
            Some(SessionMode::Child | SessionMode::Other(_)) => "child",
        },
        // The catalogue's project goes first: it is the one that filters and listings use.
        project: info.project.clone().or(about.project),
        cwd: about.cwd.or(info.cwd.clone()),
        branch: about.branch,
        model: about.model.or(info.model.clone()),
        title: facts.title().map(str::to_owned).or(info.title.clone()),
        title_origin: title_origin(info, facts),
        started_at: Some(info.started_at),
        last_event_at: Some(info.last_event_at),
        status: None,
        ending: Some(facts.ending().as_str()),
        epochs: Some(facts.epochs()),
        counts: counts(facts.counts()),
        tokens: Some(tokens(&spent.tokens)),
        usd: spent.money.usd,
        basis: Some(spent.basis().as_str()),
        source_missing: None,
        turns: None,
        turns_left_out: None,
    }
}

/// The origin of a session's title.
fn title_origin(info: &SessionInfo, facts: &Facts) -> Option<&'static str> {
    let given = info.title.as_ref().map(|_| TitleOrigin::Given);
    facts.title_origin().or(given).map(TitleOrigin::as_str)
}

pub fn turn(turn: projection::Turn) -> wire::Turn {
    wire::Turn {
        id: turn.id,
        seq_from: turn.seq_from,
        seq_to: turn.seq_to,
        started_at: turn.started_at,
        completed_at: turn.completed_at,
        status: match turn.outcome {
            None => "open",
            // `Died` is a failure to clients: the turn has no result.
            Some(TurnOutcome::Failed | TurnOutcome::Died) => "failed",
            Some(TurnOutcome::Done | TurnOutcome::Interrupted | TurnOutcome::Replaced) => {
                "completed"
            }
        },
        outcome: turn.outcome.map(TurnOutcome::as_str),
        prompt: turn.prompt,
        queued: turn.queued,
        answer: turn.answer,
        tools: turn.tools.into_iter().map(|(tool, count)| (tool, count.calls)).collect(),
        approvals: turn.approval_count,
        errors: turn.errors,
        files: wire::Files {
            read: turn.read_files,
            modified: turn.modified_files,
            failed: turn.failed_files,
        },
        truncated: false,
    }
}

/// The newest part of a session.
pub fn recent(hot: &projection::Hot) -> wire::RecentActivity {
    let events = hot.events().map(|glance| wire::EventGlance {
        seq: glance.seq,
        kind: glance.kind.to_string(),
        at: glance.at,
        text: glance.text.clone(),
    });
    let said = hot.spoken_texts().map(|said| wire::RecentMessage {
        seq: said.seq,
        role: if said.by_agent { "assistant" } else { "user" },
        text: said.text.clone(),
    });
    let turns = hot.turns().map(|turn| wire::RecentTurn {
        seq_from: turn.seq_from,
        seq_to: turn.seq_to,
        started_at: turn.started_at,
        prompt: turn.prompt.clone(),
        tool_calls: turn.tool_calls,
        failures: turn.failures,
        status: if turn.is_over { "completed" } else { "open" },
    });
    wire::RecentActivity {
        seq: hot.seq(),
        events: events.collect(),
        said: said.collect(),
        turns: turns.collect(),
    }
}

pub fn status(status: &SessionStatus) -> wire::Status {
    let SessionStatus { info, verdict, .. } = status;
    wire::Status {
        session_id: info.id.clone(),
        provider: info.provider.clone(),
        provider_session_id: info.provider_session_id.clone(),
        project: status.project.clone(),
        title: status.title.clone(),
        title_origin: status.title_origin.map(|origin| origin.as_str().into()),
        status: verdict.status.as_str().into(),
        group: status.group().as_str().into(),
        reason: verdict.reason.as_str().into(),
        since: verdict.since,
        confidence: verdict.confidence.to_string(),
        evidence: verdict.evidence.iter().map(evidence).collect(),
        turn_id: verdict.turn_id.clone(),
        pending_approvals: verdict.pending_approvals.clone(),
        pid: verdict.pid,
        summary: summary(&status.summary),
        attention: attention(status),
        behind: status.is_behind,
        overruled: None,
        history: None,
    }
}

/// A status with the evidence that was overruled, and its history.
pub fn explained(of: &SessionStatus) -> wire::Status {
    let overruled = of.verdict.overruled.iter().map(|other| wire::Overruled {
        evidence: evidence(&other.evidence),
        says: other.evidence.says.as_str().into(),
        why: other.why.clone(),
    });
    let history = of.state.history().map(|change| wire::StatusChange {
        at: change.at,
        status: change.status.as_str().into(),
        because: change.reason.as_str().into(),
    });
    wire::Status {
        overruled: Some(overruled.collect()),
        history: Some(history.collect()),
        ..status(of)
    }
}

/// What a session needs from the user, and the commands that help.
fn attention(status: &SessionStatus) -> Option<wire::Attention> {
    let attention = status.attention.as_ref()?;
    let is_concluded = status.state.likely_request().is_some();
    let can: &[&str] = match attention.want {
        // Hooks would tell for what it asks, and when it is answered.
        AttentionKind::RiskyApproval | AttentionKind::Approval if is_concluded => {
            &["approvals", "show", "explain", "hooks"]
        }
        AttentionKind::RiskyApproval | AttentionKind::Approval => &["approvals", "show", "explain"],
        AttentionKind::Question => &["show", "resume", "explain"],
        AttentionKind::Failed => &["show", "resume", "seen"],
        AttentionKind::Looping | AttentionKind::Stuck => &["explain", "show"],
        AttentionKind::Finished => &["show", "resume", "seen"],
    };
    // Here the current activity does not say why the user is needed.
    let what = match attention.want {
        AttentionKind::Looping => {
            status.loop_line.as_deref().unwrap_or(status.summary.current.as_str())
        }
        AttentionKind::Stuck => "no activity for a long time",
        AttentionKind::Finished => "has finished; not seen yet",
        _ => status.summary.current.as_str(),
    };
    Some(wire::Attention {
        want: attention.want.as_str().into(),
        what: what.to_owned(),
        since: attention.since,
        confidence: attention.confidence.to_string(),
        can: can.iter().map(|command| (*command).into()).collect(),
    })
}

/// The sessions that need the user, the most urgent first.
pub fn wanting(statuses: &[SessionStatus]) -> Vec<&SessionStatus> {
    let mut wanting: Vec<&SessionStatus> =
        statuses.iter().filter(|status| status.attention.is_some()).collect();
    // A sort by key is stable, so sessions of equal urgency keep their order by activity.
    wanting.sort_by_key(|status| status.attention.as_ref().map(Attention::urgency));
    wanting
}

pub fn summary(summary: &projection::status::StatusSummary) -> wire::StatusSummary {
    wire::StatusSummary {
        current: summary.current.clone(),
        recent: summary.recent.clone(),
        recent_origin: summary.recent_origin.map(|origin| origin.as_str().into()),
        last_prompt: summary.last_prompt.clone(),
    }
}

pub fn usage(spending: &projection::Spending, budgets: &[projection::BudgetUse]) -> wire::Usage {
    let rows = spending.rows().map(|row| wire::UsageRow {
        spent: spent(&row.spent),
        key: row.key,
        provider: row.provider,
        model: row.model,
    });
    wire::Usage {
        rows: rows.collect(),
        total: spent(spending.total()),
        budgets: budgets.iter().map(budget).collect(),
    }
}

fn budget(used: &projection::BudgetUse) -> wire::Budget {
    wire::Budget {
        scope: used.scope.as_str(),
        name: used.name.clone(),
        limit: used.limit,
        usd: used.spent,
        basis: used.basis.as_str(),
        percent: used.percent(),
        exceeded: used.is_exceeded(),
        session_id: used.session.clone(),
    }
}

pub fn found(found: journal::SearchPage) -> wire::SearchReply {
    wire::SearchReply {
        total: found.total,
        total_is_exact: found.total_is_exact,
        complete: found.complete,
        hits: found.hits.into_iter().map(hit).collect(),
        next: found.next,
    }
}

fn hit(hit: journal::EventHit) -> wire::Hit {
    wire::Hit {
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

fn evidence(evidence: &projection::status::Evidence) -> wire::Evidence {
    wire::Evidence {
        what: evidence.what.clone(),
        source: evidence.source.clone(),
        at: evidence.at,
        event_id: evidence.event_id,
        confidence: evidence.confidence.to_string(),
        ends: evidence.ends.into(),
    }
}

fn counts(counts: &projection::ActivityCounts) -> wire::SessionCounts {
    wire::SessionCounts {
        prompts: counts.prompts,
        queued: counts.queued,
        responses: counts.responses,
        tool_calls: counts.tool_calls,
        tool_results: counts.tool_results,
        compactions: counts.compactions,
        events: counts.events,
        unknown: counts.unknown,
    }
}

fn tokens(tokens: &projection::TokenTotals) -> wire::TokenCounts {
    wire::TokenCounts {
        requests: tokens.requests,
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_creation: tokens.cache_creation,
        reasoning: tokens.reasoning,
    }
}

fn spent(spent: &projection::Spent) -> wire::Spent {
    let projection::MoneyParts { reported, computed, estimated } = spent.money.parts;
    wire::Spent {
        tokens: tokens(&spent.tokens),
        usd: spent.money.usd,
        basis: spent.basis().as_str(),
        usd_parts: wire::MoneyParts { reported, computed, estimated },
    }
}
