//! Claude Code's list of running sessions: one small file per process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use capture::Environment;
use event::Time;
use projection::status::{Registry, RegistryWord};
use serde::Deserialize;

pub(super) const PROVIDER: &str = "claude";

/// Entries that are read. Sessions of further entries count as unlisted.
const ENTRIES_MAX: usize = 4_096;

/// Bytes of an entry. A longer file is ignored.
const ENTRY_BYTES_MAX: u64 = 64 * 1024;

/// One running session.
pub(super) struct RegistryEntry {
    pub(super) pid: u32,
    /// The start of its process, in ticks on Linux.
    pub(super) proc_start: Option<String>,
    /// When the agent wrote the entry first, by its clock.
    pub(super) started_at: Option<Time>,
    pub(super) registry: Registry,
}

/// Reads the newest entry of each running session, by session id.
pub(super) fn read_registry(folder: &Path) -> BTreeMap<String, RegistryEntry> {
    let mut entries: BTreeMap<String, RegistryEntry> = BTreeMap::new();
    let Ok(folder) = fs::read_dir(folder) else { return entries };
    // Bounded before the names are filtered: the folder belongs to another program.
    let paths = folder.flatten().take(ENTRIES_MAX).map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let Some((session, entry)) = read_entry(&path) else { continue };
        let known = entries.get(&session).map(|known| known.registry.updated_at);
        // A session that is resumed in another process may have two entries.
        if known.is_none_or(|known| known < entry.registry.updated_at) {
            entries.insert(session, entry);
        }
    }
    entries
}

/// The folder of the entries.
pub(super) fn folder(environment: &Environment) -> PathBuf {
    environment.agent_folder("CLAUDE_CONFIG_DIR", ".claude").join("sessions")
}

/// An entry as the agent writes it. A missing or half-written file is no evidence.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistryFile {
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

fn read_entry(path: &Path) -> Option<(String, RegistryEntry)> {
    // Checked before the read: the file is another program's and may have any size.
    if fs::metadata(path).ok()?.len() > ENTRY_BYTES_MAX {
        return None;
    }
    let written: RegistryFile = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    if written.pid == 0 {
        return None;
    }
    // Without the time of its status, the start is the last change that is known.
    let updated_at = written.status_updated_at.or(written.started_at).unwrap_or(0);
    // Both forms are read: the agent does not document this file.
    let proc_start = written.proc_start.map(|start| match start {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    });
    let registry = Registry {
        path: path.display().to_string(),
        word: written
            .status
            .as_deref()
            .and_then(|word| parse_status(word, written.waiting_for.as_deref())),
        updated_at: Time::from_millis(updated_at),
    };
    let started_at = written.started_at.filter(|millis| *millis > 0).map(Time::from_millis);
    let entry = RegistryEntry { pid: written.pid, proc_start, started_at, registry };
    Some((written.session_id, entry))
}

/// Maps the agent's status to ours. An unknown status is no evidence.
fn parse_status(status: &str, waiting_for: Option<&str>) -> Option<RegistryWord> {
    match status {
        "busy" | "working" | "thinking" | "retry" => Some(RegistryWord::Busy),
        "shell" => Some(RegistryWord::Shell),
        "waiting" | "waiting_input" => {
            // The text is made for people and not fixed; this word in it decides.
            let is_permission = waiting_for.is_some_and(|what| what.contains("permission"));
            Some(if is_permission { RegistryWord::Permission } else { RegistryWord::Question })
        }
        "idle" => Some(RegistryWord::Idle),
        _ => None,
    }
}
