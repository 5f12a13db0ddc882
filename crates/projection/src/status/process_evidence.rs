//! What was seen beside the log, at one moment.
//!
//! Whoever looks fills in what there is. A pid counts only with the time its process started: a
//! file that a killed agent left behind names a number that may be somebody else's by now.

use event::Time;

/// What surrounds a session right now. The default knows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessEvidence {
    /// What the agent's own list of running sessions says of it.
    pub registry: Option<Registry>,
    pub process: Option<Process>,
    pub lock: Option<Lock>,
    /// The agent keeps an entry or a lock for every session it has open, and there is none.
    pub missing: Option<Missing>,
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
    /// Something runs behind a finished turn.
    Shell,
    /// It asks whether something may be done.
    Permission,
    /// It asks something else.
    Question,
    /// It is ready for a prompt.
    Idle,
}

/// The process a session lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: u32,
    pub life: Life,
    /// Its start time was compared, so that it cannot be somebody else.
    pub is_certain: bool,
}

/// A file that is there while somebody has the session open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    pub path: String,
    /// Whether whoever made it still runs.
    pub life: Life,
}

/// What would be there if somebody had the session open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// `registry`, `lock` or `process`.
    pub source: &'static str,
    /// Where it was looked for, in words.
    pub what: String,
}

/// Whether somebody runs.
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
