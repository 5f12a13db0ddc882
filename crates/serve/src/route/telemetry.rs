//! What agents export about themselves: OTLP over HTTP, at the paths exporters know.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use capture::{OtlpEncoding, OtlpSignal};

use crate::answer::Refusal;
use crate::server::AppState;

/// Bytes of one export.
pub(crate) const EXPORT_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) async fn logs(app: State<AppState>, headers: HeaderMap, body: Body) -> Taken {
    take_export(OtlpSignal::Logs, app, headers, body).await
}

pub(crate) async fn traces(app: State<AppState>, headers: HeaderMap, body: Body) -> Taken {
    take_export(OtlpSignal::Traces, app, headers, body).await
}

pub(crate) async fn metrics(app: State<AppState>, headers: HeaderMap, body: Body) -> Taken {
    take_export(OtlpSignal::Metrics, app, headers, body).await
}

type Taken = Result<Response, Refusal>;

/// The body of a request, or why it was not read.
type Body = Result<Bytes, BytesRejection>;

async fn take_export(
    signal: OtlpSignal,
    State(app): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Taken {
    let body = body.map_err(unread_body)?;
    let (encoding, kind) = encoding(&headers)?;
    app.run_query(move |sources| sources.telemetry(signal, encoding, &body)).await?;
    // All of it was taken: an answer without members, in the encoding of the question.
    let nothing = match encoding {
        OtlpEncoding::Json => "{}",
        OtlpEncoding::Protobuf => "",
    };
    Ok(([(header::CONTENT_TYPE, kind)], nothing).into_response())
}

fn encoding(headers: &HeaderMap) -> Result<(OtlpEncoding, &'static str), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let packed = text(header::CONTENT_ENCODING);
    let kind = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    match kind {
        _ if !packed.is_empty() && packed != "identity" => Err(unreadable(packed)),
        "application/json" => Ok((OtlpEncoding::Json, "application/json")),
        "application/x-protobuf" => Ok((OtlpEncoding::Protobuf, "application/x-protobuf")),
        kind => Err(unreadable(kind)),
    }
}

/// Says why a body was not read in the shape of all failures.
fn unread_body(rejection: BytesRejection) -> Refusal {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let words = format!("an export has at most {EXPORT_BYTES_MAX} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", words)
                .hint("exporters are set to smaller batches")
        }
        status => Refusal::new(status, "bad_body", rejection.body_text()),
    }
}

fn unreadable(kind: &str) -> Refusal {
    let words = format!("an export in `{kind}` cannot be read");
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_encoding", words)
        .hint("exporters are set to `http/json` or `http/protobuf`, without compression")
}
