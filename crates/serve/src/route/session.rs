//! Sessions, and what they are doing.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Approval, Page, RecentActivity, Session, Status, StatusSummary};

use super::{FilteredQuery, IdPath, PageParams, QueryParams, Refusals, RefusalsOfOne, page_limit};
use crate::answer::Answer;
use crate::server::AppState;
use crate::sources::{PageRequest, SessionSelector, SourceError, Sources};

/// Turns of a session that are told, the last ones. There are more in the log.
const TURNS_MAX: usize = 5_000;

/// Sessions, newest activity first
#[utoipa::path(
    get,
    path = "/api/sessions",
    params(SessionSelector, PageParams),
    responses((status = OK, body = Page<Session>), Refusals)
)]
pub(crate) async fn sessions(
    State(app): State<AppState>,
    FilteredQuery(which, asked): FilteredQuery<PageParams>,
) -> Answer {
    let wanted = PageRequest { which, after: asked.after, limit: page_limit(asked.limit)? };
    app.answer_query(move |sources| sources.sessions(&wanted)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionParams {
    /// Characters of one text in a turn: longer ones are cut, and the turn is `truncated`.
    text_max: Option<usize>,
}

/// One session with its turns
#[utoipa::path(
    get,
    path = "/api/sessions/{id}",
    params(IdPath, SessionParams),
    responses((status = OK, body = Session), RefusalsOfOne)
)]
pub(crate) async fn session(
    State(app): State<AppState>,
    IdPath(id): IdPath,
    QueryParams(asked): QueryParams<SessionParams>,
) -> Answer {
    let told = move |sources: &dyn Sources| {
        let session = sources.session(&id)?;
        Ok::<_, SourceError>(session.cut(TURNS_MAX, asked.text_max))
    };
    app.answer_query(told).await
}

/// What it does now, what it did lately, what was last asked
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/summary",
    params(IdPath),
    responses((status = OK, body = StatusSummary), RefusalsOfOne)
)]
pub(crate) async fn summary(State(app): State<AppState>, IdPath(id): IdPath) -> Answer {
    app.answer_query(move |sources| sources.explain(&id).map(|status| status.summary)).await
}

/// The newest part of a session at a glance: events, words, turns
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/recent",
    params(IdPath),
    responses((status = OK, body = RecentActivity), RefusalsOfOne)
)]
pub(crate) async fn recent(State(app): State<AppState>, IdPath(id): IdPath) -> Answer {
    app.answer_query(move |sources| sources.recent(&id)).await
}

/// What sessions are doing that were active lately
#[utoipa::path(
    get,
    path = "/api/status",
    responses((status = OK, body = Page<Status>), Refusals)
)]
pub(crate) async fn status(State(app): State<AppState>) -> Answer {
    app.answer_query(|sources| sources.statuses().map(Page::whole)).await
}

/// The sessions that wait for the user, the most urgent first
#[utoipa::path(
    get,
    path = "/api/attention",
    responses((status = OK, body = Page<Status>), Refusals)
)]
pub(crate) async fn attention(State(app): State<AppState>) -> Answer {
    app.answer_query(|sources| sources.waiting_for_user().map(Page::whole)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalsParams {
    /// Only those that still wait.
    pending: Option<bool>,
}

/// What sessions asked to be allowed that were active lately: the newest, or of what waits the riskiest, first
#[utoipa::path(
    get,
    path = "/api/approvals",
    params(ApprovalsParams),
    responses((status = OK, body = Page<Approval>), Refusals)
)]
pub(crate) async fn approvals(
    State(app): State<AppState>,
    QueryParams(asked): QueryParams<ApprovalsParams>,
) -> Answer {
    let is_pending = asked.pending == Some(true);
    app.answer_query(move |sources| sources.approvals(is_pending).map(Page::whole)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainParams {
    /// The beginning of a session's id.
    session: String,
}

/// Why a session is taken to do what it does
#[utoipa::path(
    get,
    path = "/api/explain",
    params(ExplainParams),
    responses((status = OK, body = Status), RefusalsOfOne)
)]
pub(crate) async fn explain(
    State(app): State<AppState>,
    QueryParams(asked): QueryParams<ExplainParams>,
) -> Answer {
    app.answer_query(move |sources| sources.explain(&asked.session)).await
}
