//! Requests to the daemon over the bus. A request subscribes before it sends, and never waits
//! without a limit.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bus::{Client, ClientEvent, ClientSettings, Filter, Message};
use serde_json::Value;

use crate::error::CliError;

/// The daemon publishes a status every 5 seconds. Without one for this long, it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(7);

/// How long a request may take to be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The tract of requests to the supervisor.
const SUPERVISOR: &str = "supervisor";

/// A connection to the supervisor.
pub(super) struct SupervisorClient {
    client: Client,
    path: PathBuf,
}

impl SupervisorClient {
    /// Connects and subscribes to some events and to `status`. Fails if no daemon answers.
    pub(super) fn open(path: PathBuf, events: &[&str]) -> Result<SupervisorClient, CliError> {
        // `status` in any case: it is the sign of life that `wait_for` relies on.
        let events = events.iter().chain(&["status"]).map(|event| (*event).to_owned()).collect();
        let filter = Filter { tracts: vec![SUPERVISOR.to_owned()], events, fields: Vec::new() };
        let client = Client::start(&path, ClientSettings { filter, ..ClientSettings::default() })?;
        let client = SupervisorClient { client, path };
        // The connection has to stand before a request: its answer may come at once.
        loop {
            match client.client.next(SILENCE_MAX) {
                Some(ClientEvent::Connected) => return Ok(client),
                Some(ClientEvent::Disconnected) | None => return Err(client.no_daemon()),
                Some(_) => {}
            }
        }
    }

    pub(super) fn send_request(
        &self,
        event: &str,
        fields: &[(&str, Value)],
    ) -> Result<(), CliError> {
        let emitted = self.client.emit(SUPERVISOR, event, fields);
        emitted.map_err(|error| CliError::new("bad_message", error.to_string()))?;
        // What is not written by then will not be: the daemon hangs or is gone.
        if self.client.flush(WRITTEN_WITHIN) > 0 { Err(self.no_daemon()) } else { Ok(()) }
    }

    /// Waits for a message that `says` accepts, for as long as the daemon keeps sending its status.
    pub(super) fn wait_for<T>(
        &self,
        mut says: impl FnMut(&Message) -> Option<T>,
    ) -> Result<T, CliError> {
        let mut silent_until = Instant::now() + SILENCE_MAX;
        loop {
            match self.client.next(silent_until.saturating_duration_since(Instant::now())) {
                Some(ClientEvent::Message(message)) => {
                    if message.is_event(SUPERVISOR, "status") {
                        // Only a status counts: other clients may send on this tract.
                        silent_until = Instant::now() + SILENCE_MAX;
                    }
                    if let Some(said) = says(&message) {
                        return Ok(said);
                    }
                }
                Some(ClientEvent::Disconnected) | None => return Err(self.no_daemon()),
                Some(_) => {}
            }
        }
    }

    /// Waits like `wait`, up to a limit; `None` when it is over.
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

    /// Waits for the daemon's next status.
    pub(super) fn next_status(&self) -> Result<Value, CliError> {
        self.wait_for(|message| message.is_event(SUPERVISOR, "status").then(|| message.to_json()))
    }

    fn no_daemon(&self) -> CliError {
        let told = format!("no daemon answers at `{}`", self.path.display());
        CliError::new("no_daemon", told).hint("`hansard up` starts one").not_running()
    }
}

/// Returns a field if it is a string, else `-`.
pub(super) fn text_or_dash<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

/// Returns whether a message answers a ref.
pub(super) fn is_answer(message: &Message, event: &str, reference: &str) -> bool {
    message.is_event(SUPERVISOR, event)
        && message.field("ref").and_then(|field| field.text()).is_some_and(|it| it == reference)
}

/// Returns whether a message is about a service.
pub(super) fn is_about(message: &Message, event: &str, service: &str) -> bool {
    message.is_event(SUPERVISOR, event)
        && message.field("service").and_then(|it| it.text()).is_some_and(|it| it == service)
}

/// Returns a ref that is unique to this process.
pub(super) fn own_ref() -> String {
    // Time and process make it unique on this machine, also after a restart.
    format!("cli-{}-{}", crate::world::now().id_millis(), std::process::id())
}
