//! A closed epoch as a folder of its own: its transcript, its digest and its event log.
//!
//! `<journal>/<day>/<stream>/<segment>/` holds `segment.json` (which epoch it is),
//! `transcript.jsonl`, `digest.jsonl` and `events.jsonl`. The transcript and the digest can be
//! deleted: they are rebuilt from the journal.

mod folder; // folders and files, made and removed durably
mod forget; // removes the segments of a session
mod lock; // writers share it, removal has it alone
mod key; // the checked name of a segment
mod output; // transcript and digest, rebuilt from the journal

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use event::{Kind, SessionId};
use journal::{Journal, ReadError, Selection, SessionInfo};
use projection::{Chapter, Chronicle, Epoch};
use serde::{Deserialize, Serialize};
use views::chronicle_if_exists;

use crate::day_digest::project_of;
use crate::zone::Zone;
use folder::{folders_in, make_folder, write_contested};
use supervise::Day;

pub(crate) use folder::{folder_of, is_folder};
pub use folder::{write_atomic, write_durably};
pub(crate) use forget::forget_deleted;
pub use forget::forget_segments;
pub use key::SegmentKey;
pub(crate) use lock::SegmentLock;
pub use output::{DigestSummary, SegmentOutput, TranscriptStats};

const META: &str = "segment.json";

/// Folder names tried for one epoch. Epochs of one stream that began in the same second and lasted
/// equally long collide; more collisions than this are a fault, not a coincidence.
const TRIES_MAX: usize = 10_000;

/// A closed epoch and its folder.
#[derive(Clone, Debug)]
pub struct Segment {
    folder: PathBuf,
    pub meta: SegmentMeta,
}

/// Contents of `segment.json`: the epoch that the folder belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentMeta {
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
    #[error("`{path}` is not a segment folder")]
    NotAFolder { path: PathBuf },
    #[error("`{path}` has no readable `segment.json`")]
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
    /// Returns the segment of a closed epoch and creates its folder if needed. A name that another
    /// epoch has taken is skipped.
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
        // Held until `segment.json` is in place: a deletion that comes meanwhile waits and then finds
        // the folder by it.
        let _lock = SegmentLock::for_session(journal, &session.id)?;
        let mut key =
            SegmentKey::for_epoch(&session.provider, epoch.started_at, epoch.last_at, zone);
        for _ in 0..TRIES_MAX {
            let folder = make_folder(root, &key)?;
            let meta = SegmentMeta {
                day: key.day().to_string(),
                stream: key.stream().unwrap_or_default().to_owned(),
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
            // The name may be taken by an epoch of another session of the same second.
            match FolderOwner::read_owner(&folder)? {
                FolderOwner::Unclaimed => write_contested(&folder, META, &json_line(&meta))?,
                FolderOwner::Epoch(there) if *there == meta && has_meta(&folder)? => {}
                // The same epoch, but `segment.json` is damaged or its range or project is out of
                // date. The journal is right.
                FolderOwner::Epoch(there)
                    if (&there.session_id, there.epoch) == (&meta.session_id, meta.epoch) =>
                {
                    write_contested(&folder, META, &json_line(&meta))?;
                }
                // A folder of another epoch, or one with files of the user, is left alone.
                FolderOwner::Epoch(_) | FolderOwner::Unknown => {
                    key = key.next();
                    continue;
                }
            }
            return Ok(Segment { folder, meta });
        }
        // Every name was taken.
        Err(SegmentError::NotAFolder { path: root.join(key.path()) })
    }

    /// Returns the segment of the epoch that an event closes. Returns `None` if the event reports the
    /// same end a second time, or if the session is deleted.
    pub(crate) fn claim_closed_by(
        journal: &Journal,
        session: &SessionInfo,
        chronicle: &Chronicle,
        seq: u64,
        zone: &Zone,
    ) -> Result<Option<Segment>, SegmentError> {
        // A second report of the same end closes no epoch, so no chapter ends at its `seq`.
        let is_it =
            |chapter: &Chapter<'_>| chapter.epoch.to_seq == seq && chapter.epoch.closed.is_some();
        let Some(chapter) = chronicle.chapters().find(is_it) else { return Ok(None) };
        match Segment::claim(journal, session, chapter.epoch, zone) {
            Err(SegmentError::Deleted(_)) => Ok(None),
            segment => segment.map(Some),
        }
    }

    /// Writes the files of every closed epoch of a session in this process, as far as they are not
    /// up to date, and tells of each. Inherited epochs of a fork are the segments of its origin.
    pub fn write_session(
        journal: &Journal,
        session: &SessionId,
        zone: &Zone,
        tell: &mut dyn FnMut(&SegmentKey, SegmentOutput, bool),
    ) -> Result<(), SegmentError> {
        let Some(chronicle) = chronicle_if_exists(journal, session)? else { return Ok(()) };
        let info = journal.stat(session)?;
        let kinds = [Kind::EpochClosed].into();
        for event in journal.events(session, Selection { kinds, ..Selection::all() })? {
            let event = event?;
            if event.fork_origin().is_some() {
                continue;
            }
            let segment = Segment::claim_closed_by(journal, &info, &chronicle, event.seq, zone)?;
            if let Some(segment) = segment {
                segment.write_outputs(&chronicle, journal, tell)?;
            }
        }
        Ok(())
    }

    /// Opens the segment in a folder.
    pub fn open(folder: &Path) -> Result<Segment, SegmentError> {
        let meta = read_meta(folder)?;
        let meta = meta.ok_or_else(|| SegmentError::NoMeta { path: folder.to_owned() })?;
        Ok(Segment { folder: folder.to_owned(), meta })
    }

    /// Finds a segment by its key.
    pub fn find(journal: &Path, key: &SegmentKey) -> Result<Option<Segment>, SegmentError> {
        let folder = journal.join(key.path());
        Ok(read_meta(&folder)?.map(|meta| Segment { folder, meta }))
    }

    /// Lists all segments of a day by stream and name. Folders that are not segments are skipped.
    pub fn list_of_day(journal: &Path, day: Day) -> Result<Vec<Segment>, SegmentError> {
        let mut segments = Vec::new();
        for stream in folders_in(&journal.join(day.to_string()))? {
            for folder in folders_in(&stream)? {
                if let Some(meta) = find_meta(&folder)? {
                    segments.push(Segment { folder, meta });
                }
            }
        }
        Ok(segments)
    }

    pub fn key(&self) -> SegmentKey {
        let SegmentMeta { day, stream, segment, .. } = &self.meta;
        // Every way to a segment checks its key before.
        SegmentKey::parse(day, stream, segment).expect("a segment has a key of its own")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The owner of a segment folder.
enum FolderOwner {
    /// The folder is empty, apart from what a crash left half written.
    Unclaimed,
    Epoch(Box<SegmentMeta>),
    /// The folder has files, and none of them names an epoch.
    Unknown,
}

impl FolderOwner {
    fn read_owner(folder: &Path) -> Result<FolderOwner, SegmentError> {
        if let Some(meta) = find_meta(folder)? {
            return Ok(FolderOwner::Epoch(Box::new(meta)));
        }
        Ok(match folder::is_empty_but_for(folder, META)? {
            true => FolderOwner::Unclaimed,
            false => FolderOwner::Unknown,
        })
    }
}

/// Returns the session id that the provider uses.
fn provider_id(session: &SessionInfo) -> &str {
    session.provider_session_id.as_deref().unwrap_or(session.id.as_str())
}

fn has_meta(folder: &Path) -> Result<bool, SegmentError> {
    Ok(read_meta(folder)?.is_some())
}

fn has_valid_key(meta: &SegmentMeta) -> bool {
    SegmentKey::parse(&meta.day, &meta.stream, &meta.segment).is_some()
}

/// Reads which epoch a folder belongs to. If `segment.json` is damaged, the headers of the
/// transcript and the digest tell it.
fn find_meta(folder: &Path) -> Result<Option<SegmentMeta>, SegmentError> {
    let meta = read_meta(folder)?;
    // A user may have edited the headers, so the key is checked again.
    Ok(meta.or_else(|| output::meta_from_outputs(folder).filter(has_valid_key)))
}

fn read_meta(folder: &Path) -> Result<Option<SegmentMeta>, SegmentError> {
    let path = folder.join(META);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().filter(has_valid_key)),
        // A file in place of a folder is no segment either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(storage_error(&path, error)),
    }
}

fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("names and numbers always encode");
    line.push(b'\n');
    line
}

fn storage_error(path: &Path, cause: io::Error) -> SegmentError {
    SegmentError::Io { path: path.to_owned(), cause }
}
