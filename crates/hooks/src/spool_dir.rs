//! A folder in which somebody leaves small files for us: each is there whole or not at all, is
//! handled in its turn, stays until it is dealt with, and is removed last. What is of no use is
//! moved aside once, where somebody may look at it for some days.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use event::Time;

/// How long a file may wait for its session to be known, and what was refused is left to look at.
pub(crate) const KEPT_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// How far somebody else's clock may be ahead of ours.
const AHEAD_MILLIS: i64 = 60 * 1_000;

/// A file that is younger may still be written, by somebody who does not write it at once.
const WRITTEN_MILLIS: i64 = 2_000;

/// What could not be handled is tried again after this long, then after twice as long.
const RETRY_MILLIS: i64 = 1_000;
const RETRY_MILLIS_MAX: i64 = 5 * 60 * 1_000;

/// A folder of files that wait.
#[derive(Debug)]
pub(crate) struct SpoolDir {
    folder: PathBuf,
    /// Those that could not be handled yet: when to try again, and the pause before that.
    later: BTreeMap<String, (Time, i64)>,
}

/// What came of one round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpoolSummary {
    pub handled: u64,
    /// Files about sessions that nobody ever came to know.
    pub orphaned: u64,
    /// What is of no use, and why. It was moved aside.
    pub refused: Vec<(String, &'static str)>,
}

/// Why something is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rejection(pub &'static str);

impl SpoolDir {
    pub(crate) fn new(folder: PathBuf) -> SpoolDir {
        SpoolDir { folder, later: BTreeMap::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, for its owner only.
    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Leaves a file: there whole or not at all, whoever is killed meanwhile.
    ///
    /// It is not synced, on purpose. An agent waits for whoever leaves it, and a sync takes longer
    /// than everything else it does together. What a power cut takes is what was left in the last
    /// seconds before it: a question of an agent that went with the machine, or the end of a turn
    /// or session, which its silence tells later.
    pub(crate) fn leave(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = self.folder.join(format!(".{name}.tmp"));
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
        let mut file = create().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => self.make().and_then(|()| create()),
            _ => Err(error),
        })?;
        let left = file.write_all(bytes).and_then(|()| fs::rename(&beside, self.folder.join(name)));
        if left.is_err() {
            // Half a file is nobody's, and takes room.
            let _ = fs::remove_file(&beside);
        }
        left
    }

    /// The names of the files that are due, oldest first. `claim` may give one another name.
    pub(crate) fn names(
        &mut self,
        now: Time,
        claim: impl Fn(&Path, String) -> Option<String>,
    ) -> Vec<String> {
        // A folder that is not there has no files, and one that cannot be read none for us.
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut names = BTreeSet::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".json") && !name.starts_with('.') {
                names.extend(claim(&self.folder, name));
            }
        }
        self.later.retain(|name, _| names.contains(name));
        names.retain(|name| self.later.get(name).is_none_or(|(at, _)| *at <= now));
        names.into_iter().collect()
    }

    /// What a file says; `None` if it cannot be read now.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        bytes_max: u64,
        now: Time,
        parse: impl FnOnce(&[u8]) -> Result<(T, Time), Rejection>,
    ) -> Result<Option<(T, Time)>, Rejection> {
        let path = self.folder.join(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(None) };
        if !metadata.is_file() {
            return Err(Rejection("it is no file"));
        }
        let mut text = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut text));
        if read.is_err() {
            return Ok(None);
        }
        let parsed = match text.len() as u64 > bytes_max {
            true => Err(Rejection("it is too long")),
            false => parse(&text),
        };
        let parsed = parsed.and_then(|(parsed, at)| match is_older(now, at, AHEAD_MILLIS) {
            true => Err(Rejection("its time is ahead")),
            false => Ok((parsed, at)),
        });
        match parsed {
            Err(_) if !is_older(written_at(&metadata), now, WRITTEN_MILLIS) => Ok(None),
            parsed => parsed.map(Some),
        }
    }

    /// Whether a file was looked at before and could not be handled.
    pub(crate) fn has_waited(&self, name: &str) -> bool {
        self.later.contains_key(name)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.later.remove(name);
        // One that stays is handled again, without effect.
        let _ = fs::remove_file(self.folder.join(name));
    }

    pub(crate) fn put_off(&mut self, name: &str, now: Time) {
        let pause = self.later.get(name).map_or(RETRY_MILLIS, |(_, pause)| pause.saturating_mul(2));
        let pause = pause.min(RETRY_MILLIS_MAX);
        let at = Time::from_millis((now.nanos() / 1_000_000) as i64 + pause);
        self.later.insert(name.to_owned(), (at, pause));
    }

    /// Moves what is of no use to where somebody may look at it.
    pub(crate) fn refuse(
        &self,
        name: String,
        why: &'static str,
        now: Time,
        round: &mut SpoolSummary,
    ) {
        let aside = self.folder.join("rejected");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
        for entry in fs::read_dir(&aside).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let left = name.to_str().and_then(left_at);
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

/// A name that sorts by time. `dice` tells apart what is left at the same instant.
pub fn stamp(now: Time, dice: [u8; 4]) -> String {
    format!("{:019}-{:08x}", now.nanos().max(0), u32::from_be_bytes(dice))
}

/// Whether a time lies at least so long before another.
pub(crate) fn is_older(at: Time, now: Time, millis: i64) -> bool {
    now.nanos() - at.nanos() >= i128::from(millis) * 1_000_000
}

/// When a file was left, as its name says.
fn left_at(name: &str) -> Option<Time> {
    name.get(..19)?.parse().ok().map(Time::from_nanos)
}

fn written_at(metadata: &Metadata) -> Time {
    Time::from_millis(metadata.mtime().saturating_mul(1_000))
}
