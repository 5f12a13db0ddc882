//! The handlers of the routes: they parse a request, run a query and build the response.

pub(crate) mod health; // how the daemon and its followers do
pub(crate) mod session; // sessions, and what they are doing
pub(crate) mod log; // what was recorded
pub(crate) mod find; // search, and what was used
pub(crate) mod overview; // what holds over many sessions
pub(crate) mod document; // a session to take away
pub(crate) mod artifact; // bodies that events refer to
pub(crate) mod live; // streams and sockets
pub(crate) mod telemetry; // what agents export
pub(crate) mod preferences; // what the user chose in the page
pub(crate) mod sample; // sessions that come with the program
pub(crate) mod page; // what a browser meets first

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::{Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, ToSchema};
use wire::Failure;

use crate::answer::Refusal;
use crate::server::AppState;
use crate::sources::SessionSelector;

/// Where a browser exchanges its code for a cookie.
pub(crate) const LOGIN: &str = "/login";

/// Where exporters of telemetry have business.
pub(crate) const EXPORTS: &str = "/v1/";

/// The default and the maximum number of items on a page.
const ITEMS: usize = 100;
const ITEMS_MAX: usize = 1_000;

/// The question behind the `?`, or what is wrong with it.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for QueryParams<T> {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &AppState,
    ) -> Result<QueryParams<T>, Refusal> {
        Ok(QueryParams(read_query(&parts.uri)?))
    }
}

/// A question about sessions: which of them, and the rest of it.
pub(crate) struct FilteredQuery<T>(pub(crate) SessionSelector, pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for FilteredQuery<T> {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &AppState,
    ) -> Result<FilteredQuery<T>, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        let says_which = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            ["provider", "project", "since", "until"].contains(&name)
        };
        // Two structs share one query. Serde cannot refuse unknown fields beside a flattened
        // struct, so the pairs are divided by name, and only the rest is checked for unknown ones.
        let (which, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(says_which);
        let of = |pairs: Vec<&str>| {
            let uri = Uri::builder().path_and_query(format!("/?{}", pairs.join("&"))).build();
            uri.map_err(|error| Refusal::bad_argument(error.to_string()))
        };
        Ok(FilteredQuery(read_query(&of(which)?)?, read_query(&of(rest)?)?))
    }
}

/// What is asked behind the `?`.
fn read_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    let Query(asked) =
        Query::try_from_uri(uri).map_err(|error| Refusal::bad_argument(error.body_text()))?;
    Ok(asked)
}

/// The page of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// `next` of an earlier page.
    after: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A request without parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParams {}

/// The id in a path, or the beginning of one.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct IdPath(
    /// The beginning of a session's id.
    pub(crate) String,
);

/// How any question may be refused.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let kinds = [
            ("400", "It makes no sense"),
            ("401", "The token is missing or wrong"),
            ("503", "Too many wait already"),
        ];
        kinds.map(|(status, told)| (status.to_owned(), failure_response(told))).into()
    }
}

/// How a question about one thing may be refused.
pub(crate) struct RefusalsOfOne;

impl IntoResponses for RefusalsOfOne {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = Refusals::responses();
        responses.insert("404".to_owned(), failure_response("There is no such thing"));
        responses
    }
}

fn failure_response(told: &str) -> RefOr<Response> {
    let schema = Ref::from_schema_name(Failure::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(told).content("application/json", content).build().into()
}

impl FromRequestParts<AppState> for IdPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<IdPath, Refusal> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(id) = path.map_err(|error| Refusal::bad_argument(error.body_text()))?;
        Ok(IdPath(id))
    }
}

/// How many were asked for.
fn page_limit(asked: Option<usize>) -> Result<usize, Refusal> {
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

pub(crate) async fn unknown_route() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", "this cannot be done to this path")
        .hint("`/api/openapi.json` says what can")
}
