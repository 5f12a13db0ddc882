//! A follower: it gives its cursor events from memory or from the journal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use event::SessionId;
use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError};
use wire::{StreamFrame, StreamState};

use crate::answer::Refusal;
use crate::cursor::{CursorStep, FollowCursor, JournalPage};
use crate::replay_buffer::StreamEvent;
use crate::server::AppState;

/// The size of one read from the journal for one follower. A follower that stops reading holds no
/// more than this in memory.
const READ_EVENTS_MAX: usize = 1_024;
const READ_BYTES_MAX: usize = 512 * 1024;

/// The registry of all followers, for the status route.
#[derive(Clone, Default)]
pub(crate) struct Followers {
    known: Arc<Mutex<BTreeMap<u64, wire::Follower>>>,
    last_id: Arc<AtomicU64>,
}

/// A follower from a position on.
pub(crate) struct StreamFollower {
    id: u64,
    cursor: FollowCursor,
    app: AppState,
    is_ended: bool,
}

impl StreamFollower {
    /// Opens a follower after a `seq` of a session, named by a prefix of its id, or after a
    /// position. Without `after` it begins now.
    pub(crate) async fn open(
        app: &AppState,
        session: Option<&str>,
        after: Option<u64>,
    ) -> Result<StreamFollower, Refusal> {
        // The tail is read first: events that are committed in the meantime come after it.
        let tail = app.broadcaster().recent().tail();
        let cursor = match session {
            None => {
                let after = after.unwrap_or(tail);
                if after > tail {
                    // The client may know a position that the broadcaster has not read yet.
                    let tail = app.read_journal(|sources| sources.journal().tail()).await?;
                    if after > tail {
                        return Err(beyond_tail(after, tail));
                    }
                }
                FollowCursor::for_all(after)
            }
            Some(session) => {
                let session = session.to_owned();
                let info =
                    app.read_journal(move |sources| sources.journal().resolve(&session)).await?;
                match after {
                    Some(seq) if seq > info.tail_seq => {
                        return Err(beyond_tail(seq, info.tail_seq));
                    }
                    // The position of this `seq` is not known. With 0 the events behind it are read
                    // first.
                    Some(seq) => FollowCursor::for_session(info.id, seq, 0),
                    None => FollowCursor::for_session(info.id, info.tail_seq, tail),
                }
            }
        };
        // From here on there is a follower, so the broadcaster encodes new events.
        let id = app.followers().add_follower(&cursor);
        Ok(StreamFollower { id, cursor, app: app.clone(), is_ended: false })
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.cursor.session()
    }

    /// Builds the first frame of the stream.
    pub(crate) async fn first_frame(&self) -> Utf8Bytes {
        let session_id = self.cursor.session().cloned();
        let status = match session_id.clone() {
            // The status is optional; an error does not stop the stream.
            Some(id) => {
                self.app.read_journal(move |sources| sources.explain(id.as_str())).await.ok()
            }
            None => None,
        };
        let status = status
            .map(|status| Box::new(wire::Status { overruled: None, history: None, ..status }));
        StreamFrame::StreamInit { session_id, place: self.cursor.place(), status }.encode().into()
    }

    /// Returns the next frames; empty if all events were sent.
    pub(crate) async fn next(&mut self) -> Vec<Utf8Bytes> {
        while !self.is_ended {
            let step = self.cursor.next_step(&self.app.broadcaster().recent());
            self.app.followers().note_place(self.id, &self.cursor);
            match step {
                CursorStep::Give(frames) => return frames,
                CursorStep::Wait => return Vec::new(),
                CursorStep::Read => {
                    let cursor = self.cursor.clone();
                    // The tail is taken first: a read to the end reaches at least this position.
                    let tail = self.app.broadcaster().recent().tail();
                    let reading = self
                        .app
                        .read_journal(move |sources| read_page(&sources.journal(), &cursor, tail));
                    match reading.await {
                        Ok(read) => {
                            // Without frames the page only moved the cursor, which then decides
                            // again.
                            let frames = self.cursor.accept_page(read);
                            if !frames.is_empty() {
                                return frames;
                            }
                        }
                        Err(refusal) => return self.end_stream(&refusal),
                    }
                }
            }
        }
        Vec::new()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Ends the stream: the session was deleted, or the journal fails.
    fn end_stream(&mut self, why: &Refusal) -> Vec<Utf8Bytes> {
        self.is_ended = true;
        let (kind, message) = (why.kind(), why.message().to_owned());
        vec![
            StreamFrame::Refused { kind, message }.encode().into(),
            self.cursor.status_frame(StreamState::Ended),
        ]
    }
}

impl Drop for StreamFollower {
    fn drop(&mut self) {
        self.app.followers().lock().remove(&self.id);
    }
}

impl Followers {
    fn add_follower(&self, cursor: &FollowCursor) -> u64 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let session_id = cursor.session().cloned();
        let follower = wire::Follower { id, session_id, position: 0, behind: 0, lagged: 0 };
        self.lock().insert(id, follower);
        self.note_place(id, cursor);
        id
    }

    fn note_place(&self, id: u64, cursor: &FollowCursor) {
        if let Some(follower) = self.lock().get_mut(&id) {
            follower.position = cursor.place().position;
            follower.lagged = cursor.lagged();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Lists all followers with their distance to `tail`.
    pub(crate) fn list_at(&self, tail: u64) -> Vec<wire::Follower> {
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

/// The error for a position that does not exist yet: it belongs to another journal or is a mistake.
fn beyond_tail(after: u64, tail: u64) -> Refusal {
    Refusal::bad_argument(format!("`after` is {after}, and the newest is {tail}"))
}

/// Reads a page of events after the position of a follower.
fn read_page(
    journal: &Journal,
    cursor: &FollowCursor,
    tail: u64,
) -> Result<JournalPage, ReadError> {
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
        // Without waiting: events that are not there yet come through the replay buffer.
        match subscription.next_within(Duration::ZERO) {
            Ok(Some(Delivery::Event(recorded))) => {
                let event = StreamEvent::from_recorded(&recorded);
                bytes += event.len();
                told.push(event);
            }
            // Live events and lag notices: only recorded events have a place.
            Ok(Some(_)) => {}
            Ok(None) | Err(FollowError::Closed) => {
                return Ok(JournalPage { told, up_to: Some(tail) });
            }
            Err(FollowError::Failed(error)) => return Err(error),
        }
    }
    // The page is full. Before the tail there may be more.
    Ok(JournalPage { told, up_to: None })
}
