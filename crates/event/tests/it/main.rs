//! Tests of the event vocabulary, one module per part.

mod any; // generated events for the properties below
mod bodies;
mod child;
mod codec;
mod cost;
mod fields;
mod golden;
mod hosted;
#[macro_use]
mod hostile;
mod id;
mod keys;
mod payloads;
mod references;
mod time;
mod words;

use event::{Draft, EventId, Kind, Raw, SessionId, Time};

/// A draft of `kind` with `data` and default values.
fn draft(kind: &str, data: &str) -> Draft {
    let id = EventId::new(Time::EPOCH, [7; 10]);
    let session_id = SessionId::new("s").expect("a session id");
    let data = Raw::parse(data).expect("valid JSON");
    Draft::with_data(id, session_id, Time::EPOCH, Kind::from(kind), data)
}
