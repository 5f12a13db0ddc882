//! The last value of what each session is doing.
//!
//! Whoever watches is first given all of it, once all of it is there, so that nobody takes what is
//! not there yet for what is not so; from then on it has seen it up to a version. One that is slow
//! gets the newest value of each session when it reads again, and never an older one; of a session
//! that is taken off it is told so.

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
    /// Everything there is was shown: what is not here is not so.
    is_whole: bool,
    sessions: BTreeMap<SessionId, Line>,
}

struct Line {
    version: u64,
    status: Status,
    /// As JSON: encoded once for everybody.
    encoded: String,
    /// Since which version somebody is waited for.
    waits: Option<(u64, Utf8Bytes)>,
}

/// What somebody who watches has been told.
#[derive(Default)]
pub struct Seen {
    version: u64,
    /// It was given the board as a whole.
    has_board: bool,
    sessions: BTreeSet<SessionId>,
}

impl Default for Board {
    fn default() -> Board {
        Board { shown: Arc::default(), changed: watch::channel(0).0 }
    }
}

impl Board {
    /// Shows these and no others: it is whole from then on.
    pub fn show_all(&self, statuses: impl IntoIterator<Item = Status>) {
        self.change(|shown, version| {
            let mut before = std::mem::take(&mut shown.sessions);
            let count = before.len();
            let mut has_changed = !std::mem::replace(&mut shown.is_whole, true);
            for status in statuses {
                let known = before.remove(&status.session_id);
                has_changed |= shown.put(status, known, version);
            }
            has_changed || shown.sessions.len() != count
        });
    }

    /// Shows these. Sessions that say the same as before are no news.
    pub fn show(&self, statuses: impl IntoIterator<Item = Status>) {
        self.change(|shown, version| {
            let mut has_changed = false;
            for status in statuses {
                let known = shown.sessions.remove(&status.session_id);
                has_changed |= shown.put(status, known, version);
            }
            has_changed
        });
    }

    /// Takes off sessions that nobody has to look at any more.
    pub fn keep(&self, is_kept: impl Fn(&SessionId) -> bool) {
        self.change(|shown, _| {
            let count = shown.sessions.len();
            shown.sessions.retain(|id, _| is_kept(id));
            shown.sessions.len() != count
        });
    }

    /// Takes everything off: who comes next waits until it is whole again.
    pub fn wipe(&self) {
        self.change(|shown, _| {
            shown.sessions.clear();
            std::mem::replace(&mut shown.is_whole, false)
        });
    }

    /// What somebody has to be told who has seen so much; then they have seen that too.
    pub fn news(&self, seen: &mut Seen) -> Vec<Utf8Bytes> {
        let shown = self.lock();
        if shown.version == seen.version || !(seen.has_board || shown.is_whole) {
            return Vec::new();
        }
        let mut frames = Vec::new();
        if !seen.has_board {
            let encoded = shown.sessions.values().map(|line| line.encoded.as_str());
            frames.push(Frame::of_board(encoded).into());
            let waits = shown.sessions.values().filter_map(|line| line.waits.as_ref());
            frames.extend(waits.map(|(_, frame)| frame.clone()));
            seen.sessions = shown.sessions.keys().cloned().collect();
            (seen.has_board, seen.version) = (true, shown.version);
            return frames;
        }
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
            frames.push(Frame::of_status(&line.encoded).into());
            frames.extend(
                line.waits.iter().filter(|(at, _)| *at > seen.version).map(|(_, it)| it.clone()),
            );
        }
        seen.version = shown.version;
        frames
    }

    /// All there is to show; `None` before it is whole.
    pub fn whole(&self) -> Option<Vec<Status>> {
        let shown = self.lock();
        let statuses = || shown.sessions.values().map(|line| line.status.clone()).collect();
        shown.is_whole.then(statuses)
    }

    /// What is shown now.
    pub fn statuses(&self) -> Vec<Status> {
        self.lock().sessions.values().map(|line| line.status.clone()).collect()
    }

    /// Resolves when there is news.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes what is shown, to another version, and tells those who watch if it did.
    fn change(&self, change: impl FnOnce(&mut Shown, u64) -> bool) {
        let mut shown = self.lock();
        let version = shown.version + 1;
        if change(&mut shown, version) {
            shown.version = version;
            drop(shown);
            self.changed.send_replace(version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    /// Puts a status where another one stood; whether it is another one.
    fn put(&mut self, status: Status, known: Option<Line>, version: u64) -> bool {
        let line = match known {
            Some(line) if line.status == status => line,
            known => Line::new(status, known, version),
        };
        let is_new = line.version == version;
        self.sessions.insert(line.status.session_id.clone(), line);
        is_new
    }
}

impl Line {
    fn new(status: Status, before: Option<Line>, version: u64) -> Line {
        let encoded = status.encode();
        let waits = waiting(&status).map(|frame| frame.encode().into()).map(|frame: Utf8Bytes| {
            // The same wait, told in other words around it, is not another one.
            let known = before.and_then(|line| line.waits).filter(|(_, known)| *known == frame);
            known.unwrap_or((version, frame))
        });
        Line { version, status, encoded, waits }
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
