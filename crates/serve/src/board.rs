//! The latest status of each session.
//!
//! A watcher first gets the whole board, as soon as it is complete: a partial one would look as if
//! sessions were missing. Then it gets the changes since the version that it has seen. A slow
//! watcher gets only the newest status of each session. It is told when a session leaves the board.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use tokio::sync::watch;
use wire::{Status, StreamFrame};

/// The board, shared by the daemon that fills it and all watchers. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    shown: Arc<Mutex<BoardState>>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct BoardState {
    version: u64,
    /// The board is complete: a session that is not here has no status.
    is_whole: bool,
    sessions: BTreeMap<SessionId, BoardEntry>,
}

struct BoardEntry {
    version: u64,
    status: Status,
    /// The status as JSON, encoded once for all watchers.
    encoded: String,
    /// The frame for a session that waits for the user, and the version it is from.
    waits: Option<(u64, Utf8Bytes)>,
}

/// What a watcher has been sent.
#[derive(Default)]
pub struct BoardCursor {
    version: u64,
    /// It got the whole board.
    has_board: bool,
    sessions: BTreeSet<SessionId>,
}

impl Default for Board {
    fn default() -> Board {
        Board { shown: Arc::default(), changed: watch::channel(0).0 }
    }
}

impl Board {
    /// Replaces the whole board, which is complete from then on.
    pub fn show_all(&self, statuses: impl IntoIterator<Item = Status>) {
        self.apply_change(|shown, version| {
            let mut before = std::mem::take(&mut shown.sessions);
            let count = before.len();
            let mut has_changed = !std::mem::replace(&mut shown.is_whole, true);
            for status in statuses {
                let known = before.remove(&status.session_id);
                has_changed |= shown.put_status(status, known, version);
            }
            // With no new status a session can still have left.
            has_changed || shown.sessions.len() != count
        });
    }

    /// Updates these sessions. An unchanged status is not sent again.
    pub fn show(&self, statuses: impl IntoIterator<Item = Status>) {
        self.apply_change(|shown, version| {
            let mut has_changed = false;
            for status in statuses {
                let known = shown.sessions.remove(&status.session_id);
                has_changed |= shown.put_status(status, known, version);
            }
            has_changed
        });
    }

    /// Removes the sessions that `is_kept` rejects.
    pub fn keep(&self, is_kept: impl Fn(&SessionId) -> bool) {
        self.apply_change(|shown, _| {
            let count = shown.sessions.len();
            shown.sessions.retain(|id, _| is_kept(id));
            shown.sessions.len() != count
        });
    }

    /// Clears the board. New watchers wait until it is complete again.
    pub fn wipe(&self) {
        self.apply_change(|shown, _| {
            shown.sessions.clear();
            std::mem::replace(&mut shown.is_whole, false)
        });
    }

    /// Returns the frames that a watcher has not seen, and advances its cursor.
    pub fn news(&self, seen: &mut BoardCursor) -> Vec<Utf8Bytes> {
        let shown = self.lock();
        if shown.version == seen.version || !(seen.has_board || shown.is_whole) {
            return Vec::new();
        }
        let mut frames = Vec::new();
        if !seen.has_board {
            let encoded = shown.sessions.values().map(|line| line.encoded.as_str());
            frames.push(StreamFrame::of_board(encoded).into());
            let waits = shown.sessions.values().filter_map(|line| line.waits.as_ref());
            frames.extend(waits.map(|(_, frame)| frame.clone()));
            seen.sessions = shown.sessions.keys().cloned().collect();
            (seen.has_board, seen.version) = (true, shown.version);
            return frames;
        }
        // The board does not remember what left it. The cursor remembers what it was sent.
        seen.sessions.retain(|id| {
            let is_shown = shown.sessions.contains_key(id);
            if !is_shown {
                let gone = StreamFrame::SessionGone { session_id: id.clone() };
                frames.push(gone.encode().into());
            }
            is_shown
        });
        let mut news: Vec<&BoardEntry> =
            shown.sessions.values().filter(|line| line.version > seen.version).collect();
        // In the order of the changes. The map has the order of the ids.
        news.sort_by_key(|line| line.version);
        for line in news {
            seen.sessions.insert(line.status.session_id.clone());
            frames.push(StreamFrame::of_status(&line.encoded).into());
            // A wait that was sent before is not sent again with each new status.
            frames.extend(
                line.waits.iter().filter(|(at, _)| *at > seen.version).map(|(_, it)| it.clone()),
            );
        }
        seen.version = shown.version;
        frames
    }

    /// Returns all statuses; `None` before the board is complete.
    pub fn whole(&self) -> Option<Vec<Status>> {
        let shown = self.lock();
        let statuses = || shown.sessions.values().map(|line| line.status.clone()).collect();
        shown.is_whole.then(statuses)
    }

    /// Returns the present statuses, complete or not, if the board has changed since the version
    /// that was seen, which is none before the first look.
    pub fn statuses_since(&self, seen: &mut Option<u64>) -> Option<Vec<Status>> {
        let shown = self.lock();
        let has_changed = seen.replace(shown.version) != Some(shown.version);
        has_changed.then(|| shown.sessions.values().map(|line| line.status.clone()).collect())
    }

    /// Returns a receiver that changes with every change of the board.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Applies a change and, if the board differs, raises the version and wakes the watchers.
    fn apply_change(&self, change: impl FnOnce(&mut BoardState, u64) -> bool) {
        let mut shown = self.lock();
        let version = shown.version + 1;
        if change(&mut shown, version) {
            shown.version = version;
            // Unlocked first: woken watchers take this lock at once.
            drop(shown);
            self.changed.send_replace(version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoardState {
    /// Inserts a status; returns whether it differs from the known one.
    fn put_status(&mut self, status: Status, known: Option<BoardEntry>, version: u64) -> bool {
        let line = match known {
            Some(line) if line.status == status => line,
            known => BoardEntry::new(status, known, version),
        };
        let is_new = line.version == version;
        self.sessions.insert(line.status.session_id.clone(), line);
        is_new
    }
}

impl BoardEntry {
    fn new(status: Status, before: Option<BoardEntry>, version: u64) -> BoardEntry {
        let encoded = status.encode();
        let waits =
            waiting_frame(&status).map(|frame| frame.encode().into()).map(|frame: Utf8Bytes| {
                // The same wait with another status around it must not notify the user again.
                let known = before.and_then(|line| line.waits).filter(|(_, known)| *known == frame);
                known.unwrap_or((version, frame))
            });
        BoardEntry { version, status, encoded, waits }
    }
}

/// Returns the frame for a session that waits for the user.
fn waiting_frame(status: &Status) -> Option<StreamFrame> {
    let reason = match (status.status.as_ref(), status.reason.as_ref()) {
        ("waiting_approval", _) => "approval",
        ("waiting", "question") => "question",
        _ => return None,
    };
    Some(StreamFrame::WaitingForInput {
        session_id: status.session_id.clone(),
        reason,
        since: status.since,
        approvals: status.pending_approvals.clone(),
        summary: status.summary.current.clone(),
    })
}
