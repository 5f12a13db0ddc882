//! The life of a child run.

use crate::Kind;
use crate::kind::open_list;

open_list! {
    /// How far a child has got.
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
    /// The status after an event of `kind`, or `None` where that is not legal.
    ///
    /// `from` is `None` for a child nobody has heard of.
    pub fn after(from: Option<&ChildStatus>, kind: &Kind) -> Option<ChildStatus> {
        use ChildStatus::{Blocked, Canceled, Completed, Failed, Merged, Requested, Running};
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

    /// Nothing can follow.
    pub fn is_final(&self) -> bool {
        matches!(self, ChildStatus::Failed | ChildStatus::Canceled | ChildStatus::Merged)
    }
}
