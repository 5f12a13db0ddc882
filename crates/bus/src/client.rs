//! A long-lived client connection that reconnects by itself.
//!
//! One thread reads from the socket without pause, another writes. A bounded queue lies between
//! each of them and the caller, so neither the server nor the caller waits for the other. The
//! client reports what did not fit into a queue.

mod handlers;
mod inbound;
mod outbound;

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::StartPosition;
use crate::filter::Filter;
use crate::line_decoder::LineDecoder;
use crate::message::{Draft, Message};
use crate::socket::connect_path;

pub use handlers::ClientHandler;
use handlers::Handlers;
use inbound::Inbound;
pub use outbound::EmitError;
use outbound::Outbound;

/// The first delay between two attempts to connect. It doubles up to `RETRY_LAST`.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(2);

/// How long a server may take to confirm a subscription.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of one read.
const READ_MAX: usize = 64 << 10;

/// Options of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// Which messages the client delivers; the default is all. A server without support for
    /// subscriptions sends everything, and the client applies the filter itself.
    pub filter: Filter,
    /// Leaves out the messages that this client sends.
    pub no_echo: bool,
    /// Where in the journal to start. From there on the client misses no recorded message, also
    /// across restarts of the server.
    pub from: Option<StartPosition>,
    /// The client's name in the server's `stats`.
    pub name: Option<String>,
    /// Fields that every message gets unless it has them already. `null` is left out.
    pub defaults: Vec<(String, Value)>,
    /// Refuses messages while there is no connection, instead of holding them for 10 s.
    pub no_hold: bool,
}

/// What a client reports to its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    Message(Message),
    Connected,
    /// The connection ended, or the first attempt failed. Reported once until a connection stands.
    Disconnected,
    /// The server reported a gap (`callosum.lagged`), or the caller was too slow for our queue.
    Lagged {
        dropped: u64,
    },
    /// This many queued messages could not be written.
    Lost(u64),
    /// All recorded messages up to `position` have been delivered; live messages follow.
    CaughtUp {
        position: u64,
    },
    /// The server refused the subscription, for this reason.
    Refused {
        reason: String,
    },
}

/// A long-lived client connection. Dropping it stops it.
pub struct Client {
    shared: Arc<ClientShared>,
    threads: Vec<JoinHandle<()>>,
    defaults: Vec<(String, Value)>,
}

struct ClientShared {
    path: PathBuf,
    settings: ClientSettings,
    inbound: Inbound,
    outbound: Outbound,
    handlers: Arc<Handlers>,
    /// The newest journal position delivered; a new connection resumes behind it.
    last_position: AtomicU64,
    /// The stream that the reader thread blocks on, so that stopping can shut it down.
    stream: Mutex<Option<UnixStream>>,
}

impl Client {
    /// Starts connecting in the background and reconnects until the client is stopped.
    pub fn start(path: &Path, settings: ClientSettings) -> io::Result<Client> {
        let defaults = settings.defaults.clone();
        let shared = Arc::new(ClientShared {
            path: path.to_owned(),
            outbound: Outbound::new(!settings.no_hold),
            // With a start position, the server replays from the journal what a slow client misses, so
            // the queue can block the reader and drops nothing.
            inbound: Inbound::new(settings.from.is_some()),
            handlers: Arc::default(),
            settings,
            last_position: AtomicU64::new(0),
            stream: Mutex::new(None),
        });
        let mut client = Client { shared, threads: Vec::new(), defaults };
        let shared = Arc::clone(&client.shared);
        client.spawn("bus-read", move || shared.run_reader())?;
        let shared = Arc::clone(&client.shared);
        client.spawn("bus-write", move || shared.outbound.write_all(&shared.inbound))?;
        Ok(client)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the next event; `None` after the limit or once the client is stopped.
    pub fn next(&self, limit: Duration) -> Option<ClientEvent> {
        self.shared.inbound.next(Some(limit))
    }

    /// Waits for the next event without a limit; `None` once the client is stopped.
    pub fn wait(&self) -> Option<ClientEvent> {
        self.shared.inbound.next(None)
    }

    /// Queues a message with fields. Never blocks.
    pub fn emit(
        &self,
        tract: &str,
        event: &str,
        fields: &[(&str, Value)],
    ) -> Result<(), EmitError> {
        let mut draft = Draft::new(tract, event);
        for (name, value) in &self.defaults {
            let is_given = fields.iter().any(|(given, _)| given == name);
            if !is_given && !value.is_null() {
                draft = draft.with(name, value);
            }
        }
        for (name, value) in fields {
            draft = draft.with(name, value);
        }
        let message = draft.build().map_err(|_| EmitError::TooLong)?;
        self.shared.outbound.put(message.line())
    }

    /// Calls `handle` for messages of these names, `*` for any, on a thread of its own and in the
    /// order they come. Dropping the handler undoes it. [`Client::next`] delivers them all the same.
    pub fn on(
        &self,
        tract: &str,
        event: &str,
        handle: impl FnMut(&Message) + Send + 'static,
    ) -> io::Result<ClientHandler> {
        ClientHandler::start(&self.shared.handlers, tract, event, handle)
    }

    /// Listens, calls `ask`, and returns the first message of a tract with one of these events and
    /// these fields; `None` after the limit or once the client is stopped.
    pub fn wait_for(
        &self,
        tract: &str,
        events: &[&str],
        fields: &[(&str, Value)],
        limit: Duration,
        ask: impl FnOnce() -> Result<(), EmitError>,
    ) -> Result<Option<Message>, EmitError> {
        // Before it is asked: the answer may come at once.
        let (_registration, messages) = self.shared.handlers.register(tract, "*");
        ask()?;
        let until = Instant::now() + limit;
        let is_wanted = |message: &Message| {
            let is_event = message.event().is_some_and(|event| events.contains(&&*event));
            let has = |(name, value): &(&str, Value)| {
                message.field(name).is_some_and(|field| field.json() == *value)
            };
            is_event && fields.iter().all(has)
        };
        loop {
            match messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) if is_wanted(&message) => return Ok(Some(message)),
                Ok(_) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Has the supervisor run a command; returns its `supervisor.stopped` or `skipped`, or `None`
    /// after the limit. A `ref` among the fields names the request.
    pub fn request_task(
        &self,
        cmd: &[&str],
        fields: &[(&str, Value)],
        limit: Duration,
    ) -> Result<Option<Message>, EmitError> {
        let request = Request { name: "ref", subject: ("cmd", Value::from(cmd)) };
        self.ask("supervisor", request, fields, &["stopped", "skipped"], limit)
    }

    /// Asks for an agent; returns its `cortex.finish` or `error`, or `None` after the limit. An
    /// `agent_id` among the fields names the request.
    pub fn request_agent(
        &self,
        prompt: &str,
        fields: &[(&str, Value)],
        limit: Duration,
    ) -> Result<Option<Message>, EmitError> {
        let request = Request { name: "agent_id", subject: ("prompt", prompt.into()) };
        self.ask("cortex", request, fields, &["finish", "error"], limit)
    }

    fn ask(
        &self,
        tract: &str,
        Request { name, subject }: Request,
        fields: &[(&str, Value)],
        answers: &[&str],
        limit: Duration,
    ) -> Result<Option<Message>, EmitError> {
        let given = fields.iter().find(|(field, _)| *field == name);
        let id = given.map_or_else(|| Value::from(unique_id()), |(_, id)| id.clone());
        let others = fields.iter().filter(|(field, _)| *field != name).cloned();
        let asked: Vec<_> = [(name, id.clone()), subject].into_iter().chain(others).collect();
        self.wait_for(tract, answers, &[(name, id)], limit, || self.emit(tract, "request", &asked))
    }

    /// Waits until all queued messages are written; returns how many are not after the limit.
    pub fn flush(&self, limit: Duration) -> usize {
        self.shared.outbound.flush(limit)
    }

    /// Flushes up to the limit, then stops; returns how many messages were not written.
    pub fn stop(mut self, limit: Duration) -> usize {
        let left = self.flush(limit);
        self.shut_down();
        left
    }

    /// Returns whether the client was stopped, so that no further event comes.
    pub fn is_stopped(&self) -> bool {
        self.shared.inbound.is_closed()
    }

    /// Returns a handle that stops the client from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared) }
    }

    fn shut_down(&mut self) {
        // Closed first, so that the threads see the end when the shutdown wakes them.
        self.stopper().stop();
        if let Some(stream) = self.shared.stream().as_ref() {
            // The server may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A panicked thread has nothing to return.
            let _ = thread.join();
        }
    }
}

/// What a request consists of, besides further fields.
struct Request {
    /// The field that the answer repeats.
    name: &'static str,
    subject: (&'static str, Value),
}

/// Stops a client from another thread: it delivers and accepts nothing more.
pub struct Stopper {
    shared: Arc<ClientShared>,
}

impl Stopper {
    pub fn stop(&self) {
        self.shared.inbound.close();
        self.shared.outbound.close();
        // A request that waits for its answer ends, too.
        self.shared.handlers.clear();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl ClientShared {
    fn stream(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, reads and reconnects until the client is stopped.
    fn run_reader(&self) {
        let mut backoff = Backoff::default();
        let mut is_plain = false;
        let mut is_told = false;
        while !self.inbound.is_closed() {
            let wait = backoff.next(jitter());
            // Stopping the client ends the pause.
            if !wait.is_zero() && self.inbound.wait_closed(wait) {
                return;
            }
            let Ok(stream) = UnixStream::connect(connect_path(&self.path)) else {
                backoff.attempt_ended(Duration::ZERO);
                // Once per outage: a caller without a server must not be flooded with failed
                // attempts.
                if !std::mem::replace(&mut is_told, true) {
                    self.inbound.put(ClientEvent::Disconnected);
                }
                continue;
            };
            let began = Instant::now();
            if self.begin_session(&stream, is_plain).is_ok() {
                self.inbound.put(ClientEvent::Connected);
                // A server without subscriptions relays the request to all its clients, so it gets
                // none from the next connection on.
                is_plain = self.read_stream(stream, is_plain);
                self.outbound.disconnect();
                *self.stream() = None;
                self.inbound.put(ClientEvent::Disconnected);
                is_told = true;
            }
            backoff.attempt_ended(began.elapsed());
        }
    }

    /// Sends the subscription and hands the stream to the writer.
    fn begin_session(&self, stream: &UnixStream, is_plain: bool) -> io::Result<()> {
        let mut writer = stream.try_clone()?;
        // Before the writer has the stream: no message may go ahead of the subscription.
        if let Some(line) = self.subscribe_line().filter(|_| !is_plain) {
            writer.write_all(&line)?;
        }
        *self.stream() = Some(stream.try_clone()?);
        // A stop that came before the stream was stored could not shut this stream down.
        if self.inbound.is_closed() {
            return Err(ErrorKind::Interrupted.into());
        }
        self.outbound.connect(writer);
        Ok(())
    }

    fn subscribe_line(&self) -> Option<Vec<u8>> {
        let ClientSettings { filter, no_echo, name, from, .. } = &self.settings;
        if filter.is_everything() && !no_echo && name.is_none() && from.is_none() {
            return None;
        }
        let fields: serde_json::Map<String, Value> = filter
            .fields
            .iter()
            .map(|(key, value)| (key.name().to_owned(), value.clone()))
            .collect();
        let draft = Draft::new("callosum", "subscribe")
            .with("tracts", &filter.tracts)
            .with("events", &filter.events)
            .with("fields", fields)
            .with("echo", !no_echo)
            .with("name", name);
        // After a reconnect the delivered position counts, not the one that the caller began with.
        let draft = match (from, self.last_position.load(Ordering::Relaxed)) {
            (None, _) => draft,
            (Some(StartPosition::Now), 0) => draft.with("from", "now"),
            (Some(StartPosition::After(position)), 0) => draft.with("from", position),
            (Some(_), last_position) => draft.with("from", last_position),
        };
        let mut line = draft.build().ok()?.line().to_vec();
        line.push(b'\n');
        Some(line)
    }

    /// Reads until the connection ends; returns whether the server knows no subscriptions.
    fn read_stream(&self, mut stream: UnixStream, was_plain: bool) -> bool {
        let asked = Instant::now();
        let mut probe = ServerProbe::default();
        let mut lines = LineDecoder::default();
        let mut buffer = vec![0; READ_MAX];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            lines.feed(&buffer[..count], |line| {
                // One faulty line does not spoil the stream: lines are found by their newlines.
                if let Ok(message) = line {
                    probe.note(&message);
                    self.handle_message(message);
                }
            });
        }
        was_plain || (self.subscribe_line().is_some() && probe.is_plain_server(asked.elapsed()))
    }

    fn handle_message(&self, message: Message) {
        if message.tract().is_some_and(|tract| tract == "callosum") {
            let event = message.event().unwrap_or_default();
            let number = |name| {
                let number = message.field(name).and_then(|field| field.integer());
                number.and_then(|number| u64::try_from(number).ok())
            };
            match event.as_ref() {
                "subscribed" => return,
                "caught_up" => {
                    let position = number("position").unwrap_or(0);
                    self.last_position.fetch_max(position, Ordering::Relaxed);
                    return self.inbound.put(ClientEvent::CaughtUp { position });
                }
                "refused" => {
                    let reason = message.field("reason").and_then(|field| field.text());
                    let reason = reason.unwrap_or_default().into_owned();
                    // Resume from where the journal really ends, or every reconnect is refused.
                    if reason == "beyond" {
                        self.last_position
                            .store(number("position").unwrap_or(0), Ordering::Relaxed);
                    }
                    return self.inbound.put(ClientEvent::Refused { reason });
                }
                "lagged" => {
                    let dropped = number("dropped").unwrap_or(0);
                    return self.inbound.put(ClientEvent::Lagged { dropped });
                }
                // A server without subscriptions relays our request back as an ordinary message.
                "subscribe" => return,
                _ => {}
            }
        }
        // Before the filter: a message that the caller does not want must not be read again either.
        if self.settings.from.is_some()
            && let Some(position) = message.field("position").and_then(|field| field.integer())
            && let Ok(position) = u64::try_from(position)
        {
            self.last_position.fetch_max(position, Ordering::Relaxed);
        }
        if self.settings.filter.matches(&message) {
            self.handlers.deliver(&message);
            self.inbound.put(ClientEvent::Message(message));
        }
    }
}

/// Finds out whether a server supports subscriptions.
#[derive(Default)]
struct ServerProbe {
    has_spoken: bool,
    /// The server confirmed or refused the subscription: both show that it knows them.
    has_answered: bool,
}

impl ServerProbe {
    fn note(&mut self, message: &Message) {
        self.has_spoken = true;
        self.has_answered |=
            message.is_event("callosum", "subscribed") || message.is_event("callosum", "refused");
    }

    /// Returns whether the server sends messages but ignores subscriptions. A server that sent
    /// nothing at all proves nothing, because it may have been stuck.
    fn is_plain_server(&self, time: Duration) -> bool {
        self.has_spoken && !self.has_answered && time > SUBSCRIBED_WITHIN
    }
}

/// The delay before the next attempt to connect.
#[derive(Default)]
struct Backoff {
    longest: Duration,
}

impl Backoff {
    /// Notes the end of an attempt. After a connection that lasted, the next attempt follows at
    /// once. After a failed or short one, the delay doubles.
    fn attempt_ended(&mut self, time: Duration) {
        self.longest = match time > RETRY_FIRST {
            true => Duration::ZERO,
            false => (self.longest * 2).clamp(RETRY_FIRST, RETRY_LAST),
        };
    }

    /// Returns between half and all of the delay; `chance` is from 0 to 1. Clients of a restarted
    /// server must not all reconnect in the same instant.
    fn next(&self, chance: f64) -> Duration {
        self.longest.mul_f64(0.5 + chance / 2.0)
    }
}

/// Returns an id that no other request of this machine has.
fn unique_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    format!("{millis}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a number from 0 to 1 that differs enough between clients to spread them.
fn jitter() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    f64::from(since.map_or(0, |since| since.subsec_micros()) % 1_000) / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_and_resets() {
        let millis = |backoff: &Backoff| [0.0, 1.0].map(|chance| backoff.next(chance).as_millis());
        let mut backoff = Backoff::default();
        assert_eq!(millis(&backoff), [0, 0]);
        for longest in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            backoff.attempt_ended(Duration::ZERO);
            assert_eq!(millis(&backoff), [longest / 2, longest]);
        }
        backoff.attempt_ended(Duration::from_secs(1));
        assert_eq!(millis(&backoff), [0, 0]);
        // A server that hangs up at once counts like one that is absent.
        for longest in [100, 200] {
            backoff.attempt_ended(Duration::from_millis(1));
            assert_eq!(millis(&backoff), [longest / 2, longest]);
        }
    }

    #[test]
    fn silent_answer_means_plain_server() {
        let probe = |said: &[(&str, &str)]| {
            let mut probe = ServerProbe::default();
            for (tract, event) in said {
                probe.note(&Draft::new(tract, event).build().unwrap());
            }
            probe.is_plain_server(SUBSCRIBED_WITHIN * 2)
        };
        // A plain server relays our request back as an ordinary message.
        assert!(probe(&[("callosum", "subscribe")]));
        assert!(probe(&[("cortex", "info"), ("callosum", "other")]));
        assert!(!probe(&[("cortex", "info"), ("callosum", "subscribed")]));
        assert!(!probe(&[("callosum", "refused")]), "a bus without a journal");
        assert!(!probe(&[]), "one that hung");
    }
}
