//! What is said over a WebSocket, and one way over an event stream.
//!
//! A follower asks from a place on and gets everything behind it, in order, each once. One that is
//! too slow is told `lagged`, with the place it stands at; what it has not seen comes all the same.

use event::{SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::Status;

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum StreamRequest {
    /// Follow a session, or all of them.
    SubscribeStream {
        session_id: Option<String>,
        /// The last place that is known: a `seq` of a session, else a position. Without it the
        /// stream begins now.
        after: Option<u64>,
    },
    UnsubscribeStream {
        session_id: Option<String>,
    },
    /// Hear what sessions are doing, and which of them wait for somebody.
    SubscribeStatus,
    UnsubscribeStatus,
}

/// Where a stream stands.
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
    /// What comes now was recorded before.
    CatchingUp,
    /// What comes now is news.
    Live,
    /// Nothing more comes.
    Ended,
}

/// What a client is told.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum StreamFrame {
    /// A stream begins behind this place.
    StreamInit {
        session_id: Option<SessionId>,
        #[serde(flatten)]
        place: StreamPlace,
        /// What the session is doing.
        status: Option<Box<Status>>,
    },
    /// A stream has come to another state.
    StreamStatus {
        session_id: Option<SessionId>,
        state: StreamState,
        #[serde(flatten)]
        place: StreamPlace,
    },
    /// It was so slow that it is served from the journal; everything behind this place comes.
    Lagged {
        session_id: Option<SessionId>,
        #[serde(flatten)]
        place: StreamPlace,
    },
    /// A session that was shown is so no more: whatever was said of it, it waits for nobody.
    #[serde(rename = "session.gone")]
    SessionGone { session_id: SessionId },
    /// A session waits for somebody.
    WaitingForInput {
        session_id: SessionId,
        /// `approval` or `question`.
        reason: &'static str,
        since: Time,
        approvals: Vec<String>,
        summary: String,
    },
    /// Somebody or something has decided about a request.
    ApprovalDecision {
        session_id: SessionId,
        approval_id: String,
        /// `allow`, `deny` or `canceled`.
        decision: String,
        by: Option<String>,
        reason: Option<String>,
        position: u64,
    },
    /// What was asked cannot be done; the connection stays.
    Refused { kind: &'static str, message: String },
}

impl StreamFrame {
    /// The one way it is written.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("it has only names and texts in it")
    }

    /// What all sessions are doing, each as [`Status::encode`] gives it: what was said before of
    /// any of them, or of another one, is over.
    pub fn of_board<'a>(encoded: impl IntoIterator<Item = &'a str>) -> String {
        let statuses: Vec<&str> = encoded.into_iter().collect();
        format!(r#"{{"type":"session.board","statuses":[{}]}}"#, statuses.join(","))
    }

    /// The last value of what one of them is doing.
    pub fn of_status(encoded: &str) -> String {
        format!(r#"{{"type":"session.status","status":{encoded}}}"#)
    }

    /// An event of a stream, around what is encoded already: it is the longest part and the same
    /// for everybody.
    pub fn of_event(position: u64, encoded: &str) -> String {
        format!(r#"{{"type":"stream-event","position":{position},"event":{encoded}}}"#)
    }
}
