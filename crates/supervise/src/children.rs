//! The list of running processes on disk. After a crash the next daemon ends what it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::group::{self, StartMark};
use crate::queue::RunId;
use crate::run_ref::{Ref, stored};
use crate::state_file;

/// How long orphans have to end after SIGTERM.
const ORPHANS_GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end an orphan after SIGKILL.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// A started process, the leader of its group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ChildRecord {
    pub pid: u32,
    pub identity: Option<StartMark>,
    pub name: String,
    /// The ref of the run in the process's environment (`HANSARD_REF`).
    #[serde(rename = "ref")]
    pub reference: String,
    /// All refs that wait for its end; none for a service.
    #[serde(with = "stored")]
    pub refs: Vec<Ref>,
}

/// The running processes and the file that lists them.
#[derive(Debug)]
pub(crate) struct Children {
    path: PathBuf,
    living: BTreeMap<RunId, ChildRecord>,
    /// Whether the file is out of date.
    has_changed: bool,
}

impl Children {
    pub(crate) fn new(path: PathBuf) -> Children {
        Children { path, living: BTreeMap::new(), has_changed: false }
    }

    /// Adds a process, before anything else is done with it, and saves the list. A process that is not
    /// on the list would survive a crash of the daemon.
    pub(crate) fn add(
        &mut self,
        run: RunId,
        pid: u32,
        name: &str,
        reference: &Ref,
        refs: &[Ref],
    ) -> std::io::Result<()> {
        let child = ChildRecord {
            pid,
            identity: StartMark::from_pid(pid),
            name: name.to_owned(),
            reference: reference.as_str().to_owned(),
            refs: refs.to_vec(),
        };
        self.living.insert(run, child);
        self.has_changed = true;
        self.save()
    }

    /// Removes an answered ref, so that a crash does not answer it twice. The process may live on.
    pub(crate) fn ref_answered(&mut self, reference: &Ref) {
        for child in self.living.values_mut() {
            let before = child.refs.len();
            child.refs.retain(|waiting| waiting != reference);
            self.has_changed |= child.refs.len() < before;
        }
    }

    pub(crate) fn remove(&mut self, run: RunId) {
        self.has_changed |= self.living.remove(&run).is_some();
    }

    /// Writes the list if it has changed. The next call retries a failed write.
    pub(crate) fn save(&mut self) -> std::io::Result<()> {
        if !self.has_changed {
            return Ok(());
        }
        let living: Vec<&ChildRecord> = self.living.values().collect();
        // Not synced: a machine that went down took the processes with it.
        state_file::write_json(&self.path, &living, state_file::SyncMode::Unsynced)?;
        self.has_changed = false;
        Ok(())
    }
}

/// Ends what an earlier daemon left running; returns its list.
pub(crate) fn end_orphans(path: &Path, journal: &Path) -> Vec<ChildRecord> {
    // An unreadable list names no process that we may safely kill.
    let orphans: Vec<ChildRecord> = state_file::read_json(path).unwrap_or_default();
    let is_ours = |orphan: &&ChildRecord| is_ours(orphan, journal);
    let living: Vec<&ChildRecord> = orphans.iter().filter(is_ours).collect();
    for orphan in &living {
        group::send_signal(orphan.pid, Signal::TERM);
    }
    // One grace time for all together: a start after a crash must not wait for each in turn.
    let until = Instant::now() + ORPHANS_GRACE;
    for orphan in &living {
        let left = until.saturating_duration_since(Instant::now());
        if !group::wait_until_gone(orphan.pid, left) {
            group::send_signal(orphan.pid, Signal::KILL);
            group::wait_until_gone(orphan.pid, KILLED_WITHIN);
        }
    }
    orphans
}

/// Returns whether the group is the one that was started, and not a new one with the same number.
fn is_ours(orphan: &ChildRecord, journal: &Path) -> bool {
    // The boot and the start time prove it. A reused process number has others.
    if orphan.identity.is_some() && StartMark::from_pid(orphan.pid) == orphan.identity {
        return group::can_signal(orphan.pid);
    }
    // The leader is gone, but members may live. They inherited our environment variables.
    group::living_members(orphan.pid)
        .into_iter()
        .any(|member| has_our_environment(member, orphan, journal))
}

/// Returns whether a process has our variables in its environment.
fn has_our_environment(pid: u32, orphan: &ChildRecord, journal: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let has = |name: &str, value: &[u8]| {
        let variables = environment.split(|byte| *byte == 0);
        let mut values = variables
            .filter_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.any(|found| found == value)
    };
    // Both: another journal's daemon may have given out the same ref.
    has("HANSARD_REF", orphan.reference.as_bytes())
        && has("HANSARD_JOURNAL", journal.as_os_str().as_bytes())
}
