//! Every limit of the journal, with what happens when it is reached.

use std::time::Duration;

/// `data` up to this size stays in its row; larger ones are stored once by content.
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

/// One import, which is whole or not at all. A larger one is refused before anything is written;
/// its sessions can be exported and imported in parts.
pub(crate) const IMPORT_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;

/// What may wait for the writer. Appenders wait until there is room, so that a fast source slows
/// down instead of filling memory.
pub(crate) const QUEUE_EVENTS_MAX: usize = 65_536;
pub(crate) const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One commit. What waits beyond it goes into the next: a commit of this size takes well under
/// a second, so nobody waits longer than that for a neighbour.
pub(crate) const COMMIT_EVENTS_MAX: usize = 8_192;
pub(crate) const COMMIT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an append waits for another process that writes to the same journal; then it is
/// refused as busy and may be tried again.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Events held in memory for subscribers. One that falls further behind is told so and reads on
/// from the store.
pub(crate) const FEED_EVENTS_MAX: usize = 1_024;

/// Committed events held in memory until they are searchable. What comes on top is read from the
/// store again.
pub(crate) const BACKLOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Text that live events are merged up to; beyond it the next one stands alone.
pub(crate) const LIVE_TEXT_MAX: usize = 64 * 1024;

/// One page of a read; the next page follows.
pub(crate) const PAGE_EVENTS_MAX: usize = 1_024;
pub(crate) const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How often a follower looks for what other processes committed, if it only reads: whatever it
/// waits for comes from another one.
pub(crate) const FOREIGN_POLL: Duration = Duration::from_millis(250);

/// The same where this process writes: of what it commits itself it is told at once.
pub(crate) const FOREIGN_POLL_BESIDE: Duration = Duration::from_secs(1);

/// Generations of forks. A chain this long is damage or a loop, and is refused.
pub(crate) const GENERATIONS_MAX: u32 = 1_024;

/// Tails of ids the writer remembers over all sessions, to recognise what it has seen: some 7 MB of
/// them. Beyond it the sessions longest untouched are forgotten, and looked through again when they
/// are needed.
pub(crate) const KNOWN_IDS_MAX: usize = 131_072;

/// Sessions whose catalogue row the writer remembers; beyond it they are looked up again.
pub(crate) const KNOWN_SESSIONS_MAX: usize = 16_384;
