//! How the daemon and its followers do.

use axum::extract::State;
use wire::{Health, StreamStatus};

use super::Refusals;
use crate::answer::{Answer, JsonReply};
use crate::server::AppState;

/// How the daemon does
#[utoipa::path(
    get,
    path = "/api/health",
    responses((status = OK, body = Health), Refusals)
)]
pub(crate) async fn health(State(app): State<AppState>) -> Answer {
    app.query_short(|sources| JsonReply::encode(&sources.health()?)).await
}

/// The followers of events, and how far each of them is
#[utoipa::path(
    get,
    path = "/api/stream/status",
    responses((status = OK, body = StreamStatus), Refusals)
)]
pub(crate) async fn stream_status(State(app): State<AppState>) -> Answer {
    let (position, cached_after) = {
        let recent = app.broadcaster().recent();
        (recent.tail(), recent.after())
    };
    let followers = app.followers().list_at(position);
    JsonReply::encode(&StreamStatus { position, cached_after, followers })
}
