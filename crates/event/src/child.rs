//! The life cycle of a child run.

use crate::Kind;
use crate::kind::open_list;

open_list! {
    /// The state of a child run.
    ChildStatus {
        Requested = "requested",
        Running = "running",
        Blocked = "blocked",
        Completed = "completed",
        Failed = "failed",
        Canceled = "canceled",
        Merged = "merged",
    }
}

impl ChildStatus {
    /// Returns the status after an event of `kind`, or `None` if that transition is not legal.
    ///
    /// `from` is `None` for a child that has no event yet.
    pub fn after(from: Option<&ChildStatus>, kind: &Kind) -> Option<ChildStatus> {
        use ChildStatus::{Blocked, Canceled, Completed, Failed, Merged, Requested, Running};
        // requested ─► running ◄─► blocked          Progress changes neither of the two.
        // running or blocked ─► completed ─► merged
        // requested, running or blocked ─► failed or canceled
        match (from, kind) {
            (None, Kind::ChildRequested) => Some(Requested),
            (Some(Requested | Blocked), Kind::ChildStarted) => Some(Running),
            (Some(Running), Kind::ChildProgressed) => Some(Running),
            (Some(Running), Kind::ChildBlocked) => Some(Blocked),
            (Some(Blocked), Kind::ChildProgressed) => Some(Blocked),
            (Some(Running | Blocked), Kind::ChildCompleted) => Some(Completed),
            (Some(Requested | Running | Blocked), Kind::ChildFailed) => Some(Failed),
            (Some(Requested | Running | Blocked), Kind::ChildCanceled) => Some(Canceled),
            (Some(Completed), Kind::ChildMerged) => Some(Merged),
            _ => None,
        }
    }

    /// Whether no transition can follow.
    pub fn is_final(&self) -> bool {
        matches!(self, ChildStatus::Failed | ChildStatus::Canceled | ChildStatus::Merged)
    }
}
