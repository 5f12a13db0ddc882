//! What a browser meets first.

use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::Asked;
use crate::answer::Refusal;
use crate::api;
use crate::door::Inside;
use crate::ui;

/// The page, for every address that is none of the API's.
pub(crate) async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let shown = (method == Method::GET).then(|| ui::at(uri.path(), &headers)).flatten();
    shown.unwrap_or_else(|| super::not_found().into_response())
}

#[derive(Deserialize)]
pub(crate) struct LoginAsked {
    #[serde(default)]
    code: String,
}

/// Exchanges a code for a cookie.
pub(crate) async fn login(
    State(inside): State<Inside>,
    headers: HeaderMap,
    asked: Result<Asked<LoginAsked>, Refusal>,
) -> Result<Response, Refusal> {
    let Ok(Asked(asked)) = asked else { return Err(Refusal::unauthorized()) };
    let entered = inside.clone();
    let exchanging = inside.ask_short(move |_| {
        let exchanged = entered.entrance().exchange(&headers, &asked.code);
        exchanged.ok_or_else(Refusal::unauthorized)
    });
    let cookie = exchanging.await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], api::description()).into_response()
}
