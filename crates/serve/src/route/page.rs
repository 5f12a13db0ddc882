//! What a browser meets first.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use wire::Ticket;

use super::{QueryParams, Refusals};
use crate::answer::{Answer, JsonReply, Refusal};
use crate::api;
use crate::server::AppState;
use crate::ui;

/// The page, for every address that is none of the API's.
pub(crate) async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let shown = (method == Method::GET).then(|| ui::respond(uri.path(), &headers)).flatten();
    shown.unwrap_or_else(|| super::not_found().into_response())
}

#[derive(Deserialize)]
pub(crate) struct LoginParams {
    #[serde(default)]
    code: String,
    /// The ticket that the code was made with, and what else it was made of.
    ticket: Option<String>,
    #[serde(default)]
    nonce: String,
    /// The view that was open.
    #[serde(default)]
    to: String,
}

/// Exchanges a code, or what a ticket makes, for a cookie.
pub(crate) async fn login(
    State(app): State<AppState>,
    headers: HeaderMap,
    asked: Result<QueryParams<LoginParams>, Refusal>,
) -> Result<Response, Refusal> {
    // This route is open without a token, so every wrong request gets the same answer.
    let Ok(QueryParams(asked)) = asked else { return Err(Refusal::unauthorized()) };
    let entered = app.clone();
    if let Some(ticket) = asked.ticket {
        let readmitting = app.query_short(move |_| {
            let entrance = entered.auth();
            let readmitted = entrance.readmit(&headers, &ticket, &asked.nonce, &asked.code);
            readmitted.ok_or_else(Refusal::unauthorized)
        });
        let cookie = readmitting.await?;
        // A browser that was sent here from another name shows its new cookie only to what this
        // page itself leads to.
        let onward = HeaderValue::from_str(&format!("0; url={}", view_path(&asked.to)));
        let onward = onward.unwrap_or(HeaderValue::from_static("0; url=/"));
        return Ok(([(header::SET_COOKIE, cookie), (header::REFRESH, onward)], "").into_response());
    }
    let exchanging = app.query_short(move |_| {
        let exchanged = entered.auth().exchange(&headers, &asked.code);
        exchanged.ok_or_else(Refusal::unauthorized)
    });
    let cookie = exchanging.await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// What a page keeps to come back with after a restart of the daemon
#[utoipa::path(get, path = "/api/ticket", responses((status = OK, body = Ticket), Refusals))]
pub(crate) async fn ticket(State(app): State<AppState>) -> Answer {
    let entered = app.clone();
    app.query_short(move |_| JsonReply::encode(&entered.auth().give_ticket()?)).await
}

#[derive(Deserialize)]
pub(crate) struct ReturnParams {
    ticket: String,
    nonce: String,
}

/// Tells a page with a ticket where it comes in now.
pub(crate) async fn come_back(
    State(app): State<AppState>,
    headers: HeaderMap,
    asked: Result<QueryParams<ReturnParams>, Refusal>,
) -> Answer {
    let Ok(QueryParams(asked)) = asked else { return Err(Refusal::unauthorized()) };
    let entered = app.clone();
    let welcoming = app.query_short(move |_| {
        let welcome = entered.auth().welcome(&headers, &asked.ticket, &asked.nonce);
        JsonReply::encode(&welcome.ok_or_else(Refusal::unauthorized)?)
    });
    welcoming.await
}

/// A path of the page, or its beginning for anything else.
fn view_path(path: &str) -> &str {
    // The path goes into a `Refresh` header: without quotes, commas and semicolons it cannot leave
    // its place there.
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%?&=+:@*!()".contains(&byte);
    let is_path = path.starts_with('/') && !path.starts_with("//") && path.bytes().all(is_safe);
    if is_path { path } else { "/" }
}

pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], api::description()).into_response()
}
