//! A running process of an agent, and what its command line tells.

use std::collections::BTreeSet;
use std::path::PathBuf;

use event::{ProcessStart, Time};

/// First arguments, and options, with which an agent serves many sessions in any folder.
const SERVER_WORDS: &[&str] = &[
    "serve",
    "server",
    "web",
    "acp",
    "app-server",
    "mcp",
    "mcp-server",
    "--acp",
    "--experimental-acp",
];

/// How long after its own start an agent starts the process that does its work. One that is started
/// later, with other words, is a command of its own.
const LAUNCH_NANOS_MAX: i128 = 5_000_000_000;

/// A process by pid and start: no other process has both.
pub type ProcessKey = (u32, ProcessStart);

/// A running process of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentProcess {
    /// The agent, by the name of its provider.
    pub program: &'static str,
    pub key: ProcessKey,
    /// The start by the clock of this machine; unknown if the system does not tell it.
    pub started_at: Option<Time>,
    pub parent: Option<u32>,
    /// The working directory, if the system tells it.
    pub cwd: Option<PathBuf>,
    /// The words behind the program.
    pub arguments: Vec<String>,
    /// The files it has open, as far as the system tells them.
    pub open_files: BTreeSet<PathBuf>,
}

/// All running processes of agents, as of one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentScan {
    pub scanned_at: Time,
    pub processes: Vec<AgentProcess>,
}

impl AgentProcess {
    /// Whether it serves sessions of any folder.
    fn is_server(&self) -> bool {
        let mut words = self.arguments.iter().map(String::as_str);
        let first = words.clone().find(|word| !word.starts_with('-'));
        let is_option = |word: &str| word.starts_with('-') && SERVER_WORDS.contains(&word);
        first.is_some_and(|first| SERVER_WORDS.contains(&first)) || words.any(is_option)
    }

    /// Whether it may serve many sessions: the word for it may also stand behind an option and its
    /// value.
    pub(crate) fn may_be_server(&self) -> bool {
        self.arguments.iter().any(|word| SERVER_WORDS.contains(&word.as_str()))
    }

    /// Whether another process started it as itself: with the same words, as some agents do to give
    /// their interpreter other options, or at its own start with more of them. The one that was
    /// started does the work.
    pub(crate) fn is_launched_by(&self, other: &AgentProcess) -> bool {
        let is_soon = match (other.started_at, self.started_at) {
            (Some(first), Some(then)) => then.nanos() - first.nanos() <= LAUNCH_NANOS_MAX,
            _ => false,
        };
        let has_all = || other.arguments.iter().all(|word| self.arguments.contains(word));
        self.parent == Some(other.key.0)
            && self.cwd == other.cwd
            && (self.arguments == other.arguments || is_soon && has_all())
    }

    /// The words of its command line that may name a session: its id, the beginning of it, or its
    /// file.
    pub(crate) fn named_values(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|word| match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => word.as_str(),
        })
    }

    /// The folders it works in: its own, and those on its command line. `None` if they are not known.
    pub(crate) fn folders(&self) -> Option<impl Iterator<Item = PathBuf>> {
        let cwd = self.cwd.as_ref().filter(|_| !self.is_server())?;
        let told = self.arguments.iter().map(|word| cwd.join(word));
        Some(std::iter::once(cwd.clone()).chain(told))
    }
}
