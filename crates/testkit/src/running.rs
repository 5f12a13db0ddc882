//! A program that runs beside a test: its output line by line, and its end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::ProgramOutput;

/// A program that was started. Dropping it kills the program.
pub struct RunningProgram {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    said: String,
}

/// How long a test waits for a line or for the end: so long that only a bug reaches it, also on a
/// slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines that the test has not read yet. When there are more, the program blocks on its stdout.
const LINES_MAX: usize = 65_536;

impl RunningProgram {
    pub fn start(mut command: Command) -> RunningProgram {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        // Read in a thread of its own, or a full pipe would block the program.
        let stderr = Some(std::thread::spawn(move || everything(stderr)));
        RunningProgram { child, lines: read_lines(stdout), stderr, said: String::new() }
    }

    /// The process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of stdout; `None` if the program has ended.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Some(line)
            }
            // The reading thread ends with stdout, which the program closes when it ends.
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing more was said; before: {}", self.said)
            }
        }
    }

    /// Whether the program ends by itself within `time`.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                // A timeout means that it still runs.
                Err(error) => return error == RecvTimeoutError::Disconnected,
            }
        }
    }

    /// Fails, with the output, if the program ends by itself within `time`.
    #[track_caller]
    pub fn goes_on_for(&mut self, time: Duration) {
        if self.ends_within(time) {
            panic!("it has ended: {}", self.collect_output());
        }
    }

    /// Waits for the first line, unless it was read before.
    #[track_caller]
    pub fn wait_first_line(&mut self) {
        if self.said.is_empty() {
            self.line().expect("it goes on");
        }
    }

    /// Kills the program with SIGKILL.
    pub fn kill(mut self) -> ProgramOutput {
        self.child.kill().expect("it is there to be killed");
        self.end()
    }

    /// Sends SIGTERM, as a service manager does, and waits for the end.
    #[track_caller]
    pub fn terminate(mut self) -> ProgramOutput {
        let id = self.child.id().to_string();
        // The standard library can only send SIGKILL.
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        assert!(asked.expect("`kill` starts").success(), "{id} cannot be told to end");
        assert!(self.ends_within(PATIENCE), "it goes on; it said: {}", self.said);
        self.end()
    }

    /// The peak of its resident memory, in bytes; `None` without `/proc`.
    pub fn memory_peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let kilobytes: u64 =
            status_field(&status, "VmHWM:")?.trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes * 1_024)
    }

    /// How often its threads have gone to sleep so far; `None` without `/proc`.
    pub fn pauses(&self) -> Option<u64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let statuses = threads.filter_map(|thread| {
            // A thread may end between the listing and the look; it is left out then.
            let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            status_field(&status, "voluntary_ctxt_switches:")?.parse::<u64>().ok()
        });
        Some(statuses.sum())
    }

    /// The CPU time of its living threads so far; `None` without `/proc`.
    pub fn cpu(&self) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let nanos = threads.filter_map(|thread| {
            let told = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        });
        Some(Duration::from_nanos(nanos.sum()))
    }

    /// Waits for the end and returns the whole output.
    pub fn end(mut self) -> ProgramOutput {
        self.collect_output()
    }

    fn collect_output(&mut self) -> ProgramOutput {
        // Stdout first: a program that blocks on a full pipe does not end.
        while self.line().is_some() {}
        let status = self.child.wait().expect("a process ends");
        let stderr = self.stderr.take().map(|stderr| stderr.join().expect("stderr is read"));
        let stdout = std::mem::take(&mut self.said);
        ProgramOutput { stdout, stderr: stderr.unwrap_or_default(), code: status.code() }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Both fail when the program has ended already; only a failed test leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The test has dropped the program.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn everything(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    // After a failed read, the bytes before it are still worth showing.
    let _ = stderr.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
