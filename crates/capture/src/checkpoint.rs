//! How far a source was read, and what has to be known to go on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::SystemTime;

use event::{EventId, SessionId, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::event_builder::session_id;
use crate::limit::{
    COUNT_MAX, HEAD_BYTES, SETTLED_MILLIS, SILENCE_MILLIS, TAIL_BYTES, TORN_AFTER_MILLIS,
};
use crate::lineage::FileTimes;
use crate::source::{Source, hex};
use crate::thread_state::ThreadState;

/// Committed together with the events read up to it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checkpoint {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    /// How often the source began anew.
    pub generation: u32,
    /// Size and time of change when it was read last: with both unchanged there is no news.
    pub size: u64,
    pub changed: i64,
    /// When something was added last, in nanoseconds. To touch a file adds nothing.
    pub grown: i64,
    /// Behind the last record that was accepted.
    pub offset: u64,
    pub records: u64,
    /// What a file has to begin and, up to `offset`, to end with to be the same one.
    pub head: Fingerprint,
    pub tail: Fingerprint,
    /// Behind what was accepted, for a form that does not go by places in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<String>,
    /// What the database said of the session when it was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The incomplete last line that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<TornLine>,
    /// The agent deleted it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_missing: bool,
    /// Behind all that tells whether there is news: see [`CheckpointStat`](crate::checkpoint_stat::CheckpointStat).
    pub threads: BTreeMap<String, ThreadState>,
    /// The parser holds something back that is told when more comes, or nothing ever will.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds: bool,
    /// What the parser gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A last line that was never finished, as far as anybody knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TornLine {
    pub length: u64,
    pub event_id: EventId,
}

/// Some bytes, told by their hash.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub length: u64,
    pub hash: String,
}

/// The key of a source and its checkpoint, parsed and as it is recorded.
pub(crate) type RecordedCheckpoint = (String, Checkpoint, String);

impl Checkpoint {
    /// What was recorded; `None` for what nobody can go on from.
    pub(crate) fn parse(text: &str) -> Option<Checkpoint> {
        serde_json::from_str(text).ok().filter(Checkpoint::is_sound)
    }

    /// Whether its numbers can be those of a file, and counted on.
    fn is_sound(&self) -> bool {
        let counts = [self.offset, self.records, self.size].into_iter();
        let epochs = self.threads.values().map(|thread| thread.epoch);
        counts.chain(epochs).all(|count| count <= COUNT_MAX)
            && self.generation < u32::MAX
            && self.head.length <= HEAD_BYTES as u64
            && self.tail.length <= (TAIL_BYTES as u64).min(self.offset)
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("positions always encode")
    }

    /// Whether any event came of it: before that, its sessions may still turn out to be forks.
    pub(crate) fn has_told(&self) -> bool {
        self.threads.values().any(|thread| thread.is_started)
    }

    /// Whether an epoch is open to which nobody has added for so long that it is over.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        let silence = i128::from(SILENCE_MILLIS) * 1_000_000;
        // Positions of old do not say when.
        let grown = if self.grown == 0 { self.changed } else { self.grown };
        now.nanos() - i128::from(grown) >= silence
            && self.threads.values().any(|thread| thread.epoch_from.is_some())
    }

    /// Notes when something was added: to a file when it was changed, to a session in a database
    /// when it was said. A file that grew no more was not added to later than it was changed.
    pub(crate) fn grow(
        &mut self,
        source: &Source,
        metadata: &Metadata,
        has_grown: bool,
        now: Time,
    ) {
        let said = || self.threads.values().filter_map(|thread| thread.last_at).max();
        let grown = match source.digest {
            // A clock that runs ahead puts nothing off.
            Some(_) => said().unwrap_or(now).min(now).nanos(),
            None => i128::from(changed(metadata)),
        };
        let grown = i64::try_from(grown).unwrap_or(i64::MAX);
        self.grown = if has_grown { grown } else { self.grown.min(grown) };
    }

    /// What the file system knows the file by.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    pub(crate) fn see(&mut self, metadata: &Metadata) {
        (self.device, self.inode) = file_of(metadata);
        self.size = metadata.size();
        self.changed = changed(metadata);
        self.is_missing = false;
    }

    /// Whether the file still begins as it did, up to where it was read.
    pub(crate) fn fits(&self, file: &File, size: u64) -> io::Result<bool> {
        Ok(size >= self.offset
            && self.head == print(file, 0, self.head.length)?
            && self.tail == print(file, self.offset - self.tail.length, self.tail.length)?)
    }

    /// Moves behind the records up to `offset`.
    pub(crate) fn advance(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.offset = offset;
        if self.head.length < HEAD_BYTES as u64 {
            self.head = print(file, 0, offset.min(HEAD_BYTES as u64))?;
        }
        let length = offset.min(TAIL_BYTES as u64);
        self.tail = print(file, offset - length, length)?;
        Ok(())
    }

    /// Whether a file that is compressed is still the one it was: places in it are not those in
    /// its text, so that it is told by both of its ends.
    pub(crate) fn fits_packed(&self, file: &File, size: u64) -> io::Result<bool> {
        Ok(self.head.length > 0
            && self.head == print(file, 0, self.head.length)?
            && size >= self.tail.length
            && self.tail == print(file, size - self.tail.length, self.tail.length)?)
    }

    /// Notes what a compressed file looks like.
    pub(crate) fn print_packed(&mut self, file: &File, size: u64) -> io::Result<()> {
        self.head = print(file, 0, size.min(HEAD_BYTES as u64))?;
        let length = size.min(TAIL_BYTES as u64).min(self.offset);
        self.tail = print(file, size - length, length)?;
        Ok(())
    }

    /// The same source, begun anew.
    pub(crate) fn renewed(&self) -> Checkpoint {
        Checkpoint {
            path: self.path.clone(),
            generation: self.generation + 1,
            ..Checkpoint::default()
        }
    }
}

/// The sessions whose agents deleted what they wrote, from all sources there are.
pub fn sessions_without_source(sources: &[(String, String)]) -> BTreeSet<SessionId> {
    /// What is read of a position here; the rest is skipped, which is most of it.
    #[derive(Deserialize)]
    struct Place {
        #[serde(default)]
        is_missing: bool,
        #[serde(default)]
        threads: BTreeMap<String, serde::de::IgnoredAny>,
    }
    let mut gone = BTreeSet::new();
    let mut there = BTreeSet::new();
    for (key, checkpoint) in sources {
        let Ok(checkpoint) = serde_json::from_str::<Place>(checkpoint) else { continue };
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        let sessions = checkpoint.threads.keys().map(|session| session_id(provider, session));
        if checkpoint.is_missing { &mut gone } else { &mut there }.extend(sessions);
    }
    gone.retain(|session| !there.contains(session));
    gone
}

/// The sessions each source told of, by the name its originals are kept under.
pub fn sessions_by_source(sources: &[(String, String)]) -> Vec<(String, Vec<SessionId>)> {
    let told = sources.iter().filter_map(|(key, checkpoint)| {
        let (provider, name) = key.split_once(':')?;
        let threads = Checkpoint::parse(checkpoint)?.threads;
        let sessions = threads.keys().map(|session| session_id(provider, session));
        Some((name.to_owned(), sessions.collect()))
    });
    told.collect()
}

/// The file a session was read from last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFile {
    /// The key of the source, by which the journal knows how far it was read.
    pub source: String,
    pub path: PathBuf,
    /// Its size when it was read: a longer one has news.
    pub size: u64,
}

/// The files that tell of one session each, by session. A database tells of many, and when it was
/// written says nothing about one of them.
pub fn files_of_sessions(sources: &[(String, String)]) -> BTreeMap<SessionId, SessionFile> {
    sources.iter().filter_map(|(key, checkpoint)| file_of_session(key, checkpoint)).collect()
}

/// The session that a source tells of and its file, if it is the only one there.
pub fn file_of_session(source: &str, checkpoint: &str) -> Option<(SessionId, SessionFile)> {
    /// What is read of a position here; the rest is skipped.
    #[derive(Deserialize)]
    struct Place {
        path: PathBuf,
        #[serde(default)]
        size: u64,
        #[serde(default)]
        watermark: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        threads: BTreeMap<String, serde::de::IgnoredAny>,
    }
    let (provider, _) = source.split_once(':')?;
    let place: Place = serde_json::from_str(checkpoint).ok()?;
    if place.watermark.is_some() || place.threads.len() != 1 {
        return None;
    }
    let (session, _) = place.threads.first_key_value()?;
    let file = SessionFile { source: source.to_owned(), path: place.path, size: place.size };
    Some((session_id(provider, session), file))
}

/// What the file system knows a file by, wherever it lies.
pub(crate) fn file_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether nobody has written for so long that a line which is not finished will not be.
pub(crate) fn is_quiet(metadata: &Metadata, now: Time) -> bool {
    is_older(metadata, now, TORN_AFTER_MILLIS)
}

/// Whether what was written is there to stay: a copy that was begun has been made.
pub(crate) fn is_settled(metadata: &Metadata, now: Time) -> bool {
    is_older(metadata, now, SETTLED_MILLIS)
}

/// Whether the last change is at least so long ago.
pub(crate) fn is_older(metadata: &Metadata, now: Time, millis: i64) -> bool {
    let age = now.nanos() - i128::from(changed(metadata));
    age >= i128::from(millis) * 1_000_000
}

/// When the file was changed last, in nanoseconds.
pub(crate) fn changed(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

pub(crate) fn file_times(metadata: &Metadata) -> FileTimes {
    FileTimes { changed: changed(metadata), made: made(metadata) }
}

/// When the file was made, in nanoseconds. A system that does not know gives its last change.
fn made(metadata: &Metadata) -> i64 {
    let created = metadata.created().ok();
    let created = created.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let created = created.and_then(|since| i64::try_from(since.as_nanos()).ok());
    created.unwrap_or_else(|| changed(metadata))
}

pub(crate) fn print(file: &File, offset: u64, length: u64) -> io::Result<Fingerprint> {
    if length == 0 {
        return Ok(Fingerprint::default());
    }
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => {}
        // Shorter than it was: a print that fits nothing.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Fingerprint::default());
        }
        Err(error) => return Err(error),
    }
    Ok(Fingerprint { length, hash: hex(&Sha256::digest(&bytes)[..8]) })
}
