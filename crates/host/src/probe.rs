//! Gathers evidence about sessions: registry entries, locks and processes.
//!
//! The probe only reads: it takes no lock, sends no signal and opens no file for writing. Files that
//! a killed agent left behind are recognised by the start time of their process; their existence
//! alone proves nothing. A probe reads one folder per agent and checks the processes named there.
//!
//! Not here: what the evidence means (`projection::status`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use capture::Environment;
use event::{ProcessIdentity, Time};
use projection::status::{Life, Missing, ProcessEvidence};

use crate::processes::{ProcessTable, Started};
use crate::registry::RegistryEntry;
use crate::{locks, registry};

/// The state of the machine at one time.
pub struct HostProbe<'a> {
    environment: &'a Environment,
    processes: &'a dyn ProcessTable,
    /// Claude Code's running sessions by id.
    registry: BTreeMap<String, RegistryEntry>,
}

/// A session to gather evidence for.
#[derive(Clone, Debug, Default)]
pub struct ProbeTarget {
    pub provider: String,
    /// The provider's id of the session.
    pub session: String,
    pub agent_version: Option<String>,
    /// The process that had it open last, as the agent's hooks told.
    pub process: Option<ProcessIdentity>,
    /// The transcript, if no other session writes to it.
    pub file: Option<PathBuf>,
    /// Whether it is a subagent, which has no process of its own.
    pub is_child: bool,
    /// The provider's id of the topmost parent, if known.
    pub root: Option<String>,
    /// Whether it asks to run a command, so that what its process has started is looked at.
    pub asks_to_run: bool,
}

impl<'a> HostProbe<'a> {
    pub fn look(environment: &'a Environment, processes: &'a dyn ProcessTable) -> HostProbe<'a> {
        let registry = registry::read_registry(environment);
        HostProbe { environment, processes, registry }
    }

    /// Lists sessions that agents report as open: provider and provider's id.
    pub fn open(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.registry.keys().map(|session| (registry::PROVIDER, session.as_str()))
    }

    /// Returns whether a live process has the session open.
    pub fn runs(&self, provider: &str, session: &str) -> bool {
        let (provider, session) = (provider.to_owned(), session.to_owned());
        self.evidence_for(&ProbeTarget { provider, session, ..ProbeTarget::default() }).life()
            == Life::Alive
    }

    /// Gathers the evidence for one session.
    pub fn evidence_for(&self, target: &ProbeTarget) -> ProcessEvidence {
        let grown_at = target.file.as_deref().and_then(modified_at);
        let evidence = ProcessEvidence { grown_at, ..ProcessEvidence::default() };
        if target.is_child {
            return self.child_evidence(target, evidence);
        }
        let mut evidence = match target.provider.as_str() {
            registry::PROVIDER => self.claude_evidence(target, evidence),
            "codex" => locks::codex_evidence(self.environment, self.processes, target, evidence),
            "copilot" => {
                locks::copilot_evidence(self.environment, self.processes, target, evidence)
            }
            _ => evidence,
        };
        self.weigh_known_process(target, &mut evidence);
        let lives = evidence.process.filter(|process| process.life == Life::Alive);
        if let Some(process) = lives.filter(|_| target.asks_to_run) {
            evidence.commands = self.processes.commands_below(process.pid);
        }
        // A process or a lock of this very session says more than the processes of its agent.
        let is_open = evidence.process.is_some() || evidence.lock.is_some();
        if !is_open && evidence.missing.is_none() {
            evidence.missing = self.missing_process(&target.provider);
        }
        evidence
    }

    /// Looks for the process that the agent's hooks named. A live one counts most; a dead one counts
    /// where the registry and the locks name none.
    fn weigh_known_process(&self, target: &ProbeTarget, evidence: &mut ProcessEvidence) {
        let Some(known) = target.process else { return };
        let has_other = |entry: &RegistryEntry| entry.pid == known.pid;
        let is_moved = target.provider == registry::PROVIDER
            && evidence.registry.is_none()
            && self.registry.values().any(has_other);
        // The process lists another session: it has left this one.
        if is_moved {
            return;
        }
        let found = self.processes.find(known.pid, Started::As(known));
        let is_named = evidence.process.is_some_and(|process| process.life != Life::Gone);
        let is_better = found.life == Life::Alive || evidence.process.is_none();
        if !is_named && is_better {
            evidence.process = Some(found);
        }
    }

    /// Returns the evidence for a subagent. Its parent's end is its own end, but a live parent proves
    /// nothing about it.
    fn child_evidence(&self, target: &ProbeTarget, evidence: ProcessEvidence) -> ProcessEvidence {
        let Some(root) = target.root.clone() else { return evidence };
        let root = ProbeTarget {
            session: root,
            is_child: false,
            root: None,
            // What is known of the child's process is not known of the root's.
            process: None,
            // The file of the child is not the file of the root.
            file: None,
            ..target.clone()
        };
        let ProcessEvidence { process, missing, .. } = self.evidence_for(&root);
        // A live parent may have many subagents, most of which have ended.
        let process = process.filter(|process| process.life == Life::Gone);
        ProcessEvidence { process, missing, ..evidence }
    }

    fn claude_evidence(
        &self,
        target: &ProbeTarget,
        mut evidence: ProcessEvidence,
    ) -> ProcessEvidence {
        if let Some(entry) = self.registry.get(&target.session) {
            let started = entry.proc_start.as_deref().map_or(Started::Unknown, Started::Ticks);
            evidence.process = Some(self.processes.find(entry.pid, started));
            evidence.registry = Some(entry.registry.clone());
        } else if registry::is_listed(self.environment, target.agent_version.as_deref()) {
            let what = "it is not among the running sessions that the agent lists".to_owned();
            evidence.missing = Some(Missing { source: "registry", what });
        }
        evidence
    }

    /// Returns evidence of an end if no process of the agent runs at all.
    fn missing_process(&self, provider: &str) -> Option<Missing> {
        // For known agents the name of the program is that of the provider.
        if !capture::AGENTS.iter().any(|agent| agent.provider() == provider) {
            return None;
        }
        let is_gone = self.processes.runs(provider) == Life::Gone;
        let what = format!("no process called {provider} runs");
        is_gone.then_some(Missing { source: "process", what })
    }
}

/// Returns when a file was last modified.
pub fn modified_at(path: &std::path::Path) -> Option<Time> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Time::from_nanos(i128::try_from(since.as_nanos()).ok()?))
}

/// Returns whether a version is at least `first`. An unknown version is not.
pub(crate) fn is_at_least(version: Option<&str>, first: [u64; 3]) -> bool {
    let Some(version) = version else { return false };
    let core = version.split(['-', '+']).next().unwrap_or_default();
    // Missing parts count as zero: `2.2` is `2.2.0`.
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
    fn versions_compare_by_number() {
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
