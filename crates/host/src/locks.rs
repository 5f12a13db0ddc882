//! Lock files that agents keep while a session is open.
//!
//! The probe never tries to take a lock: for that moment the agent itself could not get it.

use std::fs;
use std::path::Path;

use capture::Environment;
use projection::status::{Life, Lock, Missing, Process, ProcessEvidence};

use crate::held_locks::LockHolder;
use crate::host_watch::FolderNews;
use crate::pairing::SessionLock;
use crate::probe::{ProbeTarget, modified_at};
use crate::processes::{ProcessTable, Started};

/// Files of a session folder that are searched for a lock.
const NAMES_MAX: usize = 1_024;

/// Codex has one lock file per thread. The kernel tells the process that holds it.
pub(super) fn codex_evidence(
    environment: &Environment,
    processes: &dyn ProcessTable,
    target: &ProbeTarget,
    mut evidence: ProcessEvidence,
) -> ProcessEvidence {
    let folder = environment.agent_folder("CODEX_HOME", ".codex").join("thread-writer-locks");
    processes.watch_folder(&folder, FolderNews::Locks);
    let path = folder.join(format!("{}.lock", target.session));
    // The id comes from a transcript: only a plain name may become part of a path.
    if is_plain_name(&target.session) && path.is_file() {
        let life = match processes.lock_holder(&path) {
            LockHolder::Process(Some(pid)) => {
                let holder = processes.find(pid, Started::Unknown);
                // The kernel has just named it, so the pid is not that of an earlier process.
                let is_alive = holder.life == Life::Alive;
                evidence.process = is_alive.then_some(Process { is_certain: true, ..holder });
                holder.life
            }
            LockHolder::Process(None) => Life::Alive,
            LockHolder::Nothing => Life::Gone,
            LockHolder::Unknown => Life::Unknown,
        };
        evidence.lock = Some(Lock { path: path.display().to_string(), life });
    } else if target.would_be_in(&folder) {
        evidence.missing = Some(missing_lock());
    }
    evidence
}

fn missing_lock() -> Missing {
    let what = "the agent locks what it has open, and it is not locked".to_owned();
    Missing { source: "lock", what }
}

/// Copilot has a lock file in the session folder, named after the process that holds it.
pub(super) fn copilot_evidence(
    environment: &Environment,
    processes: &dyn ProcessTable,
    target: &ProbeTarget,
    mut evidence: ProcessEvidence,
) -> ProcessEvidence {
    if !is_plain_name(&target.session) {
        return evidence;
    }
    let state = environment.agent_folder("COPILOT_HOME", ".copilot").join("session-state");
    let folder = state.join(&target.session);
    processes.watch_folder(&folder, FolderNews::Files);
    let Ok(files) = fs::read_dir(&folder) else { return evidence };
    let mut locks = Vec::new();
    for path in files.flatten().take(NAMES_MAX).map(|file| file.path()) {
        if let Some(pid) = lock_owner(&path) {
            // A process that started after the lock file was written has only the same pid.
            let started = modified_at(&path).map_or(Started::Unknown, Started::Before);
            let process = processes.find(pid, started);
            let lock = Lock { path: path.display().to_string(), life: process.life };
            locks.push((lock, process));
        }
    }
    // A held lock counts before those that killed processes left behind.
    locks.sort_by_key(|(lock, _)| match lock.life {
        Life::Alive => 0,
        Life::Unknown => 1,
        Life::Gone => 2,
    });
    if let Some((lock, process)) = locks.into_iter().next() {
        evidence.lock = Some(lock);
        evidence.process = Some(process);
    } else if target.was_listed {
        // The folder holds much else: that it changed does not tell whether the agent locks.
        evidence.missing = Some(missing_lock());
    }
    evidence
}

/// What the process of the session does with its lock. A lock whose holder is not known is in doubt
/// only if an earlier look has found one.
pub(super) fn session_lock(told: &ProcessEvidence) -> SessionLock {
    match told.lock.as_ref().map(|lock| lock.life) {
        Some(Life::Alive) => SessionLock::Held,
        Some(Life::Unknown) if told.doubt.is_some() => SessionLock::LetGo,
        _ => SessionLock::None,
    }
}

/// Whether the session has a lock, and nothing holds it. A lock that names its process is free only
/// because that has ended.
pub(super) fn is_free(told: &ProcessEvidence) -> bool {
    told.process.is_none() && told.lock.as_ref().is_some_and(|lock| lock.life == Life::Gone)
}

/// Returns the process that a lock file is named after.
fn lock_owner(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let pid = name.strip_prefix("inuse.")?.strip_suffix(".lock")?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

/// Returns whether an id is safe as part of a path.
fn is_plain_name(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
