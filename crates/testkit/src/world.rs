//! A small world to run the real program in: its own home, nothing from outside, and an account
//! of what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Running;

/// A home folder and a program. Gone when dropped.
pub struct World {
    program: PathBuf,
    home: TempDir,
    variables: Vec<(String, PathBuf)>,
}

/// What a run said and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
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

    /// The same with a variable that names a folder.
    pub fn with(mut self, variable: &str, folder: impl Into<PathBuf>) -> World {
        self.variables.push((variable.to_owned(), folder.into()));
        self
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs the program with nothing on its stdin.
    pub fn run(&self, arguments: &[&str]) -> Said {
        self.run_with_input(arguments, b"")
    }

    /// Starts the program and lets it run.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Runs the program with `input` on its stdin.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A program that does not read to the end is free to; the broken pipe is its answer.
        let _ = stdin.write_all(input);
        drop(stdin);
        let output = child.wait_with_output().expect("the program ends");
        let text = |bytes: Vec<u8>| {
            let home = self.home().to_str().expect("a plain path");
            String::from_utf8_lossy(&bytes).replace(home, "~")
        };
        Said {
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            code: output.status.code(),
        }
    }

    /// The program with this world around it, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.home()).env_clear().env("HOME", self.home());
        command.env("TZ", "UTC");
        command.envs(self.variables.iter().map(|(name, folder)| (name, folder)));
        command
    }
}

/// Everything in one text, for snapshots.
impl std::fmt::Display for Said {
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
