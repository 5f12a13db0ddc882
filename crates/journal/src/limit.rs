//! Every limit of the journal, with its reason and what happens when it is reached.

use std::time::Duration;

/// `data` up to this size stays in its row or block; larger ones are stored once by content.
pub(crate) const INLINE_DATA_MAX: usize = 16 * 1024;

/// One event. A hosted one is refused; the payload of an observed one becomes an artifact.
pub const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Metadata of one event. A hosted one is refused; an observed one is kept raw as `unknown`.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;

/// Nesting of `data` and metadata; the same answers as for metadata.
pub const JSON_DEPTH_MAX: usize = 128;

/// One batch. A larger one is refused before anything is written; the caller splits.
pub const BATCH_EVENTS_MAX: usize = 4_096;
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One import, which is one transaction. A larger one is refused before anything is written; its
/// sessions can be exported and imported in parts.
pub(crate) const IMPORT_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// What may wait for the writer. Appenders wait until there is room, so that a fast source slows
/// down instead of filling memory.
pub(crate) const QUEUE_EVENTS_MAX: usize = 65_536;
pub(crate) const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One commit. Batches beyond it go into the next one: a commit of this size takes well under a
/// second, so no batch waits longer than that for its neighbours.
pub(crate) const COMMIT_EVENTS_MAX: usize = 8_192;
pub(crate) const COMMIT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an append waits for another process that writes to the same journal; then it is
/// refused as busy and may be tried again.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Events held in memory for subscribers. A subscriber that falls further behind is told so and
/// reads on from the store.
pub(crate) const FEED_EVENTS_MAX: usize = 1_024;

/// Committed events held in memory until they are indexed. The indexer reads the ones beyond it
/// from the store.
pub(crate) const BACKLOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Live events are merged up to this text size; beyond it the next one stands alone.
pub(crate) const LIVE_TEXT_MAX: usize = 64 * 1024;

/// One page of a read; the next page follows.
pub(crate) const PAGE_EVENTS_MAX: usize = 1_024;
pub(crate) const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How often subscribers poll for what other processes committed, in a process that only reads:
/// all events it waits for come from others.
pub(crate) const POLL_INTERVAL_READER: Duration = Duration::from_millis(250);

/// The same in a process that writes: its own commits are published at once.
pub(crate) const POLL_INTERVAL_WRITER: Duration = Duration::from_secs(1);

/// Generations of forks. A chain this long is damage or a loop, and is refused.
pub(crate) const GENERATIONS_MAX: u32 = 1_024;

/// Id suffixes that the writer caches over all sessions, to recognise duplicates: some 7 MB. Beyond
/// it the sessions unused longest are evicted, and read again when they are needed.
pub(crate) const CACHED_IDS_MAX: usize = 131_072;

/// Session rows that the writer caches; beyond it all are dropped and looked up again.
pub(crate) const CACHED_SESSIONS_MAX: usize = 16_384;
