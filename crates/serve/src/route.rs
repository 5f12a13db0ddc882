//! What each route does: takes a question apart, has it answered, puts the answer together.

pub(crate) mod health; // how the daemon and its followers do
pub(crate) mod session; // sessions, and what they are doing
pub(crate) mod log; // what was recorded
pub(crate) mod find; // search, and what was used
pub(crate) mod overview; // what holds over many sessions
pub(crate) mod document; // a session to take away
pub(crate) mod artifact; // bodies that events refer to
pub(crate) mod live; // streams and sockets
pub(crate) mod telemetry; // what agents export
pub(crate) mod page; // what a browser meets first

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::answer::Refusal;
use crate::door::Inside;

/// Where a browser exchanges its code for a cookie.
pub(crate) const LOGIN: &str = "/login";

/// Where exporters of telemetry have business.
pub(crate) const EXPORTS: &str = "/v1/";

/// Items of a page unless somebody says how many, and at most.
const ITEMS: usize = 100;
const ITEMS_MAX: usize = 1_000;

/// The question behind the `?`, or what is wrong with it.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Inside> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Inside) -> Result<Asked<T>, Refusal> {
        let Query(asked) = Query::try_from_uri(&parts.uri)
            .map_err(|error| Refusal::bad_argument(error.body_text()))?;
        Ok(Asked(asked))
    }
}

/// The id in a path, or the beginning of one.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<Inside> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, inside: &Inside) -> Result<Named, Refusal> {
        let path = Path::<String>::from_request_parts(parts, inside).await;
        let Path(id) = path.map_err(|error| Refusal::bad_argument(error.body_text()))?;
        Ok(Named(id))
    }
}

/// How many were asked for.
fn limit(asked: Option<usize>) -> Result<usize, Refusal> {
    match asked {
        None => Ok(ITEMS),
        Some(limit @ 1..=ITEMS_MAX) => Ok(limit),
        Some(_) => Err(Refusal::bad_argument(format!("`limit` is a number from 1 to {ITEMS_MAX}"))),
    }
}

fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
        .hint("`/api/openapi.json` says what there is")
}

pub(crate) async fn not_so() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", "this cannot be done to this path")
        .hint("`/api/openapi.json` says what can")
}
