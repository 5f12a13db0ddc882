//! The children of a session: how far each has got, what it was asked and what came back.

use std::collections::BTreeMap;

use event::payload::{
    Artifact, ArtifactRecorded, ChildBlocked, ChildCanceled, ChildCompleted, ChildFailed,
    ChildMode, ChildRequested, TokenUsage,
};
use event::{ChildStatus, Draft, Event, Kind, Raw, Time};
use serde::{Deserialize, Serialize};

use crate::Oddity;
use crate::amend::in_place;
use crate::run::Run;

/// One child, as its parent's log tells it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChildRun {
    pub child_id: String,
    pub child_session_id: String,
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ChildMode>,
    pub task: String,
    /// What its request says beyond that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Raw>,
    pub status: ChildStatus,
    /// When it was asked for, else first heard of.
    pub requested_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why it failed, was canceled or is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode_id: Option<String>,
    /// What it left behind, without mere pointers at files of the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Events about it that cannot have happened so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub oddities: Vec<Oddity>,
    /// Its own run; only in a tree, and only if its session could be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
}

/// The children a log tells of, by time of request, then id.
///
/// Events of other kinds than `child.*` and `artifact.recorded` need not be among the events.
pub fn children(events: &[Event]) -> Vec<ChildRun> {
    let mut children = Children::default();
    for told in in_place(events) {
        children.apply(told.event);
    }
    children.finish()
}

/// The children of one log while it is read.
#[derive(Default)]
pub(crate) struct Children {
    by_id: BTreeMap<String, ChildRun>,
    /// Artifacts may be told of before the child they come from.
    artifacts: BTreeMap<String, Vec<Artifact>>,
}

impl Children {
    pub(crate) fn apply(&mut self, event: &Event) {
        if let Some(recorded) = event.readable::<ArtifactRecorded>() {
            self.artifact(recorded);
            return;
        }
        let Some(named) = ChildRef::from_draft(event) else { return };
        match (
            child_step(self.status(&named.child_id), &event.kind),
            self.by_id.get_mut(&named.child_id),
        ) {
            (ChildStep::To(status), Some(child)) => child.set_status(event, status),
            (ChildStep::To(status), None) => {
                // Not always a request: an observed log may begin in the middle of a child's life.
                let mut child = ChildRun::first_seen(event, named, status.clone());
                child.set_status(event, status);
                self.by_id.insert(child.child_id.clone(), child);
            }
            (ChildStep::Illegal { from }, Some(child)) => {
                // The log is kept as it is. The state stays, and the reader is told.
                let why = format!("it is {from}; `{}` cannot follow", event.kind);
                child.oddities.push(Oddity::new(event, why));
            }
            (ChildStep::Illegal { .. } | ChildStep::Nothing, _) => {}
        }
    }

    fn status(&self, child_id: &str) -> Option<&ChildStatus> {
        self.by_id.get(child_id).map(|child| &child.status)
    }

    fn artifact(&mut self, recorded: ArtifactRecorded) {
        if let Some(child_id) = recorded.child_id
            && !recorded.artifact.is_file_ref()
        {
            self.artifacts.entry(child_id).or_default().push(recorded.artifact);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<ChildRun> {
        let mut children: Vec<ChildRun> = self.by_id.into_values().collect();
        for child in &mut children {
            // Joined only now, because artifacts are recorded before the end and may come before
            // the request.
            child.artifacts = self.artifacts.remove(&child.child_id).unwrap_or_default();
        }
        children.sort_by(|a, b| (a.requested_at, &a.child_id).cmp(&(b.requested_at, &b.child_id)));
        children
    }
}

impl ChildRun {
    fn first_seen(event: &Event, named: ChildRef, status: ChildStatus) -> ChildRun {
        ChildRun {
            child_id: named.child_id,
            child_session_id: named.child_session_id,
            agent_id: named.agent_id,
            mode: None,
            task: String::new(),
            metadata: None,
            status,
            requested_at: event.created_at,
            ended_at: None,
            summary: None,
            reason: None,
            usage: None,
            episode_id: None,
            artifacts: Vec::new(),
            oddities: Vec::new(),
            run: None,
        }
    }

    fn set_status(&mut self, event: &Event, status: ChildStatus) {
        // A reason belongs to one status: a child that goes on is no longer blocked for it.
        self.reason = None;
        if let Some(request) = event.readable::<ChildRequested>() {
            self.mode = request.mode;
            self.task = request.task;
            self.metadata = request.metadata;
        } else if let Some(completed) = event.readable::<ChildCompleted>() {
            self.summary = completed.summary;
            self.usage = completed.usage;
            self.episode_id = completed.episode_id;
        } else if let Some(failed) = event.readable::<ChildFailed>() {
            self.reason = Some(failed.error);
        } else if let Some(canceled) = event.readable::<ChildCanceled>() {
            self.reason = canceled.reason;
        } else if let Some(blocked) = event.readable::<ChildBlocked>() {
            self.reason = Some(blocked.reason);
        }
        let has_ended = !is_child_open(&status);
        // A merge comes after the end and must not move it.
        if has_ended && self.ended_at.is_none() {
            self.ended_at = Some(event.created_at);
        }
        self.status = status;
    }
}

/// What an event does to a child.
pub(crate) enum ChildStep {
    To(ChildStatus),
    Illegal {
        from: ChildStatus,
    },
    /// It is not about a child.
    Nothing,
}

/// The next status of a child. An unknown child is taken to be where the event says: a log
/// that is watched from the middle has no requests.
pub(crate) fn child_step(from: Option<&ChildStatus>, kind: &Kind) -> ChildStep {
    let told = match kind {
        Kind::ChildRequested => ChildStatus::Requested,
        Kind::ChildStarted | Kind::ChildProgressed => ChildStatus::Running,
        Kind::ChildBlocked => ChildStatus::Blocked,
        Kind::ChildCompleted => ChildStatus::Completed,
        Kind::ChildFailed => ChildStatus::Failed,
        Kind::ChildCanceled => ChildStatus::Canceled,
        Kind::ChildMerged => ChildStatus::Merged,
        _ => return ChildStep::Nothing,
    };
    let Some(from) = from else { return ChildStep::To(told) };
    match ChildStatus::after(Some(from), kind) {
        Some(status) => ChildStep::To(status),
        None => ChildStep::Illegal { from: from.clone() },
    }
}

/// Whether a child is not final.
pub(crate) fn is_child_open(status: &ChildStatus) -> bool {
    matches!(status, ChildStatus::Requested | ChildStatus::Running | ChildStatus::Blocked)
}

/// Which child an event is about: the fields all of these events share.
#[derive(Deserialize)]
pub(crate) struct ChildRef {
    pub(crate) child_id: String,
    #[serde(default)]
    pub(crate) child_session_id: String,
    #[serde(default)]
    pub(crate) agent_id: String,
}

impl ChildRef {
    pub(crate) fn from_draft(event: &Draft) -> Option<ChildRef> {
        if matches!(child_step(None, &event.kind), ChildStep::Nothing) {
            return None;
        }
        event.data.read::<ChildRef>().ok().filter(|named| !named.child_id.trim().is_empty())
    }
}
