//! What can be seen around sessions without asking their agents: registries, locks, processes.
//!
//! Everything is read and nothing is touched: no lock is tried, no signal is sent, no file is
//! opened for writing. What an agent left behind when it was killed is recognised by the start time
//! of its process, never trusted for being there. Each look reads one folder per agent and asks for
//! the processes it names; sessions that nobody looks at cost nothing.
//!
//! Not here: what the signs mean (`projection::status`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use capture::Environment;
use event::Time;
use projection::status::{Life, Missing, Process, ProcessEvidence};

use crate::processes::{ProcessTable, Started};
use crate::registry::Entry;
use crate::{locks, registry};

/// One look at the machine.
pub struct HostProbe<'a> {
    environment: &'a Environment,
    processes: &'a dyn ProcessTable,
    /// Claude's running sessions, by their ids.
    registry: BTreeMap<String, Entry>,
}

/// A session to look for.
#[derive(Clone, Debug, Default)]
pub struct ProbeTarget {
    pub provider: String,
    /// The provider's id of it.
    pub session: String,
    pub agent_version: Option<String>,
    /// The file it is written to, if it is the only one there.
    pub file: Option<PathBuf>,
    /// It works for another one, and has no process of its own.
    pub is_child: bool,
    /// The provider's id of the session that all of it is for, if that is known.
    pub root: Option<String>,
}

impl<'a> HostProbe<'a> {
    pub fn look(environment: &'a Environment, processes: &'a dyn ProcessTable) -> HostProbe<'a> {
        let registry = registry::read(environment);
        HostProbe { environment, processes, registry }
    }

    /// Sessions that agents say they have open, by provider and the provider's id.
    pub fn open(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.registry.keys().map(|session| (registry::PROVIDER, session.as_str()))
    }

    /// Whether a process is known to have a session open.
    pub fn runs(&self, provider: &str, session: &str) -> bool {
        let (provider, session) = (provider.to_owned(), session.to_owned());
        self.of(&ProbeTarget { provider, session, ..ProbeTarget::default() }).life() == Life::Alive
    }

    /// What is there of one session.
    pub fn of(&self, sought: &ProbeTarget) -> ProcessEvidence {
        let grown_at = sought.file.as_deref().and_then(modified_at);
        let outside = ProcessEvidence { grown_at, ..ProcessEvidence::default() };
        if sought.is_child {
            return self.of_child(sought, outside);
        }
        let mut outside = match sought.provider.as_str() {
            registry::PROVIDER => self.claude(sought, outside),
            "codex" => locks::codex(self.environment, self.processes, sought, outside),
            "copilot" => locks::copilot(self.environment, self.processes, sought, outside),
            _ => outside,
        };
        let is_open = outside.process.is_some() || outside.lock.is_some();
        if !is_open && outside.missing.is_none() {
            outside.missing = self.missing_process(&sought.provider);
        }
        outside
    }

    /// A child ends with the session it works for; what that one does says nothing of it.
    fn of_child(&self, sought: &ProbeTarget, outside: ProcessEvidence) -> ProcessEvidence {
        let Some(root) = sought.root.clone() else { return outside };
        let root = ProbeTarget {
            session: root,
            is_child: false,
            root: None,
            file: None,
            ..sought.clone()
        };
        let ProcessEvidence { process, missing, .. } = self.of(&root);
        let process = process.filter(|process| process.life == Life::Gone);
        ProcessEvidence { process, missing, ..outside }
    }

    fn claude(&self, sought: &ProbeTarget, mut outside: ProcessEvidence) -> ProcessEvidence {
        if let Some(entry) = self.registry.get(&sought.session) {
            let started = entry.proc_start.as_deref().map_or(Started::Unknown, Started::Ticks);
            let (life, is_certain) = self.processes.life(entry.pid, started);
            outside.process = Some(Process { pid: entry.pid, life, is_certain });
            outside.registry = Some(entry.registry.clone());
        } else if registry::is_kept(self.environment, sought.agent_version.as_deref()) {
            let what = "it is not among the running sessions that the agent lists".to_owned();
            outside.missing = Some(Missing { source: "registry", what });
        }
        outside
    }

    /// Nobody has a session open while the agent's program does not run at all.
    fn missing_process(&self, provider: &str) -> Option<Missing> {
        // Programs are called as their agents are here.
        if !capture::AGENTS.iter().any(|agent| agent.provider() == provider) {
            return None;
        }
        let is_gone = self.processes.runs(provider) == Life::Gone;
        let what = format!("no process called {provider} runs");
        is_gone.then_some(Missing { source: "process", what })
    }
}

/// When a file was written last, by the clock of this machine.
pub fn modified_at(path: &std::path::Path) -> Option<Time> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Time::from_nanos(i128::try_from(since.as_nanos()).ok()?))
}

/// Whether a version is at least as new as the first one that was seen to do something.
pub(crate) fn is_at_least(version: Option<&str>, first: [u64; 3]) -> bool {
    let Some(version) = version else { return false };
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = [0; 3];
    for (part, text) in parts.iter_mut().zip(core.split('.')) {
        let Ok(number) = text.trim().parse() else { return false };
        *part = number;
    }
    parts >= first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, is_newer) in [
            ("2.1.325", true),
            ("2.1.99", false),
            ("2.2", true),
            ("10.0.0-beta.1", true),
            ("", false),
            ("nightly", false),
        ] {
            assert_eq!(is_at_least(Some(version), [2, 1, 325]), is_newer, "{version}");
        }
        assert!(!is_at_least(None, [0, 0, 0]));
    }
}
