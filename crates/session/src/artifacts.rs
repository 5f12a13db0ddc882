//! Artifacts of a session: bodies beside the log, described by events in it.

use std::io::Read;

use event::payload::{Artifact, ArtifactRecorded};
use journal::{ArtifactError, EventReceipt, ExpectedBody};

use crate::{Session, SessionError};

impl Session {
    /// Records that there is an artifact, wherever its bytes are. The default producer is this
    /// session.
    pub fn record_artifact(
        &self,
        recorded: ArtifactRecorded,
    ) -> Result<EventReceipt, SessionError> {
        let mut recorded = recorded;
        if recorded.artifact.id.trim().is_empty() {
            return Err(ArtifactError::BadArtifactId(recorded.artifact.id).into());
        }
        recorded.artifact.producer_session_id.get_or_insert_with(|| self.session_id().clone());
        recorded.session_id.get_or_insert_with(|| self.session_id().clone());
        self.record(&recorded)
    }

    /// Stores the body of an artifact, then records it with the size and digest it turned out to
    /// have. A size or digest that is given has to fit; else nothing is stored.
    pub fn store_artifact(
        &self,
        artifact: Artifact,
        body: Option<&mut dyn Read>,
    ) -> Result<Artifact, SessionError> {
        let mut artifact = artifact;
        let Some(body) = body else {
            let expected = "an artifact with a body; without one it can only be recorded";
            return Err(SessionError::BadArgument { argument: artifact.id, expected });
        };
        if self.is_past() {
            return Err(SessionError::ReadOnly(self.session_id().clone()));
        }
        let expected = ExpectedBody { size: artifact.size, digest: artifact.digest.as_deref() };
        let stored = self.journal().artifacts().put(&artifact.id, body, expected)?;
        artifact.size = Some(stored.size);
        artifact.digest = Some(stored.digest);
        artifact.producer_session_id.get_or_insert_with(|| self.session_id().clone());
        self.record_artifact(ArtifactRecorded {
            artifact: artifact.clone(),
            child_id: None,
            session_id: None,
        })?;
        Ok(artifact)
    }
}
