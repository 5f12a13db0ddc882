//! The group that lists and counts put a session into.
//!
//! Every face asks this one function, so that the page and the terminal count alike.

use super::attention::{Attention, AttentionKind};
use super::{Status, Verdict};

/// A group of sessions, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StatusGroup {
    /// The user has to act. A session that has only finished is not among these.
    NeedsYou,
    Running,
    Waiting,
    Idle,
    Unknown,
    Exited,
}

impl StatusGroup {
    pub const ALL: [StatusGroup; 6] = [
        StatusGroup::NeedsYou,
        StatusGroup::Running,
        StatusGroup::Waiting,
        StatusGroup::Idle,
        StatusGroup::Unknown,
        StatusGroup::Exited,
    ];

    /// The group of a session with this verdict and this attention.
    pub fn of(verdict: &Verdict, attention: Option<&Attention>) -> StatusGroup {
        if attention.is_some_and(|attention| attention.want < AttentionKind::Finished) {
            return StatusGroup::NeedsYou;
        }
        match verdict.status {
            // An approval is always for the user, also where attention knows no more of it.
            Status::WaitingApproval => StatusGroup::NeedsYou,
            Status::Running => StatusGroup::Running,
            Status::Waiting => StatusGroup::Waiting,
            Status::Idle => StatusGroup::Idle,
            Status::Unknown => StatusGroup::Unknown,
            Status::Exited => StatusGroup::Exited,
        }
    }

    /// The group with this name; a name of a later version counts as unknown.
    pub fn parse(name: &str) -> StatusGroup {
        let known = StatusGroup::ALL.into_iter().find(|group| group.as_str() == name);
        known.unwrap_or(StatusGroup::Unknown)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            StatusGroup::NeedsYou => "needs_you",
            StatusGroup::Running => "running",
            StatusGroup::Waiting => "waiting",
            StatusGroup::Idle => "idle",
            StatusGroup::Unknown => "unknown",
            StatusGroup::Exited => "exited",
        }
    }
}
