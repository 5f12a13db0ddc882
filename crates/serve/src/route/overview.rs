//! What holds over many sessions: what happened, how the work went, which sessions belong together,
//! and how it stands with each agent.

use axum::extract::State;
use wire::{Adapter, Facets, Happening, Page, Session, WorkReport};

use super::{FilteredQuery, IdPath, NoParams, PageParams, Refusals, RefusalsOfOne, page_limit};
use crate::answer::Answer;
use crate::server::AppState;
use crate::sources::{PageRequest, SessionSelector};

/// What happened over all sessions, the newest first
#[utoipa::path(
    get,
    path = "/api/feed",
    params(SessionSelector, PageParams),
    responses((status = OK, body = Page<Happening>), Refusals)
)]
pub(crate) async fn feed(
    State(app): State<AppState>,
    FilteredQuery(which, asked): FilteredQuery<PageParams>,
) -> Answer {
    let wanted = PageRequest { which, after: asked.after, limit: page_limit(asked.limit)? };
    app.answer_query(move |sources| sources.feed(&wanted)).await
}

/// How the work went: turns, waiting, tests that had to be fixed, faults
#[utoipa::path(
    get,
    path = "/api/activity",
    params(SessionSelector),
    responses((status = OK, body = WorkReport), Refusals)
)]
pub(crate) async fn activity(
    State(app): State<AppState>,
    FilteredQuery(which, _): FilteredQuery<NoParams>,
) -> Answer {
    app.answer_query(move |sources| sources.work(&which)).await
}

/// What there is to choose from: agents and projects
#[utoipa::path(
    get,
    path = "/api/facets",
    responses((status = OK, body = Facets), Refusals)
)]
pub(crate) async fn facets(State(app): State<AppState>) -> Answer {
    app.answer_query(|sources| sources.facets()).await
}

/// A session with those it comes from and those that came from it
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/family",
    params(IdPath),
    responses((status = OK, body = Page<Session>), RefusalsOfOne)
)]
pub(crate) async fn family(State(app): State<AppState>, IdPath(id): IdPath) -> Answer {
    app.answer_query(move |sources| sources.family(&id).map(Page::whole)).await
}

/// How it stands with each agent: where it is looked, what was found, and its hooks
#[utoipa::path(
    get,
    path = "/api/capture",
    responses((status = OK, body = Page<Adapter>), Refusals)
)]
pub(crate) async fn capture(State(app): State<AppState>) -> Answer {
    app.answer_query(|sources| sources.adapters().map(Page::whole)).await
}
