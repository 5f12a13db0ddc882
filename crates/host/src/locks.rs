//! Files that are there while somebody has a session open.
//!
//! They are looked at from outside: whoever tried to take one could be in the owner's way.

use std::fs;
use std::path::Path;

use capture::Environment;
use projection::status::{Life, Lock, Missing, Process, ProcessEvidence};

use crate::probe::{ProbeTarget, is_at_least, modified_at};
use crate::processes::{ProcessTable, Started};

/// The first versions that were seen to lock every session they have open.
const CODEX_LOCKS_SINCE: [u64; 3] = [0, 166, 0];
const COPILOT_LOCKS_SINCE: [u64; 3] = [1, 0, 102];

/// Files in the folder of a session that are looked at for its lock.
const NAMES_MAX: usize = 1_024;

/// Codex: one file per thread, without a name of whoever holds it.
pub(super) fn codex(
    environment: &Environment,
    processes: &dyn ProcessTable,
    sought: &ProbeTarget,
    mut outside: ProcessEvidence,
) -> ProcessEvidence {
    let folder = environment.folder("CODEX_HOME", ".codex").join("thread-writer-locks");
    let path = folder.join(format!("{}.lock", sought.session));
    if is_plain(&sought.session) && path.is_file() {
        let life = match processes.holds_lock(&path) {
            true => Life::Alive,
            // A program that does not run holds nothing; of one that runs, who knows.
            false if processes.runs("codex") == Life::Gone => Life::Gone,
            false => Life::Unknown,
        };
        outside.lock = Some(Lock { path: path.display().to_string(), life });
    } else if folder.is_dir() && is_at_least(sought.agent_version.as_deref(), CODEX_LOCKS_SINCE) {
        let what = "the agent locks what it has open, and it is not locked".to_owned();
        outside.missing = Some(Missing { source: "lock", what });
    }
    outside
}

/// Copilot: a file in the folder of the session, named after the process that has it.
pub(super) fn copilot(
    environment: &Environment,
    processes: &dyn ProcessTable,
    sought: &ProbeTarget,
    mut outside: ProcessEvidence,
) -> ProcessEvidence {
    if !is_plain(&sought.session) {
        return outside;
    }
    let state = environment.folder("COPILOT_HOME", ".copilot").join("session-state");
    let folder = state.join(&sought.session);
    let Ok(files) = fs::read_dir(&folder) else { return outside };
    let mut locks = Vec::new();
    for path in files.flatten().take(NAMES_MAX).map(|file| file.path()) {
        if let Some(pid) = in_use_by(&path) {
            let started = modified_at(&path).map_or(Started::Unknown, Started::Before);
            let (life, is_certain) = processes.life(pid, started);
            let lock = Lock { path: path.display().to_string(), life };
            locks.push((lock, Process { pid, life, is_certain }));
        }
    }
    // One that somebody holds counts before those that were left behind.
    locks.sort_by_key(|(lock, _)| match lock.life {
        Life::Alive => 0,
        Life::Unknown => 1,
        Life::Gone => 2,
    });
    if let Some((lock, process)) = locks.into_iter().next() {
        outside.lock = Some(lock);
        outside.process = Some(process);
    } else if is_at_least(sought.agent_version.as_deref(), COPILOT_LOCKS_SINCE) {
        let what = "the agent locks what it has open, and it is not locked".to_owned();
        outside.missing = Some(Missing { source: "lock", what });
    }
    outside
}

/// The process a lock is named after.
fn in_use_by(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let pid = name.strip_prefix("inuse.")?.strip_suffix(".lock")?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

/// Whether an id can be part of a path without leaving its folder.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
