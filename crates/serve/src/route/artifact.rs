//! Bodies that events refer to: pictures, as pages show them. Everything else is to be saved.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use journal::ArtifactError;

use super::{IdPath, RefusalsOfOne};
use crate::answer::Refusal;
use crate::server::AppState;

/// Bytes of a body that is given out.
const BODY_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Picture types by their first bytes. The recorded type is not trusted.
const PICTURES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// A body that an event refers to
#[utoipa::path(
    get,
    path = "/api/artifacts/{id}",
    params(("id" = String, Path, description = "Its id, as events name it")),
    responses((status = OK, body = Vec<u8>, content_type = "application/octet-stream"), RefusalsOfOne)
)]
pub(crate) async fn artifact(
    State(app): State<AppState>,
    IdPath(id): IdPath,
) -> Result<Response, Refusal> {
    let body = app
        .run_query(move |sources| -> Result<Vec<u8>, Refusal> {
            let journal = sources.journal();
            let artifacts = journal.artifacts();
            // Before it is read, because the whole body passes through memory.
            if artifacts.stat(&id).map_err(refuse_artifact)?.size > BODY_BYTES_MAX {
                let told = format!("it has more than {BODY_BYTES_MAX} bytes");
                return Err(Refusal::new(StatusCode::BAD_REQUEST, "too_large", told));
            }
            artifacts.read(&id).map_err(refuse_artifact)
        })
        .await?;
    Ok(picture_response(body))
}

/// A picture in what an agent wrote for an event
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/pictures/{seq}/{number}",
    params(
        ("id" = String, Path, description = "The beginning of a session's id"),
        ("seq" = u64, Path, description = "The event"),
        ("number" = usize, Path, description = "Which of its pictures, from 0")
    ),
    responses((status = OK, body = Vec<u8>, content_type = "application/octet-stream"), RefusalsOfOne)
)]
pub(crate) async fn picture(
    State(app): State<AppState>,
    place: Result<Path<(String, u64, usize)>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path((id, seq, number)) =
        place.map_err(|error| Refusal::bad_argument(error.body_text()))?;
    let found = app.run_query(move |sources| sources.picture(&id, seq, number)).await?;
    let told = "there is no such picture, or it is no longer kept";
    let none = || Refusal::new(StatusCode::NOT_FOUND, "picture_not_found", told);
    found.map(picture_response).ok_or_else(none)
}

/// Pictures are shown; of everything else a page could only be deceived about what it is.
fn picture_response(body: Vec<u8>) -> Response {
    let kind = PICTURES.iter().find(|(start, _)| body.starts_with(start));
    let (kind, how) = match kind {
        Some((_, kind)) => (*kind, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, how)];
    (headers.map(|(name, value)| (name, HeaderValue::from_static(value))), body).into_response()
}

fn refuse_artifact(error: ArtifactError) -> Refusal {
    match error {
        ArtifactError::ArtifactNotFound(_) => {
            Refusal::new(StatusCode::NOT_FOUND, "artifact_not_found", error.to_string())
        }
        error => Refusal::bad_argument(error.to_string()),
    }
}
