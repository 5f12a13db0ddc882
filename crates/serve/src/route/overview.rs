//! What holds over many sessions: what happened, how the work went, who belongs together, and how
//! it stands with each agent.

use axum::extract::State;
use wire::{Adapter, Facets, Happening, Page, Session, Work};

use super::{AskedOf, Named, Nothing, PageAsked, Refusals, RefusalsOfOne, limit};
use crate::answer::Answer;
use crate::door::Inside;
use crate::sources::{PageWanted, Which};

/// What happened over all sessions, the newest first
#[utoipa::path(
    get,
    path = "/api/feed",
    params(Which, PageAsked),
    responses((status = OK, body = Page<Happening>), Refusals)
)]
pub(crate) async fn feed(
    State(inside): State<Inside>,
    AskedOf(which, asked): AskedOf<PageAsked>,
) -> Answer {
    let wanted = PageWanted { which, after: asked.after, limit: limit(asked.limit)? };
    inside.answer(move |sources| sources.feed(&wanted)).await
}

/// How the work went: turns, waiting, tests that had to be fixed, faults
#[utoipa::path(
    get,
    path = "/api/activity",
    params(Which),
    responses((status = OK, body = Work), Refusals)
)]
pub(crate) async fn activity(
    State(inside): State<Inside>,
    AskedOf(which, _): AskedOf<Nothing>,
) -> Answer {
    inside.answer(move |sources| sources.work(&which)).await
}

/// What there is to choose from: agents and projects
#[utoipa::path(
    get,
    path = "/api/facets",
    responses((status = OK, body = Facets), Refusals)
)]
pub(crate) async fn facets(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.facets()).await
}

/// A session with those it comes from and those that came from it
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/family",
    params(Named),
    responses((status = OK, body = Page<Session>), RefusalsOfOne)
)]
pub(crate) async fn family(State(inside): State<Inside>, Named(id): Named) -> Answer {
    inside.answer(move |sources| sources.family(&id).map(Page::whole)).await
}

/// How it stands with each agent: where it is looked, what was found, and its hooks
#[utoipa::path(
    get,
    path = "/api/capture",
    responses((status = OK, body = Page<Adapter>), Refusals)
)]
pub(crate) async fn capture(State(inside): State<Inside>) -> Answer {
    inside.answer(|sources| sources.adapters().map(Page::whole)).await
}
