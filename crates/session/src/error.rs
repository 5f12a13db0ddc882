//! The errors of a session.

use event::{BadPayload, SessionId};
use journal::{AppendError, ArtifactError, LineageError, ReadError};

use crate::view::ViewError;
use crate::{ReplayError, RuleViolation, TreeError};

/// A call on a session failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Refused(#[from] RuleViolation),
    #[error(transparent)]
    Append(AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Lineage(#[from] LineageError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    BadPayload(#[from] BadPayload),
    #[error("session `{0}` exists already")]
    SessionExists(SessionId),
    #[error("session `{0}` cannot be its own fork or child")]
    SameSession(SessionId),
    #[error("session `{session_id}` has {tail} events; {point} is beyond its end")]
    PointOutOfRange { session_id: SessionId, point: u64, tail: u64 },
    #[error("session `{0}` was opened as it was at an earlier point and cannot be appended to")]
    ReadOnly(SessionId),
    #[error("call `{call_id}` of session `{session_id}`, asked at {seq}, is not open")]
    CallNotOpen { session_id: SessionId, call_id: String, seq: u64 },
    #[error("session `{session_id}` has no child `{child_id}`")]
    ChildNotFound { session_id: SessionId, child_id: String },
    #[error(transparent)]
    Tree(#[from] TreeError<ReadError>),
    #[error("`{argument}` is not {expected}")]
    BadArgument { argument: String, expected: &'static str },
}

/// Maps journal errors about the existence of sessions to the variants of this crate.
impl From<AppendError> for SessionError {
    fn from(error: AppendError) -> SessionError {
        match error {
            AppendError::SessionExists(id) => SessionError::SessionExists(id),
            AppendError::SameSession(id) => SessionError::SameSession(id),
            AppendError::SessionNotFound(id) => ReadError::SessionNotFound(id).into(),
            AppendError::PointOutOfRange { session_id, point, tail } => {
                SessionError::PointOutOfRange { session_id, point, tail }
            }
            error => SessionError::Append(error),
        }
    }
}
