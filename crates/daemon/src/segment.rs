//! An epoch that is over, as a folder of its own: what was said in it, what is worth keeping of
//! it, and what happened to it.
//!
//! `<journal>/<day>/<stream>/<segment>/` holds `segment.json` (which epoch it is),
//! `transcript.jsonl`, `digest.jsonl` and `events.jsonl`. All but the last can be deleted and are
//! made again from the journal.

mod key; // the name of a segment, checked
mod output; // files that are made again from the journal

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use event::SessionId;
use journal::{ReadError, SessionInfo};
use projection::Epoch;
use serde::{Deserialize, Serialize};

use crate::day_digest::project_of;
use crate::zone::{LocalDay, Zone};

pub use key::SegmentKey;
pub use output::{Described, Transcribed};

const META: &str = "segment.json";

/// Epochs of one stream that began in the same second and lasted as long. More of them than this
/// is a fault, not a coincidence.
const TRIES_MAX: usize = 10_000;

/// The folder of an epoch.
#[derive(Clone, Debug)]
pub struct Segment {
    folder: PathBuf,
    pub meta: Meta,
}

/// Which epoch a segment is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Meta {
    pub day: String,
    pub stream: String,
    pub segment: String,
    pub session_id: SessionId,
    pub provider: String,
    pub tag: String,
    pub epoch: u64,
    pub cause: String,
    pub from_seq: u64,
    pub to_seq: u64,
    /// The project.
    pub facet: String,
    pub platform: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("cannot use `{path}`: {cause}")]
    Io { path: PathBuf, cause: io::Error },
    #[error("`{path}` is no folder of ours")]
    NotAFolder { path: PathBuf },
    #[error("`{path}` says of no segment what it is")]
    NoMeta { path: PathBuf },
    #[error("epoch {epoch} of session `{session_id}` is not closed")]
    NotClosed { session_id: SessionId, epoch: u64 },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Segment {
    /// The folder of a closed epoch, made if it is not there. A name that another epoch has is
    /// passed over.
    pub fn claim(
        journal: &Path,
        session: &SessionInfo,
        epoch: &Epoch,
        zone: &Zone,
    ) -> Result<Segment, SegmentError> {
        let closed = epoch.closed.as_ref().ok_or_else(|| SegmentError::NotClosed {
            session_id: session.id.clone(),
            epoch: epoch.number,
        })?;
        let mut key = SegmentKey::of(&session.provider, epoch.started_at, epoch.last_at, zone);
        for _ in 0..TRIES_MAX {
            let folder = make_folder(journal, &key)?;
            let meta = Meta {
                day: key.day().to_string(),
                stream: key.stream().to_owned(),
                segment: key.segment().to_owned(),
                session_id: session.id.clone(),
                provider: session.provider.clone(),
                tag: epoch.tag(&session.provider, provider_id(session)),
                epoch: epoch.number,
                cause: closed.cause.clone(),
                from_seq: epoch.from_seq,
                to_seq: epoch.to_seq,
                facet: project_of(session).to_owned(),
                platform: std::env::consts::OS.to_owned(),
            };
            match read_meta(&folder)? {
                Some(there)
                    if (&there.session_id, there.epoch) != (&meta.session_id, meta.epoch) =>
                {
                    key = key.next();
                    continue;
                }
                Some(there) if there == meta => {}
                // Another range or another project: the log knows better.
                _ => write_whole(&folder, META, &to_line(&meta))?,
            }
            return Ok(Segment { folder, meta });
        }
        Err(SegmentError::NotAFolder { path: journal.join(key.path()) })
    }

    /// The segment in a folder.
    pub fn open(folder: &Path) -> Result<Segment, SegmentError> {
        let meta = read_meta(folder)?;
        let meta = meta.ok_or_else(|| SegmentError::NoMeta { path: folder.to_owned() })?;
        Ok(Segment { folder: folder.to_owned(), meta })
    }

    /// The segment of a name; `None` if there is none.
    pub fn find(journal: &Path, key: &SegmentKey) -> Result<Option<Segment>, SegmentError> {
        let folder = journal.join(key.path());
        Ok(read_meta(&folder)?.map(|meta| Segment { folder, meta }))
    }

    /// All segments of a day, by stream and name. Folders that are none are passed over.
    pub fn of_day(journal: &Path, day: LocalDay) -> Result<Vec<Segment>, SegmentError> {
        let mut segments = Vec::new();
        for stream in folders_in(&journal.join(day.to_string()))? {
            for folder in folders_in(&stream)? {
                if let Some(meta) = read_meta(&folder)? {
                    segments.push(Segment { folder, meta });
                }
            }
        }
        Ok(segments)
    }

    pub fn key(&self) -> SegmentKey {
        let Meta { day, stream, segment, .. } = &self.meta;
        SegmentKey::parse(day, stream, segment).expect("a segment has a key of its own")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Removes the segments of a session, and what days say that was made of them. A day is digested
/// again when somebody asks for it.
pub(crate) fn forget_segments(journal: &Path, session: &SessionId) -> Result<(), SegmentError> {
    for day in folders_in(journal)? {
        let name = day.file_name().and_then(|name| name.to_str()).and_then(LocalDay::parse);
        let Some(name) = name else { continue };
        let segments = Segment::of_day(journal, name)?.into_iter();
        let own: Vec<Segment> =
            segments.filter(|segment| segment.meta.session_id == *session).collect();
        if own.is_empty() {
            continue;
        }
        // What was made of them goes first: after a crash the segments still lead here.
        for made in ["activities.json", "digest.json", "activities"] {
            remove(&day.join(made))?;
        }
        for segment in own {
            // What says whose it is goes last, for the same reason.
            for name in ["transcript.jsonl", "digest.jsonl", "events.jsonl"] {
                remove(&segment.folder().join(name))?;
            }
            remove(segment.folder())?;
        }
    }
    Ok(())
}

/// Removes a file or a folder with all it holds, if it is there.
fn remove(path: &Path) -> Result<(), SegmentError> {
    let removed =
        if is_folder(path) { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

/// What the provider calls the session.
fn provider_id(session: &SessionInfo) -> &str {
    session.provider_session_id.as_deref().unwrap_or(session.id.as_str())
}

/// Makes the folder of a segment step by step, so that no link leads elsewhere.
fn make_folder(journal: &Path, key: &SegmentKey) -> Result<PathBuf, SegmentError> {
    let mut path = journal.to_owned();
    for step in key.path().iter() {
        path.push(step);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed(&path, error));
            }
            _ => {}
        }
        if !is_folder(&path) {
            return Err(SegmentError::NotAFolder { path });
        }
    }
    Ok(path)
}

/// Whether it is a folder itself, not a link to one.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// The folders in a folder, in order; none in one that is not there.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, SegmentError> {
    let entries = match folder.read_dir() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|error| failed(folder, error))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if is_folder(&path) {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn read_meta(folder: &Path) -> Result<Option<Meta>, SegmentError> {
    let path = folder.join(META);
    let is_key = |meta: &Meta| SegmentKey::parse(&meta.day, &meta.stream, &meta.segment).is_some();
    match std::fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().filter(is_key)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(failed(&path, error)),
    }
}

fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("names and numbers always encode");
    line.push(b'\n');
    line
}

/// Puts a file in place whole: whoever looks sees the old one or the new one.
pub(crate) fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), SegmentError> {
    let (path, beside) = (folder.join(name), folder.join(format!(".{name}.tmp")));
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&beside, &path)
    };
    write().map_err(|error| failed(&path, error))
}

fn failed(path: &Path, cause: io::Error) -> SegmentError {
    SegmentError::Io { path: path.to_owned(), cause }
}
