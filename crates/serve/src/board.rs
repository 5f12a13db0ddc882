//! The last value of what each session is doing.
//!
//! Whoever watches has seen it up to a version. One that is slow gets the newest value of each
//! session when it reads again, and never an older one; of a session that is taken off it is told
//! so, if it ever heard of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use tokio::sync::watch;
use wire::{Frame, Status};

/// Shared by whoever fills it and all who watch. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    shown: Arc<Mutex<Shown>>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Shown {
    version: u64,
    sessions: BTreeMap<SessionId, Line>,
}

struct Line {
    version: u64,
    status: Status,
    frame: Utf8Bytes,
    /// Since which version somebody is waited for.
    waits: Option<(u64, Utf8Bytes)>,
}

/// What somebody who watches has been told.
#[derive(Default)]
pub struct Seen {
    version: u64,
    sessions: BTreeSet<SessionId>,
}

impl Default for Board {
    fn default() -> Board {
        Board { shown: Arc::default(), changed: watch::channel(0).0 }
    }
}

impl Board {
    /// Shows these. Sessions that say the same as before are no news.
    pub fn show(&self, statuses: impl IntoIterator<Item = Status>) {
        let version = {
            let mut shown = self.lock();
            let version = shown.version + 1;
            for status in statuses {
                let known = shown.sessions.remove(&status.session_id);
                let line = match known {
                    Some(line) if line.status == status => line,
                    known => Line::new(status, known, version),
                };
                shown.sessions.insert(line.status.session_id.clone(), line);
            }
            if !shown.sessions.values().any(|line| line.version == version) {
                return;
            }
            shown.version = version;
            version
        };
        self.changed.send_replace(version);
    }

    /// Takes off sessions that nobody has to look at any more.
    pub fn keep(&self, is_kept: impl Fn(&SessionId) -> bool) {
        let version = {
            let mut shown = self.lock();
            let count = shown.sessions.len();
            shown.sessions.retain(|id, _| is_kept(id));
            if shown.sessions.len() == count {
                return;
            }
            shown.version += 1;
            shown.version
        };
        self.changed.send_replace(version);
    }

    /// What somebody has to be told who has seen so much; then they have seen that too.
    pub fn news(&self, seen: &mut Seen) -> Vec<Utf8Bytes> {
        let shown = self.lock();
        if shown.version == seen.version {
            return Vec::new();
        }
        let mut frames = Vec::new();
        seen.sessions.retain(|id| {
            let is_shown = shown.sessions.contains_key(id);
            if !is_shown {
                let gone = Frame::SessionGone { session_id: id.clone() };
                frames.push(gone.encode().into());
            }
            is_shown
        });
        let mut news: Vec<&Line> =
            shown.sessions.values().filter(|line| line.version > seen.version).collect();
        news.sort_by_key(|line| line.version);
        for line in news {
            seen.sessions.insert(line.status.session_id.clone());
            frames.push(line.frame.clone());
            frames.extend(
                line.waits.iter().filter(|(at, _)| *at > seen.version).map(|(_, it)| it.clone()),
            );
        }
        seen.version = shown.version;
        frames
    }

    /// What is shown now.
    pub fn statuses(&self) -> Vec<Status> {
        self.lock().sessions.values().map(|line| line.status.clone()).collect()
    }

    /// Resolves when there is news.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn new(status: Status, before: Option<Line>, version: u64) -> Line {
        let frame = Frame::SessionStatus { status: Box::new(status.clone()) }.encode().into();
        let waits = waiting(&status).map(|frame| frame.encode().into()).map(|frame: Utf8Bytes| {
            // The same wait, told in other words around it, is not another one.
            let known = before.and_then(|line| line.waits).filter(|(_, known)| *known == frame);
            known.unwrap_or((version, frame))
        });
        Line { version, status, frame, waits }
    }
}

/// Whether somebody has to do something.
fn waiting(status: &Status) -> Option<Frame> {
    let reason = match (status.status, status.reason) {
        ("waiting_approval", _) => "approval",
        ("waiting", "question") => "question",
        _ => return None,
    };
    Some(Frame::WaitingForInput {
        session_id: status.session_id.clone(),
        reason,
        since: status.since,
        approvals: status.pending_approvals.clone(),
        summary: status.summary.current.clone(),
    })
}
