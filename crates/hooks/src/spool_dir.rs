//! A folder of small files, each one message that waits to be ingested.
//!
//! A file appears whole or not at all, stays until its message is dealt with, and is removed last.
//! A file that is not a message is moved to `rejected/` once, where the user may look at it for a
//! week.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use event::{HookMessage, Time};

/// How long a file waits for its session to be known, and how long a rejected file is kept.
pub(crate) const RETENTION_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// How far the clock of another program may be ahead of ours.
const AHEAD_MILLIS: i64 = 60 * 1_000;

/// A program may write its file in place instead of renaming it. A file that does not parse and is
/// younger than this may still be incomplete.
const INCOMPLETE_MILLIS: i64 = 2_000;

/// The pause before the first retry, and the longest one. Each retry doubles the pause.
const RETRY_MILLIS: i64 = 1_000;
const RETRY_MILLIS_MAX: i64 = 5 * 60 * 1_000;

/// Tries of a message that the journal does not take for its own sake. Then its file is moved aside:
/// it fails the next time, too.
const TRIES_MAX: u32 = 5;

/// A folder of waiting files.
#[derive(Debug)]
pub(crate) struct SpoolDir {
    path: PathBuf,
    /// The files that could not be handled yet.
    retries: BTreeMap<String, Retry>,
}

/// A file that could not be handled yet.
#[derive(Debug)]
struct Retry {
    due_at: Time,
    /// The pause before that, in milliseconds.
    pause: i64,
    /// How often it failed by itself.
    failures: u32,
    /// Its message without the facts, which may be long.
    message: HookMessage,
}

/// What one pass over a folder did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpoolSummary {
    pub handled: u64,
    /// Files that were removed because their session never became known.
    pub orphaned: u64,
    /// Files that were moved aside, and why.
    pub rejected: Vec<(String, &'static str)>,
}

/// Why a file is not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rejection(pub &'static str);

impl SpoolDir {
    pub(crate) fn new(path: PathBuf) -> SpoolDir {
        SpoolDir { path, retries: BTreeMap::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder, for its owner only.
    pub(crate) fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Writes a file. It appears whole or not at all, also if this process is killed.
    ///
    /// The file is not synced, on purpose. The agent waits for the hook, and a sync takes longer
    /// than everything else the hook does. A power cut loses what was written in the last seconds:
    /// a question of an agent that went down with the machine, or the end of a turn or session,
    /// which the silence of the session shows later.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Hidden and not `.json`: `due_names` passes it over. The process id keeps two writers of
        // the same message apart, and a writer from the leftovers of one that was killed.
        let temporary = self.path.join(format!(".{name}.{}.tmp", std::process::id()));
        // `create_new` fails at a link or a file of another process instead of writing into it.
        let create =
            || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        // The folder is nearly always there, so it is created only when that turns out wrong.
        let mut file = create().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => self.create().and_then(|()| create()),
            // Only a killed process that had the same id can have left it.
            io::ErrorKind::AlreadyExists => fs::remove_file(&temporary).and_then(|()| create()),
            _ => Err(error),
        })?;
        // The rename is the moment from which a pass sees the file.
        let renamed = || fs::rename(&temporary, self.path.join(name));
        let written = file.write_all(bytes).and_then(|()| renamed());
        if written.is_err() {
            // Nothing would ever remove half a file.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// The names of the files that are due, oldest first. `claim` may rename a file before that.
    pub(crate) fn due_names(
        &mut self,
        now: Time,
        claim: impl Fn(&Path, String) -> Option<String>,
    ) -> Vec<String> {
        // A missing or unreadable folder counts as empty: the next pass tries again.
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        // Names begin with the time, so the order of names is the order of time.
        let mut names = BTreeSet::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".json") && !name.starts_with('.') {
                names.extend(claim(&self.path, name));
            }
        }
        // Files that were removed by another process need no retry.
        self.retries.retain(|name, _| names.contains(name));
        names.retain(|name| self.retries.get(name).is_none_or(|retry| retry.due_at <= now));
        names.into_iter().collect()
    }

    /// The message in a file; `None` if it cannot be read now. A file that is no message is rejected.
    pub(crate) fn read(
        &self,
        name: &str,
        bytes_max: u64,
        now: Time,
        summary: &mut SpoolSummary,
        parse: impl FnOnce(&[u8]) -> Result<HookMessage, Rejection>,
    ) -> Option<HookMessage> {
        let path = self.path.join(name);
        // Not followed: a link planted in the folder could lead to any file of the user.
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() {
            self.reject(name, "it is no file", now, summary);
            return None;
        }
        let mut text = Vec::new();
        // One byte more than allowed tells a file that is too long from one that just fits.
        let file = File::open(&path).ok()?;
        file.take(bytes_max + 1).read_to_end(&mut text).ok()?;
        let parsed = match text.len() as u64 > bytes_max {
            true => Err(Rejection("it is too long")),
            false => parse(&text),
        };
        // A time far ahead would sort the message behind all others for ever.
        let parsed = parsed.and_then(|message| match is_older(now, message.at, AHEAD_MILLIS) {
            true => Err(Rejection("its time is ahead")),
            false => Ok(message),
        });
        match parsed {
            Ok(message) => Some(message),
            // Still being written, perhaps: the next pass reads it again.
            Err(_) if !is_older(modified_at(&metadata), now, INCOMPLETE_MILLIS) => None,
            Err(Rejection(reason)) => {
                self.reject(name, reason, now, summary);
                None
            }
        }
    }

    /// Whether a file was due before and could not be handled.
    pub(crate) fn has_waited(&self, name: &str) -> bool {
        self.retries.contains_key(name)
    }

    fn remove(&mut self, name: &str) {
        self.retries.remove(name);
        // If the file stays, its message is ingested again, without effect.
        let _ = fs::remove_file(self.path.join(name));
    }

    /// Removes a file whose message is done with.
    pub(crate) fn finish(&mut self, name: &str, summary: &mut SpoolSummary) {
        summary.handled += 1;
        self.remove(name);
    }

    /// Removes a file whose session never became known.
    pub(crate) fn remove_orphan(&mut self, name: &str, summary: &mut SpoolSummary) {
        summary.orphaned += 1;
        self.remove(name);
    }

    /// Takes note that a message failed by itself; returns whether its file was moved aside.
    pub(crate) fn fail(
        &mut self,
        name: String,
        message: HookMessage,
        now: Time,
        summary: &mut SpoolSummary,
    ) -> bool {
        let failures = self.retries.get(&name).map_or(0, |retry| retry.failures) + 1;
        if failures >= TRIES_MAX {
            self.retries.remove(&name);
            self.reject(&name, "the journal does not take it", now, summary);
            return true;
        }
        self.retry_later(name.clone(), message, now);
        if let Some(retry) = self.retries.get_mut(&name) {
            retry.failures = failures;
        }
        false
    }

    pub(crate) fn retry_later(&mut self, name: String, message: HookMessage, now: Time) {
        let known = self.retries.get(&name);
        let (last_pause, failures) =
            (known.map(|retry| retry.pause), known.map_or(0, |retry| retry.failures));
        let pause = last_pause.map_or(RETRY_MILLIS, |pause| pause.saturating_mul(2));
        // Bounded, so that a session that appears after hours gets its signals within minutes.
        let pause = pause.min(RETRY_MILLIS_MAX);
        let due_at = Time::from_millis((now.nanos() / 1_000_000) as i64 + pause);
        let message = HookMessage { facts: Vec::new(), ..message };
        self.retries.insert(name, Retry { due_at, pause, failures, message });
    }

    /// The files with earlier messages of the same session that were tried before.
    pub(crate) fn waiting_before(&self, message: &HookMessage) -> Vec<(Time, String)> {
        let waiting = self.retries.iter().filter(|(_, Retry { message: earlier, .. })| {
            let is_earlier = (earlier.at, &earlier.name) < (message.at, &message.name);
            is_earlier && earlier.is_of_session(message)
        });
        waiting.map(|(name, retry)| (retry.message.at, name.clone())).collect()
    }

    /// Moves a file to `rejected/`, with the reason beside it, and removes old rejected files.
    pub(crate) fn reject(
        &self,
        name: &str,
        reason: &'static str,
        now: Time,
        summary: &mut SpoolSummary,
    ) {
        let folder = self.path.join("rejected");
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        // Whenever one is added, old ones are removed: the folder cannot grow without limit.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let written = name.to_str().and_then(time_in_name);
            if written.is_none_or(|written| is_older(written, now, RETENTION_MILLIS)) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let moved = created.and_then(|()| fs::rename(self.path.join(name), folder.join(name)));
        if moved.is_ok() {
            // Only for the user to read; a missing reason harms nothing.
            let _ = fs::write(folder.join(format!("{name}.reason")), reason);
        }
        summary.rejected.push((name.to_owned(), reason));
    }
}

/// Whether a time lies at least so long before another.
pub(crate) fn is_older(at: Time, now: Time, millis: i64) -> bool {
    now.nanos() - at.nanos() >= i128::from(millis) * 1_000_000
}

/// The time at the start of a file's name.
pub(crate) fn time_in_name(name: &str) -> Option<Time> {
    name.get(..19)?.parse().ok().map(Time::from_nanos)
}

fn modified_at(metadata: &Metadata) -> Time {
    Time::from_millis(metadata.mtime().saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_writer_block_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = SpoolDir::new(folder.path().to_owned());
        for leftover in [".a.json.tmp".to_owned(), format!(".a.json.{}.tmp", std::process::id())] {
            fs::write(folder.path().join(leftover), "{").unwrap();
        }
        dir.write("a.json", b"{}").unwrap();
        assert_eq!(fs::read(folder.path().join("a.json")).unwrap(), b"{}");
    }
}
