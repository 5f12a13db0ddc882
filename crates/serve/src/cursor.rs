//! Where a follower stands, and what comes next for it. No IO, no waiting.
//!
//! A follower is a place. What is behind the place is in [`Recent`], or has to be read from the
//! journal first; so one that does not read costs no more than one that does.

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use wire::{Frame, Place, StreamState};

use crate::recent::{Recent, Told};

/// Bytes that are taken from memory at once for one follower; the others have their turn then.
const GIVE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The session that is followed; all of them if none is named.
    session: Option<SessionId>,
    /// Everything up to here was given, or is about other sessions.
    position: u64,
    /// The same, of the session.
    seq: u64,
    state: StreamState,
    lagged: u64,
}

/// What a follower needs next.
#[derive(Debug)]
pub(crate) enum Step {
    /// These, in order.
    Give(Vec<Utf8Bytes>),
    /// What is behind its place, from the journal.
    Read,
    /// Nothing before the journal goes on.
    Wait,
}

/// Events read from the journal behind the place of a follower.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) told: Vec<Told>,
    /// That was everything up to this position.
    pub(crate) up_to: Option<u64>,
}

impl Cursor {
    /// Behind a position of the journal.
    pub(crate) fn of_all(position: u64) -> Cursor {
        Cursor { session: None, position, seq: 0, state: StreamState::CatchingUp, lagged: 0 }
    }

    /// Behind a `seq` of a session. Everything of it up to `position` is read from the journal,
    /// unless it is known already that nothing is there.
    pub(crate) fn of_session(session: SessionId, seq: u64, position: u64) -> Cursor {
        let session = Some(session);
        Cursor { session, position, seq, state: StreamState::CatchingUp, lagged: 0 }
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    pub(crate) fn place(&self) -> Place {
        Place { position: self.position, seq: self.session.is_some().then_some(self.seq) }
    }

    /// How often it fell so far behind that it was told.
    pub(crate) fn lagged(&self) -> u64 {
        self.lagged
    }

    /// What comes next.
    pub(crate) fn look(&mut self, recent: &Recent) -> Step {
        let Some(behind) = recent.behind(self.position) else {
            if self.state != StreamState::Live {
                return Step::Read;
            }
            self.state = StreamState::CatchingUp;
            self.lagged += 1;
            let (session_id, place) = (self.session.clone(), self.place());
            return Step::Give(vec![Frame::Lagged { session_id, place }.encode().into()]);
        };
        let mut frames = Vec::new();
        let mut bytes = 0;
        for told in behind {
            self.position = told.position;
            bytes += self.take(told, &mut frames);
            if bytes >= GIVE_BYTES_MAX {
                return Step::Give(frames);
            }
        }
        if self.state == StreamState::CatchingUp {
            self.state = StreamState::Live;
            frames.push(self.told(StreamState::Live));
        }
        if frames.is_empty() { Step::Wait } else { Step::Give(frames) }
    }

    /// Takes what was read from the journal.
    pub(crate) fn took(&mut self, read: Read) -> Vec<Utf8Bytes> {
        let mut frames = Vec::new();
        for told in read.told {
            if self.session.is_none() {
                if told.position <= self.position {
                    continue;
                }
                self.position = told.position;
            }
            self.take(&told, &mut frames);
        }
        self.position = self.position.max(read.up_to.unwrap_or(0));
        frames
    }

    /// Says what has become of the stream.
    pub(crate) fn told(&self, state: StreamState) -> Utf8Bytes {
        let (session_id, place) = (self.session.clone(), self.place());
        Frame::StreamStatus { session_id, state, place }.encode().into()
    }

    /// The frames of an event, unless it was given already or is about something else.
    fn take(&mut self, told: &Told, frames: &mut Vec<Utf8Bytes>) -> usize {
        if let Some(session) = &self.session {
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
