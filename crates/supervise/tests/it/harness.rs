//! A bus, a supervisor, and clients that talk to it over the socket.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bus::{Server, registry};
use serde_json::{Value, json};
use supervise::{Supervisor, SupervisorSettings};
use tempfile::TempDir;

/// How long a test waits. Reaching it means a bug, not a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Allows `tool NAME SCRIPT`: a shell script that is queued under a name.
pub(crate) const TOOL: &str = "allow = [{ program = \"tool\", subcommands = true }]\n";

/// A journal's folder with a running supervisor. Dropping it ends everything.
pub(crate) struct TestSupervisor {
    pub(crate) supervisor: Option<Supervisor>,
    pub(crate) bus: bus::Handle,
    thread: Option<JoinHandle<()>>,
    pub(crate) place: Place,
}

/// A folder with a journal and programs.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::Builder::new().prefix("house").tempdir().unwrap();
        let place = Place { folder };
        fs::create_dir_all(place.journal()).unwrap();
        fs::set_permissions(place.journal(), Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(place.folder.path().join("bin")).unwrap();
        place.program("tool", "exec sh -c \"$2\"");
        place.program("hansard", "echo \"hansard $*\"");
        place
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a program to the supervisor's `PATH`.
    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.folder.path().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn write_services(&self, text: &str) {
        let path = self.journal().join("services.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// Makes a gate that holds a script up: `read x < gate`.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Gate { path }
    }

    pub(crate) fn settings(&self) -> SupervisorSettings {
        let mut settings =
            SupervisorSettings::new(self.journal(), self.folder.path().join("bin/hansard"));
        let bin = self.folder.path().join("bin");
        settings.search_path = Some(format!("{}:/usr/bin:/bin", bin.display()).into());
        settings
    }

    pub(crate) fn open(self) -> TestSupervisor {
        let socket = self.journal().join("health/callosum.sock");
        let server = Server::bind(&socket, bus::ServerSettings::default()).unwrap();
        let bus = server.handle();
        let thread = std::thread::spawn(move || server.run().unwrap());
        // Connected from the beginning.
        let supervisor = Supervisor::start(self.settings(), bus.clone()).unwrap();
        TestSupervisor { supervisor: Some(supervisor), bus, thread: Some(thread), place: self }
    }
}

/// A named pipe at which scripts wait until it is opened.
pub(crate) struct Gate {
    path: PathBuf,
}

impl Gate {
    /// The shell words that wait.
    pub(crate) fn wait(&self) -> String {
        format!("read x < {}", self.path.display())
    }

    /// Waits for a script at the gate and lets it through.
    pub(crate) fn open(&self) {
        fs::write(&self.path, "go\n").unwrap();
    }
}

impl TestSupervisor {
    pub(crate) fn open(services: &str) -> TestSupervisor {
        let place = Place::new();
        place.write_services(services);
        place.open()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.place.journal()
    }

    /// Returns a connected client that receives everything from now on.
    pub(crate) fn guest(&self) -> Guest {
        Guest::connect(&self.journal().join("health/callosum.sock"))
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        self.supervisor.as_ref().unwrap()
    }
}

impl Drop for TestSupervisor {
    fn drop(&mut self) {
        drop(self.supervisor.take());
        self.bus.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A plain client.
pub(crate) struct Guest {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Guest {
    pub(crate) fn connect(socket: &Path) -> Guest {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::with_capacity(1 << 20, stream.try_clone().unwrap());
        let mut guest = Guest { stream, reader };
        guest.say(&json!({"tract": "callosum", "event": "unsubscribe"}));
        guest.hear("callosum", "subscribed");
        guest
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.say_line(&message.to_string());
    }

    pub(crate) fn say_line(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn request(&mut self, reference: &str, cmd: &[&str]) {
        self.say(&json!({"tract": "supervisor", "event": "request", "ref": reference, "cmd": cmd}));
    }

    /// Requests a script under a name.
    pub(crate) fn script(&mut self, reference: &str, name: &str, script: &str) {
        self.request(reference, &["tool", name, script]);
    }

    pub(crate) fn supervisor(&mut self, event: &str, field: &str, value: &str) {
        self.say(&json!({"tract": "supervisor", "event": event, field: value}));
    }

    /// Returns the next message. Messages of the supervisor must match the registry.
    pub(crate) fn next(&mut self) -> Value {
        let message: Value = serde_json::from_str(&self.line()).unwrap();
        if is_ours(&message) {
            assert_eq!(registry::fault(&message), None, "{message}");
            assert_eq!(message["rev"], env!("CARGO_PKG_VERSION"), "{message}");
        }
        message
    }

    /// Returns the next line as received.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the bus has hung up");
        line
    }

    /// Returns all lines up to one that contains all of these pieces.
    pub(crate) fn lines_until(&mut self, pieces: &[&str]) -> Vec<String> {
        let mut heard = Vec::new();
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "waited in vain for {pieces:?}");
            heard.push(self.line());
            if has(&heard[heard.len() - 1], pieces) {
                return heard;
            }
        }
    }

    /// Returns the next message that matches.
    pub(crate) fn find(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        self.until(|message| is_it(message)).pop().unwrap()
    }

    /// Returns the next message with these names.
    pub(crate) fn hear(&mut self, tract: &str, event: &str) -> Value {
        self.find(|message| message["tract"] == tract && message["event"] == event)
    }

    /// Returns the answer to a ref.
    pub(crate) fn stopped(&mut self, reference: impl Into<Value>) -> Value {
        let reference = reference.into();
        self.find(|message| is(message, "supervisor", "stopped") && message["ref"] == reference)
    }

    /// Returns the start of a service.
    pub(crate) fn started(&mut self, service: &str) -> Value {
        self.find(|message| is(message, "supervisor", "started") && message["service"] == service)
    }

    /// Returns all messages up to one that matches.
    pub(crate) fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut heard = Vec::new();
        // A status comes every few seconds, so silence means a bug.
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "waited in vain");
            heard.push(self.next());
            if is_it(heard.last().unwrap()) {
                return heard;
            }
        }
    }

    /// Runs a script and returns its stdout.
    pub(crate) fn output_of(&mut self, script: &str) -> Vec<String> {
        self.script("probe", "probe", script);
        let heard =
            self.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "probe");
        let lines = heard.iter().filter(|message| {
            is(message, "logs", "line")
                && message["name"] == "probe"
                && message["stream"] == "stdout"
        });
        lines.map(|line| line["line"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns whether only the supervisor sends it.
fn is_ours(message: &Value) -> bool {
    let event = message["event"].as_str().unwrap();
    match message["tract"].as_str().unwrap() {
        "supervisor" => !matches!(event, "request" | "cancel" | "restart" | "reload"),
        "logs" | "notification" => true,
        _ => false,
    }
}

pub(crate) fn is(message: &Value, tract: &str, event: &str) -> bool {
    message["tract"] == tract && message["event"] == event
}

/// Returns whether a line contains all of these pieces.
pub(crate) fn has(line: &str, pieces: &[&str]) -> bool {
    pieces.iter().all(|piece| line.contains(piece))
}

/// Returns whether a process lives.
pub(crate) fn lives(pid: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // A zombie is dead.
    !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z')
}
