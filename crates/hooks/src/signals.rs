//! Signals: files by which a hook, or another program, announces what happened to a session.
//!
//! A signal is one file in `signals/` of the journal's folder. The form is documented
//! (`docs/guide/capture.md`), and other programs write it, too. A pass reads the session to its
//! end, records what only the signal tells, and removes the file last. What comes of a signal
//! depends on how far the session has got, so a signal that is handled again after a crash has no
//! second effect.
//!
//! Not here: what a signal does to a session (`capture`), the clock.

mod signal; // the form of a file

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use event::{HookMessage, Time};

use signal::{SIGNAL_BYTES_MAX, encode_signal, has_own_name, parse_signal};

use crate::spool_dir::{RETENTION_MILLIS, SpoolDir, SpoolSummary, is_older};

/// The folder of signals.
#[derive(Debug)]
pub struct Signals {
    pub(crate) dir: SpoolDir,
}

impl Signals {
    /// The signals of the journal in this folder.
    pub fn in_journal(journal: &Path) -> Signals {
        Signals { dir: SpoolDir::new(journal.join("signals")) }
    }

    /// Adds the signal of a message as a file; nothing for a message without one.
    ///
    /// The file has the name of the message: adding it twice makes one file.
    pub fn add(&self, message: &HookMessage) -> io::Result<()> {
        let Some(text) = encode_signal(message) else { return Ok(()) };
        self.dir.write(&Signals::file_name(message), text.as_bytes())
    }

    /// The name of the file that `add` makes.
    pub(crate) fn file_name(message: &HookMessage) -> String {
        format!("{}.json", message.name)
    }

    /// The oldest files that are due, with the times of their calls, and how many are due in all.
    /// Other files are rejected.
    pub(crate) fn due_files(
        &mut self,
        files_max: usize,
        now: Time,
        summary: &mut SpoolSummary,
    ) -> (Vec<(Time, String)>, usize) {
        let names = self.dir.due_names(now, claim_file);
        let count = names.len();
        let names = names.into_iter().take(files_max);
        // The time within: another program may have written its file later than it happened.
        let timed = names.filter_map(|name| Some((self.read(&name, now, summary)?.at, name)));
        (timed.collect(), count)
    }

    /// The message in a file; `None` if it cannot be read now, or is dropped.
    pub(crate) fn read(
        &mut self,
        name: &str,
        now: Time,
        summary: &mut SpoolSummary,
    ) -> Option<HookMessage> {
        let parse = |text: &[u8]| parse_signal(name, text);
        let message = self.dir.read(name, SIGNAL_BYTES_MAX, now, summary, parse)?;
        if !is_older(message.at, now, RETENTION_MILLIS) {
            return Some(message);
        }
        // An old signal that was tried before waited in vain for its session. One that is old when
        // it is first seen is reported to the user instead.
        match self.dir.has_waited(name) {
            true => self.dir.remove_orphan(name, summary),
            false => self.dir.reject(name, "it is too old", now, summary),
        }
        None
    }
}

/// Renames a file that another program named after its session. That program may write the same
/// name again at any time, and the pass must not remove a signal it has not read.
fn claim_file(folder: &Path, name: String) -> Option<String> {
    if has_own_name(&name) {
        return Some(name);
    }
    let path = folder.join(&name);
    let metadata = fs::symlink_metadata(&path).ok()?;
    // The time and the inode make a name that two files cannot share.
    let nanos = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let own = format!("{:019}-{:08x}.{name}", nanos.max(0), metadata.ino() as u32);
    // If the new name is too long, or the folder read-only, the file stays and is not handled.
    fs::rename(&path, folder.join(&own)).ok()?;
    Some(own)
}
