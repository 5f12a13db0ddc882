//! What the user chose in the page, kept by the daemon: the same in every browser, and after a
//! browser has forgotten what the page stored.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use wire::Preferences;

use super::Refusals;
use crate::answer::{Answer, JsonReply, Refusal};
use crate::server::AppState;

/// What the user chose in the page, such as the theme
#[utoipa::path(get, path = "/api/preferences", responses((status = OK, body = Preferences), Refusals))]
pub(crate) async fn preferences(State(app): State<AppState>) -> Answer {
    app.query_short(|sources| JsonReply::encode(&sources.preferences().map_err(Refusal::from)?))
        .await
}

/// Changes some of them; one that is `null` is forgotten
#[utoipa::path(
    patch,
    path = "/api/preferences",
    request_body = Preferences,
    responses((status = OK, body = Preferences), Refusals)
)]
pub(crate) async fn change_preferences(
    State(app): State<AppState>,
    changes: Result<Json<Preferences>, JsonRejection>,
) -> Answer {
    let Json(changes) = changes.map_err(|error| Refusal::bad_argument(error.body_text()))?;
    app.query_short(move |sources| {
        JsonReply::encode(&sources.change_preferences(&changes).map_err(Refusal::from)?)
    })
    .await
}
