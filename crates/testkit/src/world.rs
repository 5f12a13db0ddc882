//! Runs the real program in a home of its own, without the environment of the test, and returns
//! its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::RunningProgram;

/// A home folder and a program. Dropping it removes the folder.
pub struct World {
    program: PathBuf,
    home: TempDir,
    variables: Vec<(String, PathBuf)>,
}

/// The output of one run and its exit code; `None` if a signal ended it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramOutput {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
}

impl World {
    pub fn new(program: impl Into<PathBuf>) -> World {
        let home = tempfile::Builder::new().prefix("hansard-world").tempdir();
        let home = home.expect("a folder for the test");
        World { program: program.into(), home, variables: Vec::new() }
    }

    /// Adds a variable of the environment that names a folder.
    pub fn with(mut self, variable: &str, folder: impl Into<PathBuf>) -> World {
        self.variables.push((variable.to_owned(), folder.into()));
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs the program with nothing on its stdin.
    pub fn run(&self, arguments: &[&str]) -> ProgramOutput {
        self.run_with_input(arguments, b"")
    }

    /// Starts the program and lets it run.
    pub fn start(&self, arguments: &[&str]) -> RunningProgram {
        RunningProgram::start(self.command(arguments))
    }

    /// Runs the program with `input` on its stdin.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> ProgramOutput {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // The program need not read all of its stdin; it may end first, which breaks the pipe.
        let _ = stdin.write_all(input);
        // A program that reads to the end of its stdin waits for this.
        drop(stdin);
        let output = child.wait_with_output().expect("the program ends");
        let text = |bytes: Vec<u8>| {
            let home = self.home().to_str().expect("a plain path");
            // The folder has another name in each run; snapshots need the same text.
            String::from_utf8_lossy(&bytes).replace(home, "~")
        };
        ProgramOutput {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            code: output.status.code(),
        }
    }

    /// The program with this home and environment, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Nothing of the developer's environment: an `XDG_DATA_HOME` or a `CLAUDE_CONFIG_DIR` would
        // lead the program out of its home.
        command.args(arguments).current_dir(self.home()).env_clear().env("HOME", self.home());
        // Times that are printed for people must be the same on every machine.
        command.env("TZ", "UTC");
        command.envs(self.variables.iter().map(|(name, folder)| (name, folder)));
        command
    }
}

/// Prints stdout, stderr and exit code as one text, for snapshots.
impl std::fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", self.stderr)?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(f, "--- exit {code}"),
            None => writeln!(f, "--- killed"),
        }
    }
}
