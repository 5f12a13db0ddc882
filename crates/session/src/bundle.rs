//! A session, or a whole tree of them, as one file that another journal can take in.
//!
//! Lines of JSON: a header, then for each session a line that says where it comes from, followed
//! by its own events, then the bodies of the artifacts they name, then the end. Parents stand
//! before children. The same sessions give the same bytes from every store, also after they have
//! been through another one.

mod export; // sessions to lines
mod import; // lines to sessions

use std::collections::BTreeSet;

use event::{SessionId, Time};
use journal::Ancestry;
use serde::{Deserialize, Serialize};

use crate::SessionError;

pub use export::{export, export_redacted};
pub use import::import;

/// The format of bundles this program writes, and the newest it reads.
pub const BUNDLE_FORMAT: u32 = 1;

/// What to export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The session, and what it stands on.
    Session,
    /// The session with all its descendants, and what it stands on.
    Tree,
}

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Imported {
    pub sessions: u64,
    pub events: u64,
    /// Events that were there before.
    pub already_recorded: u64,
    /// Events of deleted sessions: importing them does not bring them back.
    pub deleted: u64,
    pub artifacts: u64,
    /// The sessions that have new events.
    #[serde(skip)]
    pub changed: BTreeSet<SessionId>,
    /// The times of the oldest and the newest new event.
    #[serde(skip)]
    pub span: Option<(Time, Time)>,
}

impl Imported {
    /// Counts a new event.
    pub fn count_new(&mut self, session_id: SessionId, created_at: Time) {
        self.events += 1;
        self.changed.insert(session_id);
        let (oldest, newest) = self.span.unwrap_or((created_at, created_at));
        self.span = Some((oldest.min(created_at), newest.max(created_at)));
    }
}

/// A bundle could not be written or taken in. Nothing of it is in the journal then.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("line {line} of the bundle cannot be read: {why}")]
    BadLine { line: u64, why: String },
    #[error("the bundle has format {found}; this program reads up to {supported}")]
    NewerFormat { found: u32, supported: u32 },
    #[error("session `{session_id}` has another history here, from event {at_seq} on")]
    Diverged { session_id: SessionId, at_seq: u64 },
    #[error("the bundle ends before its last line: {found} of {announced} events")]
    Cut { found: u64, announced: u64 },
    #[error("cannot read or write the bundle")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
}

#[derive(Serialize, Deserialize)]
struct BundleHeader {
    hansard_bundle: u32,
    root: SessionId,
    #[serde(default)]
    redacted: bool,
}

/// Every line but the header and the events.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BundleLine {
    /// Events of this session follow. Its parent is named if it is in the bundle too.
    Session {
        #[serde(flatten)]
        ancestry: Ancestry,
        /// The last event the bundle brings; less than all for an ancestor.
        up_to_seq: u64,
    },
    /// The bytes of an artifact, in base 64.
    Artifact { id: String, body: String },
    /// Nothing follows.
    End { events: u64 },
}

/// How a line with an event begins: its first member is the id.
const EVENT_BEGINS: &str = "{\"id\"";
