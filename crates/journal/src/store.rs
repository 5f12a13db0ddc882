//! The trait of a store: consistent reads, and one atomic, durable write.
//!
//! A store keeps rows and finds them by key. It decides nothing: numbers, duplicates, source
//! positions and ancestry are worked out above it (`commit`) and arrive as a [`ChangeSet`], which it
//! writes whole or not at all.

pub(crate) mod memory; // in memory, for tests and replays
pub(crate) mod sqlite; // one database file
pub(crate) mod files; // JSON lines, one file per session
pub(crate) mod catalogue; // the SQLite database that both disk stores share
pub(crate) mod pack; // compression of texts
mod quarantine; // damaged data, out of the way and kept

use std::path::Path;
use std::sync::Arc;

use event::payload::SessionMode;
use event::{Cost, Draft, Event, EventId, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::id_cache::StoredIds;
use crate::recovery::Recovery;
use crate::{AppendError, Damage, StorageError};

/// A place where events are kept.
pub(crate) trait Store: Send + Sync {
    fn capabilities(&self) -> &'static Capabilities;

    /// Packs the text of an event as this store keeps it.
    fn pack(&self, draft: &Draft) -> PackedEvent;

    /// The same for events that are recorded together.
    fn pack_all(&self, drafts: &[&Draft]) -> Vec<PackedEvent> {
        drafts.iter().map(|draft| self.pack(draft)).collect()
    }

    /// Begins a read on everything committed so far.
    fn reader(&self) -> Result<Box<dyn StoreReader + '_>, StorageError>;

    /// Begins a commit. Waits for other processes up to the limit.
    fn begin(&self) -> Result<Box<dyn StoreWriter + '_>, AppendError>;

    /// The newest position. Cheap enough to be polled four times a second.
    fn tail(&self) -> Result<u64, StorageError>;

    /// Verifies everything, and repairs it if `repair` is set. Events that are lost in the store
    /// may come from `recovery`.
    fn check(
        &self,
        repair: bool,
        recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError>;

    /// What opening found and repaired, for the user to be told.
    fn open_findings(&self) -> Vec<CheckFinding>;

    /// Runs a checkpoint: moves the write-ahead log into its files and syncs them.
    fn checkpoint(&self) -> Result<(), StorageError>;

    /// The folder, for a store that has one.
    fn dir(&self) -> Option<&Path>;
}

/// A consistent state of a store. Every answer is a keyed lookup or a range scan.
pub(crate) trait StoreReader: StoredIds {
    /// The newest position.
    fn tail(&self) -> Result<u64, StorageError>;

    fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StorageError>;

    fn session_numbered(&self, number: u32) -> Result<Option<SessionRow>, StorageError>;

    /// How many sessions were deleted so far. A cache of sessions is stale when this changes.
    fn deletions(&self) -> Result<u64, StorageError>;

    /// The highest session number given so far, deleted sessions included; 0 before the first.
    fn last_number(&self) -> Result<u32, StorageError>;

    /// The number of sessions, without records of the user.
    fn session_count(&self) -> Result<u64, StorageError>;

    /// Sessions by last activity, newest first, behind `after`.
    fn sessions(
        &self,
        after: Option<SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StorageError>;

    /// Up to `limit` sessions with an id, or an id of the provider, that begins with `prefix`.
    /// Those with exactly this id of the provider come first.
    fn sessions_with_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StorageError>;

    /// Sessions that name this one as their parent, in no order.
    fn children(&self, parent: &SessionId) -> Result<Vec<SessionRow>, StorageError>;

    /// Own events of a session, `from` and `to` included, in the given order, up to a page.
    fn events(&self, session: u32, range: SeqRange) -> Result<Vec<StoredEvent>, StorageError>;

    /// Events of all sessions between two positions, both included, up to a page.
    fn positions(&self, range: SeqRange) -> Result<Vec<StoredEvent>, StorageError>;

    /// Where the event with this id is stored.
    fn locate(&self, id: &EventId) -> Result<Option<(u32, u64)>, StorageError>;

    fn source(&self, source_id: &str) -> Result<Option<String>, StorageError>;

    /// Passes all sources with their positions to `show`.
    fn sources(&self, show: &mut dyn FnMut(&str, &str)) -> Result<(), StorageError>;

    fn consumer(&self, name: &str) -> Result<Option<u64>, StorageError>;

    fn sightings(&self, session: u32, seq: u64) -> Result<Vec<SightingRow>, StorageError>;

    fn tombstone(&self, id: &SessionId) -> Result<Option<Time>, StorageError>;

    /// All sessions that were deleted, in no order.
    fn tombstones(&self) -> Result<Vec<SessionId>, StorageError>;
}

/// Sessions that [`for_each_session`] holds at a time.
const SESSIONS_PAGE: usize = 1_000;

/// Passes every session to `each`, newest activity first, until it fails.
pub(crate) fn for_each_session<E: From<StorageError>>(
    reader: &dyn StoreReader,
    mut each: impl FnMut(SessionRow) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = None;
    loop {
        let page = reader.sessions(after, SESSIONS_PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(SessionCursor { last_at: last.last_at, number: last.number });
        page.into_iter().try_for_each(&mut each)?;
    }
}

/// The open commit of a store: reads the newest state, and changes it.
pub(crate) trait StoreWriter: StoreReader {
    /// Writes all changes durably, or none.
    fn apply(self: Box<Self>, changes: &ChangeSet) -> Result<(), CommitError>;
}

/// Why a commit did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CommitError {
    /// Another session has an id of the batch, or the files of the store were edited by hand.
    /// Nothing was written; the caller has to plan again on the state that is there now.
    #[error("an event id is already taken")]
    IdTaken,
    /// Nothing was written, and trying again later may work.
    #[error("the disk is full")]
    OutOfSpace,
    /// Nothing was written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The outcome is unknown. The journal has to be opened again.
    #[error("cannot make the commit durable: {0}")]
    NotDurable(String),
}

/// What one commit changes.
#[derive(Default, Debug, Clone)]
pub(crate) struct ChangeSet {
    /// New events, in the order of their positions.
    pub events: Vec<EventRow>,
    /// Sessions as they are afterwards, new ones included.
    pub sessions: Vec<SessionRow>,
    pub sources: Vec<SourceRow>,
    pub sightings: Vec<SightingRow>,
    pub consumers: Vec<(String, u64)>,
    /// Sessions to remove with everything they own.
    pub deleted: Vec<(SessionRow, Time)>,
}

impl ChangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.sessions.is_empty()
            && self.sources.is_empty()
            && self.sightings.is_empty()
            && self.consumers.is_empty()
            && self.deleted.is_empty()
    }
}

/// The text of an event, ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct PackedEvent {
    /// Everything but the head, in the store's own form.
    pub rest: Vec<u8>,
    /// What is stored beside the event: a large `data`, which is `null` in `rest`, or the block
    /// that `rest` points into.
    pub payload: Option<StoredPayload>,
}

/// A row of its own for a large `data`, addressed by the SHA-256 of its text, or for a block with
/// the texts of several events.
#[derive(Debug, Clone)]
pub(crate) struct StoredPayload {
    pub digest: [u8; 32],
    /// The text in the store's own form, shared by the events that refer to it.
    pub bytes: Arc<[u8]>,
}

/// One new event.
#[derive(Debug, Clone)]
pub(crate) struct EventRow {
    pub position: u64,
    pub session: u32,
    pub seq: u64,
    /// Shared with the subscribers after the commit.
    pub draft: Arc<Draft>,
    pub packed: PackedEvent,
}

/// An event as it was read: whole, or damaged with what is left of it.
#[derive(Debug, Clone)]
pub(crate) struct StoredEvent {
    pub position: u64,
    pub session: u32,
    pub seq: u64,
    pub event: Result<Event, Box<BrokenEvent>>,
}

/// A damaged event: where, why, and the bytes that are left.
#[derive(Debug, Clone)]
pub(crate) struct BrokenEvent {
    pub damage: Damage,
    pub bytes: Vec<u8>,
}

/// What the catalogue knows of a session without reading its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRow {
    /// The store's own number for the session: 1, 2, 3 … in the order they were first seen.
    pub number: u32,
    pub id: SessionId,
    pub parent: Option<ParentRow>,
    /// Events up to here are the parent's; 0 for a session that inherits nothing.
    pub base_seq: u64,
    /// The last event, inherited ones counted.
    pub tail_seq: u64,
    /// The position of the last own event; 0 before the first.
    pub last_position: u64,
    /// Own events, the bytes of their JSON, and their cost.
    pub events: u64,
    pub bytes: u64,
    pub cost: Cost,
    /// When the session began: the instant of its first own event, or of its imported ancestry.
    pub created_at: Time,
    pub last_at: Time,
    pub provider: String,
    pub provider_session_id: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    pub project: Option<String>,
    pub title: Option<String>,
    /// What was said of the origin of a session without a parent; else the parent's row has it.
    #[serde(default, skip_serializing_if = "RootWords::is_empty")]
    pub root: RootWords,
}

/// Label and reason of a root: of one whose parent is in another journal, for instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RootWords {
    pub label: Option<String>,
    pub reason: Option<String>,
}

impl RootWords {
    pub(crate) fn is_empty(&self) -> bool {
        self.label.is_none() && self.reason.is_none()
    }
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParentRow {
    pub session_id: SessionId,
    pub mode: SessionMode,
    pub seq: u64,
    pub event_id: Option<EventId>,
    pub label: Option<String>,
    pub reason: Option<String>,
    /// Generations above this session.
    pub depth: u32,
}

/// How far a source was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRow {
    pub source_id: String,
    pub position: String,
}

/// Another sighting of a recorded event, by a second source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SightingRow {
    pub session: u32,
    pub seq: u64,
    pub source: String,
    pub observed_at: Time,
    pub source_position: Option<String>,
    pub differs: bool,
}

/// Where a listing of sessions goes on: behind this activity and, within it, this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionCursor {
    pub last_at: Time,
    pub number: u32,
}

/// A range of `seq` or of positions, both ends included, and the order to read it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqRange {
    pub from: u64,
    pub to: u64,
    pub order: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    OldestFirst,
    NewestFirst,
}

/// What a store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub name: &'static str,
    /// What it says is recorded survives a crash.
    pub durable: bool,
    /// Several processes can open it.
    pub shared: bool,
    /// Search uses an index; otherwise it scans.
    pub indexed: bool,
}

/// Damage that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    pub damage: Damage,
    /// What a repair did, or would do.
    pub remedy: &'static str,
    pub repaired: bool,
}
