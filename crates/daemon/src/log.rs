//! The daemon's log: a rotated file of JSON lines, the supervisor's log with its lines on tract
//! `logs`, and the echo to the user. Logging never fails and never waits.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bus::{Draft, Handle};
use event::Time;
use serde::Serialize;
use supervise::Supervisor;

use crate::publish::REV;

/// The size at which the file is rotated.
const FILE_MAX: u64 = 4 << 20;

/// Rotated files that are kept; the oldest is deleted.
const OLD_MAX: u32 = 4;

/// The daemon's log. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Log {
    inner: Arc<LogInner>,
}

/// The part of the daemon that a line comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Component {
    Daemon,
    Capture,
    Journal,
    Chain,
    Http,
    Model,
    /// Lines about the bus are not published on the bus, or a full bus would fill itself.
    Bus,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogLevel {
    Info,
    Warning,
    Error,
}

/// Receives the lines that the user should see.
pub type Echo = Box<dyn Fn(&str) + Send + Sync>;

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
    level: LogLevel,
    part: Component,
    text: &'a str,
}

impl Log {
    pub(crate) fn open(health: &Path, bus: Handle, clock: fn() -> Time, echo: Echo) -> Log {
        let millis = clock().nanos() / 1_000_000;
        let file = Mutex::new(LogFile::new(health.join("daemon.log")));
        let reference = millis.to_string();
        let supervisor = OnceLock::new();
        Log { inner: Arc::new(LogInner { file, bus, clock, reference, supervisor, echo }) }
    }

    /// From now on the supervisor logs and publishes every line too, under its own name and ref.
    pub(crate) fn publish_by(&self, supervisor: &Arc<Supervisor>) {
        // A daemon starts one supervisor, so the cell is empty.
        let _ = self.inner.supervisor.set(Arc::downgrade(supervisor));
    }

    pub(crate) fn info(&self, part: Component, text: impl AsRef<str>) {
        self.say(LogLevel::Info, part, text.as_ref());
    }

    /// Logs a line that is no warning, and shows it to the user.
    pub(crate) fn tell(&self, part: Component, text: impl AsRef<str>) {
        self.info(part, text.as_ref());
        (self.inner.echo)(text.as_ref());
    }

    pub(crate) fn warn(&self, part: Component, text: impl AsRef<str>) {
        self.say(LogLevel::Warning, part, text.as_ref());
    }

    pub(crate) fn error(&self, part: Component, text: impl AsRef<str>) {
        self.say(LogLevel::Error, part, text.as_ref());
    }

    fn say(&self, level: LogLevel, part: Component, text: &str) {
        let line = LogLine { at: (self.inner.clock)(), level, part, text };
        let line = serde_json::to_string(&line).expect("a line of texts always encodes");
        // The file comes first: it has the lines that the bus loses.
        self.inner.file().write(&line);
        if level != LogLevel::Info {
            (self.inner.echo)(text);
        }
        // A line about a full bus, published on that bus, would cause the next such line.
        if part == Component::Bus {
            return;
        }
        if let Some(supervisor) = self.inner.supervisor.get().and_then(Weak::upgrade) {
            supervisor.log(text);
        } else {
            // Before the supervisor runs, and after it has stopped, the log publishes in its name.
            let message = Draft::new("logs", "line")
                .with("ref", &self.inner.reference)
                .with("name", "supervisor")
                .with("pid", std::process::id())
                .with("stream", "log")
                .with("line", text)
                .with("rev", REV);
            // A bus without room loses the line; the file has it.
            let _ = message.build().map(|message| self.inner.bus.publish(message));
        }
    }
}

impl LogInner {
    fn file(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
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
        let log = Log::open(dir.path(), handle.clone(), clock, Box::new(|_| {}));
        log.warn(Component::Bus, "a client lags");
        log.warn(Component::Chain, "a segment waits");
        let said = heard.next(std::time::Duration::from_secs(60)).expect("it is told");
        assert_eq!(said.to_json()["line"], "a segment waits");
        handle.stop();
        thread.join().expect("it does not panic").expect("it ends");
        let text = fs::read_to_string(dir.path().join("daemon.log")).expect("it was written");
        assert_eq!(text.lines().count(), 2);
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
