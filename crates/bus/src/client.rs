//! A connection that lives long: it comes back by itself, hears everything and says what it is
//! given, without making anybody wait.
//!
//! One thread drains the socket all the time, another writes. Between them and the caller are two
//! bounded queues, and whatever does not fit is told.

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

use crate::control::Begin;
use crate::filter::Filter;
use crate::lines::Lines;
use crate::message::{Draft, Message};

use inbound::Inbound;
pub use outbound::EmitError;
use outbound::Outbound;

/// The first wait between two attempts to connect; it doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(2);

/// How long a server may take to say that it knows subscriptions.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);

/// Bytes read at a time.
const READ_MAX: usize = 64 << 10;

/// What a client is told at the start.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// What it wants to hear; everything, if nothing is said. A server that knows no
    /// subscriptions sends everything, and the client chooses by itself.
    pub filter: Filter,
    /// Whether it wants to hear what it says itself.
    pub no_echo: bool,
    /// Where in the record to begin. After that nothing recorded is missed, also across restarts
    /// of the server.
    pub from: Option<Begin>,
    /// How it is called in the server's `stats`.
    pub name: Option<String>,
    /// Fields that every message gets, unless it has them. `null` is left out.
    pub defaults: Vec<(String, Value)>,
    /// Refuse messages while there is no connection, instead of holding them for 10 s.
    pub no_hold: bool,
}

/// What a client hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    Message(Message),
    Connected,
    /// There is no connection any more, or none to begin with; told once, until there is one.
    Disconnected,
    /// The server told of a gap (its `callosum.lagged`), or we were too slow to take what came.
    Lagged {
        dropped: u64,
    },
    /// Messages that were queued and could not be written.
    Lost(u64),
    /// What was recorded before has been heard; what follows is news.
    CaughtUp {
        position: u64,
    },
    /// The server does not do what was asked, and why.
    Refused {
        reason: String,
    },
}

/// A connection that lives long. Stopped when dropped.
pub struct Client {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    defaults: Vec<(String, Value)>,
}

struct Shared {
    path: PathBuf,
    settings: ClientSettings,
    inbound: Inbound,
    outbound: Outbound,
    /// The newest position that was heard.
    heard: AtomicU64,
    /// The stream that is read from now, so that stopping can end it.
    stream: Mutex<Option<UnixStream>>,
}

impl Client {
    /// Begins to connect, in the background, and goes on for ever.
    pub fn start(path: &Path, settings: ClientSettings) -> io::Result<Client> {
        let defaults = settings.defaults.clone();
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            outbound: Outbound::new(!settings.no_hold),
            // The server has a record for those who are slow: nothing needs to be given up here.
            inbound: Inbound::new(settings.from.is_some()),
            settings,
            heard: AtomicU64::new(0),
            stream: Mutex::new(None),
        });
        let mut client = Client { shared, threads: Vec::new(), defaults };
        let shared = Arc::clone(&client.shared);
        client.spawn("bus-read", move || shared.hear())?;
        let shared = Arc::clone(&client.shared);
        client.spawn("bus-write", move || shared.outbound.write_all(&shared.inbound))?;
        Ok(client)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// What comes next; `None` when the time is over, or the client was stopped.
    pub fn next(&self, limit: Duration) -> Option<Item> {
        self.shared.inbound.next(Some(limit))
    }

    /// What comes next, however long it takes; `None` once the client was stopped.
    pub fn wait(&self) -> Option<Item> {
        self.shared.inbound.next(None)
    }

    /// Queues a message with fields. Never waits.
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

    /// Waits until everything queued is written; how many are not when the time is over.
    pub fn flush(&self, limit: Duration) -> usize {
        self.shared.outbound.flush(limit)
    }

    /// Writes what is queued, up to a limit, then ends; how many were not written.
    pub fn stop(mut self, limit: Duration) -> usize {
        let left = self.flush(limit);
        self.end();
        left
    }

    /// Whether it was stopped: nothing more comes.
    pub fn is_stopped(&self) -> bool {
        self.shared.inbound.is_closed()
    }

    /// A way to stop it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared) }
    }

    fn end(&mut self) {
        self.stopper().stop();
        if let Some(stream) = self.shared.stream().as_ref() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// Stops a client from another thread: it hears nothing more, and takes nothing more.
pub struct Stopper {
    shared: Arc<Shared>,
}

impl Stopper {
    pub fn stop(&self) {
        self.shared.inbound.close();
        self.shared.outbound.close();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn stream(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, hears, and connects again, until the client is stopped.
    fn hear(&self) {
        let mut waits = Waits::default();
        let mut is_plain = false;
        let mut is_told = false;
        while !self.inbound.is_closed() {
            let wait = waits.next(part_of_a_second());
            if !wait.is_zero() && self.inbound.wait_closed(wait) {
                return;
            }
            let Ok(stream) = UnixStream::connect(&self.path) else {
                waits.connected_for(Duration::ZERO);
                if !std::mem::replace(&mut is_told, true) {
                    self.inbound.put(Item::Disconnected);
                }
                continue;
            };
            let began = Instant::now();
            if self.begin(&stream, is_plain).is_ok() {
                self.inbound.put(Item::Connected);
                is_plain = self.hear_stream(stream, is_plain);
                self.outbound.disconnect();
                *self.stream() = None;
                self.inbound.put(Item::Disconnected);
                is_told = true;
            }
            waits.connected_for(began.elapsed());
        }
    }

    /// Says what we want to hear, and lets the writer begin.
    fn begin(&self, stream: &UnixStream, is_plain: bool) -> io::Result<()> {
        let mut writer = stream.try_clone()?;
        if let Some(line) = self.subscription().filter(|_| !is_plain) {
            writer.write_all(&line)?;
        }
        *self.stream() = Some(stream.try_clone()?);
        // Stopped meanwhile: nobody would end this stream.
        if self.inbound.is_closed() {
            return Err(ErrorKind::Interrupted.into());
        }
        self.outbound.connect(writer);
        Ok(())
    }

    fn subscription(&self) -> Option<Vec<u8>> {
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
        let draft = match (from, self.heard.load(Ordering::Relaxed)) {
            (None, _) => draft,
            (Some(Begin::Now), 0) => draft.with("from", "now"),
            (Some(Begin::After(position)), 0) => draft.with("from", position),
            (Some(_), heard) => draft.with("from", heard),
        };
        let mut line = draft.build().ok()?.line().to_vec();
        line.push(b'\n');
        Some(line)
    }

    /// Hears until the connection ends; whether the server turned out to know no subscriptions.
    fn hear_stream(&self, mut stream: UnixStream, was_plain: bool) -> bool {
        let asked = Instant::now();
        let mut manners = Manners::default();
        let mut lines = Lines::default();
        let mut buffer = vec![0; READ_MAX];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            lines.feed(&buffer[..count], |line| {
                if let Ok(message) = line {
                    manners.note(&message);
                    self.take(message);
                }
            });
        }
        was_plain || (self.subscription().is_some() && manners.are_plain(asked.elapsed()))
    }

    fn take(&self, message: Message) {
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
                    self.heard.fetch_max(position, Ordering::Relaxed);
                    return self.inbound.put(Item::CaughtUp { position });
                }
                "refused" => {
                    let reason = message.field("reason").and_then(|field| field.text());
                    let reason = reason.unwrap_or_default().into_owned();
                    if reason == "beyond" {
                        self.heard.store(number("position").unwrap_or(0), Ordering::Relaxed);
                    }
                    return self.inbound.put(Item::Refused { reason });
                }
                "lagged" => {
                    let dropped = number("dropped").unwrap_or(0);
                    return self.inbound.put(Item::Lagged { dropped });
                }
                // Our own question, from a server that takes it for a message.
                "subscribe" => return,
                _ => {}
            }
        }
        if self.settings.from.is_some()
            && let Some(position) = message.field("position").and_then(|field| field.integer())
            && let Ok(position) = u64::try_from(position)
        {
            self.heard.fetch_max(position, Ordering::Relaxed);
        }
        if self.settings.filter.takes(&message) {
            self.inbound.put(Item::Message(message));
        }
    }
}

/// How a server behaves that was asked for something.
#[derive(Default)]
struct Manners {
    has_spoken: bool,
    /// Also that it does not do what was asked.
    has_answered: bool,
}

impl Manners {
    fn note(&mut self, message: &Message) {
        self.has_spoken = true;
        self.has_answered |=
            message.is("callosum", "subscribed") || message.is("callosum", "refused");
    }

    /// Whether it speaks and knows no subscriptions. One that said nothing at all was in trouble:
    /// whoever comes next may know better.
    fn are_plain(&self, time: Duration) -> bool {
        self.has_spoken && !self.has_answered && time > SUBSCRIBED_WITHIN
    }
}

/// How long to wait before the next attempt to connect.
#[derive(Default)]
struct Waits {
    longest: Duration,
}

impl Waits {
    /// An attempt is over. After a good time the next one is made at once; whoever is not there, or
    /// hangs up at once, is asked ever more rarely.
    fn connected_for(&mut self, time: Duration) {
        self.longest = match time > RETRY_FIRST {
            true => Duration::ZERO,
            false => (self.longest * 2).clamp(RETRY_FIRST, RETRY_LAST),
        };
    }

    /// Somewhere between half and all of it by chance, a number from 0 to 1: not everybody comes
    /// back at the same instant.
    fn next(&self, chance: f64) -> Duration {
        self.longest.mul_f64(0.5 + chance / 2.0)
    }
}

/// Chance enough to tell clients apart.
fn part_of_a_second() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    f64::from(since.map_or(0, |since| since.subsec_micros()) % 1_000) / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_there_is_asked_ever_more_rarely_and_at_once_after_a_good_time() {
        let millis = |waits: &Waits| [0.0, 1.0].map(|chance| waits.next(chance).as_millis());
        let mut waits = Waits::default();
        assert_eq!(millis(&waits), [0, 0]);
        for longest in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            waits.connected_for(Duration::ZERO);
            assert_eq!(millis(&waits), [longest / 2, longest]);
        }
        waits.connected_for(Duration::from_secs(1));
        assert_eq!(millis(&waits), [0, 0]);
        // One that hangs up at once is like one that is not there.
        for longest in [100, 200] {
            waits.connected_for(Duration::from_millis(1));
            assert_eq!(millis(&waits), [longest / 2, longest]);
        }
    }

    #[test]
    fn a_server_is_plain_that_speaks_and_does_not_answer() {
        let manners = |said: &[(&str, &str)]| {
            let mut manners = Manners::default();
            for (tract, event) in said {
                manners.note(&Draft::new(tract, event).build().unwrap());
            }
            manners.are_plain(SUBSCRIBED_WITHIN * 2)
        };
        // What was asked comes back as a message like any other.
        assert!(manners(&[("callosum", "subscribe")]));
        assert!(manners(&[("cortex", "info"), ("callosum", "other")]));
        assert!(!manners(&[("cortex", "info"), ("callosum", "subscribed")]));
        assert!(!manners(&[("callosum", "refused")]), "a bus without a journal");
        assert!(!manners(&[]), "one that hung");
    }
}
