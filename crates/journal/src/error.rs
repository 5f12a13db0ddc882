//! The errors of the journal, by what a caller would do about them.
//!
//! All can be cloned: a failed commit is the reply to every batch of its group.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use event::{BadEvent, BadId, EventId, SessionId, Time};

/// A journal could not be opened or created.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    #[error("there is no journal at `{path}`")]
    JournalNotFound { path: PathBuf },
    #[error(
        "the journal `{path}` was written in format {found}; this program reads up to {supported}"
    )]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    #[error("the journal is damaged: {0}")]
    Corrupt(Box<Damage>),
    #[error("the record of the journal `{path}` is gone; what it was read from is there")]
    RecordMissing { path: PathBuf },
    #[error("the journal `{path}` is held by {by}")]
    Locked { path: PathBuf, by: String },
    #[error("the folder `{path}` can be read by other users (mode {mode:03o})")]
    NotPrivate { path: PathBuf, mode: u32 },
    #[error("this SQLite ({found}) can corrupt a journal; at least 3.51.3 is needed")]
    UnsafeSqlite { found: String },
    #[error("{store} stores cannot be opened with {capability}")]
    Unsupported { store: &'static str, capability: &'static str },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Events could not be appended. Unless it says otherwise, nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    #[error("session `{session_id}` ends at {actual}, not at {expected}")]
    Conflict { session_id: SessionId, expected: u64, actual: u64 },
    #[error("source `{source_id}` has been read by another process meanwhile")]
    SourceMoved { source_id: String, expected: Option<String>, actual: Option<String> },
    #[error("event {id} is already recorded with other content, as {session_id} #{seq}")]
    DuplicateId { id: EventId, session_id: SessionId, seq: u64 },
    #[error("session `{session_id}` needs event {expected} next, not {found}")]
    BadSeq { session_id: SessionId, expected: u64, found: u64 },
    #[error("{what} is too large: {size}, at most {max}")]
    TooLarge { what: &'static str, size: usize, max: usize },
    #[error("there is no session `{0}`")]
    SessionNotFound(SessionId),
    #[error("session `{0}` exists already")]
    SessionExists(SessionId),
    #[error("session `{0}` cannot be its own parent")]
    SameSession(SessionId),
    #[error("session `{0}` was deleted at {1}")]
    Deleted(SessionId, Time),
    #[error("session `{session_id}` has {tail} events; {point} is beyond its end")]
    PointOutOfRange { session_id: SessionId, point: u64, tail: u64 },
    #[error("live events of kind `{0}` are published, not stored")]
    LiveOnly(event::Kind),
    #[error("another process has held the journal for {waited_ms} ms; it is safe to try again")]
    Busy { waited_ms: u64 },
    #[error("the journal is closed")]
    Closed,
    #[error("this journal is open for reading only")]
    ReadOnly,
    #[error("the disk is full; nothing of the batch was recorded")]
    OutOfSpace,
    #[error(
        "the journal could not make its last commit durable ({0}) and refuses more until it is opened again"
    )]
    NotDurable(Arc<str>),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Ancestry(#[from] Box<LineageError>),
}

/// A read failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    #[error("there is no session `{0}`")]
    SessionNotFound(SessionId),
    #[error("session `{session_id}` has no event {event_id}")]
    EventNotFound { session_id: SessionId, event_id: EventId },
    #[error("`{argument}` is not {expected}")]
    BadArgument { argument: String, expected: &'static str },
    #[error("`{prefix}` matches {} sessions", candidates.len())]
    Ambiguous { prefix: String, candidates: Vec<SessionId> },
    #[error("no session id begins with `{0}`")]
    NoSuchPrefix(String),
    #[error("the journal is damaged: {0}")]
    Corrupt(Box<Damage>),
    #[error("{store} stores cannot do this: {capability}")]
    Unsupported { store: &'static str, capability: &'static str },
    #[error(transparent)]
    Id(#[from] BadId),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A query about ancestry, or an import of it, failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LineageError {
    #[error("session `{child}` names a parent `{parent}` that is not in the journal")]
    DanglingParent { child: SessionId, parent: SessionId },
    #[error("the ancestry of session `{0}` runs in a circle")]
    Cycle(SessionId),
    #[error("the ancestry of session `{session_id}` cannot be used: {why}")]
    BadAncestry { session_id: String, why: &'static str },
    #[error("session `{0}` is already recorded with another ancestry")]
    AncestryDiffers(SessionId),
    #[error("session `{session_id}` has forks: {}", list(forks))]
    HasForks { session_id: SessionId, forks: Vec<SessionId> },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// A body of an artifact could not be put or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ArtifactError {
    #[error("`{0}` cannot be the id of an artifact")]
    BadArtifactId(String),
    #[error("there is no artifact `{0}`")]
    ArtifactNotFound(String),
    #[error("artifact `{0}` exists already with other bytes")]
    ArtifactExists(String),
    #[error("artifact `{id}`: the digest is {actual}, not {expected}")]
    DigestMismatch { id: String, expected: String, actual: String },
    #[error("artifact `{id}`: the size is {actual} bytes, not {expected}")]
    SizeMismatch { id: String, expected: u64, actual: u64 },
    #[error("the body of artifact `{id}` ({digest}) is missing")]
    BodyMissing { id: String, digest: String },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// An error of the disk or the database.
#[derive(Debug, Clone)]
pub struct StorageError {
    pub action: &'static str,
    pub path: PathBuf,
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl Display for StorageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} `{}`", self.action, self.path.display())
    }
}

impl Error for StorageError {
    /// Returns the cause itself and not the `Arc` around it, so that callers can downcast it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}

/// Damage at a place in a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Damage {
    pub store: &'static str,
    pub file: PathBuf,
    pub line: Option<u64>,
    pub byte: Option<u64>,
    pub session_id: Option<SessionId>,
    pub seq: Option<u64>,
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(byte) = self.byte {
            write!(f, " byte {byte}")?;
        }
        if let (Some(session_id), Some(seq)) = (&self.session_id, self.seq) {
            write!(f, " ({session_id} #{seq})")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl StorageError {
    pub fn new(
        action: &'static str,
        path: impl Into<PathBuf>,
        cause: impl Error + Send + Sync + 'static,
    ) -> StorageError {
        StorageError { action, path: path.into(), cause: Arc::new(cause) }
    }

    /// Whether a newer program wrote the file, in a format that this one does not know.
    pub(crate) fn is_newer_format(&self) -> bool {
        matches!(self.cause.downcast_ref(), Some(OpenError::NewerFormat { .. }))
    }

    /// Whether the disk or the folder cannot be written to.
    pub(crate) fn is_write_refused(&self) -> bool {
        let cause = self.cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(cause, Some(io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied))
            || matches!(
                self.cause
                    .downcast_ref::<rusqlite::Error>()
                    .and_then(rusqlite::Error::sqlite_error_code),
                Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen)
            )
    }
}

impl ReadError {
    /// Whether a newer program wrote the file, in a format that this one does not know.
    pub(crate) fn is_newer_format(&self) -> bool {
        matches!(self, ReadError::Storage(error) if error.is_newer_format())
    }
}

impl From<BadEvent> for ReadError {
    fn from(error: BadEvent) -> ReadError {
        ReadError::BadArgument { argument: error.to_string(), expected: "an event" }
    }
}

fn list(ids: &[SessionId]) -> String {
    ids.iter().map(SessionId::as_str).collect::<Vec<_>>().join(", ")
}
