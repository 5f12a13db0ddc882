//! A follower and its reading: what its cursor needs next, from memory or from the journal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError};
use wire::{Frame, StreamState};

use crate::answer::Refusal;
use crate::cursor::{Cursor, Read, Step};
use crate::door::Inside;
use crate::recent::Told;

/// What is read from the journal at once for one follower. It is all that one which does not read
/// on holds in memory.
const READ_EVENTS_MAX: usize = 1_024;
const READ_BYTES_MAX: usize = 512 * 1024;

/// Everybody who follows, for whoever asks how they get on.
#[derive(Clone, Default)]
pub(crate) struct Followers {
    known: Arc<Mutex<BTreeMap<u64, wire::Follower>>>,
    last_id: Arc<AtomicU64>,
}

/// One who follows, from a place on.
pub(crate) struct Following {
    id: u64,
    cursor: Cursor,
    inside: Inside,
    is_ended: bool,
}

impl Following {
    /// Follows behind a place: a `seq` of the session that an id begins with, else a position.
    /// Without one it begins now.
    pub(crate) async fn open(
        inside: &Inside,
        session: Option<&str>,
        after: Option<u64>,
    ) -> Result<Following, Refusal> {
        // Asked first: what is committed meanwhile is behind it.
        let tail = inside.tide().recent().tail();
        let cursor = match session {
            None => {
                let after = after.unwrap_or(tail);
                if after > tail {
                    // Whoever heard of it elsewhere may be ahead of what followers were told.
                    let tail = inside.read(|sources| sources.journal().tail()).await?;
                    if after > tail {
                        return Err(beyond(after, tail));
                    }
                }
                Cursor::of_all(after)
            }
            Some(session) => {
                let session = session.to_owned();
                let info = inside.read(move |sources| sources.journal().resolve(&session)).await?;
                match after {
                    Some(seq) if seq > info.tail_seq => return Err(beyond(seq, info.tail_seq)),
                    Some(seq) => Cursor::of_session(info.id, seq, 0),
                    None => Cursor::of_session(info.id, info.tail_seq, tail),
                }
            }
        };
        let id = inside.followers().enter(&cursor);
        Ok(Following { id, cursor, inside: inside.clone(), is_ended: false })
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.cursor.session()
    }

    /// How the stream begins.
    pub(crate) async fn init(&self) -> Utf8Bytes {
        let session_id = self.cursor.session().cloned();
        let status = match session_id.clone() {
            // Without it the stream is no worse.
            Some(id) => self.inside.read(move |sources| sources.explain(id.as_str())).await.ok(),
            None => None,
        };
        let status = status
            .map(|status| Box::new(wire::Status { overruled: None, history: None, ..status }));
        Frame::StreamInit { session_id, place: self.cursor.place(), status }.encode().into()
    }

    /// What comes next; nothing if everything there is was given.
    pub(crate) async fn next(&mut self) -> Vec<Utf8Bytes> {
        while !self.is_ended {
            let step = self.cursor.look(&self.inside.tide().recent());
            self.inside.followers().note(self.id, &self.cursor);
            match step {
                Step::Give(frames) => return frames,
                Step::Wait => return Vec::new(),
                Step::Read => {
                    let cursor = self.cursor.clone();
                    // Asked first: what is read up to the end is read at least up to here.
                    let tail = self.inside.tide().recent().tail();
                    let reading =
                        self.inside.read(move |sources| read(&sources.journal(), &cursor, tail));
                    match reading.await {
                        Ok(read) => {
                            let frames = self.cursor.took(read);
                            if !frames.is_empty() {
                                return frames;
                            }
                        }
                        Err(refusal) => return self.end(&refusal),
                    }
                }
            }
        }
        Vec::new()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// What was followed cannot be read any more: it was deleted, or the journal fails.
    fn end(&mut self, why: &Refusal) -> Vec<Utf8Bytes> {
        self.is_ended = true;
        let (kind, message) = (why.kind(), why.message().to_owned());
        vec![Frame::Refused { kind, message }.encode().into(), self.cursor.told(StreamState::Ended)]
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.inside.followers().lock().remove(&self.id);
    }
}

impl Followers {
    fn enter(&self, cursor: &Cursor) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let session_id = cursor.session().cloned();
        let follower = wire::Follower { id, session_id, position: 0, behind: 0, lagged: 0 };
        self.lock().insert(id, follower);
        self.note(id, cursor);
        id
    }

    fn note(&self, id: u64, cursor: &Cursor) {
        if let Some(follower) = self.lock().get_mut(&id) {
            follower.position = cursor.place().position;
            follower.lagged = cursor.lagged();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Everybody, as of a position of the journal.
    pub(crate) fn at(&self, tail: u64) -> Vec<wire::Follower> {
        let known = self.lock();
        let behind = |follower: &wire::Follower| tail.saturating_sub(follower.position);
        known
            .values()
            .map(|follower| wire::Follower { behind: behind(follower), ..follower.clone() })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, wire::Follower>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that does not exist yet belongs to another journal, or is a slip.
fn beyond(after: u64, tail: u64) -> Refusal {
    Refusal::bad_argument(format!("`after` is {after}, and the newest is {tail}"))
}

/// A page behind the place of a follower.
fn read(journal: &Journal, cursor: &Cursor, tail: u64) -> Result<Read, ReadError> {
    let place = cursor.place();
    let mut subscription = match (cursor.session(), place.seq) {
        (Some(session), Some(seq)) => {
            journal.follow_session(session, FollowFrom::At(seq + 1), OnLag::CatchUp)?
        }
        _ => journal.follow(FollowFrom::At(place.position + 1), OnLag::CatchUp)?,
    };
    let mut told = Vec::new();
    let mut bytes = 0;
    while told.len() < READ_EVENTS_MAX && bytes < READ_BYTES_MAX {
        match subscription.next_within(Duration::ZERO) {
            Ok(Some(Delivery::Event(recorded))) => {
                let event = Told::of(&recorded);
                bytes += event.len();
                told.push(event);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(FollowError::Closed) => return Ok(Read { told, up_to: Some(tail) }),
            Err(FollowError::Failed(error)) => return Err(error),
        }
    }
    Ok(Read { told, up_to: None })
}
