//! Answers and failures as JSON: one shape for everything that goes wrong.
//!
//! An answer is encoded on the blocking thread that computed it: on the server thread a long one
//! would hold up all other requests.

use std::error::Error;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use journal::ReadError;
use serde::Serialize;
use wire::FailureBody;

use crate::sources::SourceError;

/// What a route gives back.
pub(crate) type Answer = Result<JsonReply, Refusal>;

/// An answer that is ready to be sent.
pub(crate) struct JsonReply(Vec<u8>);

impl JsonReply {
    pub(crate) fn encode(answer: &impl Serialize) -> Answer {
        serde_json::to_vec(answer).map(JsonReply).map_err(|error| Refusal::failed(&error))
    }
}

impl IntoResponse for JsonReply {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], self.0).into_response()
    }
}

/// Why a request is not answered, in words.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        message: impl Into<String>,
    ) -> Refusal {
        Refusal { status, kind, message: message.into(), causes: Vec::new(), hint: None }
    }

    pub(crate) fn bad_argument(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "bad_argument", message)
    }

    pub(crate) fn unauthorized() -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", "this door opens with a token")
            .hint("send `Authorization: Bearer TOKEN`")
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// A fault of the daemon.
    pub(crate) fn failed(error: &dyn Error) -> Refusal {
        Refusal::from_error(StatusCode::INTERNAL_SERVER_ERROR, "failed", error)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn from_error(status: StatusCode, kind: &'static str, error: &dyn Error) -> Refusal {
        let mut refusal = Refusal::new(status, kind, error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            refusal.causes.push(error.to_string());
            cause = error.source();
        }
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { status, kind, message, causes, hint } = self;
        let error = FailureBody { kind, message, causes, hint };
        (status, Json(wire::Failure { error })).into_response()
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        let (status, kind, hint) = match &error {
            ReadError::SessionNotFound(_) | ReadError::NoSuchPrefix(_) => (
                StatusCode::NOT_FOUND,
                "session_not_found",
                Some("`/api/sessions` lists what there is".to_owned()),
            ),
            ReadError::EventNotFound { .. } => (StatusCode::NOT_FOUND, "event_not_found", None),
            ReadError::Ambiguous { candidates, .. } => {
                let candidates: Vec<&str> = candidates.iter().map(|id| id.as_str()).collect();
                let hint = format!("one of: {}", candidates.join(", "));
                (StatusCode::BAD_REQUEST, "ambiguous", Some(hint))
            }
            ReadError::BadArgument { .. } | ReadError::Id(_) => {
                (StatusCode::BAD_REQUEST, "bad_argument", None)
            }
            ReadError::Corrupt(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "corrupt",
                Some("`hansard doctor` shows what is wrong and can repair it".to_owned()),
            ),
            ReadError::Unsupported { .. } => (StatusCode::NOT_IMPLEMENTED, "unsupported", None),
            ReadError::Storage(_) => (StatusCode::INTERNAL_SERVER_ERROR, "storage", None),
        };
        Refusal { hint, ..Refusal::from_error(status, kind, &error) }
    }
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Refusal {
        match error {
            SourceError::Read(error) => error.into(),
            SourceError::Bad { .. } => Refusal::bad_argument(error.to_string()),
            SourceError::Telemetry(_) => {
                Refusal::from_error(StatusCode::BAD_REQUEST, "bad_export", &error)
            }
            SourceError::NoRoom => {
                Refusal::from_error(StatusCode::TOO_MANY_REQUESTS, "no_room", &error)
                    .hint("try again in a while; exporters do so by themselves")
            }
            SourceError::Other(_) => {
                Refusal::from_error(StatusCode::INTERNAL_SERVER_ERROR, "failed", &error)
            }
        }
    }
}
