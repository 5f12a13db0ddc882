//! How the daemon does, as seen from outside.

use std::collections::BTreeMap;
use std::fmt;

use event::SessionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct Health {
    /// Everything that happens is recorded.
    pub ok: bool,
    pub version: &'static str,
    pub pid: u32,
    pub uptime_seconds: u64,
    pub sessions: u64,
    /// The newest position of the journal.
    pub position: u64,
    /// What each part of the daemon does.
    #[schema(value_type = BTreeMap<String, String>)]
    pub parts: BTreeMap<String, String>,
    /// Exported records that told nothing new, counted by exporter and name.
    pub telemetry: BTreeMap<String, u64>,
    /// How far history has been read; `null` if all of it has.
    pub backlog: Option<Backlog>,
    /// How it stands with the model that is asked; `null` if none is set up.
    pub model: Option<ModelHealth>,
    /// Why nothing can be recorded; `null` if it can.
    pub disk: Option<String>,
    /// Databases of agents that could not be read and are tried later, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// A model that is asked in the background.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelHealth {
    pub name: String,
    /// Where it is asked.
    pub endpoint: String,
    /// Questions that wait.
    pub waiting: u64,
    pub answered: u64,
    /// Questions without an answer; the facts found without a model stay.
    pub given_up: u64,
    /// Why it does not answer; `null` if it does.
    pub trouble: Option<String>,
}

/// What agents wrote while no daemon ran, and how much of it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Backlog {
    pub bytes: u64,
    pub bytes_total: u64,
    /// By the speed so far; `null` if nothing can be said yet.
    pub seconds_left: Option<u64>,
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backlog { bytes, bytes_total, seconds_left } = *self;
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        write!(f, "{} of {} MB of history are read", megabytes(bytes), megabytes(bytes_total))?;
        match seconds_left {
            None => Ok(()),
            Some(seconds @ 0..120) => write!(f, ", {seconds} s left"),
            Some(seconds) => write!(f, ", {} min left", seconds.div_ceil(60)),
        }
    }
}

/// The followers of events, and how far each of them is.
#[derive(Serialize, ToSchema)]
pub struct StreamStatus {
    /// The newest position of the journal.
    pub position: u64,
    /// From behind this position on, events are in memory; before it they are read from the journal.
    pub cached_after: u64,
    pub followers: Vec<Follower>,
}

/// One follower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Follower {
    pub id: u64,
    /// The session it follows; `null` for all of them.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
    /// Everything up to here was given to it, or is not about what it follows.
    pub position: u64,
    /// How far that is from the newest.
    pub behind: u64,
    /// How often it fell so far behind that the daemon told it so.
    pub lagged: u64,
}
