//! What holds over many sessions: what happened, how the work went, who belongs together, and how
//! it stands with each agent.

use axum::extract::State;
use event::Time;
use serde::Deserialize;
use utoipa::IntoParams;
use wire::{Adapter, Failure, Happening, Page, Session, Work};

use super::{Asked, Named, limit};
use crate::answer::Answer;
use crate::door::Inside;
use crate::sources::SessionsWanted;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedAsked {
    provider: Option<String>,
    project: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Time>,
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Time>,
    /// `next` of an earlier page: only what was before it.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Time>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// What happened over all sessions, the newest first
#[utoipa::path(
    get,
    path = "/api/feed",
    params(FeedAsked),
    responses(
        (status = OK, body = Page<Happening>),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure)
    )
)]
pub(crate) async fn feed(State(inside): State<Inside>, Asked(asked): Asked<FeedAsked>) -> Answer {
    let wanted = SessionsWanted {
        provider: asked.provider,
        project: asked.project,
        since: asked.since,
        until: asked.after.or(asked.until),
        after: None,
        limit: limit(asked.limit)?,
    };
    inside.answer(move |sources| sources.feed(&wanted)).await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkAsked {
    provider: Option<String>,
    project: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Time>,
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Time>,
}

/// How the work went: turns, waiting, tests that had to be fixed, faults
#[utoipa::path(
    get,
    path = "/api/activity",
    params(WorkAsked),
    responses(
        (status = OK, body = Work),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure)
    )
)]
pub(crate) async fn activity(
    State(inside): State<Inside>,
    Asked(asked): Asked<WorkAsked>,
) -> Answer {
    let wanted = SessionsWanted {
        provider: asked.provider,
        project: asked.project,
        since: asked.since,
        until: asked.until,
        ..SessionsWanted::default()
    };
    inside.answer(move |sources| sources.work(&wanted)).await
}

/// A session with those it comes from and those that came from it
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/family",
    params(("id" = String, Path, description = "The beginning of a session's id")),
    responses(
        (status = OK, body = Page<Session>),
        (status = BAD_REQUEST, body = Failure),
        (status = UNAUTHORIZED, body = Failure),
        (status = NOT_FOUND, body = Failure)
    )
)]
pub(crate) async fn family(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.family(&id).map(Page::whole)).await
}

/// How it stands with each agent: where it is looked, what was found, and its hooks
#[utoipa::path(
    get,
    path = "/api/capture",
    responses((status = OK, body = Page<Adapter>), (status = UNAUTHORIZED, body = Failure))
)]
pub(crate) async fn capture(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.adapters().map(Page::whole)).await
}
