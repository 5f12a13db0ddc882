//! What agents export about themselves: OTLP over HTTP, at the paths exporters know.

use std::borrow::Cow;
use std::io::Read;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use capture::{OtlpEncoding, OtlpSignal};

use flate2::read::MultiGzDecoder;

use crate::answer::Refusal;
use crate::server::AppState;

/// Bytes of one export, as sent and unpacked. A larger one is refused with 413.
pub(crate) const EXPORT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What one byte of a packed export may become. Telemetry becomes 10 to 30 times as long; a body
/// that becomes longer than this was made to take memory, and is refused with 413.
const UNPACKED_PER_BYTE_MAX: usize = 200;

/// An export of this size is taken whatever its ratio: equal records pack well.
const UNPACKED_FREE_BYTES: usize = 64 * 1024;

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
    let is_packed = is_packed(&headers)?;
    let (encoding, kind) = encoding(&headers)?;
    app.run_query(move |sources| {
        let body = match is_packed {
            true => Cow::Owned(unpack(&body)?),
            false => Cow::Borrowed(&body[..]),
        };
        sources.telemetry(signal, encoding, &body).map_err(Refusal::from)
    })
    .await?;
    // All of it was taken: an answer without members, in the encoding of the question.
    let nothing = match encoding {
        OtlpEncoding::Json => "{}",
        OtlpEncoding::Protobuf => "",
    };
    Ok(([(header::CONTENT_TYPE, kind)], nothing).into_response())
}

fn encoding(headers: &HeaderMap) -> Result<(OtlpEncoding, &'static str), Refusal> {
    let kind = header_text(headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default();
    match kind.trim() {
        "application/json" => Ok((OtlpEncoding::Json, "application/json")),
        "application/x-protobuf" => Ok((OtlpEncoding::Protobuf, "application/x-protobuf")),
        kind => Err(unreadable(kind)),
    }
}

/// Whether the body is packed with gzip.
fn is_packed(headers: &HeaderMap) -> Result<bool, Refusal> {
    match header_text(headers, header::CONTENT_ENCODING).trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(false),
        "gzip" | "x-gzip" => Ok(true),
        packed => Err(unreadable(packed)),
    }
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Unpacks a body, as far as its limits allow.
fn unpack(body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let by_ratio = body.len().saturating_mul(UNPACKED_PER_BYTE_MAX).max(UNPACKED_FREE_BYTES);
    let bytes_max = by_ratio.min(EXPORT_BYTES_MAX);
    let mut unpacked = Vec::new();
    // One byte more than allowed tells a body that is too long from one that just fits.
    let read = MultiGzDecoder::new(body).take(bytes_max as u64 + 1).read_to_end(&mut unpacked);
    if unpacked.len() > bytes_max {
        return Err(too_large(format!(
            "an export has at most {EXPORT_BYTES_MAX} bytes when it is unpacked, and at most \
             {UNPACKED_PER_BYTE_MAX} for each packed one"
        )));
    }
    read.map_err(|error| {
        let words = format!("the export is not packed with gzip as it says: {error}");
        Refusal::new(StatusCode::BAD_REQUEST, "bad_body", words)
    })?;
    Ok(unpacked)
}

/// Says why a body was not read in the shape of all failures.
fn unread_body(rejection: BytesRejection) -> Refusal {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            too_large(format!("an export has at most {EXPORT_BYTES_MAX} bytes"))
        }
        status => Refusal::new(status, "bad_body", rejection.body_text()),
    }
}

fn too_large(words: String) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", words)
        .hint("exporters are set to smaller batches")
}

fn unreadable(kind: &str) -> Refusal {
    let words = format!("an export in `{kind}` cannot be read");
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_encoding", words).hint(
        "exporters are set to `http/json` or `http/protobuf`, with gzip or without compression",
    )
}
