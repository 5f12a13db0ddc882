//! Snapshots and compactions of a session we host: built on one state, then appended.
//!
//! What is appended in between is neither lost nor covered: a base names the last event it looked
//! at. When to compact and what a summary says is the host's decision.

use event::Time;
use event::payload::Artifact;
use journal::EventReceipt;

use crate::compaction::{self, CONTEXT_OFFLOAD, CompactionOptions, LongOutput};
use crate::reader::SessionReader;
use crate::snapshot::{SnapshotPolicy, Snapshotter, Trigger};
use crate::view::{View, ViewError};
use crate::{Session, SessionError};

impl Session {
    /// Saves the view as a fact; `None` if there is nothing to save.
    pub fn snapshot(&self) -> Result<Option<EventReceipt>, SessionError> {
        let snapshot = self
            .with_view(|view, log| Snapshotter::default().snapshot(view, Trigger::Manual, log))?;
        snapshot.map(|snapshot| self.record(&snapshot)).transpose()
    }

    /// Saves the view if the policy wants it to be.
    pub fn snapshot_if_needed(
        &self,
        policy: SnapshotPolicy,
        now: Time,
    ) -> Result<Option<EventReceipt>, SessionError> {
        let snapshotter = Snapshotter::new(policy);
        let snapshot =
            self.with_view(|view, log| snapshotter.snapshot_if_needed(view, now, log))?;
        snapshot.map(|snapshot| self.record(&snapshot)).transpose()
    }

    /// Puts a summary in the place of all but the newest entries; `None` if there is nothing to
    /// cover.
    pub fn summarize(
        &self,
        summary: &str,
        options: &CompactionOptions,
    ) -> Result<Option<EventReceipt>, SessionError> {
        let compaction =
            self.with_view(|view, log| compaction::summarize(view, log, summary, options))?;
        compaction.map(|compaction| self.record(&compaction)).transpose()
    }

    /// Moves long outputs of tools to artifacts; `None` if there are none.
    pub fn offload(
        &self,
        options: &CompactionOptions,
    ) -> Result<Option<EventReceipt>, SessionError> {
        let long = self.with_view(|view, log| compaction::long_outputs(view, log, options))?;
        let mut replaced = Vec::with_capacity(long.len());
        for output in &long {
            // Bodies are stored before the compaction refers to them. A crash in between leaves
            // artifacts that no entry uses, and a second try stores the same ids.
            replaced.push(output.replaced_by(&self.store_output(output)?.id));
        }
        let compaction =
            self.with_view(|view, log| compaction::offload_outputs(view, log, &replaced, options))?;
        compaction.map(|compaction| self.record(&compaction)).transpose()
    }

    fn store_output(&self, output: &LongOutput) -> Result<Artifact, SessionError> {
        let artifact = Artifact {
            id: format!("output-{}", output.event_id),
            kind: CONTEXT_OFFLOAD.to_owned(),
            label: Some(output.tool.clone()),
            mime_type: Some("text/plain".to_owned()),
            producer_event_id: Some(output.event_id),
            ..Artifact::default()
        };
        self.store_artifact(artifact, Some(&mut output.text.as_bytes()))
    }

    fn with_view<T>(
        &self,
        read: impl FnOnce(&mut View, &SessionReader) -> Result<T, ViewError>,
    ) -> Result<T, SessionError> {
        Ok(read(&mut self.state_at_tail()?.view, &self.reader())?)
    }
}
