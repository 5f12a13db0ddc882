//! Signals: how a hook speaks to whoever reads what agents write, without waiting for anybody.
//!
//! A signal is one file in `signals/` of the journal's folder: a queue, never one slot per session.
//! Whoever handles it reads the session to its end, records what only the signal tells, and removes
//! the file last. What comes of a signal depends on how far the session has got, so one that is
//! handled again after a crash has no second effect.
//!
//! Not here: what a signal does to a session (`capture`), the clock.

mod signal; // one signal, as it is written

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capture::{CaptureError, SessionSignal, SignalKind, SignalOutcome};
use event::Time;

pub use signal::Signal;
use signal::{BYTES_MAX, is_name};
pub use signal::{kind, word};

use crate::spool_dir::{KEPT_MILLIS, Rejection, SpoolDir, SpoolSummary, is_older, stamp};

/// Signals handled in one round. When there are more, the rest waits for the next one.
const ROUND_MAX: usize = 1_000;

/// The folder of signals.
#[derive(Debug)]
pub struct Signals {
    spool_dir: SpoolDir,
}

impl Signals {
    /// The signals of the journal in this folder.
    pub fn of(journal: &Path) -> Signals {
        Signals { spool_dir: SpoolDir::new(journal.join("signals")) }
    }

    pub fn folder(&self) -> &Path {
        self.spool_dir.folder()
    }

    /// Makes the folder, for its owner only.
    pub fn make(&self) -> io::Result<()> {
        self.spool_dir.make()
    }

    /// Leaves a signal. It is there whole or not at all. `dice` tells apart what is left at the
    /// same instant.
    pub fn leave(&self, signal: &Signal, now: Time, dice: [u8; 4]) -> io::Result<()> {
        self.leave_as(&stamp(now, dice), signal)
    }

    /// The same for one who has a name for it.
    pub fn leave_as(&self, name: &str, signal: &Signal) -> io::Result<()> {
        self.spool_dir.leave(&format!("{name}.json"), signal.encode().as_bytes())
    }

    /// Handles what waits, in the order it happened. A signal stays until `apply_signal` is done with it.
    pub fn handle(
        &mut self,
        now: Time,
        apply_signal: &mut dyn FnMut(&SessionSignal<'_>) -> Result<SignalOutcome, CaptureError>,
    ) -> Result<SpoolSummary, CaptureError> {
        let mut round = SpoolSummary::default();
        let waiting = self.waiting(now, &mut round);
        for (place, (name, signal)) in waiting.iter().enumerate() {
            let is_followed = waiting[place + 1..].iter().any(|(_, later)| {
                later.is_of_session(signal)
                    && matches!(later.kind, SignalKind::Clear | SignalKind::Stop)
            });
            match apply_signal(&SessionSignal { is_followed, ..signal.sign(name) })? {
                SignalOutcome::Done => {
                    round.handled += 1;
                    self.spool_dir.remove(name);
                }
                SignalOutcome::UnknownSession | SignalOutcome::Pending => {
                    self.spool_dir.put_off(name, now)
                }
            }
        }
        Ok(round)
    }

    /// The signals that are due, by time and name. What is none is moved aside.
    fn waiting(&mut self, now: Time, round: &mut SpoolSummary) -> Vec<(String, Signal)> {
        let mut waiting = Vec::new();
        for name in self.spool_dir.names(now, claim).into_iter().take(ROUND_MAX) {
            let parse = |text: &[u8]| {
                let signal = Signal::parse(&name, text)?;
                let at = signal.at;
                Ok((signal, at))
            };
            match self.spool_dir.read(&name, BYTES_MAX, now, parse) {
                Ok(Some((signal, at))) if !is_older(at, now, KEPT_MILLIS) => {
                    waiting.push((name, signal));
                }
                // It has waited for its session long enough.
                Ok(Some(_)) if self.spool_dir.has_waited(&name) => {
                    round.orphaned += 1;
                    self.spool_dir.remove(&name);
                }
                Ok(Some(_)) => self.spool_dir.refuse(name, "it is too old", now, round),
                Ok(None) => {}
                Err(Rejection(why)) => self.spool_dir.refuse(name, why, now, round),
            }
        }
        waiting.sort_by(|(name, one), (other_name, other)| {
            (one.at, name).cmp(&(other.at, other_name))
        });
        waiting
    }
}

/// A file that others name after its session may be written again at any time. It gets a name of
/// its own first, so that nothing is removed unseen.
fn claim(folder: &Path, name: String) -> Option<String> {
    if is_name(&name) {
        return Some(name);
    }
    let path = folder.join(&name);
    let metadata = fs::symlink_metadata(&path).ok()?;
    let nanos = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let own = format!("{:019}-{:08x}.{name}", nanos.max(0), metadata.ino() as u32);
    // A name that is too long, or a folder that cannot be written to: it stays where it is.
    fs::rename(&path, folder.join(&own)).ok()?;
    Some(own)
}
