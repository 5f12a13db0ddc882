//! The sessions that come with the program, for a first look.

use axum::extract::State;
use wire::SampleImport;

use super::Refusals;
use crate::answer::Answer;
use crate::server::AppState;

/// Imports three recorded sessions that come with the program; doing it again changes nothing
#[utoipa::path(post, path = "/api/sample", responses((status = OK, body = SampleImport), Refusals))]
pub(crate) async fn import_sample(State(app): State<AppState>) -> Answer {
    app.answer_import(|sources| sources.import_sample()).await
}
