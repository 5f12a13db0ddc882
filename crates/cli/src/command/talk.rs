//! How commands talk to the daemon: over the bus, listening before they speak, and never without a
//! limit.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bus::{Client, ClientEvent, ClientSettings, Filter, Message};
use serde_json::Value;

use crate::error::CliError;

/// A daemon says how it is every 5 seconds. After this long without a word there is none.
const SILENCE_MAX: Duration = Duration::from_secs(7);

/// How long what was said may take to be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The tract of everything that is asked of the supervisor.
const SUPERVISOR: &str = "supervisor";

/// A connection to the supervisor.
pub(super) struct Talk {
    client: Client,
    path: PathBuf,
}

impl Talk {
    /// Connects, to hear some events and how the daemon is. Nobody there is an error.
    pub(super) fn open(path: PathBuf, events: &[&str]) -> Result<Talk, CliError> {
        let events = events.iter().chain(&["status"]).map(|event| (*event).to_owned()).collect();
        let filter = Filter { tracts: vec![SUPERVISOR.to_owned()], events, fields: Vec::new() };
        let client = Client::start(&path, ClientSettings { filter, ..ClientSettings::default() })?;
        let talk = Talk { client, path };
        loop {
            match talk.client.next(SILENCE_MAX) {
                Some(ClientEvent::Connected) => return Ok(talk),
                Some(ClientEvent::Disconnected) | None => return Err(talk.nobody()),
                Some(_) => {}
            }
        }
    }

    pub(super) fn say(&self, event: &str, fields: &[(&str, Value)]) -> Result<(), CliError> {
        let emitted = self.client.emit(SUPERVISOR, event, fields);
        emitted.map_err(|error| CliError::new("bad_message", error.to_string()))?;
        if self.client.flush(WRITTEN_WITHIN) > 0 { Err(self.nobody()) } else { Ok(()) }
    }

    /// The first message that says something, however long that takes, as long as the daemon says
    /// how it is meanwhile.
    pub(super) fn wait<T>(
        &self,
        mut says: impl FnMut(&Message) -> Option<T>,
    ) -> Result<T, CliError> {
        let mut silent_until = Instant::now() + SILENCE_MAX;
        loop {
            match self.client.next(silent_until.saturating_duration_since(Instant::now())) {
                Some(ClientEvent::Message(message)) => {
                    if message.is_event(SUPERVISOR, "status") {
                        silent_until = Instant::now() + SILENCE_MAX;
                    }
                    if let Some(said) = says(&message) {
                        return Ok(said);
                    }
                }
                Some(ClientEvent::Disconnected) | None => return Err(self.nobody()),
                Some(_) => {}
            }
        }
    }

    /// The same within a limit; `None` when it is over.
    pub(super) fn wait_within<T>(
        &self,
        limit: Duration,
        mut says: impl FnMut(&Message) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + limit;
        loop {
            match self.client.next(until.saturating_duration_since(Instant::now()))? {
                ClientEvent::Message(message) => {
                    if let Some(said) = says(&message) {
                        return Some(said);
                    }
                }
                ClientEvent::Disconnected => return None,
                _ => {}
            }
        }
    }

    /// How the daemon is.
    pub(super) fn status(&self) -> Result<Value, CliError> {
        self.wait(|message| message.is_event(SUPERVISOR, "status").then(|| message.to_json()))
    }

    fn nobody(&self) -> CliError {
        let told = format!("no daemon answers at `{}`", self.path.display());
        CliError::new("no_daemon", told).hint("`hansard up` starts one").absent()
    }
}

/// The text of a field, if it is one.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

/// Whether a message is the answer to a ref.
pub(super) fn answers(message: &Message, event: &str, reference: &str) -> bool {
    message.is_event(SUPERVISOR, event)
        && message.field("ref").and_then(|field| field.text()).is_some_and(|it| it == reference)
}

/// Whether a message is about a service.
pub(super) fn is_about(message: &Message, event: &str, service: &str) -> bool {
    message.is_event(SUPERVISOR, event)
        && message.field("service").and_then(|it| it.text()).is_some_and(|it| it == service)
}

/// A ref that nobody else makes up.
pub(super) fn own_ref() -> String {
    format!("cli-{}-{}", crate::world::now().id_millis(), std::process::id())
}
