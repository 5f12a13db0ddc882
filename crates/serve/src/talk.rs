//! A WebSocket: what its client asks for, and the streams it gets.

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::{FutureExt, SinkExt};
use wire::{Asked, Frame};

use crate::answer::Refusal;
use crate::board::Seen;
use crate::door::{Inside, Watching};
use crate::entrance::Expulsion;
use crate::follow::Following;

/// Streams of one connection. One more is refused.
const STREAMS_MAX: usize = 64;

/// Bytes of what a client may say at once; it hangs up on itself with more.
pub(crate) const SAID_BYTES_MAX: usize = 64 * 1024;

/// Talks until the client leaves, or has to.
pub(crate) async fn talk(socket: WebSocket, inside: Inside, mut expulsion: Expulsion) {
    let _stay = inside.stay();
    let talk = Talk { socket, inside, streams: Vec::new(), status: None };
    tokio::select! {
        () = expulsion.comes() => {}
        // Who leaves in the middle has had enough.
        _ = talk.run() => {}
    }
}

struct Talk {
    socket: WebSocket,
    inside: Inside,
    streams: Vec<Following>,
    status: Option<Watch>,
}

/// What a client has seen of what sessions are doing.
struct Watch {
    seen: Seen,
    _watching: Watching,
}

/// The client is gone.
struct Gone;

impl Talk {
    async fn run(mut self) -> Result<(), Gone> {
        let mut moved = self.inside.tide().moved();
        let mut changed = self.inside.board().changed();
        loop {
            // Marked first: what changes while it is looked at is looked at again.
            moved.mark_unchanged();
            changed.mark_unchanged();
            if self.give_all().await? {
                // There may be more; but a client that gets much can still say something.
                if let Some(said) = self.socket.recv().now_or_never() {
                    self.hear(said).await?;
                }
                continue;
            }
            tokio::select! {
                said = self.socket.recv() => self.hear(said).await?,
                _ = moved.changed(), if !self.streams.is_empty() => {}
                _ = changed.changed(), if self.status.is_some() => {}
            }
        }
    }

    /// Gives each stream what is there for it; whether there was anything.
    async fn give_all(&mut self) -> Result<bool, Gone> {
        let mut has_given = false;
        for number in 0..self.streams.len() {
            let given = self.streams[number].next().await;
            // One stream after the other: what waits to be sent is never more than one portion.
            has_given |= self.give(given).await?;
        }
        self.streams.retain(|stream| !stream.is_ended());
        if let Some(watch) = &mut self.status {
            let given = self.inside.board().news(&mut watch.seen);
            has_given |= self.give(given).await?;
        }
        Ok(has_given)
    }

    /// Sends these; whether there were any.
    async fn give(&mut self, given: Vec<Utf8Bytes>) -> Result<bool, Gone> {
        if given.is_empty() {
            return Ok(false);
        }
        for frame in given {
            self.socket.feed(Message::Text(frame)).await.map_err(|_| Gone)?;
        }
        self.socket.flush().await.map_err(|_| Gone)?;
        Ok(true)
    }

    async fn tell(&mut self, frame: Utf8Bytes) -> Result<(), Gone> {
        self.socket.send(Message::Text(frame)).await.map_err(|_| Gone)
    }

    async fn hear(&mut self, said: Option<Result<Message, axum::Error>>) -> Result<(), Gone> {
        let text = match said {
            Some(Ok(Message::Text(text))) => text,
            // The library answers pings; nobody has anything to say in bytes.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => return Ok(()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
        };
        let answered = match serde_json::from_str(&text) {
            Ok(asked) => self.answer(asked).await,
            Err(error) => Err(Refusal::bad_argument(format!("not understood: {error}"))),
        };
        match answered {
            Ok(None) => Ok(()),
            Ok(Some(frame)) => self.tell(frame).await,
            Err(refusal) => {
                let (kind, message) = (refusal.kind(), refusal.message().to_owned());
                self.tell(Frame::Refused { kind, message }.encode().into()).await
            }
        }
    }

    async fn answer(&mut self, asked: Asked) -> Result<Option<Utf8Bytes>, Refusal> {
        match asked {
            Asked::SubscribeStream { session_id, after } => {
                if self.streams.len() >= STREAMS_MAX {
                    let told = format!("a connection has at most {STREAMS_MAX} streams");
                    return Err(Refusal::bad_argument(told));
                }
                let stream = Following::open(&self.inside, session_id.as_deref(), after).await?;
                // Asked again, it begins again.
                self.streams.retain(|known| known.session() != stream.session());
                let init = stream.init().await;
                self.streams.push(stream);
                Ok(Some(init))
            }
            Asked::UnsubscribeStream { session_id } => {
                let wanted = session_id.as_deref();
                self.streams.retain(|known| known.session().map(|id| id.as_str()) != wanted);
                Ok(None)
            }
            Asked::SubscribeStatus => {
                self.status = Some(Watch { seen: Seen::default(), _watching: self.inside.watch() });
                Ok(None)
            }
            Asked::UnsubscribeStatus => {
                self.status = None;
                Ok(None)
            }
        }
    }
}
