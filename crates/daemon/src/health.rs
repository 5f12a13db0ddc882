//! The health of the daemon: the state of its parts, and whether events can be recorded. The
//! supervisor publishes it with its status, and a small file shows it to other processes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use supervise::Supervisor;
use wire::{Backlog, ModelHealth};

use crate::instance::RunningDaemon;
use wire::health_dir;

/// The size of the file. It is allocated at the start and then overwritten in place, which works on a
/// full disk too.
const FILE_BYTES: usize = 4_096;

/// Characters of an error in the file, so that everything fits.
const ERROR_CHARS_MAX: usize = 400;

/// Databases that are tried later, and characters of each, so that everything fits into the file.
/// The log has them all.
const WAITING_MAX: usize = 3;
const WAITING_CHARS_MAX: usize = 200;

/// Tries to read the file: a read may meet it half written.
const READS_MAX: usize = 3;

/// The health of a daemon, as it reports it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Condition {
    /// The state of each part, in one word.
    pub parts: BTreeMap<String, String>,
    /// Why events cannot be recorded; absent if they can.
    pub disk: Option<String>,
    /// How far history has been read; absent once it is complete.
    #[serde(default)]
    pub backlog: Option<Backlog>,
    /// The state of the model; absent if the settings name none.
    #[serde(default)]
    pub model: Option<ModelHealth>,
    /// Changes of files that polling found and the system did not report.
    #[serde(default)]
    pub misses: u64,
    /// Databases of agents that could not be read and are tried later, each with the reason.
    #[serde(default)]
    pub waiting: Vec<String>,
}

impl Condition {
    /// Reads the health of a journal's daemon; `None` if none runs.
    pub fn load(journal: &Path) -> Option<Condition> {
        // A daemon that was killed leaves its last health behind; only the lock says that one runs.
        RunningDaemon::find(journal)?;
        let read = |_| {
            serde_json::from_slice(&std::fs::read(health_path(&health_dir(journal))).ok()?).ok()
        };
        // The writer overwrites in place without a lock, so a reader may meet two halves.
        (0..READS_MAX).find_map(read)
    }

    /// Why it does not record what agents write; `None` if it does.
    pub fn trouble(&self) -> Option<String> {
        // Where a disk error is known, it says more than the state of the part.
        let is_waiting = self.parts.get("capture").is_some_and(|state| state == "waiting");
        let waiting = || "another process reads what agents write".to_owned();
        self.disk.clone().or_else(|| is_waiting.then(waiting))
    }
}

/// Shared by all parts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Health {
    state: Arc<Mutex<HealthState>>,
}

struct HealthState {
    condition: Condition,
    supervisor: Option<Arc<Supervisor>>,
    /// Absent if it could not be made; then only the bus has the health.
    file: Option<File>,
}

impl Health {
    /// Creates the file in a folder.
    pub(crate) fn open(folder: &Path) -> Health {
        let condition = Condition::default();
        let file = create_file(&health_path(folder)).ok();
        Health { state: Arc::new(Mutex::new(HealthState { condition, supervisor: None, file })) }
    }

    /// From now on the supervisor publishes it too, beginning with the present state.
    pub(crate) fn publish_by(&self, supervisor: Arc<Supervisor>) {
        let mut state = self.lock();
        // Parts that started before the supervisor would be missing from its first status.
        for (name, word) in &state.condition.parts {
            supervisor.set_part(name, word);
        }
        supervisor.set_disk(state.condition.disk.clone());
        state.supervisor = Some(supervisor);
    }

    pub(crate) fn set_part(&self, name: &str, word: &str) {
        let mut state = self.lock();
        let before = state.condition.parts.insert(name.to_owned(), word.to_owned());
        // The file changes only with the word: parts report the same state again and again.
        if before.is_none_or(|before| before != word) {
            state.write();
        }
        if let Some(supervisor) = &state.supervisor {
            supervisor.set_part(name, word);
        }
    }

    /// Sets why events cannot be recorded; `None` if they can.
    pub(crate) fn set_disk(&self, error: Option<String>) {
        let mut state = self.lock();
        // The file has a fixed size. The bus gets the error in full.
        let shown = |error: &String| error.chars().take(ERROR_CHARS_MAX).collect();
        state.condition.disk = error.as_ref().map(shown);
        state.write();
        if let Some(supervisor) = &state.supervisor {
            supervisor.set_disk(error);
        }
    }

    pub(crate) fn set_backlog(&self, backlog: Option<Backlog>) {
        let mut state = self.lock();
        state.condition.backlog = backlog;
        state.write();
    }

    /// Sets the state of the model; `None` if the settings name none.
    pub(crate) fn set_model(&self, model: Option<ModelHealth>) {
        let mut state = self.lock();
        let mut model = model;
        if let Some(trouble) = model.as_mut().and_then(|model| model.trouble.as_mut()) {
            // The server's own words may be long, and the file is not.
            *trouble = trouble.chars().take(ERROR_CHARS_MAX).collect();
        }
        if state.condition.model != model {
            state.condition.model = model;
            state.write();
        }
    }

    /// Counts further changes that the system did not report.
    pub(crate) fn add_misses(&self, misses: u64) {
        if misses > 0 {
            let mut state = self.lock();
            state.condition.misses += misses;
            state.write();
        }
    }

    /// Sets which databases are tried later. Returns those that were not before.
    pub(crate) fn set_waiting(&self, waiting: Vec<String>) -> Vec<String> {
        let shown = waiting.iter().take(WAITING_MAX);
        let shown: Vec<String> =
            shown.map(|line| line.chars().take(WAITING_CHARS_MAX).collect()).collect();
        let mut state = self.lock();
        if state.condition.waiting == shown {
            return Vec::new();
        }
        let before = std::mem::replace(&mut state.condition.waiting, shown);
        state.write();
        let is_new = |line: &String| !before.iter().any(|known| line.starts_with(&**known));
        waiting.into_iter().filter(is_new).collect()
    }

    /// The present health.
    pub(crate) fn condition(&self) -> Condition {
        self.lock().condition.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HealthState {
    fn write(&self) {
        let mut bytes = serde_json::to_vec(&self.condition).unwrap_or_default();
        // Padded to the full size, or the rest of a longer former text would stand behind the JSON.
        // Readers skip spaces.
        bytes.resize(FILE_BYTES - 1, b' ');
        bytes.push(b'\n');
        // On failure other processes see the former state.
        // A positioned write without truncation needs no free block, so it works on a full disk.
        let _ = self.file.as_ref().map(|file| file.write_all_at(&bytes, 0));
    }
}

fn health_path(folder: &Path) -> PathBuf {
    folder.join("daemon.json")
}

/// Creates the file with its full size, so that later writes need no room.
fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Not truncated: the blocks of a former file are kept, which a full disk could not give back.
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all_at(&[b' '; FILE_BYTES], 0)?;
    file.set_len(FILE_BYTES as u64)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Instance;

    #[test]
    fn health_is_readable_by_other_processes() {
        let dir = tempfile::tempdir().expect("a folder can be made");
        std::fs::create_dir(health_dir(dir.path())).expect("a folder can be made");
        let instance = Instance::take(dir.path()).expect("nobody else is here");
        let said = Health::open(&health_dir(dir.path()));
        let seen = || Condition::load(dir.path());
        said.set_part("capture", "running");
        assert_eq!(seen().expect("it was said").trouble(), None);
        said.set_disk(Some("no space left ".repeat(1_000)));
        let trouble = seen().expect("it was said").trouble().expect("there is some");
        assert!(trouble.starts_with("no space left"));
        let backlog = Backlog { bytes: 1, bytes_total: 9, seconds_left: Some(3) };
        said.set_backlog(Some(backlog));
        assert_eq!(seen().expect("it was said").backlog, Some(backlog));
        let waiting = ["a.db: locked".to_owned(), "b.db: endless".to_owned()];
        assert_eq!(said.set_waiting(waiting.to_vec()), waiting);
        assert_eq!(seen().expect("it was said").waiting, waiting);
        assert_eq!(said.set_waiting(waiting[..1].to_vec()), [""; 0]);
        said.add_misses(2);
        said.add_misses(1);
        assert_eq!(seen().expect("it was said").misses, 3);
        said.set_disk(None);
        said.set_part("capture", "waiting");
        assert!(seen().expect("it was said").trouble().is_some());
        drop(instance);
        assert_eq!(seen(), None);
    }
}
