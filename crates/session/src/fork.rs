//! Branching off: a new session that shows another one's events up to a point as its beginning.

use event::payload::{SessionMode, SessionParent, SessionStarted};
use event::{Draft, EventId, SessionId};
use journal::{AppendError, Appended, Batch, ReadError, Selection};

use crate::{Host, Session, SessionError};

/// Where to branch off, and why.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// The last event the fork shows; the parent's last one if absent.
    pub at: Option<u64>,
    pub label: Option<String>,
    pub reason: Option<String>,
}

impl Session {
    /// Makes `new_id` a fork of this session. Costs one event, whatever the length of the log.
    ///
    /// A session as it was is forked where it ends.
    pub fn fork(&self, new_id: SessionId, options: ForkOptions) -> Result<Appended, SessionError> {
        let at = options.at.or(self.point());
        fork(self.host(), self.session_id(), new_id, ForkOptions { at, ..options })
    }
}

/// Makes `new_id` a fork of the session `parent`, without opening either.
pub fn fork(
    host: &Host,
    parent: &SessionId,
    new_id: SessionId,
    options: ForkOptions,
) -> Result<Appended, SessionError> {
    if *parent == new_id {
        return Err(SessionError::SameSession(new_id));
    }
    let tail = host.journal().stat(parent)?.tail_seq;
    let seq = options.at.unwrap_or(tail);
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
    let batch = Batch::hosted().with(draft).expecting(new_id.clone(), 0);
    match host.journal().append(batch) {
        Ok(mut receipt) => Ok(receipt.events.remove(0)),
        Err(AppendError::Conflict { .. }) => Err(SessionError::SessionExists(new_id)),
        Err(error) => Err(error.into()),
    }
}

/// The id under which the parent shows the event at the fork point; none before its first.
fn event_id_at(host: &Host, parent: &SessionId, seq: u64) -> Result<Option<EventId>, ReadError> {
    let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::all() };
    let event = host.journal().events(parent, selection)?.next().transpose()?;
    Ok(event.map(|event| event.id))
}
