//! Where a session comes from: named by its first event, or imported without events.

use event::payload::{SessionMode, SessionStarted};
use event::{Draft, SessionId, Time};

use super::{CommitPlan, StagedBatch, lineage_error};
use crate::batch::{Ancestry, AppendMode};
use crate::limit::GENERATIONS_MAX;
use crate::prepare::{PreparedBatch, PreparedItem};
use crate::store::{ParentRow, RootWords, SessionRow};
use crate::{AppendError, LineageError};

impl CommitPlan<'_> {
    /// Makes the row of a session that begins with this event. If the event names a parent, the
    /// session becomes its descendant.
    pub(super) fn new_session_row(
        &mut self,
        staged: &mut StagedBatch,
        mode: AppendMode,
        draft: &Draft,
    ) -> Result<SessionRow, AppendError> {
        let started = draft.readable::<SessionStarted>().unwrap_or_default();
        let mut row = self.empty_session_row(staged, &draft.session_id, draft.created_at);
        let Some(parent) = started.parent else {
            row.root = RootWords { label: started.label, reason: started.reason };
            return Ok(row);
        };
        let ancestry = Ancestry {
            session_id: draft.session_id.clone(),
            parent_session_id: Some(parent.session_id.clone()),
            mode: Some(started.mode.unwrap_or(SessionMode::Fork)),
            fork_point_seq: parent.seq,
            fork_point_event_id: parent.event_id,
            label: started.label,
            reason: started.reason,
            depth: 0,
            created_at: draft.created_at,
        };
        match self.link_parent(staged, &mut row, &ancestry) {
            // An observed event is recorded even if its parent is not in the journal. The row
            // keeps the link, and the session inherits nothing.
            Err(AppendError::SessionNotFound(_) | AppendError::PointOutOfRange { .. })
                if mode == AppendMode::Observed => {}
            other => other?,
        }
        Ok(row)
    }

    fn empty_session_row(&self, staged: &mut StagedBatch, id: &SessionId, at: Time) -> SessionRow {
        // A batch that is refused returns its numbers: the plan takes them over when it accepts.
        staged.last_number = staged.last_number.max(self.last_number) + 1;
        SessionRow::new(staged.last_number, id, at)
    }

    /// Makes `row` a descendant. A fork numbers its events from behind the fork point.
    ///
    /// On an error the link itself stays in `row`, for callers that accept an unknown parent.
    fn link_parent(
        &mut self,
        staged: &StagedBatch,
        row: &mut SessionRow,
        ancestry: &Ancestry,
    ) -> Result<(), AppendError> {
        let Some(parent_id) = &ancestry.parent_session_id else {
            let (label, reason) = (ancestry.label.clone(), ancestry.reason.clone());
            row.root = RootWords { label, reason };
            return Ok(());
        };
        let mode = ancestry.mode.clone().unwrap_or(SessionMode::Fork);
        row.parent = Some(ParentRow {
            session_id: parent_id.clone(),
            mode: mode.clone(),
            seq: ancestry.fork_point_seq,
            event_id: ancestry.fork_point_event_id,
            label: ancestry.label.clone(),
            reason: ancestry.reason.clone(),
            // A lower bound until the parent's own depth is known.
            depth: 1,
        });
        // A captured session may name itself. The link stays as it was seen, and there is nothing
        // to inherit.
        if *parent_id == row.id {
            return Ok(());
        }
        let parent = self
            .session_row(staged, parent_id)?
            .ok_or_else(|| AppendError::SessionNotFound(parent_id.clone()))?;
        // Events behind the parent's end do not exist yet. Once recorded there, they would appear
        // in the fork too.
        if ancestry.fork_point_seq > parent.tail_seq {
            return Err(AppendError::PointOutOfRange {
                session_id: parent_id.clone(),
                point: ancestry.fork_point_seq,
                tail: parent.tail_seq,
            });
        }
        let depth = parent.parent.as_ref().map_or(0, |link| link.depth) + 1;
        // Every read of a fork walks this chain, so its length is bounded where it is made.
        if depth > GENERATIONS_MAX {
            let what = "the chain of forks";
            let (size, max) = (depth as usize, GENERATIONS_MAX as usize);
            return Err(AppendError::TooLarge { what, size, max });
        }
        if let Some(link) = &mut row.parent {
            link.depth = depth;
        }
        // Other descendants begin at 1: they continue or serve the parent and repeat nothing of it.
        if mode == SessionMode::Fork {
            row.base_seq = ancestry.fork_point_seq;
            row.tail_seq = ancestry.fork_point_seq;
            row.inherit_settings(&parent);
        }
        Ok(())
    }

    /// Records an imported ancestry. One that is recorded already has to be the same.
    pub(super) fn import_ancestry(
        &mut self,
        staged: &mut StagedBatch,
        ancestry: &Ancestry,
    ) -> Result<(), AppendError> {
        if let Some(row) = self.session_row(staged, &ancestry.session_id)? {
            // An import may be repeated, so the same ancestry again is no error. `depth` is not
            // compared: this journal computes its own.
            let same_link = match (&row.parent, &ancestry.parent_session_id) {
                // Earlier versions did not record what was said of a root.
                (None, None) if row.root.is_empty() => true,
                (None, None) => {
                    (&row.root.label, &row.root.reason) == (&ancestry.label, &ancestry.reason)
                }
                (Some(link), Some(parent)) => {
                    link.session_id == *parent
                        && Some(&link.mode) == ancestry.mode.as_ref().or(Some(&SessionMode::Fork))
                        && link.seq == ancestry.fork_point_seq
                        && link.event_id == ancestry.fork_point_event_id
                        && link.label == ancestry.label
                        && link.reason == ancestry.reason
                }
                _ => false,
            };
            if same_link && row.created_at == ancestry.created_at {
                return Ok(());
            }
            let differs = LineageError::AncestryDiffers(ancestry.session_id.clone());
            return Err(lineage_error(differs));
        }
        // A deleted session does not come back through its ancestry either.
        if self.reader.tombstone(&ancestry.session_id)?.is_some() {
            return Ok(());
        }
        let mut row = self.empty_session_row(staged, &ancestry.session_id, ancestry.created_at);
        match self.link_parent(staged, &mut row, ancestry) {
            // The parent may come later in the same import, which `require_parents` checks, or
            // without its events: then there is nothing to inherit.
            Err(AppendError::SessionNotFound(_) | AppendError::PointOutOfRange { .. }) => {}
            other => other?,
        }
        staged.sessions.insert(row.id.clone(), row);
        Ok(())
    }

    /// Refuses an import if a parent that one of its ancestries names is missing at its end.
    pub(super) fn require_parents(
        &mut self,
        staged: &StagedBatch,
        batch: &PreparedBatch,
    ) -> Result<(), AppendError> {
        for item in &batch.items {
            let PreparedItem::Ancestry(ancestry) = item else { continue };
            let Some(parent) = &ancestry.parent_session_id else { continue };
            if self.session_row(staged, parent)?.is_none() {
                return Err(lineage_error(LineageError::DanglingParent {
                    child: ancestry.session_id.clone(),
                    parent: parent.clone(),
                }));
            }
        }
        Ok(())
    }
}
