//! How the daemon and its followers do.

use axum::extract::State;
use wire::{Health, StreamStatus};

use super::Refusals;
use crate::answer::{Answer, Encoded};
use crate::door::Inside;

/// How the daemon does
#[utoipa::path(
    get,
    path = "/api/health",
    responses((status = OK, body = Health), Refusals)
)]
pub(crate) async fn health(State(inside): State<Inside>) -> Answer {
    inside.ask_short(|sources| Encoded::of(&sources.health()?)).await
}

/// How those who follow get on
#[utoipa::path(
    get,
    path = "/api/stream/status",
    responses((status = OK, body = StreamStatus), Refusals)
)]
pub(crate) async fn stream_status(State(inside): State<Inside>) -> Answer {
    let (position, cached_after) = {
        let recent = inside.tide().recent();
        (recent.tail(), recent.after())
    };
    let followers = inside.followers().at(position);
    Encoded::of(&StreamStatus { position, cached_after, followers })
}
