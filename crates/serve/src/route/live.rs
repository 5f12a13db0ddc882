//! Streams and sockets: what happens, as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::ws::{Utf8Bytes, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{IdPath, QueryParams, RefusalsOfOne};
use crate::answer::Refusal;
use crate::auth::Revocation;
use crate::bridge::{BusFilter, BusSubscription, bridge_page};
use crate::follow::StreamFollower;
use crate::server::{AppState, StreamGuard};
use crate::socket::{SAID_BYTES_MAX, serve_socket};

/// How often a stream that has nothing to say shows that it is there.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// Bytes of frames that are gathered before they go to the system.
const WRITE_BUFFER: usize = 16 * 1024;

/// Streams to follow and what sessions are doing.
pub(crate) async fn socket(
    State(app): State<AppState>,
    revocation: Revocation,
    request: Request,
) -> Result<Response, Refusal> {
    let upgrade = upgrade_socket(request, &app).await?;
    Ok(upgrade.on_upgrade(|socket| serve_socket(socket, app, revocation)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BusParams {
    tract: Option<String>,
    event: Option<String>,
    from: Option<u64>,
}

impl From<BusParams> for BusFilter {
    fn from(asked: BusParams) -> BusFilter {
        BusFilter { tract: asked.tract, event: asked.event, from: asked.from }
    }
}

/// The bus, both ways.
pub(crate) async fn bus_socket(
    State(app): State<AppState>,
    QueryParams(asked): QueryParams<BusParams>,
    revocation: Revocation,
    request: Request,
) -> Result<Response, Refusal> {
    let origin = request.headers().get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok()).map(str::to_owned);
    let upgrade = upgrade_socket(request, &app).await?;
    Ok(upgrade.on_upgrade(|socket| bridge_page(socket, asked.into(), origin, app, revocation)))
}

/// The bus, one way.
pub(crate) async fn bus_stream(
    State(app): State<AppState>,
    QueryParams(asked): QueryParams<BusParams>,
    revocation: Revocation,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    // A browser reconnects with its old query and adds how far it got.
    let from = last_event(&headers).or(asked.from);
    let wanted = BusFilter { from, ..asked.into() };
    let hearing = BusSubscription::open(&app, &wanted).await.map_err(|error| {
        let told = format!("the bus does not answer: {error}");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no_bus", told)
    })?;
    let guest = RevocableStream::new(&app, revocation);
    let stream = unfold((hearing, guest), async |(mut hearing, mut guest)| {
        let message = guest.unless_revoked(hearing.next()).await??;
        let event = Event::default().data(message.as_str());
        let event = match position(&message) {
            Some(position) => event.id(position.to_string()),
            None => event,
        };
        Some((Ok::<_, Infallible>(event), (hearing, guest)))
    });
    Ok(sse_response(stream))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamParams {
    /// Only what is behind this `seq`. Without it, and without `Last-Event-ID`, the stream begins
    /// now.
    after: Option<u64>,
}

/// One session as it goes on, as server-sent events
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/stream",
    params(IdPath, StreamParams),
    responses((status = OK, body = String, content_type = "text/event-stream"), RefusalsOfOne)
)]
pub(crate) async fn session_stream(
    State(app): State<AppState>,
    IdPath(id): IdPath,
    QueryParams(asked): QueryParams<StreamParams>,
    revocation: Revocation,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let after = last_event(&headers).or(asked.after);
    let following = StreamFollower::open(&app, Some(&id), after).await?;
    let init = following.first_frame().await;
    let state = Streaming {
        frames: vec![init].into_iter(),
        moved: app.broadcaster().subscribe(),
        guest: RevocableStream::new(&app, revocation),
        following,
    };
    Ok(sse_response(unfold(state, Streaming::next)))
}

/// An event stream of one follower.
struct Streaming {
    frames: std::vec::IntoIter<Utf8Bytes>,
    following: StreamFollower,
    moved: tokio::sync::watch::Receiver<u64>,
    guest: RevocableStream,
}

impl Streaming {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Streaming)> {
        loop {
            // First of all: with enough to catch up on, there is nothing to wait for.
            if self.guest.revocation.is_revoked() {
                return None;
            }
            if let Some(frame) = self.frames.next() {
                let event = Event::default().data(frame.as_str());
                let event = match frame_seq(&frame) {
                    // A browser that reconnects sends the last id that it got. Frames without one
                    // leave it as it is.
                    Some(seq) => event.id(seq.to_string()),
                    None => event,
                };
                return Some((Ok(event), self));
            }
            if self.following.is_ended() {
                return None;
            }
            // Before the read: an event that comes meanwhile ends the wait below.
            self.moved.mark_unchanged();
            self.frames = self.following.next().await.into_iter();
            if self.frames.len() == 0 {
                let (guest, moved) = (&mut self.guest, &mut self.moved);
                guest.unless_revoked(moved.changed()).await?.ok()?;
            }
        }
    }
}

/// A stream that ends when its token is revoked.
struct RevocableStream {
    revocation: Revocation,
    _stream: StreamGuard,
}

impl RevocableStream {
    fn new(app: &AppState, revocation: Revocation) -> RevocableStream {
        RevocableStream { revocation, _stream: app.register_stream() }
    }

    async fn unless_revoked<T>(&mut self, wanted: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // In this order (`biased`): on a busy bus the other branch is always ready too.
            biased;
            () = self.revocation.wait_revoked() => None,
            got = wanted => Some(got),
        }
    }
}

fn sse_response(
    stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

async fn upgrade_socket(request: Request, app: &AppState) -> Result<WebSocketUpgrade, Refusal> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, app).await;
    let upgrade = upgrade.map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, "not_a_websocket", error.body_text())
            .hint("this path is for WebSockets")
    })?;
    Ok(upgrade
        .max_message_size(SAID_BYTES_MAX)
        .max_frame_size(SAID_BYTES_MAX)
        .write_buffer_size(WRITE_BUFFER))
}

/// The last event that a returning browser has received.
fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

/// The `seq` of a frame, from which a returning follower continues.
fn frame_seq(frame: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Framed {
        event: Numbered,
    }
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    Some(serde_json::from_str::<Framed>(frame).ok()?.event.seq)
}

/// The position of a bus message, from which a returning listener continues. The answer to a
/// subscription also has a position, the end of the record, which does not count.
fn position(message: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Positioned {
        position: u64,
        event: String,
    }
    let positioned: Positioned = serde_json::from_str(message).ok()?;
    (positioned.event != "subscribed").then_some(positioned.position)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use futures_util::stream::pending;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn idle_stream_sends_keepalive() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let began = Instant::now();
            let mut body = sse_response(pending()).into_body().into_data_stream();
            for number in 1..4 {
                assert_eq!(&body.next().await.unwrap().unwrap()[..], b":\n\n");
                assert_eq!(began.elapsed().as_secs(), number * 20);
            }
        });
    }
}
