//! An epoch that is over, as a folder of its own: what was said in it, what is worth keeping of
//! it, and what happened to it.
//!
//! `<journal>/<day>/<stream>/<segment>/` holds `segment.json` (which epoch it is),
//! `transcript.jsonl`, `digest.jsonl` and `events.jsonl`. The second and the third can be deleted
//! and are made again from the journal.

mod folder; // folders and files, made and removed so that it lasts
mod forget; // the segments of a session, gone
mod hold; // nobody writes while somebody forgets
mod key; // the name of a segment, checked
mod output; // files that are made again from the journal

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use event::SessionId;
use journal::{Journal, ReadError, SessionInfo};
use projection::Epoch;
use serde::{Deserialize, Serialize};

use crate::day_digest::project_of;
use crate::zone::Zone;
use folder::{folders_in, make_folder};
use supervise::Day;

pub(crate) use folder::{folder_of, is_folder};
pub use folder::{put_whole, write_whole};
pub(crate) use forget::forget_deleted;
pub use forget::forget_segments;
pub(crate) use hold::Hold;
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
    #[error("a journal in memory has no folders for its days")]
    NoFolder,
    #[error("session `{0}` is deleted")]
    Deleted(SessionId),
    #[error("epoch {epoch} of session `{session_id}` is not closed")]
    NotClosed { session_id: SessionId, epoch: u64 },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Segment {
    /// The folder of a closed epoch, made if it is not there. A name that another epoch has is
    /// passed over.
    pub fn claim(
        journal: &Journal,
        session: &SessionInfo,
        epoch: &Epoch,
        zone: &Zone,
    ) -> Result<Segment, SegmentError> {
        let closed = epoch.closed.as_ref().ok_or_else(|| SegmentError::NotClosed {
            session_id: session.id.clone(),
            epoch: epoch.number,
        })?;
        let root = journal.dir().ok_or(SegmentError::NoFolder)?;
        let _hold = Hold::to_write(journal, &session.id)?;
        let mut key = SegmentKey::of(&session.provider, epoch.started_at, epoch.last_at, zone);
        for _ in 0..TRIES_MAX {
            let folder = make_folder(root, &key)?;
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
            match Owner::of(&folder)? {
                Owner::Nobody => put_whole(&folder, META, &to_line(&meta))?,
                Owner::Epoch(there) if *there == meta && has_meta(&folder)? => {}
                // Another range or another project: the log knows better.
                Owner::Epoch(there)
                    if (&there.session_id, there.epoch) == (&meta.session_id, meta.epoch) =>
                {
                    put_whole(&folder, META, &to_line(&meta))?;
                }
                Owner::Epoch(_) | Owner::Somebody => {
                    key = key.next();
                    continue;
                }
            }
            return Ok(Segment { folder, meta });
        }
        Err(SegmentError::NotAFolder { path: root.join(key.path()) })
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
    pub fn of_day(journal: &Path, day: Day) -> Result<Vec<Segment>, SegmentError> {
        let mut segments = Vec::new();
        for stream in folders_in(&journal.join(day.to_string()))? {
            for folder in folders_in(&stream)? {
                if let Some(meta) = meta_of(&folder)? {
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

/// Whose a folder is.
enum Owner {
    /// Nothing is in it that somebody could miss.
    Nobody,
    Epoch(Box<Meta>),
    /// It has something, and nothing in it says whose that is.
    Somebody,
}

impl Owner {
    fn of(folder: &Path) -> Result<Owner, SegmentError> {
        if let Some(meta) = meta_of(folder)? {
            return Ok(Owner::Epoch(Box::new(meta)));
        }
        Ok(match folder::is_empty_but_for(folder, META)? {
            true => Owner::Nobody,
            false => Owner::Somebody,
        })
    }
}

/// What the provider calls the session.
fn provider_id(session: &SessionInfo) -> &str {
    session.provider_session_id.as_deref().unwrap_or(session.id.as_str())
}

fn has_meta(folder: &Path) -> Result<bool, SegmentError> {
    Ok(read_meta(folder)?.is_some())
}

fn is_key(meta: &Meta) -> bool {
    SegmentKey::parse(&meta.day, &meta.stream, &meta.segment).is_some()
}

/// Which epoch a folder is of. Where `segment.json` cannot be read, what was made of the segment
/// says it.
fn meta_of(folder: &Path) -> Result<Option<Meta>, SegmentError> {
    let meta = read_meta(folder)?;
    Ok(meta.or_else(|| output::told_by(folder).filter(is_key)))
}

fn read_meta(folder: &Path) -> Result<Option<Meta>, SegmentError> {
    let path = folder.join(META);
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

fn failed(path: &Path, cause: io::Error) -> SegmentError {
    SegmentError::Io { path: path.to_owned(), cause }
}
