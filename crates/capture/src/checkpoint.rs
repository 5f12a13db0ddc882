//! How far a source was read, and the state that reading goes on with.

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
    COUNT_MAX, HEAD_BYTES, QUIET_MILLIS, SETTLED_MILLIS, SILENCE_MILLIS, TAIL_BYTES,
};
use crate::lineage::FileTimes;
use crate::source::{Source, encode_hex};
use crate::thread_state::ThreadState;

/// The durable offset of a source. The sink commits it together with the events before it.
///
/// Field names and their order are a stored format: [`CheckpointStat`] reads the fields before
/// `threads` without the rest.
///
/// [`CheckpointStat`]: crate::checkpoint_stat::CheckpointStat
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checkpoint {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    /// How often the source was replaced or truncated and began anew.
    pub generation: u32,
    /// Size and time of change at the last read. While both are unchanged there is no news.
    pub size: u64,
    pub changed: i64,
    /// When the source grew last, in nanoseconds. Touching a file is no growth.
    pub grown: i64,
    /// The offset behind the last record that was parsed.
    pub offset: u64,
    pub records: u64,
    /// The first bytes of the file and the last bytes before `offset`. A file with other bytes there
    /// is another file.
    pub head: Fingerprint,
    pub tail: Fingerprint,
    /// The same as `offset` for a form without offsets in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<String>,
    /// The digest of the session in its database when it was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The incomplete last line, if an event reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<TornLine>,
    /// The source was deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_missing: bool,
    /// The sessions of the source, by the provider's id.
    pub threads: BTreeMap<String, ThreadState>,
    /// The parser holds an event back until the next record, or until the source is quiet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds: bool,
    /// The state of the parser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// An incomplete last line that stayed so for long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TornLine {
    pub length: u64,
    pub event_id: EventId,
}

/// The length and the hash of some bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub length: u64,
    pub hash: String,
}

/// The key of a source and its checkpoint, parsed and as it is recorded.
pub(crate) type RecordedCheckpoint = (String, Checkpoint, String);

impl Checkpoint {
    /// Parses the recorded text; `None` if reading cannot go on from it.
    pub(crate) fn parse(text: &str) -> Option<Checkpoint> {
        serde_json::from_str(text).ok().filter(Checkpoint::is_plausible)
    }

    /// Whether its numbers can be those of a file, and can be added up without overflow.
    fn is_plausible(&self) -> bool {
        // A damaged checkpoint must not make `offset - tail.length` or `generation + 1` overflow.
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

    /// Whether an event came of it. Before that, its sessions may still turn out to be forks.
    pub(crate) fn has_events(&self) -> bool {
        self.threads.values().any(|thread| thread.is_started)
    }

    /// Whether an epoch is open and nothing was added for so long that it is over.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        let silence = i128::from(SILENCE_MILLIS) * 1_000_000;
        // Checkpoints of earlier versions lack the field.
        let grown = if self.grown == 0 { self.changed } else { self.grown };
        now.nanos() - i128::from(grown) >= silence
            && self.threads.values().any(|thread| thread.epoch_from.is_some())
    }

    /// Notes when the source grew: for a file its last change, for a session in a database the time
    /// of its last event. Without growth the time never moves forward.
    pub(crate) fn note_growth(
        &mut self,
        source: &Source,
        metadata: &Metadata,
        has_grown: bool,
        now: Time,
    ) {
        let said = || self.threads.values().filter_map(|thread| thread.last_at).max();
        let grown = match source.digest {
            // The agent's clock may run ahead; an epoch must not stay open because of it.
            Some(_) => said().unwrap_or(now).min(now).nanos(),
            None => i128::from(changed_at(metadata)),
        };
        let grown = i64::try_from(grown).unwrap_or(i64::MAX);
        self.grown = if has_grown { grown } else { self.grown.min(grown) };
    }

    /// Device and inode.
    pub(crate) fn file_identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    pub(crate) fn note_file(&mut self, metadata: &Metadata) {
        (self.device, self.inode) = identify_file(metadata);
        self.size = metadata.size();
        self.changed = changed_at(metadata);
        self.is_missing = false;
    }

    /// Whether the file is still the one that was read, up to the offset.
    pub(crate) fn matches_file(&self, file: &File, size: u64) -> io::Result<bool> {
        // A shorter file was truncated. Both ends together show that a file was rewritten, without
        // reading all of it.
        Ok(size >= self.offset
            && self.head == fingerprint(file, 0, self.head.length)?
            && self.tail == fingerprint(file, self.offset - self.tail.length, self.tail.length)?)
    }

    /// Moves the checkpoint to `offset`.
    pub(crate) fn advance(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.offset = offset;
        // Once the head has its full length it never changes while the file is the same.
        if self.head.length < HEAD_BYTES as u64 {
            self.head = fingerprint(file, 0, offset.min(HEAD_BYTES as u64))?;
        }
        let length = offset.min(TAIL_BYTES as u64);
        self.tail = fingerprint(file, offset - length, length)?;
        Ok(())
    }

    /// Whether a compressed file is still the one that was read. Offsets are those of its text, so
    /// both ends of the file itself are compared.
    pub(crate) fn matches_packed(&self, file: &File, size: u64) -> io::Result<bool> {
        Ok(self.head.length > 0
            && self.head == fingerprint(file, 0, self.head.length)?
            && size >= self.tail.length
            && self.tail == fingerprint(file, size - self.tail.length, self.tail.length)?)
    }

    /// Notes both ends of a compressed file.
    pub(crate) fn note_packed(&mut self, file: &File, size: u64) -> io::Result<()> {
        self.head = fingerprint(file, 0, size.min(HEAD_BYTES as u64))?;
        // Also bounded by the offset, because `is_plausible` refuses a longer tail.
        let length = size.min(TAIL_BYTES as u64).min(self.offset);
        self.tail = fingerprint(file, size - length, length)?;
        Ok(())
    }

    /// The first checkpoint of the next generation of the source.
    pub(crate) fn restarted(&self) -> Checkpoint {
        Checkpoint {
            path: self.path.clone(),
            generation: self.generation + 1,
            ..Checkpoint::default()
        }
    }
}

/// The sessions of which every source was deleted.
pub fn sessions_without_source(sources: &[(String, String)]) -> BTreeSet<SessionId> {
    /// The part of a checkpoint that is read here. Most of a checkpoint is skipped.
    #[derive(Deserialize)]
    struct CheckpointPresence {
        #[serde(default)]
        is_missing: bool,
        #[serde(default)]
        threads: BTreeMap<String, serde::de::IgnoredAny>,
    }
    // Inside a JSON string quotes are escaped, so these bytes can only be a field and its value.
    let is_missing = |checkpoint: &str| checkpoint.contains("\"is_missing\":true");
    // While no agent has deleted a file, no checkpoint is parsed.
    if !sources.iter().any(|(_, checkpoint)| is_missing(checkpoint)) {
        return BTreeSet::new();
    }
    let mut gone = BTreeSet::new();
    let mut there = BTreeSet::new();
    for (key, checkpoint) in sources {
        let Ok(checkpoint) = serde_json::from_str::<CheckpointPresence>(checkpoint) else {
            continue;
        };
        let provider = key.split_once(':').map_or("", |(provider, _)| provider);
        let sessions = checkpoint.threads.keys().map(|session| session_id(provider, session));
        if checkpoint.is_missing { &mut gone } else { &mut there }.extend(sessions);
    }
    // A session may have several files, and one that is left is enough.
    gone.retain(|session| !there.contains(session));
    gone
}

/// The sessions of each source, by the name its originals are stored under.
pub fn sessions_by_source(sources: &[(String, String)]) -> Vec<(String, Vec<SessionId>)> {
    let by_source = sources.iter().filter_map(|(key, checkpoint)| {
        let (provider, name) = key.split_once(':')?;
        let threads = Checkpoint::parse(checkpoint)?.threads;
        let sessions = threads.keys().map(|session| session_id(provider, session));
        Some((name.to_owned(), sessions.collect()))
    });
    by_source.collect()
}

/// The file a session was read from last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFile {
    /// The key of its checkpoint in the journal.
    pub source: String,
    pub path: PathBuf,
    /// Its size when it was read. A longer file has news.
    pub size: u64,
}

/// The files that hold one session each, by session. Databases are left out: they hold many, and
/// their size says nothing about one of them.
pub fn files_of_sessions(sources: &[(String, String)]) -> BTreeMap<SessionId, SessionFile> {
    sources.iter().filter_map(|(key, checkpoint)| file_of_session(key, checkpoint)).collect()
}

/// The session of a source and its file, if the source holds only that one.
pub fn file_of_session(source: &str, checkpoint: &str) -> Option<(SessionId, SessionFile)> {
    /// The part of a checkpoint that is read here.
    #[derive(Deserialize)]
    struct CheckpointFile {
        path: PathBuf,
        #[serde(default)]
        size: u64,
        #[serde(default)]
        watermark: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        threads: BTreeMap<String, serde::de::IgnoredAny>,
    }
    let (provider, _) = source.split_once(':')?;
    let place: CheckpointFile = serde_json::from_str(checkpoint).ok()?;
    // Databases and documents have a watermark. Their sizes do not show whether there is news.
    if place.watermark.is_some() || place.threads.len() != 1 {
        return None;
    }
    let (session, _) = place.threads.first_key_value()?;
    let file = SessionFile { source: source.to_owned(), path: place.path, size: place.size };
    Some((session_id(provider, session), file))
}

/// Device and inode of a file, which stay when it moves.
pub(crate) fn identify_file(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether the last change is so long ago that an incomplete line will stay incomplete.
pub(crate) fn is_quiet(metadata: &Metadata, now: Time) -> bool {
    is_older(metadata, now, QUIET_MILLIS)
}

/// Whether the last change is so long ago that a copy in progress has been finished.
pub(crate) fn is_settled(metadata: &Metadata, now: Time) -> bool {
    is_older(metadata, now, SETTLED_MILLIS)
}

/// Whether the last change is at least so long ago.
pub(crate) fn is_older(metadata: &Metadata, now: Time, millis: i64) -> bool {
    let age = now.nanos() - i128::from(changed_at(metadata));
    age >= i128::from(millis) * 1_000_000
}

/// When the file was changed last, in nanoseconds.
pub(crate) fn changed_at(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

pub(crate) fn file_times(metadata: &Metadata) -> FileTimes {
    FileTimes { changed: changed_at(metadata), made: created_at(metadata) }
}

/// When the file was made, in nanoseconds; absent where the system does not know. Its last change
/// is no answer: a parent that goes on is changed after its fork.
fn created_at(metadata: &Metadata) -> Option<i64> {
    let created = metadata.created().ok()?;
    let since = created.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

pub(crate) fn fingerprint(file: &File, offset: u64, length: u64) -> io::Result<Fingerprint> {
    if length == 0 {
        return Ok(Fingerprint::default());
    }
    let mut bytes = vec![0; length as usize];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => {}
        // The file is shorter than it was: a fingerprint that matches none.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Fingerprint::default());
        }
        Err(error) => return Err(error),
    }
    Ok(fingerprint_of(&bytes))
}

/// The fingerprint of bytes that are in memory.
pub(crate) fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    if bytes.is_empty() {
        return Fingerprint::default();
    }
    Fingerprint { length: bytes.len() as u64, hash: encode_hex(&Sha256::digest(bytes)[..8]) }
}
