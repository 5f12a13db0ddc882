//! What is asked of a model, when, and how it is brought there: against endpoints on this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod settings; // what may be set, and where the key is
mod queue; // what is asked when
mod question; // what is asked, and what an answer says
mod client; // three kinds of endpoints, good and bad

use event::{Draft, Event, EventId, Kind, Raw, SessionId, Time};
use model::ModelSettings;
use serde_json::Value;

/// The settings in a `[model]` table.
fn settings(table: &str) -> ModelSettings {
    toml::from_str(table).unwrap()
}

const T0: i64 = 1_800_000_000_000;

fn at(seconds: i64) -> Time {
    Time::from_millis(T0 + seconds * 1_000)
}

/// An event of a session.
fn event(session: &str, seq: u64, at: Time, kind: Kind, data: &Value) -> Event {
    let id = EventId::derived(at, "test", session, &seq.to_be_bytes());
    let session = SessionId::new(format!("claude:{session}")).unwrap();
    Draft::with_data(id, session, at, kind, Raw::from_value(data).unwrap()).with_seq(seq)
}
