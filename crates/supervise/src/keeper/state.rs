//! The keeper's state on disk.

use std::path::{Path, PathBuf};

use super::Keeper;
use crate::clock::Clock;
use crate::run_ref::{Ref, RefGenerator};
use crate::state_file::{self, SyncMode};
use crate::supervisor::EnqueueError;

/// The paths of state files.
pub(super) struct StateFiles {
    pub(super) services: PathBuf,
    pub(super) tasks: PathBuf,
    pub(super) schedules: PathBuf,
    pub(super) last_ref: PathBuf,
}

impl Keeper {
    pub(super) fn new_ref(&mut self) -> Ref {
        next_ref(&mut self.refs, &self.clock, &self.files.last_ref)
    }

    /// Saves the state, then answers the callers that waited for it.
    pub(super) fn save(&mut self) {
        self.runs.save();
        let mut written = Ok(());
        // Synced, and before the callers are answered: a kept task must survive a power cut.
        if let Some(kept) = self.queue.take_changes() {
            let bytes = serde_json::to_vec(&kept).unwrap_or_default();
            // Most changes concern tasks that are not kept; the file is then the same.
            if self.kept.as_ref() != Some(&bytes) {
                written = state_file::write_json(&self.files.tasks, &kept, SyncMode::Synced);
                self.kept = written.is_ok().then_some(bytes);
            }
        }
        if let Err(error) = &written {
            self.queue.mark_unsaved();
            // Log a persistent error once.
            if self.save_error != Some(error.kind()) {
                let path = self.files.tasks.display();
                self.shared.log(&format!("cannot write `{path}`: {error}"));
            }
        }
        self.save_error = written.as_ref().err().map(std::io::Error::kind);
        for (done, reference) in self.enqueued.drain(..) {
            let answer = match &written {
                Ok(()) => Ok(reference),
                Err(error) => Err(EnqueueError::NotKept {
                    path: self.files.tasks.clone(),
                    source: error.kind().into(),
                }),
            };
            // The caller may be gone.
            let _ = done.send(answer);
        }
    }

    pub(super) fn save_schedules(&mut self) {
        let written = state_file::write_json(
            &self.files.schedules,
            self.schedules.last_runs(),
            SyncMode::Synced,
        );
        if let Err(error) = written {
            let path = self.files.schedules.display();
            self.shared.log(&format!("cannot write `{path}`: {error}"));
        }
    }
}

/// Returns a new ref. The range it reserves is on disk before the ref is used.
pub(super) fn next_ref(refs: &mut RefGenerator, clock: &Clock, path: &Path) -> Ref {
    let (reference, bound) = refs.next(u64::try_from(clock.now_ms()).unwrap_or(0));
    if let Some(bound) = bound {
        // On a full disk only the clock keeps refs unique.
        let _ = state_file::write_json(path, &bound, SyncMode::Unsynced);
    }
    reference
}
