//! Signals: how a hook speaks to whoever reads what agents write, without waiting for anybody.
//!
//! A signal is one file in `signals/` of the journal's folder: a queue, never one slot per session.
//! Whoever handles it reads the session to its end, records what only the signal tells, and removes
//! the file last. What comes of a signal depends on how far the session has got, so one that is
//! handled again after a crash has no second effect.
//!
//! Not here: what a signal does to a session (`capture`), the clock.

mod signal; // one signal, as it is written

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capture::{CaptureError, Heeded, Sign, SignKind};
use event::Time;

pub use signal::Signal;
use signal::{BYTES_MAX, Refused};

/// Signals handled in one round. When there are more, the rest waits for the next one.
const ROUND_MAX: usize = 1_000;

/// How long a signal may wait for its session to be known, and what was refused is left to look at.
const KEPT_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// How far a hook's clock may be ahead of ours.
const AHEAD_MILLIS: i64 = 60 * 1_000;

/// A file that is younger may still be written, by somebody who does not write it at once.
const WRITTEN_MILLIS: i64 = 2_000;

/// A signal that could not be handled is tried again after this long, then after twice as long.
const RETRY_MILLIS: i64 = 1_000;
const RETRY_MILLIS_MAX: i64 = 5 * 60 * 1_000;

/// The folder of signals.
#[derive(Debug)]
pub struct Signals {
    folder: PathBuf,
    /// Those that could not be handled yet: when to try again, and the pause before that.
    later: BTreeMap<String, (Time, i64)>,
}

/// What came of one round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Round {
    pub handled: u64,
    /// Signals of sessions that nobody ever came to know.
    pub orphaned: u64,
    /// What is no signal, and why. It was moved aside.
    pub refused: Vec<(String, &'static str)>,
}

impl Signals {
    /// The signals of the journal in this folder.
    pub fn of(journal: &Path) -> Signals {
        Signals { folder: journal.join("signals"), later: BTreeMap::new() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, for its owner only.
    pub fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Leaves a signal. It is there whole or not at all. `dice` tells apart what is left at the
    /// same instant.
    pub fn leave(&self, signal: &Signal, now: Time, dice: [u8; 4]) -> io::Result<()> {
        self.make()?;
        let dice = u32::from_be_bytes(dice);
        let name = format!("{:019}-{dice:08x}.json", now.nanos().max(0));
        let beside = self.folder.join(format!(".{name}.tmp"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(signal.encode().as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, self.folder.join(name))
    }

    /// Handles what waits, in the order it happened. A signal stays until `heed` is done with it.
    pub fn handle(
        &mut self,
        now: Time,
        heed: &mut dyn FnMut(&Sign<'_>) -> Result<Heeded, CaptureError>,
    ) -> Result<Round, CaptureError> {
        let mut round = Round::default();
        let waiting = self.waiting(now, &mut round);
        for (place, (name, signal)) in waiting.iter().enumerate() {
            let is_followed = waiting[place + 1..].iter().any(|(_, later)| {
                later.is_of_session(signal)
                    && matches!(later.kind, SignKind::Clear | SignKind::Stop)
            });
            match heed(&Sign { is_followed, ..signal.sign(name) })? {
                Heeded::Done => {
                    round.handled += 1;
                    self.remove(name);
                }
                Heeded::Unknown | Heeded::Waits => self.put_off(name, now),
            }
        }
        Ok(round)
    }

    /// The signals that are due, by time and name. What is none is moved aside.
    fn waiting(&mut self, now: Time, round: &mut Round) -> Vec<(String, Signal)> {
        let names = self.names(now);
        let mut waiting = Vec::new();
        for name in names.into_iter().take(ROUND_MAX) {
            match self.read(&name, now) {
                Ok(Some(signal)) if !is_older(signal.at, now, KEPT_MILLIS) => {
                    waiting.push((name, signal));
                }
                // It has waited for its session long enough.
                Ok(Some(_)) if self.later.contains_key(&name) => {
                    round.orphaned += 1;
                    self.remove(&name);
                }
                Ok(Some(_)) => self.refuse(name, "it is too old", now, round),
                Ok(None) => {}
                Err(Refused(why)) => self.refuse(name, why, now, round),
            }
        }
        waiting.sort_by(|(name, one), (other_name, other)| {
            (one.at, name).cmp(&(other.at, other_name))
        });
        waiting
    }

    /// The names of the files that are due, oldest first.
    fn names(&mut self, now: Time) -> Vec<String> {
        // A folder that is not there has no signals, and one that cannot be read none for us.
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut names = BTreeSet::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".json") && !name.starts_with('.') {
                names.extend(self.claim(name));
            }
        }
        self.later.retain(|name, _| names.contains(name));
        names.retain(|name| self.later.get(name).is_none_or(|(at, _)| *at <= now));
        names.into_iter().collect()
    }

    /// A file that others name after its session may be written again at any time. It gets a name
    /// of its own first, so that nothing is removed unseen.
    fn claim(&self, name: String) -> Option<String> {
        if signal::is_name(&name) {
            return Some(name);
        }
        let path = self.folder.join(&name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        let nanos =
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let own = format!("{:019}-{:08x}.{name}", nanos.max(0), metadata.ino() as u32);
        // A name that is too long, or a folder that cannot be written to: it stays where it is.
        fs::rename(&path, self.folder.join(&own)).ok()?;
        Some(own)
    }

    /// The signal in a file; `None` if it cannot be read now.
    fn read(&self, name: &str, now: Time) -> Result<Option<Signal>, Refused> {
        let path = self.folder.join(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(None) };
        if !metadata.is_file() {
            return Err(Refused("it is no file"));
        }
        let mut text = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
        if read.is_err() {
            return Ok(None);
        }
        let parsed = Signal::parse(name, &text).and_then(|signal| {
            match is_older(now, signal.at, AHEAD_MILLIS) {
                true => Err(Refused("its time is ahead")),
                false => Ok(signal),
            }
        });
        let written = Time::from_millis(metadata.mtime().saturating_mul(1_000));
        match parsed {
            Err(_) if !is_older(written, now, WRITTEN_MILLIS) => Ok(None),
            parsed => parsed.map(Some),
        }
    }

    fn remove(&mut self, name: &str) {
        self.later.remove(name);
        // One that stays is handled again, without effect.
        let _ = fs::remove_file(self.folder.join(name));
    }

    fn put_off(&mut self, name: &str, now: Time) {
        let pause = self.later.get(name).map_or(RETRY_MILLIS, |(_, pause)| pause.saturating_mul(2));
        let pause = pause.min(RETRY_MILLIS_MAX);
        let at = Time::from_millis((now.nanos() / 1_000_000) as i64 + pause);
        self.later.insert(name.to_owned(), (at, pause));
    }

    /// Moves what is no signal to where somebody may look at it for some days.
    fn refuse(&self, name: String, why: &'static str, now: Time, round: &mut Round) {
        let aside = self.folder.join("rejected");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
        for entry in fs::read_dir(&aside).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let left = name.to_str().and_then(signal::left_at);
            if left.is_none_or(|left| is_older(left, now, KEPT_MILLIS)) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let moved = made.and_then(|()| fs::rename(self.folder.join(&name), aside.join(&name)));
        // Its reason is a courtesy; that it is out of the way is what counts.
        if moved.is_ok() {
            let _ = fs::write(aside.join(format!("{name}.reason")), why);
        }
        round.refused.push((name, why));
    }
}

/// Whether a time lies at least so long before another.
fn is_older(at: Time, now: Time, millis: i64) -> bool {
    now.nanos() - at.nanos() >= i128::from(millis) * 1_000_000
}
