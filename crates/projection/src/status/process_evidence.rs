//! What was seen beside the log, at one moment.
//!
//! The caller fills in what it found. A pid counts only with the start time of its process: a file
//! that a killed agent left behind names a pid that another process may have by now.

use event::Time;

use super::running_command::RunningCommand;

/// What surrounds a session right now. The default knows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessEvidence {
    /// What the agent's own list of running sessions says of it.
    pub registry: Option<Registry>,
    pub process: Option<Process>,
    pub lock: Option<Lock>,
    /// The agent keeps an entry or a lock for every session it has open, and there is none.
    pub missing: Option<Missing>,
    /// Why it is not known whether a process has it open, although processes of its agent run.
    pub doubt: Option<String>,
    /// What its process has started and still runs, looked for only while it asks to run something.
    pub commands: Vec<RunningCommand>,
    /// When its file was last written, by the clock of this machine.
    pub grown_at: Option<Time>,
}

/// An entry in an agent's own list of running sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registry {
    pub path: String,
    /// Absent where the agent does not say.
    pub word: Option<RegistryWord>,
    pub updated_at: Time,
}

/// What an agent says of itself, in words of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegistryWord {
    /// Busy, working, thinking, waiting for another try.
    Busy,
    /// Background work of a finished turn runs.
    Shell,
    /// It asks for an approval.
    Permission,
    /// It asks another question.
    Question,
    /// It is ready for a prompt.
    Idle,
}

/// The process a session lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: u32,
    pub life: Life,
    /// Its start time was compared, so the pid cannot belong to another process.
    pub is_certain: bool,
    /// When it started. What the session left open before that is not its work.
    pub started_at: Option<Time>,
}

/// A file that exists while a process has the session open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    pub path: String,
    /// Whether the process that made it still runs.
    pub life: Life,
}

/// What would exist if a process had the session open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// `registry`, `lock` or `process`.
    pub source: &'static str,
    /// Where it was looked for, in words.
    pub what: String,
}

/// Whether a process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    Alive,
    Gone,
    Unknown,
}

impl ProcessEvidence {
    /// Whether the session's process runs, by the best there is.
    pub fn life(&self) -> Life {
        let by_process = self.process.map(|process| process.life);
        let by_lock = self.lock.as_ref().map(|lock| lock.life);
        // What is missing counts only where neither process nor lock is known: absence is weaker
        // evidence than either.
        let mut told = [by_process, by_lock].into_iter().flatten();
        match told.find(|life| *life != Life::Unknown) {
            Some(life) => life,
            None if self.missing.is_some() => Life::Gone,
            None => Life::Unknown,
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.filter(|process| process.life != Life::Gone).map(|process| process.pid)
    }
}
