//! Artifacts of a session: bodies beside the log, described by events in it.

use std::io::Read;

use event::payload::{Artifact, ArtifactRecorded};
use event::{Kind, SessionId};
use journal::{ArtifactError, BodyReader, EventReceipt, ExpectedBody, Selection};

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
        self.store_produced(ArtifactRecorded { artifact, child_id: None, session_id: None }, body)
    }

    /// As [`Session::store_artifact`], for what a child of this session made.
    pub fn store_child_artifact(
        &self,
        child_id: &str,
        artifact: Artifact,
        body: Option<&mut dyn Read>,
    ) -> Result<Artifact, SessionError> {
        let child = self.named_child(child_id)?;
        // A child of an observed log may have no valid session id; the parent counts then.
        let session_id = SessionId::new(&child.child_session_id).ok();
        let mut produced =
            ArtifactRecorded { artifact, child_id: Some(child.child_id), session_id };
        let producer = &mut produced.artifact.producer_session_id;
        *producer = producer.take().or_else(|| produced.session_id.clone());
        self.store_produced(produced, body)
    }

    fn store_produced(
        &self,
        produced: ArtifactRecorded,
        body: Option<&mut dyn Read>,
    ) -> Result<Artifact, SessionError> {
        let mut produced = produced;
        let artifact = &mut produced.artifact;
        let Some(body) = body else {
            let expected = "an artifact with a body; without one it can only be recorded";
            let argument = artifact.id.clone();
            return Err(SessionError::BadArgument { argument, expected });
        };
        if self.is_past() {
            return Err(SessionError::ReadOnly(self.session_id().clone()));
        }
        let expected = ExpectedBody { size: artifact.size, digest: artifact.digest.as_deref() };
        let stored = self.journal().artifacts().put(&artifact.id, body, expected)?;
        artifact.size = Some(stored.size);
        artifact.digest = Some(stored.digest);
        artifact.producer_session_id.get_or_insert_with(|| self.session_id().clone());
        let artifact = artifact.clone();
        self.record_artifact(produced)?;
        Ok(artifact)
    }

    /// Returns the newest description of an artifact that this session records: what it is, who
    /// made it, and of which child. Reads the artifacts that were recorded since.
    pub fn stat_artifact(&self, id: &str) -> Result<ArtifactRecorded, SessionError> {
        let selection = Selection::all().of_kinds([Kind::ArtifactRecorded]).newest_first();
        for event in self.select(selection)? {
            if let Some(recorded) = event?.readable::<ArtifactRecorded>()
                && recorded.artifact.id == id
            {
                return Ok(recorded);
            }
        }
        Err(ArtifactError::ArtifactNotFound(id.to_owned()).into())
    }

    /// Opens the body of an artifact that this session records; size and digest are verified while
    /// it is read.
    pub fn open_artifact(&self, id: &str) -> Result<BodyReader, SessionError> {
        let recorded = self.stat_artifact(id)?;
        Ok(self.journal().artifacts().open(&recorded.artifact.id)?)
    }
}
