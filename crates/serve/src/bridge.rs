//! The bus for pages: each is a client of the bus like any other, so the bus itself takes care of
//! what a slow one may miss and of what it is told then.
//!
//! What a page may say is a short list; everything else is refused.

use axum::extract::ws::{Message as Spoken, Utf8Bytes, WebSocket};
use bus::Message;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wire::Frame;

use crate::door::Inside;
use crate::entrance::Expulsion;

/// What a page may put on the bus: a tract and an event, `*` for any.
const PAGES_MAY_SAY: &[(&str, &str)] = &[
    ("notification", "*"),
    ("navigate", "request"),
    ("cortex", "request"),
    ("supervisor", "restart"),
    ("supervisor", "cancel"),
];

/// Fields that name a place in the page. A page of another origin is none.
const PLACES: &[&str] = &["path", "action"];

/// Which messages a page wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) tract: Option<String>,
    pub(crate) event: Option<String>,
    /// Behind this position, from the journal first.
    pub(crate) from: Option<u64>,
}

/// The bus as one page hears it.
pub(crate) struct Hearing {
    lines: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
    say: OwnedWriteHalf,
}

impl Hearing {
    pub(crate) async fn open(inside: &Inside, wanted: &Wanted) -> std::io::Result<Hearing> {
        let (read, mut say) = UnixStream::connect(inside.bus()).await?.into_split();
        let mut subscribe = json!({"tract": "callosum", "event": "subscribe", "name": "page"});
        let mut set = |name: &str, value| subscribe[name] = value;
        wanted.tract.iter().for_each(|tract| set("tracts", json!([tract])));
        wanted.event.iter().for_each(|event| set("events", json!([event])));
        wanted.from.iter().for_each(|from| set("from", json!(from)));
        say.write_all(format!("{subscribe}\n").as_bytes()).await?;
        Ok(Hearing { lines: BufReader::new(read), line: Vec::new(), say })
    }

    /// The next message as JSON that a browser can read; `None` when the bus has ended. Asked again
    /// after it was not waited for, it goes on where it was.
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

    /// Puts on the bus what a page says, if it may say it.
    pub(crate) async fn say(&mut self, text: &str) -> Result<(), Refused> {
        let message = Message::parse(text.as_bytes())
            .map_err(|fault| Refused(format!("not a message: {fault:?}")))?;
        let (tract, event) = (message.tract(), message.event());
        let (tract, event) = (tract.unwrap_or_default(), event.unwrap_or_default());
        let is_allowed = PAGES_MAY_SAY
            .iter()
            .any(|(one, other)| *one == tract && (*other == "*" || *other == event));
        if !is_allowed {
            return Err(Refused(format!("a page may not say `{tract}.{event}`")));
        }
        for name in PLACES {
            let place = message.field(name).and_then(|field| field.text());
            if place.as_deref().is_some_and(|place| !is_place(place)) {
                return Err(Refused(format!("`{name}` is not a path of this page")));
            }
        }
        let line = format!("{}\n", message.ascii_line().trim_end());
        self.say.write_all(line.as_bytes()).await.map_err(|error| Refused(error.to_string()))
    }
}

/// What a page may not say, or nobody can hear.
pub(crate) struct Refused(String);

/// Bridges a page and the bus until one of them ends, or the page has to leave.
pub(crate) async fn bridge(
    socket: WebSocket,
    wanted: Wanted,
    origin: Option<String>,
    inside: Inside,
    mut expulsion: Expulsion,
) {
    let _stay = inside.stay();
    tokio::select! {
        () = expulsion.comes() => {}
        // Who leaves in the middle has had enough.
        _ = carry(socket, wanted, origin.as_deref(), &inside) => {}
    }
}

async fn carry(
    mut socket: WebSocket,
    wanted: Wanted,
    origin: Option<&str>,
    inside: &Inside,
) -> Option<()> {
    let mut hearing = Hearing::open(inside, &wanted).await.ok()?;
    loop {
        tokio::select! {
            heard = hearing.next() => socket.send(Spoken::Text(heard?)).await.ok()?,
            said = socket.recv() => match said?.ok()? {
                Spoken::Text(text) => {
                    if let Err(Refused(message)) = hearing.say(&text).await {
                        inside.count_refused(origin, &message);
                        let refused = Frame::Refused { kind: "not_allowed", message };
                        socket.send(Spoken::Text(refused.encode().into())).await.ok()?;
                    }
                }
                Spoken::Close(_) => return None,
                Spoken::Ping(_) | Spoken::Pong(_) | Spoken::Binary(_) => {}
            },
        }
    }
}

/// A line of the bus as JSON; numbers that JSON does not have become `null`.
fn readable(line: &[u8]) -> Option<Utf8Bytes> {
    let text = std::str::from_utf8(line).ok()?.trim_end();
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Some(text.to_owned().into());
    }
    Some(Message::parse(line).ok()?.to_json().to_string().into())
}

/// One slash and then no way out: neither another host, nor a scheme, nor something invisible.
fn is_place(text: &str) -> bool {
    text.starts_with('/')
        && !text.contains("//")
        && !text.contains(['\\', ':'])
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_of_this_page() {
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
    fn what_browsers_cannot_read_becomes_null() {
        let line = b"{\"tract\":\"x\",\"event\":\"y\",\"a\":NaN,\"b\":[1,-Infinity],\"ts\":1}\n";
        let read: serde_json::Value = serde_json::from_str(&readable(line).unwrap()).unwrap();
        assert_eq!(read, json!({"tract": "x", "event": "y", "a": null, "b": [1, null], "ts": 1}));
        let plain = b"{\"tract\":\"x\",\"event\":\"y\",\"n\":1.10}\n";
        assert_eq!(&*readable(plain).unwrap(), "{\"tract\":\"x\",\"event\":\"y\",\"n\":1.10}");
    }
}
