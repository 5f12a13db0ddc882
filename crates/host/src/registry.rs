//! Claude's own list of running sessions: one small file per process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use capture::Environment;
use event::Time;
use projection::status::{Registry, RegistryWord};
use serde::Deserialize;

use crate::probe::is_at_least;

pub(super) const PROVIDER: &str = "claude";

/// The first version that was seen to list every session it runs. An older one may run without.
const LISTS_SINCE: [u64; 3] = [2, 1, 325];

/// Entries that are read. With more, the rest are sessions nobody claims to know.
const ENTRIES_MAX: usize = 4_096;

/// Bytes of an entry; a longer one is none.
const ENTRY_BYTES_MAX: u64 = 64 * 1024;

/// One running session.
pub(super) struct Entry {
    pub(super) pid: u32,
    /// When its process started, in the words of its system.
    pub(super) proc_start: Option<String>,
    pub(super) registry: Registry,
}

/// The running sessions by their ids, the newest entry of each.
pub(super) fn read(environment: &Environment) -> BTreeMap<String, Entry> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    let Ok(folder) = fs::read_dir(folder(environment)) else { return entries };
    let paths = folder.flatten().take(ENTRIES_MAX).map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let Some((session, entry)) = entry(&path) else { continue };
        let known = entries.get(&session).map(|known| known.registry.updated_at);
        if known.is_none_or(|known| known < entry.registry.updated_at) {
            entries.insert(session, entry);
        }
    }
    entries
}

/// Whether a session of this version would be listed if it ran.
pub(super) fn is_kept(environment: &Environment, agent_version: Option<&str>) -> bool {
    is_at_least(agent_version, LISTS_SINCE) && folder(environment).is_dir()
}

fn folder(environment: &Environment) -> PathBuf {
    environment.folder("CLAUDE_CONFIG_DIR", ".claude").join("sessions")
}

/// An entry as the agent writes it. What is not there, or is half written, says nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    pid: u32,
    session_id: String,
    #[serde(default)]
    proc_start: Option<serde_json::Value>,
    #[serde(default)]
    started_at: Option<i64>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    status_updated_at: Option<i64>,
    #[serde(default)]
    waiting_for: Option<String>,
}

fn entry(path: &Path) -> Option<(String, Entry)> {
    if fs::metadata(path).ok()?.len() > ENTRY_BYTES_MAX {
        return None;
    }
    let written: Written = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    if written.pid == 0 {
        return None;
    }
    let updated_at = written.status_updated_at.or(written.started_at).unwrap_or(0);
    let proc_start = written.proc_start.map(|start| match start {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    });
    let registry = Registry {
        path: path.display().to_string(),
        word: written.status.as_deref().and_then(|word| said(word, written.waiting_for.as_deref())),
        updated_at: Time::from_millis(updated_at),
    };
    Some((written.session_id, Entry { pid: written.pid, proc_start, registry }))
}

/// The agent's words in ours. A word nobody has seen says nothing.
fn said(status: &str, waiting_for: Option<&str>) -> Option<RegistryWord> {
    match status {
        "busy" | "working" | "thinking" | "retry" => Some(RegistryWord::Busy),
        "shell" => Some(RegistryWord::Shell),
        "waiting" | "waiting_input" => {
            let is_permission = waiting_for.is_some_and(|what| what.contains("permission"));
            Some(if is_permission { RegistryWord::Permission } else { RegistryWord::Question })
        }
        "idle" => Some(RegistryWord::Idle),
        _ => None,
    }
}
