//! Gathers evidence about sessions: registry entries, locks and processes.
//!
//! The probe only reads: it takes no lock, sends no signal and opens no file for writing. Files that
//! a killed agent left behind are recognised by the start time of their process; their existence
//! alone proves nothing. A probe reads one folder per agent and checks the processes named there.
//!
//! Not here: what the evidence means (`projection::status`).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use capture::Environment;
use event::{ProcessIdentity, ProcessStart, Time};
use projection::status::{Life, Missing, Process, ProcessEvidence};

use crate::agent_process::{AgentScan, ProcessKey};
use crate::host_watch::FolderNews;
use crate::pairing::{
    PairMemory, Pairing, SessionClaim, SessionKey, pair_processes, remember_pairings,
};
use crate::process_info::Inspection;
use crate::processes::{ProcessTable, Started};
use crate::registry::RegistryEntry;
use crate::{locks, registry};

/// How long a new process of an agent takes at most until it has opened a session again: until then
/// sessions that had ended are looked at.
const OPENING_NANOS: i128 = 15_000_000_000;

/// The start of a process of which only the pid was written down. No process has it.
const UNKNOWN_START: ProcessStart = ProcessStart::UnixSecs(0);

/// The state of the machine at one time.
pub struct HostProbe<'a> {
    environment: &'a Environment,
    processes: &'a dyn ProcessTable,
    /// Claude Code's running sessions by id, once one was asked for.
    registry: OnceCell<BTreeMap<String, RegistryEntry>>,
}

/// A session to gather evidence for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeTarget {
    pub provider: String,
    /// The provider's id of the session.
    pub session: String,
    /// The process that had it open last, as the agent's hooks told.
    pub process: Option<ProcessIdentity>,
    /// The transcript, if no other session writes to it.
    pub file: Option<PathBuf>,
    /// The folders it worked in, as [`resolve_folder`] gives them.
    pub folders: Vec<PathBuf>,
    /// Its first and its last event.
    pub began_at: Option<Time>,
    pub last_at: Option<Time>,
    /// Whether it said that it ended.
    pub has_exited: bool,
    /// Whether an earlier look found it listed or locked by its agent.
    pub was_listed: bool,
    /// Whether it is a subagent, which has no process of its own.
    pub is_child: bool,
    /// The provider's id of the topmost parent, if known.
    pub root: Option<String>,
    /// Whether it asks to run a command, so that what its process has started is looked at.
    pub asks_to_run: bool,
}

impl ProbeTarget {
    /// The name that it has among the pairings.
    pub fn key(&self) -> SessionKey {
        (self.provider.clone(), self.session.clone())
    }

    /// Whether an agent that has the session open would have an entry of it in a folder: an earlier
    /// look found one, or the folder has changed since the session began, so that the agent which
    /// is in use keeps such entries.
    pub(crate) fn would_be_in(&self, folder: &Path) -> bool {
        let changed_at = modified_at(folder).filter(|_| folder.is_dir());
        let is_kept =
            |changed_at: Time| self.began_at.is_some_and(|began_at| changed_at >= began_at);
        changed_at.is_some_and(|changed_at| self.was_listed || is_kept(changed_at))
    }

    /// When it was last written to, as far as events and its file tell.
    fn written_at(&self) -> Option<Time> {
        self.last_at.max(self.file.as_deref().and_then(modified_at))
    }
}

/// The pairings of one look.
#[derive(Clone, Debug)]
pub struct Pairings {
    found: BTreeMap<SessionKey, Pairing>,
    /// Sessions whose agent names their process, and that process, if it could be looked at.
    named: BTreeMap<SessionKey, Option<ProcessKey>>,
    memory: BTreeMap<SessionKey, PairMemory>,
    /// The scan that they are based on.
    scan: Option<Arc<AgentScan>>,
    /// Whether a session without a process was written after that scan.
    is_late: bool,
    /// When the processes were last seen to run.
    seen_at: Time,
    /// When a new process of an agent was last found, by the agent.
    started: BTreeMap<&'static str, Time>,
}

impl Default for Pairings {
    fn default() -> Pairings {
        Pairings {
            found: BTreeMap::new(),
            named: BTreeMap::new(),
            memory: BTreeMap::new(),
            scan: None,
            is_late: false,
            seen_at: Time::MIN,
            started: BTreeMap::new(),
        }
    }
}

impl Pairings {
    /// Whether a session without a process was written after the last scan of processes.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether a new process of the agent may be about to open a session that had ended.
    pub fn is_opening(&self, provider: &str, now: Time) -> bool {
        let started = self.started.get(provider);
        started.is_some_and(|at| now.nanos() - at.nanos() < OPENING_NANOS)
    }

    /// The same of any agent.
    pub fn is_any_opening(&self, now: Time) -> bool {
        self.started.keys().any(|provider| self.is_opening(provider, now))
    }

    /// Takes over the scan that the pairings are based on.
    fn set_scan(&mut self, scan: Option<Arc<AgentScan>>, now: Time) {
        let known = self.scan.as_ref().map(|scan| &scan.processes[..]).unwrap_or_default();
        let known: BTreeSet<ProcessKey> = known.iter().map(|process| process.key).collect();
        let found = scan.as_ref().map(|scan| &scan.processes[..]).unwrap_or_default();
        let new = found.iter().filter(|process| !known.contains(&process.key));
        self.started.extend(new.map(|process| (process.program, now)));
        self.scan = scan;
    }

    /// Whether a process was found that has the session open, or its agent names one.
    pub fn is_open(&self, target: &ProbeTarget) -> bool {
        let paired = self.found.get(&target.key());
        // A named one has no pairing.
        matches!(paired, Some(Pairing::Open { .. }))
            || paired.is_none() && self.named.contains_key(&target.key())
    }
}

impl<'a> HostProbe<'a> {
    pub fn look(environment: &'a Environment, processes: &'a dyn ProcessTable) -> HostProbe<'a> {
        processes.begin_look();
        HostProbe { environment, processes, registry: OnceCell::new() }
    }

    fn registry(&self) -> &BTreeMap<String, RegistryEntry> {
        self.registry.get_or_init(|| {
            let folder = registry::folder(self.environment);
            self.processes.watch_folder(&folder, FolderNews::Files);
            registry::read_registry(&folder)
        })
    }

    /// Lists sessions that agents report as open: provider and provider's id.
    pub fn open(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.registry().keys().map(|session| (registry::PROVIDER, session.as_str()))
    }

    /// Returns whether a live process has the session open, as far as its agent tells.
    pub fn runs(&self, provider: &str, session: &str) -> bool {
        let (provider, session) = (provider.to_owned(), session.to_owned());
        let target = ProbeTarget { provider, session, ..ProbeTarget::default() };
        self.told_evidence(&target).life() == Life::Alive
    }

    /// Whether the processes of agents are those that the pairings are based on.
    pub fn is_current(&self, pairings: &mut Pairings, now: Time) -> bool {
        let scan = self.processes.agents(Time::MIN);
        let is_current = match (&scan, &pairings.scan) {
            (Some(scan), Some(known)) => Arc::ptr_eq(scan, known) || scan == known,
            (None, None) => true,
            _ => false,
        };
        if is_current {
            pairings.seen_at = now;
        }
        is_current
    }

    /// Pairs sessions with processes. All processes are scanned at most once, and only if a session
    /// without a process was written since the last scan, or that is older than `since`.
    ///
    /// Returns whether a pairing is another one than before.
    pub fn pair<'t>(
        &self,
        pairings: &mut Pairings,
        targets: impl IntoIterator<Item = &'t ProbeTarget>,
        since: Time,
        now: Time,
    ) -> bool {
        let targets = targets.into_iter().filter(|target| !target.is_child);
        let claims: Vec<SessionClaim> =
            targets.filter_map(|target| self.claim(target, pairings, now)).collect();
        let mut scan = self.processes.agents(since);
        let mut found = pair_known(scan.as_deref(), &claims);
        let mut late = find_late(&claims, &found);
        if let Some(written_at) = late {
            scan = self.processes.agents(written_at);
            found = pair_known(scan.as_deref(), &claims);
            late = find_late(&claims, &found);
        }
        (pairings.is_late, pairings.seen_at) = (late.is_some(), now);
        if let Some(scan) = &scan {
            let memory = &mut pairings.memory;
            remember_pairings(memory, &claims, &found, scan.scanned_at, now);
        }
        let has_changed = found != pairings.found;
        let key_of = |pid| match self.processes.inspect(pid) {
            Inspection::Running(process) => Some((pid, process.started)),
            Inspection::Gone | Inspection::Unknown => None,
        };
        let named = claims.into_iter().filter_map(|claim| Some((claim.key, claim.named?)));
        pairings.named = named.map(|(key, pid)| (key, key_of(pid))).collect();
        pairings.found = found;
        pairings.set_scan(scan, now);
        has_changed
    }

    /// What the pairing needs to know of a session; `None` if its agent tells that it is over.
    fn claim(&self, target: &ProbeTarget, pairings: &Pairings, now: Time) -> Option<SessionClaim> {
        if !is_known_agent(&target.provider) {
            return None;
        }
        let told = self.told_evidence_since(target, pairings);
        let named = told.process.filter(|process| process.life == Life::Alive);
        let is_over = named.is_none() && told.life() == Life::Gone;
        // Hooks name the process of a resumed session only with their first call, and a lock is taken
        // only once the agent is ready. Until then another process may have it open.
        let ended = told.process.filter(|_| is_over && is_end_of_known_process(&told));
        if is_over && ended.is_none() && !locks::is_free(&told) {
            return None;
        }
        let key = target.key();
        let written_at = target.written_at()?.min(now);
        let start = target.process.map_or(UNKNOWN_START, |process| process.start);
        let ended = ended.map(|known| PairMemory::Ended {
            process: (known.pid, start),
            seen_at: written_at,
            at: now,
            has_left: false,
        });
        Some(SessionClaim {
            folders: target.folders.clone(),
            file: target.file.clone(),
            began_at: target.began_at?,
            // A clock that is ahead makes nothing newer than a scan of now.
            written_at,
            // Nothing holds its lock: only a process that names it, or has its file open, can have it.
            has_exited: target.has_exited || locks::is_free(&told),
            named: named.map(|process| process.pid),
            lock: locks::session_lock(&told),
            memory: match pairings.memory.get(&key).copied() {
                Some(PairMemory::Open { process, .. }) => {
                    Some(PairMemory::Open { process, seen_at: pairings.seen_at })
                }
                memory => memory.or(ended),
            },
            key,
        })
    }

    /// Gathers the evidence for one session: what its agent tells, and else the pairing.
    pub fn evidence_for(&self, target: &ProbeTarget, pairings: &Pairings) -> ProcessEvidence {
        if target.is_child {
            return self.child_evidence(target, pairings);
        }
        let mut evidence = self.told_evidence_since(target, pairings);
        let is_resumed = matches!(pairings.found.get(&target.key()), Some(Pairing::Open { .. }));
        if is_resumed && is_end_of_known_process(&evidence) {
            (evidence.process, evidence.lock) = (None, None);
        }
        let is_let_go = is_resumed && locks::is_free(&evidence);
        if let Some(lock) = evidence.lock.as_mut().filter(|_| is_let_go) {
            // Codex may take it again in a moment. The pairing tells the process.
            lock.life = Life::Unknown;
            evidence.doubt = Some("no process holds its lock, and one may have it open".to_owned());
        }
        let is_told = evidence.process.is_some()
            || evidence.missing.is_some()
            || evidence.lock.as_ref().is_some_and(|lock| lock.life != Life::Unknown);
        if !is_told {
            self.weigh_pairing(target, pairings, &mut evidence);
        }
        let lives = evidence.process.filter(|process| process.life == Life::Alive);
        if let Some(process) = lives.filter(|_| target.asks_to_run) {
            evidence.commands = self.processes.commands_below(process.pid);
        }
        evidence
    }

    /// What the agent tells of the session: by its registry, its locks and its hooks.
    fn told_evidence(&self, target: &ProbeTarget) -> ProcessEvidence {
        let grown_at = target.file.as_deref().and_then(modified_at);
        let evidence = ProcessEvidence { grown_at, ..ProcessEvidence::default() };
        let mut evidence = match target.provider.as_str() {
            registry::PROVIDER => self.claude_evidence(target, evidence),
            "codex" => locks::codex_evidence(self.environment, self.processes, target, evidence),
            "copilot" => {
                locks::copilot_evidence(self.environment, self.processes, target, evidence)
            }
            _ => evidence,
        };
        self.weigh_known_process(target, &mut evidence);
        evidence
    }

    /// The same, with what an earlier look showed: Codex lets go of a lock for a moment and takes it
    /// again, as when it compacts. While the process runs that held it, and has not gone on to another
    /// session, this one has not ended.
    fn told_evidence_since(&self, target: &ProbeTarget, pairings: &Pairings) -> ProcessEvidence {
        let mut told = self.told_evidence(target);
        let Some(lock) = told.lock.as_mut().filter(|lock| lock.life == Life::Gone) else {
            return told;
        };
        let key = target.key();
        let has_left = matches!(pairings.found.get(&key), Some(Pairing::Left { .. }));
        let holder = pairings.named.get(&key).copied().flatten().filter(|_| !has_left);
        let runs = |(pid, start): &ProcessKey| match self.processes.inspect(*pid) {
            Inspection::Running(process) => process.started == *start,
            Inspection::Gone | Inspection::Unknown => false,
        };
        if let Some((pid, _)) = holder.filter(runs) {
            lock.life = Life::Unknown;
            told.process = Some(self.processes.find(pid, Started::Unknown));
            told.doubt = Some(format!("process {pid} has let go of its lock, and runs"));
        }
        told
    }

    /// Adds what the processes of the agent tell.
    fn weigh_pairing(
        &self,
        target: &ProbeTarget,
        pairings: &Pairings,
        evidence: &mut ProcessEvidence,
    ) {
        let missing = |what: String| Some(Missing { source: "process", what });
        match pairings.found.get(&target.key()) {
            Some(Pairing::Open { process: (pid, _), started_at, is_named }) => {
                let (life, is_certain) = (Life::Alive, *is_named);
                let started_at = *started_at;
                evidence.process = Some(Process { pid: *pid, life, is_certain, started_at });
            }
            Some(Pairing::Ended { process: (pid, _) }) => {
                let (life, is_certain) = (Life::Gone, false);
                evidence.process = Some(Process { pid: *pid, life, is_certain, started_at: None });
            }
            Some(Pairing::Left { process: (pid, _) }) => {
                evidence.missing = missing(format!("process {pid} has gone on to another session"));
            }
            Some(Pairing::Gone { what }) => evidence.missing = missing(what.clone()),
            Some(Pairing::Doubt { what, .. }) => evidence.doubt = Some(what.clone()),
            Some(Pairing::Pending) => {
                let what = "it was written after the last look at processes";
                evidence.doubt = Some(what.to_owned());
            }
            // It has ended by its own word, or it is not among the sessions that were paired.
            None => evidence.missing = self.missing_program(&target.provider),
        }
    }

    /// Looks for the process that the agent's hooks named. A live one counts most; a dead one counts
    /// where the registry and the locks name none.
    fn weigh_known_process(&self, target: &ProbeTarget, evidence: &mut ProcessEvidence) {
        let Some(known) = target.process else { return };
        let has_other = |entry: &RegistryEntry| entry.pid == known.pid;
        let is_moved = target.provider == registry::PROVIDER
            && evidence.registry.is_none()
            && self.registry().values().any(has_other);
        // The process lists another session: it has left this one.
        if is_moved {
            return;
        }
        let found = self.processes.find(known.pid, Started::As(known));
        let is_named = evidence.process.is_some_and(|process| process.life != Life::Gone);
        if let Some(process) = &mut evidence.process
            && (process.pid, process.life) == (found.pid, found.life)
        {
            // The hook wrote the start down when it was called. The clock may have been set since.
            process.started_at = found.started_at;
        }
        // What holds the lock is known better than what called a hook.
        if evidence.lock.as_ref().is_some_and(|lock| lock.life != Life::Unknown) {
            return;
        }
        let is_better = found.life == Life::Alive || evidence.process.is_none();
        if !is_named && is_better {
            evidence.process = Some(found);
        }
    }

    /// Returns the evidence for a subagent. Its parent's end is its own end, but a live parent proves
    /// nothing about it.
    fn child_evidence(&self, target: &ProbeTarget, pairings: &Pairings) -> ProcessEvidence {
        let grown_at = target.file.as_deref().and_then(modified_at);
        let evidence = ProcessEvidence { grown_at, ..ProcessEvidence::default() };
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
        let ProcessEvidence { process, missing, .. } = self.evidence_for(&root, pairings);
        // A live parent may have many subagents, most of which have ended.
        let process = process.filter(|process| process.life == Life::Gone);
        ProcessEvidence { process, missing, ..evidence }
    }

    fn claude_evidence(
        &self,
        target: &ProbeTarget,
        mut evidence: ProcessEvidence,
    ) -> ProcessEvidence {
        if let Some(entry) = self.registry().get(&target.session) {
            let started = entry.proc_start.as_deref().map_or(Started::Unknown, Started::Ticks);
            let mut process = self.processes.find(entry.pid, started);
            // The agent wrote the entry behind its start: one that seems later is a clock that was
            // set.
            process.started_at =
                process.started_at.map(|at| entry.started_at.map_or(at, |told| at.min(told)));
            evidence.process = Some(process);
            evidence.registry = Some(entry.registry.clone());
        } else if target.would_be_in(&registry::folder(self.environment)) {
            let what = "it is not among the running sessions that the agent lists".to_owned();
            evidence.missing = Some(Missing { source: "registry", what });
        }
        evidence
    }

    /// Returns evidence of an end if no process of the agent runs at all.
    fn missing_program(&self, provider: &str) -> Option<Missing> {
        if !is_known_agent(provider) {
            return None;
        }
        let scan = self.processes.agents(Time::MIN)?;
        let runs = scan.processes.iter().any(|process| process.program == provider);
        let what = format!("no process called {provider} runs");
        (!runs).then_some(Missing { source: "process", what })
    }
}

fn pair_known(scan: Option<&AgentScan>, claims: &[SessionClaim]) -> BTreeMap<SessionKey, Pairing> {
    scan.map(|scan| pair_processes(scan, claims)).unwrap_or_default()
}

/// Returns when a session was last written that waits for another scan, if there is one.
fn find_late(claims: &[SessionClaim], found: &BTreeMap<SessionKey, Pairing>) -> Option<Time> {
    let is_pending = |claim: &&SessionClaim| found.get(&claim.key) == Some(&Pairing::Pending);
    claims.iter().filter(is_pending).map(|claim| claim.written_at).max()
}

/// Returns a folder as the system names it for processes: without links, as far as it exists.
pub fn resolve_folder(folder: &str) -> PathBuf {
    let folder = PathBuf::from(folder);
    folder.canonicalize().unwrap_or(folder)
}

/// Returns whether the program of an agent is known.
fn is_known_agent(provider: &str) -> bool {
    capture::AGENTS.iter().any(|agent| agent.provider() == provider)
}

/// Whether the only thing that tells of an end is that the process is gone which called a hook, or
/// which left its lock behind.
fn is_end_of_known_process(told: &ProcessEvidence) -> bool {
    let is_gone = told.process.is_some_and(|process| process.life == Life::Gone);
    is_gone && told.registry.is_none() && told.missing.is_none()
}

/// Returns when a file was last modified.
pub fn modified_at(path: &std::path::Path) -> Option<Time> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Time::from_nanos(i128::try_from(since.as_nanos()).ok()?))
}
