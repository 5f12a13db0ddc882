//! Parents, children and ancestry of sessions.

use std::collections::HashSet;

use event::SessionId;

use crate::batch::Ancestry;
use crate::limit::GENERATIONS_MAX;
use crate::store::{SessionRow, StoreReader};
use crate::{LineageError, ReadError};

impl SessionRow {
    pub(crate) fn ancestry(&self) -> Ancestry {
        let link = self.parent.as_ref();
        let (label, reason) = match link {
            Some(link) => (&link.label, &link.reason),
            None => (&self.root.label, &self.root.reason),
        };
        Ancestry {
            session_id: self.id.clone(),
            parent_session_id: link.map(|link| link.session_id.clone()),
            mode: link.map(|link| link.mode.clone()),
            fork_point_seq: link.map_or(0, |link| link.seq),
            fork_point_event_id: link.and_then(|link| link.event_id),
            label: label.clone(),
            reason: reason.clone(),
            depth: link.map_or(0, |link| link.depth),
            created_at: self.created_at,
        }
    }
}

/// Returns the parent of a session; `None` for a root.
pub(crate) fn parent(
    reader: &dyn StoreReader,
    id: &SessionId,
) -> Result<Option<Ancestry>, LineageError> {
    let row = require_session(reader, id)?;
    let Some(link) = row.parent else { return Ok(None) };
    match reader.session(&link.session_id).map_err(ReadError::from)? {
        Some(parent) => Ok(Some(parent.ancestry())),
        None => Err(LineageError::DanglingParent { child: row.id, parent: link.session_id }),
    }
}

/// Lists the direct descendants, by time, then id.
pub(crate) fn children(
    reader: &dyn StoreReader,
    id: &SessionId,
) -> Result<Vec<Ancestry>, LineageError> {
    let row = require_session(reader, id)?;
    let rows = reader.children(&row.id).map_err(ReadError::from)?;
    let mut children: Vec<Ancestry> = rows.iter().map(SessionRow::ancestry).collect();
    children.sort_by(|a, b| (a.created_at, &a.session_id).cmp(&(b.created_at, &b.session_id)));
    Ok(children)
}

/// Returns the path from the root to the session, root first.
pub(crate) fn lineage(
    reader: &dyn StoreReader,
    id: &SessionId,
) -> Result<Vec<Ancestry>, LineageError> {
    let mut row = require_session(reader, id)?;
    let mut way = vec![row.ancestry()];
    while let Some(link) = row.parent.take() {
        // Late parents and imports add links one by one, and the links may close a circle.
        let is_known = way.iter().any(|step| step.session_id == link.session_id);
        if is_known || way.len() > GENERATIONS_MAX as usize {
            return Err(LineageError::Cycle(id.clone()));
        }
        let parent = reader.session(&link.session_id).map_err(ReadError::from)?;
        row = parent
            .ok_or(LineageError::DanglingParent { child: row.id, parent: link.session_id })?;
        way.push(row.ancestry());
    }
    way.reverse();
    // Depths are counted here: a stored depth is wrong if the parent was recorded after the child.
    for (depth, step) in way.iter_mut().enumerate() {
        step.depth = depth as u32;
    }
    Ok(way)
}

/// Sorts every parent before its children: what a child inherits depends on the parent's row.
pub(crate) fn parents_first(ancestry: Vec<Ancestry>) -> Result<Vec<Ancestry>, LineageError> {
    let mut sorted = Vec::with_capacity(ancestry.len());
    let mut waiting = ancestry;
    while !waiting.is_empty() {
        // In rounds: ready is every session that has no parent among those that wait. A parent
        // outside the list is recorded already or missing, and the commit finds that out.
        let named: HashSet<SessionId> =
            waiting.iter().map(|step| step.session_id.clone()).collect();
        let count = sorted.len();
        let (later, ready) = waiting.into_iter().partition::<Vec<_>, _>(|step| {
            step.parent_session_id.as_ref().is_some_and(|parent| named.contains(parent))
        });
        sorted.extend(ready);
        waiting = later;
        // A round without progress: those that wait descend from a circle.
        if sorted.len() == count {
            return Err(LineageError::Cycle(waiting.swap_remove(0).session_id));
        }
    }
    Ok(sorted)
}

fn require_session(reader: &dyn StoreReader, id: &SessionId) -> Result<SessionRow, ReadError> {
    reader.session(id)?.ok_or_else(|| ReadError::SessionNotFound(id.clone()))
}
