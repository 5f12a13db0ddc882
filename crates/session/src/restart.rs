//! A session after a restart: what was left open, and closing it.

use std::collections::HashMap;

use event::{Draft, Time};
use journal::AppendError;

use crate::recover::{Left, Recovery, recover};
use crate::{ChildFate, EventLookup, OpenChild, Session, SessionError};

impl Session {
    /// Lists the open work without writing. `is_running` says whether a child has a process.
    pub fn recover(
        &self,
        now: Time,
        is_running: impl Fn(&OpenChild) -> bool,
    ) -> Result<Recovery, SessionError> {
        self.refresh()?;
        let open = self.open_work();
        let mut fates = HashMap::new();
        for child in open.children() {
            // Read here, because `recover` is pure and cannot report a failed read.
            let fate = self.child_fate(child, is_running(child))?;
            fates.insert(child.child_id.clone(), fate);
        }
        Ok(recover(&open, now, |child| fates.remove(&child.child_id).unwrap_or(ChildFate::Running)))
    }

    /// Closes what has ended. Doing it twice, also from two processes at once, adds nothing.
    pub fn close_recovered(&self, recovery: &Recovery) -> Result<(), SessionError> {
        for left in recovery.left_open() {
            let Left::Child { child, fate } = &left.left else { continue };
            // One that ended leaves more behind than its end.
            if !matches!(fate, ChildFate::Running | ChildFate::Lost) {
                self.settle_child(&child.child_id)?;
            }
        }
        let mut refused: Option<Vec<Draft>> = None;
        loop {
            self.refresh()?;
            let closing = recovery.still_open(&self.open_work()).closing_drafts(&self.reader())?;
            let mut drafts = Vec::new();
            for draft in closing {
                // A closing event with the same id is there already, from this process or from
                // another one.
                if self.reader().seq_of(draft.id)?.is_none() {
                    drafts.push(draft);
                }
            }
            if drafts.is_empty() {
                return Ok(());
            }
            match self.append_batch(drafts.clone()) {
                // Another process closed a part of it; the rest is tried again.
                Err(
                    SessionError::Refused(_)
                    | SessionError::Append(AppendError::DuplicateId { .. }),
                ) if refused.as_ref() != Some(&drafts) => refused = Some(drafts),
                other => return other.map(drop),
            }
        }
    }

    /// What has become of a child, told by its own log.
    pub(crate) fn child_fate(
        &self,
        child: &OpenChild,
        is_running: bool,
    ) -> Result<ChildFate, SessionError> {
        let events = self.child_log(child)?.unwrap_or_default();
        Ok(ChildFate::from_log(&events, is_running))
    }
}
