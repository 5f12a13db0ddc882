//! What a browser meets first.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::Asked;
use crate::answer::Refusal;
use crate::api;
use crate::door::Inside;

const FRONT: &str = "<!doctype html><meta charset=utf-8><title>Hansard</title>\
    <h1>Hansard is up</h1><p>What can be asked: <a href=/api/openapi.json>/api/openapi.json</a>";

pub(crate) async fn front() -> Html<&'static str> {
    Html(FRONT)
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
