//! The children of a session that have not come to an end.

use std::collections::{BTreeMap, VecDeque};

use event::{ChildStatus, Event};
use serde::{Deserialize, Serialize};

use super::{Oddity, Opened, give_up_oldest};
use crate::children::{ChildRef, ChildStep, child_step, is_child_open};

/// Children remembered after their end, to know a late event for what it is. One forgotten counts
/// as never heard of; the hosted door looks it up in the log instead.
const ENDED_MAX: usize = 256;

/// A child that is not final.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenChild {
    pub child_id: String,
    pub child_session_id: String,
    pub agent_id: String,
    /// `requested`, `running` or `blocked`.
    pub status: ChildStatus,
    /// Where it was first heard of.
    pub opened: Opened,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OpenChildren {
    open: BTreeMap<String, OpenChild>,
    ended: VecDeque<(String, ChildStatus)>,
}

impl OpenChildren {
    /// The open children by time of request, then id.
    pub(crate) fn open(&self) -> Vec<&OpenChild> {
        let mut open: Vec<&OpenChild> = self.open.values().collect();
        open.sort_by(|a, b| (a.opened.at, &a.child_id).cmp(&(b.opened.at, &b.child_id)));
        open
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The status of a child; `None` if it is not remembered.
    pub(crate) fn status(&self, child_id: &str) -> Option<&ChildStatus> {
        self.open.get(child_id).map(|child| &child.status).or_else(|| {
            self.ended.iter().find(|(ended, _)| ended == child_id).map(|(_, status)| status)
        })
    }

    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), Oddity> {
        let Some(named) = ChildRef::from_draft(event) else { return Ok(()) };
        match child_step(self.status(&named.child_id), &event.kind) {
            ChildStep::To(status) => self.set_status(event, named, status)?,
            ChildStep::Illegal { from } => {
                let why =
                    format!("child `{}` is {from}; `{}` cannot follow", named.child_id, event.kind);
                return Err(Oddity::new(event, why));
            }
            ChildStep::Nothing => {}
        }
        Ok(())
    }

    fn set_status(
        &mut self,
        event: &Event,
        named: ChildRef,
        status: ChildStatus,
    ) -> Result<(), Oddity> {
        let id = named.child_id.clone();
        if !is_child_open(&status) {
            // An end of a child that was never heard of is remembered too: it makes later events
            // odd.
            self.end_child(id, status);
            return Ok(());
        }
        // A later event of a known child must not move the place where it was opened.
        let child = self.open.entry(id).or_insert_with(|| OpenChild {
            child_id: named.child_id,
            child_session_id: named.child_session_id,
            agent_id: named.agent_id,
            status: status.clone(),
            opened: Opened::from_event(event),
        });
        child.status = status;
        match give_up_oldest(&mut self.open, |child| child.opened.seq) {
            Some(oldest) => {
                let why = format!("child `{oldest}` is given up: too many are open");
                Err(Oddity::new(event, why))
            }
            None => Ok(()),
        }
    }

    fn end_child(&mut self, child_id: String, status: ChildStatus) {
        self.open.remove(&child_id);
        // `completed` may be followed by `merged`; the child must not take two places in the list.
        self.ended.retain(|(ended, _)| *ended != child_id);
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((child_id, status));
    }
}
