//! What a browser meets first.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::QueryParams;
use crate::answer::Refusal;
use crate::auth::CLEARED;
use crate::peer::ConnectionPeer;
use crate::server::AppState;
use crate::{api, sign_in, ui};

/// The page, for every address that is none of the API's.
pub(crate) async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let shown = (method == Method::GET).then(|| ui::respond(uri.path(), &headers)).flatten();
    shown.unwrap_or_else(|| super::not_found().into_response())
}

#[derive(Deserialize)]
pub(crate) struct LoginParams {
    #[serde(default)]
    code: String,
    /// The view to show then.
    #[serde(default)]
    to: String,
}

/// Exchanges a code for a cookie. A browser that is logged in already is led to the page.
pub(crate) async fn login(
    State(app): State<AppState>,
    peer: Option<Extension<Arc<ConnectionPeer>>>,
    headers: HeaderMap,
    asked: Result<QueryParams<LoginParams>, Refusal>,
) -> Result<Response, Refusal> {
    // This route is open without a token, so every wrong request gets the same answer.
    let Ok(QueryParams(asked)) = asked else { return Err(Refusal::unauthorized()) };
    let onward = Redirect::to(sign_in::view_path(&asked.to));
    let is_navigation = sign_in::is_navigation(&headers);
    let cleared = (HeaderName::from_static("clear-site-data"), HeaderValue::from_static(CLEARED));
    let entered = app.clone();
    let exchanging = app.query_short(move |sources| {
        let auth = entered.auth();
        let peer = peer.as_ref().map(|Extension(peer)| peer.as_ref());
        let exchanged = auth.exchange(&headers, peer, &asked.code);
        // Only a link of the user gets here, so that strangers cannot fill the log.
        let exchanged = exchanged.map_err(|error| {
            sources.login_failed(&error);
            Refusal::failed(&error)
        })?;
        let is_in = exchanged.is_some() || auth.find_login(&headers, peer).is_some();
        is_in.then_some(exchanged).ok_or_else(Refusal::unauthorized)
    });
    match exchanging.await {
        Ok(Some(cookie)) => Ok(([(header::SET_COOKIE, cookie)], [cleared], onward).into_response()),
        Ok(None) => Ok(([cleared], onward).into_response()),
        Err(refusal) => match refusal.status() {
            StatusCode::UNAUTHORIZED if is_navigation => {
                Ok(sign_in::respond(sign_in::Cause::SpentLink))
            }
            StatusCode::INTERNAL_SERVER_ERROR if is_navigation => {
                Ok(sign_in::respond(sign_in::Cause::Failed))
            }
            // A server that is busy has not used the link up.
            _ => Err(refusal),
        },
    }
}

pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], api::description()).into_response()
}
