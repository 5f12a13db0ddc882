//! The position of a follower and the decision what it gets next. No IO, no waiting.
//!
//! A follower is only a position. The events after it are in the [`ReplayBuffer`] or are read from
//! the journal, so a slow follower needs no more memory than a fast one.

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use wire::{StreamFrame, StreamPlace, StreamState};

use crate::replay_buffer::{ReplayBuffer, StreamEvent};

/// The bytes that one follower gets from memory at a time, before the others get their turn.
const GIVE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct FollowCursor {
    /// The followed session; `None` for all sessions.
    session: Option<SessionId>,
    /// All events up to here were sent or belong to other sessions.
    position: u64,
    /// All events of the session up to here were sent.
    seq: u64,
    state: StreamState,
    lagged: u64,
}

/// The next step of a follower.
#[derive(Debug)]
pub(crate) enum CursorStep {
    /// Send these frames in order.
    Give(Vec<Utf8Bytes>),
    /// Read the events after its position from the journal.
    Read,
    /// Wait for new events.
    Wait,
}

/// Events read from the journal behind the place of a follower.
#[derive(Debug)]
pub(crate) struct JournalPage {
    pub(crate) told: Vec<StreamEvent>,
    /// The page has all events up to this position.
    pub(crate) up_to: Option<u64>,
}

impl FollowCursor {
    /// Creates a cursor on all sessions after a position.
    pub(crate) fn for_all(position: u64) -> FollowCursor {
        FollowCursor { session: None, position, seq: 0, state: StreamState::CatchingUp, lagged: 0 }
    }

    /// Creates a cursor on a session after a `seq`. Its events up to `position` were sent or do not
    /// exist; with a `position` of 0 they are read from the journal first.
    pub(crate) fn for_session(session: SessionId, seq: u64, position: u64) -> FollowCursor {
        let session = Some(session);
        FollowCursor { session, position, seq, state: StreamState::CatchingUp, lagged: 0 }
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    pub(crate) fn place(&self) -> StreamPlace {
        StreamPlace { position: self.position, seq: self.session.is_some().then_some(self.seq) }
    }

    /// Returns how often the follower was told that it lags.
    pub(crate) fn lagged(&self) -> u64 {
        self.lagged
    }

    /// Decides the next step.
    pub(crate) fn next_step(&mut self, recent: &ReplayBuffer) -> CursorStep {
        let Some(behind) = recent.events_after(self.position) else {
            // The follower is told once that it lags. After that it is catching up and reads.
            if self.state != StreamState::Live {
                return CursorStep::Read;
            }
            self.state = StreamState::CatchingUp;
            self.lagged += 1;
            let (session_id, place) = (self.session.clone(), self.place());
            return CursorStep::Give(vec![
                StreamFrame::Lagged { session_id, place }.encode().into(),
            ]);
        };
        let mut frames = Vec::new();
        let mut bytes = 0;
        for told in behind {
            // Events of other sessions count too, or the cursor of a quiet session would fall out
            // of the buffer and read the journal in vain.
            self.position = told.position;
            bytes += self.push_event(told, &mut frames);
            if bytes >= GIVE_BYTES_MAX {
                return CursorStep::Give(frames);
            }
        }
        // The buffer reaches up to the newest event, and all of it was sent.
        if self.state == StreamState::CatchingUp {
            self.state = StreamState::Live;
            frames.push(self.status_frame(StreamState::Live));
        }
        if frames.is_empty() { CursorStep::Wait } else { CursorStep::Give(frames) }
    }

    /// Accepts events that were read from the journal and returns their frames.
    pub(crate) fn accept_page(&mut self, read: JournalPage) -> Vec<Utf8Bytes> {
        let mut frames = Vec::new();
        for told in read.told {
            if self.session.is_none() {
                if told.position <= self.position {
                    continue;
                }
                self.position = told.position;
            }
            self.push_event(&told, &mut frames);
        }
        // A cursor on one session moves only here: its events alone do not say how far the
        // journal was read.
        self.position = self.position.max(read.up_to.unwrap_or(0));
        frames
    }

    /// Builds the frame for a new state of the stream.
    pub(crate) fn status_frame(&self, state: StreamState) -> Utf8Bytes {
        let (session_id, place) = (self.session.clone(), self.place());
        StreamFrame::StreamStatus { session_id, state, place }.encode().into()
    }

    /// Adds the frames of an event, unless it was sent before or belongs to another session.
    /// Returns their length.
    fn push_event(&mut self, told: &StreamEvent, frames: &mut Vec<Utf8Bytes>) -> usize {
        if let Some(session) = &self.session {
            // A read from the journal may have gone further than the position says, so the buffer
            // repeats some of its events.
            if *session != told.session_id || told.seq <= self.seq {
                return 0;
            }
            self.seq = told.seq;
        }
        frames.push(told.frame.clone());
        frames.extend(told.decision.clone());
        told.len()
    }
}

#[cfg(test)]
mod tests;
