//! A run with the runs of its children, and theirs.

use std::collections::HashSet;

use event::{Cost, Event, EventId, SessionId};

use crate::amend::{AmendedEvent, in_place};
use crate::run::{Run, export_run};

/// The generations that are followed. Children below have no run of their own in the tree; agents
/// that nest deeper are a mistake.
const DEPTH_MAX: usize = 64;

/// A session of the tree could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot load session `{session_id}` of child `{child_id}`")]
pub struct TreeError<E: std::error::Error + 'static> {
    pub child_id: String,
    pub session_id: String,
    pub source: E,
}

/// The run of a session with those of all sessions below it.
///
/// `load` gives the events of a session, or `None` if there is no such session; then that child
/// has no run. A session met again is exported without its children.
pub fn export_run_tree<E, L>(
    session_id: SessionId,
    events: &[Event],
    load: L,
) -> Result<Run, TreeError<E>>
where
    E: std::error::Error + 'static,
    L: FnMut(&SessionId) -> Result<Option<Vec<Event>>, E>,
{
    let mut tree = Tree { load, met: HashSet::new(), counted: HashSet::new() };
    tree.export_run(session_id, events, 0)
}

struct Tree<L> {
    load: L,
    met: HashSet<SessionId>,
    /// Events with a cost that are in the sum, by every name they are known under.
    counted: HashSet<(SessionId, EventId)>,
}

impl<L> Tree<L> {
    fn export_run<E>(
        &mut self,
        session_id: SessionId,
        events: &[Event],
        depth: usize,
    ) -> Result<Run, TreeError<E>>
    where
        E: std::error::Error + 'static,
        L: FnMut(&SessionId) -> Result<Option<Vec<Event>>, E>,
    {
        let mut run = export_run(session_id.clone(), events);
        run.tree_cost = self.count_cost(&session_id, events);
        // Sessions that name each other as children would never end.
        if !self.met.insert(session_id) {
            run.children.clear();
            return Ok(run);
        }
        for child in &mut run.children {
            // A name that cannot be one is a session that cannot be found.
            let Ok(child_session_id) = SessionId::new(&child.child_session_id) else { continue };
            if depth == DEPTH_MAX {
                continue;
            }
            let loaded = (self.load)(&child_session_id).map_err(|source| TreeError {
                child_id: child.child_id.clone(),
                session_id: child.child_session_id.clone(),
                source,
            })?;
            if let Some(events) = loaded {
                let child_run = self.export_run(child_session_id, &events, depth + 1)?;
                run.tree_cost += child_run.tree_cost;
                child.run = Some(Box::new(child_run));
            }
        }
        Ok(run)
    }

    /// What the events of one session add to the sum.
    fn count_cost(&mut self, session_id: &SessionId, events: &[Event]) -> Cost {
        let mut sum = Cost::ZERO;
        for AmendedEvent { event, cost } in in_place(events) {
            let Some(cost) = cost else { continue };
            let is_new = self.counted.insert((session_id.clone(), event.id));
            let origin = event.fork_origin();
            // Several forks in the tree show the same event under ids of their own; its origin is
            // the same.
            let is_new_origin = origin
                .is_none_or(|origin| self.counted.insert((origin.session_id, origin.event_id)));
            if is_new && is_new_origin {
                sum += cost;
            }
        }
        sum
    }
}
