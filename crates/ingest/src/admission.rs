//! Which sessions are recorded: all but those that the user switched off or deleted.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use capture::Admission;
use event::SessionId;
use journal::Journal;

use crate::policy::{RecordingPolicy, strictest};
use crate::project::Projects;

/// A file that switches off what is worked on in its folder and below. If it says `status`, that
/// is still recorded.
const MARKER: &str = ".hansardignore";

/// Bytes of a marker that are looked at.
const MARKER_BYTES_MAX: u64 = 1_024;

/// Folders that are gone up through.
const LEVELS_MAX: usize = 64;

/// Answers that are remembered; beyond it all are forgotten and found again.
const KNOWN_MAX: usize = 100_000;

/// Decides for each session once, as long as it stays in its folder.
pub(crate) struct Gate {
    policy: RecordingPolicy,
    known: HashMap<SessionId, (Option<String>, Admission)>,
}

impl Gate {
    pub(crate) fn new(policy: RecordingPolicy) -> Gate {
        Gate { policy, known: HashMap::new() }
    }

    /// Whether what is read is kept as it was written.
    pub(crate) fn keeps_originals(&self) -> bool {
        self.policy.originals.keep
    }

    pub(crate) fn admits(
        &mut self,
        journal: &Journal,
        projects: &mut Projects,
        session: &SessionId,
        cwd: Option<&str>,
    ) -> Admission {
        // Asked for every record of a session; the answer depends on the session and its folder.
        if let Some((known_cwd, admission)) = self.known.get(session)
            && known_cwd.as_deref() == cwd
        {
            return *admission;
        }
        let admission = self.decide_session(journal, projects, session, cwd);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(session.clone(), (cwd.map(str::to_owned), admission));
        admission
    }

    /// Decides anew for every session.
    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
    }

    fn decide_session(
        &self,
        journal: &Journal,
        projects: &mut Projects,
        session: &SessionId,
        cwd: Option<&str>,
    ) -> Admission {
        // A session that cannot be looked up is not recorded: it may be a deleted one.
        if !matches!(journal.deleted_at(session), Ok(None)) {
            return Admission::Nothing;
        }
        let project = cwd.and_then(|cwd| projects.find_project(cwd));
        let ruled = self.policy.capture.admits(session.as_str(), cwd, project.as_deref());
        // A marker on a network drive is not looked for: a drive that hangs would hang capture.
        let marked = cwd.filter(|cwd| projects.may_look(cwd)).map_or(Admission::All, find_marker);
        strictest([ruled, marked].into_iter())
    }
}

/// What a marker in a folder or above says.
fn find_marker(cwd: &str) -> Admission {
    let markers = Path::new(cwd).ancestors().take(LEVELS_MAX).filter_map(|folder| {
        let marker = folder.join(MARKER);
        // Anything but a plain file, such as a pipe, could block the read.
        if !marker.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        // An unreadable marker switches recording off, too: its author meant to exclude the folder.
        let read = File::open(&marker)
            .and_then(|marker| marker.take(MARKER_BYTES_MAX).read_to_string(&mut text));
        let says_status = read.is_ok() && text.trim() == "status";
        Some(if says_status { Admission::Status } else { Admission::Nothing })
    });
    strictest(markers)
}
