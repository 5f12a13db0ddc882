//! A WebSocket: the requests of its client and the streams it gets.

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::{FutureExt, SinkExt};
use wire::{StreamFrame, StreamRequest};

use crate::answer::Refusal;
use crate::auth::Revocation;
use crate::board::BoardCursor;
use crate::follow::StreamFollower;
use crate::server::{AppState, WatchGuard};

/// The maximum number of streams per connection. A further one is refused.
const STREAMS_MAX: usize = 64;

/// The maximum length of a client's message. A longer one ends the connection.
pub(crate) const SAID_BYTES_MAX: usize = 64 * 1024;

/// Serves the socket until the client leaves or its token is revoked.
pub(crate) async fn serve_socket(socket: WebSocket, app: AppState, mut revocation: Revocation) {
    let _stream = app.register_stream();
    let session = SocketSession { socket, app, streams: Vec::new(), status: None };
    tokio::select! {
        () = revocation.wait_revoked() => {}
        // A client that disconnects is not an error.
        _ = session.run() => {}
    }
}

struct SocketSession {
    socket: WebSocket,
    app: AppState,
    streams: Vec<StreamFollower>,
    status: Option<StatusWatch>,
}

/// The subscription of a client to the status board.
struct StatusWatch {
    seen: BoardCursor,
    _watching: WatchGuard,
}

/// The client is gone.
struct ClientGone;

impl SocketSession {
    async fn run(mut self) -> Result<(), ClientGone> {
        let mut moved = self.app.broadcaster().subscribe();
        let mut changed = self.app.board().changed();
        loop {
            // Marked before sending: a change in the meantime makes the loop run again.
            moved.mark_unchanged();
            changed.mark_unchanged();
            if self.send_pending().await? {
                // There may be more to send, but a client must be heard in between.
                if let Some(said) = self.socket.recv().now_or_never() {
                    self.handle_message(said).await?;
                }
                continue;
            }
            tokio::select! {
                said = self.socket.recv() => self.handle_message(said).await?,
                _ = moved.changed(), if !self.streams.is_empty() => {}
                _ = changed.changed(), if self.status.is_some() => {}
            }
        }
    }

    /// Sends each stream its pending frames; returns whether there were any.
    async fn send_pending(&mut self) -> Result<bool, ClientGone> {
        let mut has_given = false;
        for number in 0..self.streams.len() {
            let given = self.streams[number].next().await;
            // One stream after the other, so that at most one portion is held in memory.
            has_given |= self.send_frames(given).await?;
        }
        self.streams.retain(|stream| !stream.is_ended());
        if let Some(watch) = &mut self.status {
            let given = self.app.board().news(&mut watch.seen);
            has_given |= self.send_frames(given).await?;
        }
        Ok(has_given)
    }

    /// Sends the frames; returns whether there were any.
    async fn send_frames(&mut self, given: Vec<Utf8Bytes>) -> Result<bool, ClientGone> {
        if given.is_empty() {
            return Ok(false);
        }
        for frame in given {
            self.socket.feed(Message::Text(frame)).await.map_err(|_| ClientGone)?;
        }
        self.socket.flush().await.map_err(|_| ClientGone)?;
        Ok(true)
    }

    async fn send_frame(&mut self, frame: Utf8Bytes) -> Result<(), ClientGone> {
        self.socket.send(Message::Text(frame)).await.map_err(|_| ClientGone)
    }

    async fn handle_message(
        &mut self,
        said: Option<Result<Message, axum::Error>>,
    ) -> Result<(), ClientGone> {
        let text = match said {
            Some(Ok(Message::Text(text))) => text,
            // The library answers pings, and there are no binary messages in this protocol.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => return Ok(()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(ClientGone),
        };
        let answered = match serde_json::from_str(&text) {
            Ok(asked) => self.answer_request(asked).await,
            Err(error) => Err(Refusal::bad_argument(format!("not understood: {error}"))),
        };
        match answered {
            Ok(None) => Ok(()),
            Ok(Some(frame)) => self.send_frame(frame).await,
            Err(refusal) => {
                let (kind, message) = (refusal.kind(), refusal.message().to_owned());
                self.send_frame(StreamFrame::Refused { kind, message }.encode().into()).await
            }
        }
    }

    async fn answer_request(&mut self, asked: StreamRequest) -> Result<Option<Utf8Bytes>, Refusal> {
        match asked {
            StreamRequest::SubscribeStream { session_id, after } => {
                if self.streams.len() >= STREAMS_MAX {
                    let told = format!("a connection has at most {STREAMS_MAX} streams");
                    return Err(Refusal::bad_argument(told));
                }
                let stream = StreamFollower::open(&self.app, session_id.as_deref(), after).await?;
                // A second subscription replaces the first.
                self.streams.retain(|known| known.session() != stream.session());
                let init = stream.first_frame().await;
                self.streams.push(stream);
                Ok(Some(init))
            }
            StreamRequest::UnsubscribeStream { session_id } => {
                let wanted = session_id.as_deref();
                self.streams.retain(|known| known.session().map(|id| id.as_str()) != wanted);
                Ok(None)
            }
            StreamRequest::SubscribeStatus => {
                self.status = Some(StatusWatch {
                    seen: BoardCursor::default(),
                    _watching: self.app.register_watcher(),
                });
                Ok(None)
            }
            StreamRequest::UnsubscribeStatus => {
                self.status = None;
                Ok(None)
            }
        }
    }
}
