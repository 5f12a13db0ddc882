//! Sessions, and what they are doing.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Approval, Page, Recent, Session, Status, Summary};

use super::{Asked, AskedOf, Named, PageAsked, Refusals, RefusalsOfOne, limit};
use crate::answer::Answer;
use crate::door::Inside;
use crate::sources::{PageWanted, SourceError, Sources, Which};

/// Turns of a session that are told, the last ones. There are more in the log.
const TURNS_MAX: usize = 5_000;

/// Sessions, newest activity first
#[utoipa::path(
    get,
    path = "/api/sessions",
    params(Which, PageAsked),
    responses((status = OK, body = Page<Session>), Refusals)
)]
pub(crate) async fn sessions(
    State(inside): State<Inside>,
    AskedOf(which, asked): AskedOf<PageAsked>,
) -> Answer {
    let wanted = PageWanted { which, after: asked.after, limit: limit(asked.limit)? };
    inside.answer(move |sources| sources.sessions(&wanted)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionAsked {
    /// Characters of one text in a turn: longer ones are cut, and the turn is `truncated`.
    text_max: Option<usize>,
}

/// One session with its turns
#[utoipa::path(
    get,
    path = "/api/sessions/{id}",
    params(Named, SessionAsked),
    responses((status = OK, body = Session), RefusalsOfOne)
)]
pub(crate) async fn session(
    State(inside): State<Inside>,
    Named(id): Named,
    Asked(asked): Asked<SessionAsked>,
) -> Answer {
    let told = move |sources: &dyn Sources| {
        let session = sources.session(&id)?;
        Ok::<_, SourceError>(session.cut(TURNS_MAX, asked.text_max))
    };
    inside.answer(told).await
}

/// What it does now, what it did lately, what was last asked
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/summary",
    params(Named),
    responses((status = OK, body = Summary), RefusalsOfOne)
)]
pub(crate) async fn summary(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.explain(&id).map(|status| status.summary)).await
}

/// The newest part of a session at a glance: events, words, turns
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/recent",
    params(Named),
    responses((status = OK, body = Recent), RefusalsOfOne)
)]
pub(crate) async fn recent(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.recent(&id)).await
}

/// What sessions are doing that were active lately
#[utoipa::path(
    get,
    path = "/api/status",
    responses((status = OK, body = Page<Status>), Refusals)
)]
pub(crate) async fn status(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.statuses().map(Page::whole)).await
}

/// The sessions that want somebody, the most urgent first
#[utoipa::path(
    get,
    path = "/api/attention",
    responses((status = OK, body = Page<Status>), Refusals)
)]
pub(crate) async fn attention(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.wanting().map(Page::whole)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalsAsked {
    /// Only those that still wait.
    pending: Option<bool>,
}

/// What sessions asked to be allowed that were active lately: the newest, or of what waits the riskiest, first
#[utoipa::path(
    get,
    path = "/api/approvals",
    params(ApprovalsAsked),
    responses((status = OK, body = Page<Approval>), Refusals)
)]
pub(crate) async fn approvals(
    State(inside): State<Inside>,
    Asked(asked): Asked<ApprovalsAsked>,
) -> Answer {
    let is_pending = asked.pending == Some(true);
    inside.answer(move |sources| sources.approvals(is_pending).map(Page::whole)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainAsked {
    /// The beginning of a session's id.
    session: String,
}

/// Why a session is taken to do what it does
#[utoipa::path(
    get,
    path = "/api/explain",
    params(ExplainAsked),
    responses((status = OK, body = Status), RefusalsOfOne)
)]
pub(crate) async fn explain(
    State(inside): State<Inside>,
    Asked(asked): Asked<ExplainAsked>,
) -> Answer {
    inside.answer(move |sources| sources.explain(&asked.session)).await
}
