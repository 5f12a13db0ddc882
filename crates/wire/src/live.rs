//! The messages over a WebSocket and, one way, over an event stream.
//!
//! A follower subscribes after a position and gets all later events in order, each once. A slow
//! follower gets `lagged` with its position; the events that it has not seen still come.

use event::{SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::Status;

/// A request of a client.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum StreamRequest {
    /// Follow a session, or all of them.
    SubscribeStream {
        session_id: Option<String>,
        /// The last known event: a `seq` of the session, or a position without a session. Without
        /// it the stream begins now.
        after: Option<u64>,
    },
    UnsubscribeStream {
        session_id: Option<String>,
    },
    /// Get the status of sessions, and which of them wait for the user.
    SubscribeStatus,
    UnsubscribeStatus,
}

/// The position of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StreamPlace {
    /// In the journal.
    pub position: u64,
    /// In the session, if one is followed.
    pub seq: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// Events from before the subscription come now.
    CatchingUp,
    /// New events come now.
    Live,
    /// No more events come.
    Ended,
}

/// A message to a client.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum StreamFrame {
    /// A stream begins after this position.
    StreamInit {
        session_id: Option<SessionId>,
        #[serde(flatten)]
        place: StreamPlace,
        /// What the session is doing.
        status: Option<Box<Status>>,
    },
    /// A stream has changed its state.
    StreamStatus {
        session_id: Option<SessionId>,
        state: StreamState,
        #[serde(flatten)]
        place: StreamPlace,
    },
    /// The client was too slow and is now served from the journal; all events after this position
    /// come.
    Lagged {
        session_id: Option<SessionId>,
        #[serde(flatten)]
        place: StreamPlace,
    },
    /// A session has left the board: its earlier status and wait no longer hold.
    #[serde(rename = "session.gone")]
    SessionGone { session_id: SessionId },
    /// A session waits for the user.
    WaitingForInput {
        session_id: SessionId,
        /// `approval` or `question`.
        reason: &'static str,
        since: Time,
        approvals: Vec<String>,
        summary: String,
    },
    /// An approval request was decided.
    ApprovalDecision {
        session_id: SessionId,
        approval_id: String,
        /// `allow`, `deny` or `canceled`.
        decision: String,
        by: Option<String>,
        reason: Option<String>,
        position: u64,
    },
    /// A request was refused; the connection stays open.
    Refused { kind: &'static str, message: String },
}

impl StreamFrame {
    /// Encodes the frame as JSON.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("it has only names and texts in it")
    }

    /// Encodes the whole board from statuses of [`Status::encode`]. It replaces all earlier
    /// statuses.
    pub fn of_board<'a>(encoded: impl IntoIterator<Item = &'a str>) -> String {
        let statuses: Vec<&str> = encoded.into_iter().collect();
        format!(r#"{{"type":"session.board","statuses":[{}]}}"#, statuses.join(","))
    }

    /// Encodes the latest status of one session.
    pub fn of_status(encoded: &str) -> String {
        format!(r#"{{"type":"session.status","status":{encoded}}}"#)
    }

    /// Encodes an event of a stream around the encoded event, which is the longest part and the
    /// same for all followers.
    pub fn of_event(position: u64, encoded: &str) -> String {
        format!(r#"{{"type":"stream-event","position":{position},"event":{encoded}}}"#)
    }
}
