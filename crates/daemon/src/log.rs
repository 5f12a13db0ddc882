//! The daemon's log: what its parts say through `tracing`, as a rotated file of JSON lines, as the
//! supervisor's log with its lines on tract `logs`, and as an echo to the user. Logging never fails
//! and never waits.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bus::{Draft, Handle};
use event::Time;
use serde::Serialize;
use supervise::Supervisor;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::publish::REV;

/// The size at which the file is rotated.
const FILE_MAX: u64 = 4 << 20;

/// Rotated files that are kept; the oldest is deleted.
const OLD_MAX: u32 = 4;

/// The parts of the daemon that lines come from: targets of `tracing` events.
pub(crate) mod part {
    pub(crate) const DAEMON: &str = "daemon";
    pub(crate) const CAPTURE: &str = "capture";
    pub(crate) const JOURNAL: &str = "journal";
    pub(crate) const CHAIN: &str = "chain";
    pub(crate) const HTTP: &str = "http";
    pub(crate) const MODEL: &str = "model";
    /// Lines about the bus are not published on the bus, or a full bus would fill itself.
    pub(crate) const BUS: &str = "bus";

    pub(super) const ALL: [&str; 7] = [DAEMON, CAPTURE, JOURNAL, CHAIN, HTTP, MODEL, BUS];
}

/// What is logged: a level for all parts, levels of single parts, or both, as in
/// `warn,capture=debug`.
#[derive(Clone, Debug)]
pub struct LogFilter(Targets);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogFilterError {
    #[error("`{0}` is no level and no `part=level`")]
    Syntax(String),
    #[error("there is no part called `{0}`")]
    Part(String),
}

impl Default for LogFilter {
    fn default() -> LogFilter {
        LogFilter::with_level(LevelFilter::INFO)
    }
}

impl LogFilter {
    /// Our parts only: what libraries say is not for users.
    fn with_level(level: LevelFilter) -> LogFilter {
        LogFilter(Targets::new().with_targets(part::ALL.map(|part| (part, level))))
    }
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<LogFilter, LogFilterError> {
        if text.trim().is_empty() {
            return Ok(LogFilter::default());
        }
        let asked: Targets = text.parse().map_err(|_| LogFilterError::Syntax(text.to_owned()))?;
        let filter = LogFilter::with_level(asked.default_level().unwrap_or(LevelFilter::INFO));
        match asked.iter().find(|(name, _)| !part::ALL.contains(name)) {
            // A misspelt name would log nothing, and the user would wait for lines.
            Some((name, _)) => Err(LogFilterError::Part(name.to_owned())),
            None => Ok(LogFilter(filter.0.with_targets(asked))),
        }
    }
}

/// Receives the lines that the user should see.
pub type Echo = Box<dyn Fn(&str) + Send + Sync>;

/// The daemon's log, as a layer of `tracing`. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct DaemonLog {
    inner: Arc<LogInner>,
}

struct LogInner {
    file: Mutex<LogFile>,
    bus: Handle,
    clock: fn() -> Time,
    /// The `ref` of messages until the supervisor has started.
    reference: String,
    /// Weak: logging must not keep the supervisor alive.
    supervisor: OnceLock<Weak<Supervisor>>,
    echo: Echo,
}

#[derive(Serialize)]
struct LogLine<'a> {
    at: Time,
    level: &'static str,
    part: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    text: &'a str,
}

impl DaemonLog {
    pub(crate) fn open(health: &Path, bus: Handle, clock: fn() -> Time, echo: Echo) -> DaemonLog {
        let millis = clock().nanos() / 1_000_000;
        let file = Mutex::new(LogFile::new(health.join("daemon.log")));
        let reference = millis.to_string();
        let supervisor = OnceLock::new();
        DaemonLog { inner: Arc::new(LogInner { file, bus, clock, reference, supervisor, echo }) }
    }

    /// Returns the subscriber that brings what parts say to this log.
    pub(crate) fn subscriber(&self, filter: LogFilter) -> impl Subscriber + Send + Sync + use<> {
        Registry::default().with(filter.0).with(self.clone())
    }

    /// From now on the supervisor logs and publishes every line too, under its own name and ref.
    pub(crate) fn publish_by(&self, supervisor: &Arc<Supervisor>) {
        // A daemon starts one supervisor, so the cell is empty.
        let _ = self.inner.supervisor.set(Arc::downgrade(supervisor));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for DaemonLog {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = EventFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        // From the innermost span on: what is nearest to the event says most about it.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<EventFields>() {
                fields.inherit(around);
            }
        }
        self.inner.write(*event.metadata().level(), event.metadata().target(), &fields);
    }
}

/// The fields of an event or a span that the log knows.
#[derive(Default)]
struct EventFields {
    message: String,
    session: Option<String>,
    source: Option<String>,
    /// Show the line to the user although it is no warning.
    echo: bool,
}

impl EventFields {
    fn inherit(&mut self, around: &EventFields) {
        self.session = self.session.take().or_else(|| around.session.clone());
        self.source = self.source.take().or_else(|| around.source.clone());
    }

    fn set(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "session" => self.session = Some(text),
            "source" => self.source = Some(text),
            _ => {}
        }
    }
}

impl Visit for EventFields {
    /// Messages and values with `%` come here too; their `Debug` is their `Display`.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.echo |= field.name() == "echo" && value;
    }
}

impl LogInner {
    fn write(&self, level: Level, part: &'static str, fields: &EventFields) {
        let EventFields { message: text, session, source, echo } = fields;
        let line = LogLine {
            at: (self.clock)(),
            level: level_name(level),
            part,
            session: session.as_deref(),
            source: source.as_deref(),
            text,
        };
        let line = serde_json::to_string(&line).expect("a line of texts always encodes");
        // The file comes first: it has the lines that the bus loses.
        self.file().write(&line);
        if level <= Level::WARN || *echo {
            (self.echo)(text);
        }
        // A line about a full bus, published on that bus, would cause the next such line. Details
        // are for the file: some are about messages on the bus too.
        if part != part::BUS && level <= Level::INFO {
            self.publish(text);
        }
    }

    fn publish(&self, text: &str) {
        if let Some(supervisor) = self.supervisor.get().and_then(Weak::upgrade) {
            supervisor.log(text);
            return;
        }
        // Before the supervisor runs, and after it has stopped, the log publishes in its name.
        let message = Draft::new("logs", "line")
            .with("ref", &self.reference)
            .with("name", "supervisor")
            .with("pid", std::process::id())
            .with("stream", "log")
            .with("line", text)
            .with("rev", REV);
        // A bus without room loses the line; the file has it.
        let _ = message.build().map(|message| self.bus.publish(message));
    }

    fn file(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The log file and its rotated predecessors.
struct LogFile {
    path: PathBuf,
    open: Option<(File, u64)>,
    /// Lines that could not be written since the last one that could.
    unwritten: u64,
}

impl LogFile {
    fn new(path: PathBuf) -> LogFile {
        LogFile { path, open: None, unwritten: 0 }
    }

    /// Writes a line, or counts it: a full disk must not stop the daemon.
    fn write(&mut self, line: &str) {
        if self.try_write(line).is_none() {
            // Reopened with the next line: the folder may have been deleted, or the disk may have
            // room again.
            self.open = None;
            self.unwritten += 1;
        }
    }

    fn try_write(&mut self, line: &str) -> Option<()> {
        if self.open.as_ref().is_none_or(|(_, len)| *len >= FILE_MAX) {
            self.reopen()?;
        }
        let (file, len) = self.open.as_mut()?;
        // The gap is noted in the file itself, in front of the first line after it.
        let lost = match self.unwritten {
            0 => String::new(),
            lost => format!("{{\"unwritten\":{lost}}}\n"),
        };
        let text = format!("{lost}{line}\n");
        file.write_all(text.as_bytes()).ok()?;
        *len += text.len() as u64;
        self.unwritten = 0;
        Some(())
    }

    fn reopen(&mut self) -> Option<()> {
        // The length on disk, not the counted one: the log of the former daemon is continued.
        let len = fs::metadata(&self.path).map_or(0, |found| found.len());
        if len >= FILE_MAX {
            // From the oldest on, so that none is overwritten but the last:
            //     .3 → .4,  .2 → .3,  .1 → .2,  daemon.log → .1
            for number in (1..OLD_MAX).rev() {
                // There may be fewer rotated files.
                let _ = fs::rename(self.old(number), self.old(number + 1));
            }
            fs::rename(&self.path, self.old(1)).ok()?;
        }
        // Only the user: the log may quote folder names and errors of agents.
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&self.path).ok()?;
        let len = file.metadata().ok()?.len();
        self.open = Some((file, len));
        Some(())
    }

    fn old(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_deletes_the_oldest_file() {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        let mut file = LogFile::new(dir.path().join("daemon.log"));
        let line = "x".repeat(1 << 20);
        for _ in 0..30 {
            file.write(&line);
        }
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .expect("it can be listed")
            .map(|entry| entry.expect("it is there").file_name())
            .collect();
        names.sort();
        let wanted = ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3", "daemon.log.4"];
        assert_eq!(names, wanted);
    }

    /// Logs through a filter; returns the lines of the file and those that the user saw.
    fn logged(filter: &str, say: impl FnOnce()) -> (String, Vec<String>) {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        let server =
            bus::Server::bind(&dir.path().join("bus.sock"), bus::ServerSettings::default());
        let (echoed, seen) = std::sync::mpsc::sync_channel(100);
        let echo = Box::new(move |text: &str| echoed.send(text.to_owned()).expect("there is room"));
        let handle = server.expect("it can be bound").handle();
        let log = DaemonLog::open(dir.path(), handle, || Time::from_millis(0), echo);
        let filter = filter.parse().expect("it is a filter");
        tracing::subscriber::with_default(log.subscriber(filter), say);
        let text = fs::read_to_string(dir.path().join("daemon.log")).unwrap_or_default();
        (text, seen.try_iter().collect())
    }

    #[test]
    fn line_names_its_session_and_source() {
        let (text, seen) = logged("", || {
            let session = tracing::error_span!(target: part::MODEL, "question", session = "s1");
            let _session = session.entered();
            tracing::info!(target: part::MODEL, "asked");
            let path = Path::new("/home/dev/a\"b\n");
            tracing::warn!(target: part::CAPTURE, source = %path.display(), "torn\n\u{1b}[31m");
            tracing::info!(target: part::CAPTURE, echo = true, session = "s2", "caught up");
        });
        expect_test::expect![[r#"
            {"at":"1970-01-01T00:00:00Z","level":"info","part":"model","session":"s1","text":"asked"}
            {"at":"1970-01-01T00:00:00Z","level":"warning","part":"capture","session":"s1","source":"/home/dev/a\"b\n","text":"torn\n\u001b[31m"}
            {"at":"1970-01-01T00:00:00Z","level":"info","part":"capture","session":"s2","text":"caught up"}
        "#]]
        .assert_eq(&text);
        assert_eq!(seen, ["torn\n\u{1b}[31m", "caught up"]);
    }

    #[test]
    fn filter_sets_levels_by_part() {
        let say = || {
            tracing::debug!(target: part::CAPTURE, "capture debug");
            tracing::info!(target: part::CAPTURE, "capture info");
            tracing::debug!(target: part::HTTP, "http debug");
            tracing::info!(target: part::HTTP, "http info");
            tracing::error!(target: "hyper", "of a library");
        };
        for (filter, expected) in [
            ("", vec!["capture info", "http info"]),
            ("capture=debug", vec!["capture debug", "capture info", "http info"]),
            ("debug", vec!["capture debug", "capture info", "http debug", "http info"]),
            ("warn,http=info", vec!["http info"]),
            ("off,capture=DEBUG", vec!["capture debug", "capture info"]),
        ] {
            let (text, _) = logged(filter, say);
            let texts = text.lines().map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
                line["text"].as_str().expect("it is a text").to_owned()
            });
            assert_eq!(texts.collect::<Vec<_>>(), expected, "{filter}");
        }
    }

    #[test]
    fn unknown_part_is_refused() {
        let error = |text: &str| text.parse::<LogFilter>().expect_err("it is no filter");
        assert_eq!(error("captur=debug"), LogFilterError::Part("captur".to_owned()));
        assert_eq!(error("hyper"), LogFilterError::Part("hyper".to_owned()));
        assert_eq!(error("capture=loud"), LogFilterError::Syntax("capture=loud".to_owned()));
    }

    #[test]
    fn lines_about_the_bus_are_not_published() {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        let server =
            bus::Server::bind(&dir.path().join("bus.sock"), bus::ServerSettings::default());
        let server = server.expect("it can be bound");
        let handle = server.handle();
        let heard = handle.listen(bus::Filter::default()).expect("it listens");
        let thread = std::thread::spawn(move || server.run());
        let clock = || Time::from_millis(0);
        let log = DaemonLog::open(dir.path(), handle.clone(), clock, Box::new(|_| {}));
        let filter = "chain=debug".parse().expect("it is a filter");
        tracing::subscriber::with_default(log.subscriber(filter), || {
            tracing::warn!(target: part::BUS, "a client lags");
            tracing::debug!(target: part::CHAIN, "a step is published");
            tracing::warn!(target: part::CHAIN, "a segment waits");
        });
        let said = heard.next(std::time::Duration::from_secs(60)).expect("it is told");
        assert_eq!(said.to_json()["line"], "a segment waits");
        handle.stop();
        thread.join().expect("it does not panic").expect("it ends");
        let text = fs::read_to_string(dir.path().join("daemon.log")).expect("it was written");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn unwritten_lines_are_counted() {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        let path = dir.path().join("health/daemon.log");
        let mut file = LogFile::new(path.clone());
        file.write("a");
        file.write("b");
        fs::create_dir(dir.path().join("health")).expect("it can be made");
        file.write("c");
        let text = fs::read_to_string(path).expect("it was written");
        assert_eq!(text, "{\"unwritten\":2}\nc\n");
    }
}
