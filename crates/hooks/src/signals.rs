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

use capture::{CaptureError, SignalOutcome};
use event::{HookMessage, SignalKind, Time};

use signal::{SIGNAL_BYTES_MAX, encode_signal, has_own_name, parse_signal};

use crate::spool_dir::{RETENTION_MILLIS, Rejection, SpoolDir, SpoolSummary, is_older};

/// Signals handled in one pass. The others wait for the next pass.
const PASS_MAX: usize = 1_000;

/// The folder of signals.
#[derive(Debug)]
pub struct Signals {
    dir: SpoolDir,
}

impl Signals {
    /// The signals of the journal in this folder.
    pub fn in_journal(journal: &Path) -> Signals {
        Signals { dir: SpoolDir::new(journal.join("signals")) }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Creates the folder, for its owner only.
    pub fn create(&self) -> io::Result<()> {
        self.dir.create()
    }

    /// Adds the signal of a message as a file; nothing for a message without one.
    ///
    /// The file has the name of the message: adding it twice makes one file.
    pub fn add(&self, message: &HookMessage) -> io::Result<()> {
        let Some(text) = encode_signal(message) else { return Ok(()) };
        self.dir.write(&format!("{}.json", message.name), text.as_bytes())
    }

    /// Handles the waiting signals, oldest first. `apply` gets the message of a signal, and whether
    /// a clear or stop of the same session waits behind it. A file stays until it is done.
    pub fn handle(
        &mut self,
        now: Time,
        apply: &mut dyn FnMut(&HookMessage, bool) -> Result<SignalOutcome, CaptureError>,
    ) -> Result<SpoolSummary, CaptureError> {
        let mut summary = SpoolSummary::default();
        let waiting = self.read_waiting(now, &mut summary);
        for (index, (name, message)) in waiting.iter().enumerate() {
            // A pass holds at most `PASS_MAX` signals, so comparing all pairs is cheap.
            let is_followed = waiting[index + 1..].iter().any(|(_, later)| {
                later.is_of_session(message)
                    && matches!(later.signal, Some(SignalKind::Clear | SignalKind::Stop))
            });
            match apply(message, is_followed)? {
                SignalOutcome::Done => {
                    summary.handled += 1;
                    self.dir.remove(name);
                }
                SignalOutcome::UnknownSession | SignalOutcome::Pending => {
                    self.dir.retry_later(name, now);
                }
            }
        }
        Ok(summary)
    }

    /// The signals that are due, by time and name, with their file names. Other files are rejected.
    fn read_waiting(
        &mut self,
        now: Time,
        summary: &mut SpoolSummary,
    ) -> Vec<(String, HookMessage)> {
        let mut waiting = Vec::new();
        for name in self.dir.due_names(now, claim_file).into_iter().take(PASS_MAX) {
            let parse = |text: &[u8]| {
                let message = parse_signal(&name, text)?;
                let at = message.at;
                Ok((message, at))
            };
            match self.dir.read(&name, SIGNAL_BYTES_MAX, now, parse) {
                Ok(Some((message, at))) if !is_older(at, now, RETENTION_MILLIS) => {
                    waiting.push((name, message));
                }
                // An old signal that was tried before waited in vain for its session.
                Ok(Some(_)) if self.dir.has_waited(&name) => {
                    summary.orphaned += 1;
                    self.dir.remove(&name);
                }
                // One that is old when it is first seen is reported to the user instead.
                Ok(Some(_)) => self.dir.reject(name, "it is too old", now, summary),
                Ok(None) => {}
                Err(Rejection(reason)) => self.dir.reject(name, reason, now, summary),
            }
        }
        // By the time within: another program may have written its file later than it happened.
        waiting.sort_by(|(name, one), (other_name, other)| {
            (one.at, name).cmp(&(other.at, other_name))
        });
        waiting
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
