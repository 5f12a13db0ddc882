//! The other process. However a test ends, it is gone afterwards.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::test_journal::TestJournal;

/// The program under test, as cargo built it.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_journal-worker");

/// A running worker.
pub(crate) struct Worker {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts `mode` on the journal at `place`.
    pub(crate) fn start(place: &TestJournal, mode: &str, rest: &[&str]) -> Worker {
        let mut command = Command::new(PROGRAM);
        command.args([mode, place.store_name()]).arg(place.dir()).args(rest);
        Worker::spawn(command)
    }

    /// Starts a worker that somebody else put together.
    pub(crate) fn spawn(mut command: Command) -> Worker {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the worker starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Worker { child, stdout }
    }

    /// The next line; `None` at the end. Half a line is none.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a worker's words are text");
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    /// Says a word to a worker that waits for one.
    pub(crate) fn go(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        stdin.write_all(b"go\n").expect("the worker listens");
    }

    /// Reads up to and with the line that is `word`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, word: &str) {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("the end before `{word}`"));
            assert!(!line.starts_with("failed"), "{line}");
            if line == word {
                return;
            }
        }
    }

    /// Lets it read `lines` lines more, run on for `spin`, and kills it. Everything it said.
    #[track_caller]
    pub(crate) fn kill_after(mut self, lines: u64, spin: Duration) -> Vec<String> {
        let mut said: Vec<String> = (0..lines).map_while(|_| self.line()).collect();
        let began = Instant::now();
        while began.elapsed() < spin {
            std::hint::spin_loop();
        }
        self.child.kill().expect("it is still there to be killed");
        while let Some(line) = self.line() {
            said.push(line);
        }
        self.child.wait().expect("a killed process ends");
        if let Some(failed) = said.iter().find(|line| line.starts_with("failed")) {
            panic!("the worker failed by itself: {failed}");
        }
        said
    }

    /// Waits for it to end by itself, and well. Everything it said.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(line) = self.line() {
            said.push(line);
        }
        let status = self.child.wait().expect("a process ends");
        assert!(status.success(), "{status}: {:?}", said.last());
        said
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Ended already, unless a test failed on the way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
