//! Sessions, and what they are doing.

use axum::extract::State;
use event::Time;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Approval, Failure, Page, Recent, Session, Status, Summary};

use super::{Asked, Named, limit};
use crate::answer::Answer;
use crate::door::Inside;
use crate::sources::{SessionsWanted, SourceError, Sources};

/// Turns of a session that are told, the last ones. There are more in the log.
const TURNS_MAX: usize = 5_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionsAsked {
    /// Only sessions of this provider, for instance `claude`.
    provider: Option<String>,
    /// Only sessions of this project or folder.
    project: Option<String>,
    /// Only sessions active since this time.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Time>,
    /// Only sessions begun before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Time>,
    /// `next` of an earlier page.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Sessions, newest activity first
#[utoipa::path(
    get,
    path = "/api/sessions",
    params(SessionsAsked),
    responses(
        (status = OK, body = Page<Session>),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure)
    )
)]
pub(crate) async fn sessions(
    State(inside): State<Inside>,
    Asked(asked): Asked<SessionsAsked>,
) -> Answer {
    let wanted = SessionsWanted {
        provider: asked.provider,
        project: asked.project,
        since: asked.since,
        until: asked.until,
        after: asked.after,
        limit: limit(asked.limit)?,
    };
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
    params(("id" = String, Path, description = "The beginning of a session's id"), SessionAsked),
    responses(
        (status = OK, body = Session),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure),
        (status = NOT_FOUND, body = Failure)
    )
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
    params(("id" = String, Path, description = "The beginning of a session's id")),
    responses(
        (status = OK, body = Summary),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure),
        (status = NOT_FOUND, body = Failure)
    )
)]
pub(crate) async fn summary(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.explain(&id).map(|status| status.summary)).await
}

/// The newest part of a session at a glance: events, words, turns
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/recent",
    params(("id" = String, Path, description = "The beginning of a session's id")),
    responses(
        (status = OK, body = Recent),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure),
        (status = NOT_FOUND, body = Failure)
    )
)]
pub(crate) async fn recent(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.recent(&id)).await
}

/// What sessions are doing that were active lately
#[utoipa::path(
    get,
    path = "/api/status",
    responses(
        (status = OK, body = Page<Status>),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure)
    )
)]
pub(crate) async fn status(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.statuses().map(Page::whole)).await
}

/// The sessions that want somebody, the most urgent first
#[utoipa::path(
    get,
    path = "/api/attention",
    responses(
        (status = OK, body = Page<Status>),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure)
    )
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
    responses(
        (status = OK, body = Page<Approval>),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure)
    )
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
    responses(
        (status = OK, body = Status),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = SERVICE_UNAVAILABLE, body = Failure),
        (status = NOT_FOUND, body = Failure)
    )
)]
pub(crate) async fn explain(
    State(inside): State<Inside>,
    Asked(asked): Asked<ExplainAsked>,
) -> Answer {
    inside.answer(move |sources| sources.explain(&asked.session)).await
}
