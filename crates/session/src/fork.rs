//! Forks: new sessions that inherit another session's events up to a point.
//!
//! A fork copies nothing. Its first event names the parent and the last inherited event; the
//! journal shows the parent's events up to there as the beginning of the fork.

use event::payload::{SessionMode, SessionParent, SessionStarted};
use event::{Draft, EventId, SessionId};
use journal::{AppendError, Batch, EventReceipt, ReadError, Selection};

use crate::reader::SessionReader;
use crate::{Host, Session, SessionError, saved};

/// The fork point and its description.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// The last inherited event; the parent's last one if absent.
    pub at: Option<u64>,
    pub label: Option<String>,
    pub reason: Option<String>,
}

impl Session {
    /// Creates the session `new_id` as a fork of this one. It costs one event at any length of
    /// the log.
    ///
    /// A read-only handle on an earlier state is forked at its point.
    pub fn fork(
        &self,
        new_id: SessionId,
        options: ForkOptions,
    ) -> Result<EventReceipt, SessionError> {
        let at = options.at.or(self.point());
        fork(self.host(), self.session_id(), new_id, ForkOptions { at, ..options })
    }
}

/// Creates the session `new_id` as a fork of `parent` without opening either.
pub fn fork(
    host: &Host,
    parent: &SessionId,
    new_id: SessionId,
    options: ForkOptions,
) -> Result<EventReceipt, SessionError> {
    if *parent == new_id {
        return Err(SessionError::SameSession(new_id));
    }
    let tail = host.journal().stat(parent)?.tail_seq;
    let seq = options.at.unwrap_or(tail);
    // Behind the tail, later events of the parent would become part of the fork.
    if seq > tail {
        let session_id = parent.clone();
        return Err(SessionError::PointOutOfRange { session_id, point: seq, tail });
    }
    let started = SessionStarted {
        parent: Some(SessionParent {
            session_id: parent.clone(),
            seq,
            event_id: event_id_at(host, parent, seq)?,
        }),
        mode: Some(SessionMode::Fork),
        label: options.label,
        reason: options.reason,
        ..SessionStarted::default()
    };
    let at = host.now();
    let draft = Draft::new(host.new_event_id(at), new_id.clone(), at, &started)?;
    // The expected tail 0 makes the creation atomic: of two forks with one id, one fails.
    let batch = Batch::hosted().with(draft).expecting(new_id.clone(), 0);
    match host.journal().append(batch) {
        Ok(mut receipt) => {
            // Now, while the saved state of the parent is not newer than the fork point.
            saved::save_inherited(&SessionReader::new(host.journal().clone(), new_id));
            Ok(receipt.events.remove(0))
        }
        Err(AppendError::Conflict { .. }) => Err(SessionError::SessionExists(new_id)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the parent's id of the event at the fork point; `None` for the point 0.
fn event_id_at(host: &Host, parent: &SessionId, seq: u64) -> Result<Option<EventId>, ReadError> {
    let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::all() };
    let event = host.journal().events(parent, selection)?.next().transpose()?;
    Ok(event.map(|event| event.id))
}
