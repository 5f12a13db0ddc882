//! A program that runs while a test goes on: what it says line by line, and its end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Said;

/// A program that was started. Killed when dropped.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    said: String,
}

/// How long anything is waited for. Whoever waits in vain has found a bug, not a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines nobody has asked for yet. With more, the program waits.
const LINES_MAX: usize = 65_536;

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let stderr = Some(std::thread::spawn(move || everything(stderr)));
        Running { child, lines: lines(stdout), stderr, said: String::new() }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says; `None` if it has ended.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing more was said; before: {}", self.said)
            }
        }
    }

    /// Whether it ends by itself in this time.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                Err(error) => return error == RecvTimeoutError::Disconnected,
            }
        }
    }

    /// Makes sure that it does not end by itself in this time; says what it said if it does.
    #[track_caller]
    pub fn goes_on_for(&mut self, time: Duration) {
        if self.ends_within(time) {
            panic!("it has ended: {}", self.all());
        }
    }

    /// Waits until it has said something, unless it has.
    #[track_caller]
    pub fn speaks(&mut self) {
        if self.said.is_empty() {
            self.line().expect("it goes on");
        }
    }

    /// Ends it at once, without a chance to do anything.
    pub fn kill(mut self) -> Said {
        self.child.kill().expect("it is there to be killed");
        self.end()
    }

    /// Asks it to end, as a service manager does, and waits until it has.
    #[track_caller]
    pub fn terminate(mut self) -> Said {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        assert!(asked.expect("`kill` starts").success(), "{id} cannot be told to end");
        assert!(self.ends_within(PATIENCE), "it goes on; it said: {}", self.said);
        self.end()
    }

    /// The most memory it has held so far, in bytes; `None` where the system does not tell.
    pub fn memory_peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let kilobytes: u64 =
            field(&status, "VmHWM:")?.trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes * 1_024)
    }

    /// How often its threads have gone to sleep so far; `None` where the system does not tell.
    pub fn pauses(&self) -> Option<u64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let statuses = threads.filter_map(|thread| {
            let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            field(&status, "voluntary_ctxt_switches:")?.parse::<u64>().ok()
        });
        Some(statuses.sum())
    }

    /// How long its threads have been on a processor so far; `None` where the system does not
    /// tell. Threads that have ended are left out.
    pub fn cpu(&self) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let nanos = threads.filter_map(|thread| {
            let told = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        });
        Some(Duration::from_nanos(nanos.sum()))
    }

    /// Waits for the end. Everything that was said.
    pub fn end(mut self) -> Said {
        self.all()
    }

    fn all(&mut self) -> Said {
        while self.line().is_some() {}
        let status = self.child.wait().expect("a process ends");
        let stderr = self.stderr.take().map(|stderr| stderr.join().expect("stderr is read"));
        let stdout = std::mem::take(&mut self.said);
        Said { stdout, stderr: stderr.unwrap_or_default(), code: status.code() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, unless a test failed on the way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn everything(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    // What was said up to a failure is said.
    let _ = stderr.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
