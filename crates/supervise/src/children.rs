//! The processes that run now, on disk: whoever comes after a crash can end them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::group::{self, Identity};
use crate::queue::RunId;
use crate::run_ref::{Ref, stored};
use crate::state_file;

/// How long orphans have to end by themselves.
const ORPHANS_GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end those that did not.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// A process that was started, the leader of its group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Orphan {
    pub pid: u32,
    pub identity: Option<Identity>,
    pub name: String,
    /// The run it was started for, as its environment names it.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Everybody who waits for its end; nobody does for a service.
    #[serde(with = "stored")]
    pub refs: Vec<Ref>,
}

/// Those of ours that live, and the file that lists them.
#[derive(Debug)]
pub(crate) struct Children {
    path: PathBuf,
    living: BTreeMap<RunId, Orphan>,
    /// Whether the file does not say it all.
    has_changed: bool,
}

impl Children {
    pub(crate) fn new(path: PathBuf) -> Children {
        Children { path, living: BTreeMap::new(), has_changed: false }
    }

    /// Notes a process, before anything else is done with it. What fails is told: after a crash
    /// nobody would end it.
    pub(crate) fn add(
        &mut self,
        run: RunId,
        pid: u32,
        name: &str,
        reference: &Ref,
        refs: &[Ref],
    ) -> std::io::Result<()> {
        let child = Orphan {
            pid,
            identity: Identity::of(pid),
            name: name.to_owned(),
            reference: reference.as_str().to_owned(),
            refs: refs.to_vec(),
        };
        self.living.insert(run, child);
        self.has_changed = true;
        self.save()
    }

    /// One who waited is answered: after a crash it is not answered again. Its process may live on.
    pub(crate) fn answered(&mut self, reference: &Ref) {
        for child in self.living.values_mut() {
            let before = child.refs.len();
            child.refs.retain(|waiting| waiting != reference);
            self.has_changed |= child.refs.len() < before;
        }
    }

    pub(crate) fn remove(&mut self, run: RunId) {
        self.has_changed |= self.living.remove(&run).is_some();
    }

    /// Writes the list, if it has changed. What fails is tried again the next time.
    pub(crate) fn save(&mut self) -> std::io::Result<()> {
        if !self.has_changed {
            return Ok(());
        }
        let living: Vec<&Orphan> = self.living.values().collect();
        // Not synced: after the machine has gone down there is nobody left to end.
        state_file::write(&self.path, &living, state_file::Sync::No)?;
        self.has_changed = false;
        Ok(())
    }
}

/// Ends what an earlier daemon has left running; what it was.
pub(crate) fn end_orphans(path: &Path, journal: &Path) -> Vec<Orphan> {
    // A list that cannot be read names nobody whom we could be sure of.
    let orphans: Vec<Orphan> = state_file::read(path).unwrap_or_default();
    let is_ours = |orphan: &&Orphan| is_ours(orphan, journal);
    let living: Vec<&Orphan> = orphans.iter().filter(is_ours).collect();
    for orphan in &living {
        group::signal(orphan.pid, Signal::TERM);
    }
    let until = Instant::now() + ORPHANS_GRACE;
    for orphan in &living {
        let left = until.saturating_duration_since(Instant::now());
        if !group::wait_gone(orphan.pid, left) {
            group::signal(orphan.pid, Signal::KILL);
            group::wait_gone(orphan.pid, KILLED_WITHIN);
        }
    }
    orphans
}

/// Whether the group is the one that was started then, and not one that has its number now.
fn is_ours(orphan: &Orphan, journal: &Path) -> bool {
    if orphan.identity.is_some() && Identity::of(orphan.pid) == orphan.identity {
        return group::is_ours_and_lives(orphan.pid);
    }
    // The leader is gone, others of its group may not be: they were told the same.
    group::members(orphan.pid).into_iter().any(|member| was_told(member, orphan, journal))
}

/// Whether a process has our variables in its environment.
fn was_told(pid: u32, orphan: &Orphan, journal: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let has = |name: &str, value: &[u8]| {
        let variables = environment.split(|byte| *byte == 0);
        let mut values = variables
            .filter_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.any(|found| found == value)
    };
    has("HANSARD_REF", orphan.reference.as_bytes())
        && has("HANSARD_JOURNAL", journal.as_os_str().as_bytes())
}
