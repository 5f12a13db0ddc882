//! A session to take away: as a document, as a handoff note, and the command to resume it.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use utoipa::{IntoParams, ToSchema};
use wire::Resume;

use super::{IdPath, QueryParams, RefusalsOfOne};
use crate::answer::{Answer, Refusal};
use crate::server::AppState;
use crate::sources::DocumentKind;

/// Bytes of a piece that goes out, and pieces that wait for a slow reader; then the writing waits.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_WAITING_MAX: usize = 4;

/// How long a piece may wait for a client that has stopped reading; then the document breaks off.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    #[param(inline)]
    format: Option<DocumentFormat>,
    /// Take out secrets: keys, tokens, passwords.
    redact: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DocumentFormat {
    Markdown,
    Html,
    Text,
    Jsonl,
}

impl DocumentFormat {
    fn document_kind(self) -> (DocumentKind, &'static str, &'static str) {
        match self {
            DocumentFormat::Markdown => (DocumentKind::Markdown, "md", "text/markdown"),
            DocumentFormat::Html => (DocumentKind::Html, "html", "text/html"),
            DocumentFormat::Text => (DocumentKind::Text, "txt", "text/plain"),
            DocumentFormat::Jsonl => (DocumentKind::Events, "jsonl", "application/x-ndjson"),
        }
    }
}

/// A session as a document, to be saved
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/export",
    params(IdPath, ExportParams),
    responses(
        (status = OK, content(
            (String = "text/markdown"),
            (String = "text/html"),
            (String = "text/plain"),
            (String = "application/x-ndjson"),
        )),
        RefusalsOfOne
    )
)]
pub(crate) async fn export(
    State(app): State<AppState>,
    IdPath(id): IdPath,
    QueryParams(asked): QueryParams<ExportParams>,
) -> Result<Response, Refusal> {
    // Before the response begins: once bytes flow, an unknown id cannot become a 404.
    let info = app.query_short(move |sources| sources.journal().resolve(&id)).await?;
    let (wanted, ending, kind) = asked.format.unwrap_or(DocumentFormat::Markdown).document_kind();
    let redact = asked.redact.unwrap_or(false);
    let name: String = info.id.as_str().chars().map(as_file_name).collect();
    let (send, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let mut out = Pieces { send, piece: Vec::new(), runtime: Handle::current() };
    let copying = app.spawn_copy(move |sources| {
        let written = sources.export(info.id.as_str(), wanted, redact, &mut out);
        // Without this end marker the client sees that the document is incomplete.
        if written.is_ok() && out.flush().is_ok() {
            let _ = out.send_piece(None);
        }
    });
    copying.await?;
    let stream = unfold(Some(pieces), async |pieces| {
        let mut pieces: Receiver<Option<Bytes>> = pieces?;
        match pieces.recv().await {
            Some(Some(piece)) => Some((Ok(piece), Some(pieces))),
            Some(None) => None,
            // The writer left without its end marker. The error breaks the connection off, so that
            // half a document does not look like a whole one.
            None => Some((Err(io::Error::other("the document broke off")), None)),
        }
    });
    let saved = format!("attachment; filename=\"{name}.{ending}\"");
    let saved = HeaderValue::from_str(&saved).unwrap_or(HeaderValue::from_static("attachment"));
    let kind = HeaderValue::from_static(kind);
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, saved)];
    Ok((headers, Body::from_stream(stream)).into_response())
}

/// The handoff note of a session, in Markdown and without secrets
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/handoff",
    params(IdPath),
    responses((status = OK, body = String, content_type = "text/markdown"), RefusalsOfOne)
)]
pub(crate) async fn handoff(
    State(app): State<AppState>,
    IdPath(id): IdPath,
) -> Result<Response, Refusal> {
    let note = app.run_query(move |sources| sources.handoff(&id)).await?;
    let kind = HeaderValue::from_static("text/markdown; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], note).into_response())
}

/// The agent's own command to go on with a session
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/resume",
    params(IdPath),
    responses((status = OK, body = Resume), RefusalsOfOne)
)]
pub(crate) async fn resume(State(app): State<AppState>, IdPath(id): IdPath) -> Answer {
    app.answer_query(move |sources| sources.resume(&id)).await
}

/// Ids have characters that some systems do not want in names of files.
fn as_file_name(c: char) -> char {
    match c.is_ascii_alphanumeric() || "-_.".contains(c) {
        true => c,
        false => '-',
    }
}

/// Sends the document to the client in pieces. `None` is its end.
struct Pieces {
    send: Sender<Option<Bytes>>,
    piece: Vec<u8>,
    runtime: Handle,
}

impl Pieces {
    fn send_piece(&mut self, piece: Option<Bytes>) -> io::Result<()> {
        let taking = tokio::time::timeout(TAKEN_WITHIN, self.send.send(piece));
        // This is a blocking thread, so a slow reader holds up no other connection.
        let taken = self.runtime.block_on(taking).map_err(|_| io::ErrorKind::TimedOut)?;
        taken.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader is gone"))
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.piece) {
            piece if piece.is_empty() => Ok(()),
            piece => self.send_piece(Some(Bytes::from(piece))),
        }
    }
}
