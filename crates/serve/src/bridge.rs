//! The bus for pages. Each page is an ordinary client of the bus, which handles slow clients.
//!
//! A page may publish a short list of messages; all others are refused.

use axum::extract::ws::{Message as Spoken, Utf8Bytes, WebSocket};
use bus::Message;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wire::StreamFrame;

use crate::auth::Revocation;
use crate::server::AppState;

/// The messages that a page may publish: a tract and an event, `*` for any.
const PAGES_MAY_SAY: &[(&str, &str)] = &[
    ("notification", "*"),
    ("navigate", "request"),
    ("cortex", "request"),
    ("supervisor", "restart"),
    ("supervisor", "cancel"),
];

/// Fields that contain a path of the page. They must not lead to another origin.
const PLACES: &[&str] = &["path", "action"];

/// The messages that a page subscribes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusFilter {
    pub(crate) tract: Option<String>,
    pub(crate) event: Option<String>,
    /// First the messages after this position, from the journal.
    pub(crate) from: Option<u64>,
}

/// The bus connection of one page.
pub(crate) struct BusSubscription {
    lines: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
    say: OwnedWriteHalf,
}

impl BusSubscription {
    pub(crate) async fn open(
        app: &AppState,
        wanted: &BusFilter,
    ) -> std::io::Result<BusSubscription> {
        let (read, mut say) = UnixStream::connect(bus::connect_path(app.bus())).await?.into_split();
        let mut subscribe = json!({"tract": "callosum", "event": "subscribe", "name": "page"});
        let mut set = |name: &str, value| subscribe[name] = value;
        wanted.tract.iter().for_each(|tract| set("tracts", json!([tract])));
        wanted.event.iter().for_each(|event| set("events", json!([event])));
        wanted.from.iter().for_each(|from| set("from", json!(from)));
        say.write_all(format!("{subscribe}\n").as_bytes()).await?;
        Ok(BusSubscription { lines: BufReader::new(read), line: Vec::new(), say })
    }

    /// Returns the next message as JSON that a browser can read; `None` when the bus has ended.
    ///
    /// It is safe to cancel: a partial line is kept for the next call.
    pub(crate) async fn next(&mut self) -> Option<Utf8Bytes> {
        loop {
            let read = self.lines.read_until(b'\n', &mut self.line).await.ok()?;
            if read == 0 {
                return None;
            }
            if let Some(message) = readable(&std::mem::take(&mut self.line)) {
                return Some(message);
            }
        }
    }

    /// Publishes a message of a page, if the page is allowed to.
    pub(crate) async fn publish_text(&mut self, text: &str) -> Result<(), BusRejection> {
        let message = Message::parse(text.as_bytes())
            .map_err(|fault| BusRejection(format!("not a message: {fault:?}")))?;
        let (tract, event) = (message.tract(), message.event());
        let (tract, event) = (tract.unwrap_or_default(), event.unwrap_or_default());
        let is_allowed = PAGES_MAY_SAY
            .iter()
            .any(|(one, other)| *one == tract && (*other == "*" || *other == event));
        if !is_allowed {
            return Err(BusRejection(format!("a page may not say `{tract}.{event}`")));
        }
        for name in PLACES {
            let place = message.field(name).and_then(|field| field.text());
            // Other pages follow these paths, so one page must not be able to lead them to another
            // site.
            if place.as_deref().is_some_and(|place| !is_place(place)) {
                return Err(BusRejection(format!("`{name}` is not a path of this page")));
            }
        }
        // The checked object on one line, and nothing around it: a page must not smuggle in a
        // second message.
        let line = format!("{}\n", message.ascii_line().trim_end());
        self.say.write_all(line.as_bytes()).await.map_err(|error| BusRejection(error.to_string()))
    }
}

/// Why a message of a page was not published.
pub(crate) struct BusRejection(String);

/// Bridges a page and the bus until one of them ends or the token is revoked.
pub(crate) async fn bridge_page(
    socket: WebSocket,
    wanted: BusFilter,
    origin: Option<String>,
    app: AppState,
    mut revocation: Revocation,
) {
    let _stream = app.register_stream();
    tokio::select! {
        () = revocation.wait_revoked() => {}
        // A page that disconnects is not an error.
        _ = carry_messages(socket, wanted, origin.as_deref(), &app) => {}
    }
}

async fn carry_messages(
    mut socket: WebSocket,
    wanted: BusFilter,
    origin: Option<&str>,
    app: &AppState,
) -> Option<()> {
    let mut subscription = BusSubscription::open(app, &wanted).await.ok()?;
    loop {
        tokio::select! {
            heard = subscription.next() => socket.send(Spoken::Text(heard?)).await.ok()?,
            said = socket.recv() => match said?.ok()? {
                Spoken::Text(text) => {
                    if let Err(BusRejection(message)) = subscription.publish_text(&text).await {
                        app.count_refused(origin, &message);
                        let refused = StreamFrame::Refused { kind: "not_allowed", message };
                        socket.send(Spoken::Text(refused.encode().into())).await.ok()?;
                    }
                }
                Spoken::Close(_) => return None,
                Spoken::Ping(_) | Spoken::Pong(_) | Spoken::Binary(_) => {}
            },
        }
    }
}

/// Converts a line of the bus to strict JSON: `NaN` and infinities become `null`.
fn readable(line: &[u8]) -> Option<Utf8Bytes> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    // Nearly all lines are strict JSON and pass unchanged, with the spelling of their numbers.
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Some(text.to_owned().into());
    }
    Some(Message::parse(line).ok()?.to_json().to_string().into())
}

/// Whether the text is a path of this page: no other host, no scheme, no control characters.
fn is_place(text: &str) -> bool {
    text.starts_with('/')
        // To a browser `//host` and `/\host` are addresses of another host.
        && !text.contains("//")
        && !text.contains(['\\', ':'])
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_page_pass() {
        for (text, is) in [
            ("/", true),
            ("/sessions/claude", true),
            ("sessions", false),
            ("//evil.example", false),
            ("/a//b", false),
            ("/\\evil.example", false),
            ("/javascript:x", false),
            ("https://evil.example", false),
            ("/a\nb", false),
            ("", false),
        ] {
            assert_eq!(is_place(text), is, "{text}");
        }
    }

    #[test]
    fn non_json_numbers_become_null() {
        let line = b"{\"tract\":\"x\",\"event\":\"y\",\"a\":NaN,\"b\":[1,-Infinity],\"ts\":1}\n";
        let read: serde_json::Value = serde_json::from_str(&readable(line).unwrap()).unwrap();
        assert_eq!(read, json!({"tract": "x", "event": "y", "a": null, "b": [1, null], "ts": 1}));
        let plain = b"{\"tract\":\"x\",\"event\":\"y\",\"n\":1.10}\n";
        assert_eq!(&*readable(plain).unwrap(), "{\"tract\":\"x\",\"event\":\"y\",\"n\":1.10}");
    }
}
