//! The limits that several files of capture share, with what happens when each is reached. A limit of
//! one file or one agent stands in that file.

/// One batch. What follows goes into the next, with its own position.
pub(crate) const BATCH_EVENTS_MAX: usize = 1_000;
pub(crate) const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// What is held back of a source until a record names the folder of its session, if the folder decides
/// whether it is recorded. Beyond it the session counts as one without a folder, which fits no path.
pub(crate) const HELD_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One record. A longer one is kept byte for byte and told as unknown; of a row in a database only
/// the size is told.
pub(crate) const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One document that is written anew each time. A longer one is told as unreadable: it would have
/// to be held whole.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How often its own size a compressed source may unpack to, and what a small one may in any case.
/// One that exceeds both waits like a costly database; what was read before stays.
pub(crate) const PACKED_RATIO_MAX: u64 = 1_000;
pub(crate) const PACKED_SMALL_MAX: u64 = 16 * 1024 * 1024;

/// Rows read in one snapshot of an agent's database. A page also ends with a batch's bytes.
pub(crate) const PAGE_ROWS_MAX: usize = 256;

/// Sessions of a database that are looked at when it changes: those that were active this long
/// before the newest. All of them are looked at with every sweep.
pub(crate) const ACTIVE_MILLIS: i64 = 60 * 60 * 1_000;

/// How often a database that another program has locked is asked, and how long each ask waits. Then
/// the database waits for a later look.
pub(crate) const LOCK_ASKS_MAX: u32 = 100;
pub(crate) const LOCK_ASK_MILLIS: u64 = 50;

/// One query of an agent's database. A longer one is ended, and its database waits for a later look.
/// A page of a session with a million rows takes some 30 million steps.
pub(crate) const QUERY_STEPS_MAX: u64 = 1_000_000_000;
pub(crate) const QUERY_MILLIS_MAX: u64 = 5_000;

/// How often a running query is checked, in steps of SQLite's virtual machine: some 10 µs apart.
pub(crate) const QUERY_CHECK_STEPS: i32 = 1_000;

/// How long a database waits after a look that was ended; each further one doubles it.
pub(crate) const DATABASE_WAIT_FIRST_MILLIS: u64 = 10_000;
pub(crate) const DATABASE_WAIT_MAX_MILLIS: u64 = 10 * 60 * 1_000;

/// The list of all sessions of a database. A longer one is told as unreadable: it would have to be
/// held whole.
pub(crate) const LISTED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of a source that are hashed to know it again.
pub(crate) const HEAD_BYTES: usize = 4 * 1024;
pub(crate) const TAIL_BYTES: usize = 64;

/// Bytes, records and epochs of one source. A checkpoint with more is not believed, and the source
/// begins anew.
pub(crate) const COUNT_MAX: u64 = 1 << 53;

/// The beginning of a new source that is searched for a lineage hint. A hint behind it is not found,
/// and the source may be read before its parent.
pub(crate) const KIN_BYTES: usize = 16 * 1024;

/// A file beside a source that one of its records names. Of a longer one this much is taken.
pub(crate) const BESIDE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An unknown record in its event. A longer one is only referred to.
pub(crate) const UNKNOWN_BYTES_MAX: usize = 16 * 1024;

/// Text of a tool's output that is shown; the whole stands in `data`.
pub(crate) const SHOWN_CHARS_MAX: usize = 2_000;

/// How long a file must be unchanged to count as quiet: its agent will not complete the last line,
/// which is then reported as torn if it is incomplete.
pub(crate) const QUIET_MILLIS: i64 = 10 * 60 * 1_000;

/// How long it is not trusted that nothing follows what was written. The clock of a file system may
/// stand still for so long: what was written just now could be written again and look the same. And
/// a copy may just be being made: one that takes longer before it shows what it is counts as new,
/// and is told twice.
pub(crate) const SETTLED_MILLIS: i64 = 1_000;

/// Bytes of one source that are read before others have their turn, while agents write.
pub(crate) const TURN_BYTES: u64 = 4 * 1024 * 1024;

/// How often what was read of a source may be passed over to read as much again, where it can only
/// be entered at its beginning. The turns of a long one are longer instead.
pub(crate) const PASSED_OVER_MAX: u64 = 16;

/// How long a source is still polled after its last change.
pub(crate) const RECENT_MILLIS: i64 = 30 * 60 * 1_000;

/// A pause between two turns after which a new epoch begins.
pub(crate) const SILENCE_MILLIS: i64 = 30 * 60 * 1_000;

/// How long a signal waits for the source to say the same better; then it counts by itself.
pub(crate) const SIGN_WAITS_MILLIS: i64 = 120 * 1_000;

/// How long an agent still writes while it ends. A signal of the end that is older than its last
/// record by more than this is stale.
pub(crate) const LATE_MILLIS: i64 = 2_000;

/// Records of a new session that are looked at in order to find where it leaves the session it
/// repeats; what lies beyond counts as its own.
pub(crate) const COPIED_EVENTS_MAX: usize = 1_000_000;

/// Sessions that are asked for the events which a new source repeats under other times. In a larger
/// family they may be recorded twice.
pub(crate) const KINDRED_MAX: usize = 64;

/// Sources that a history is followed back through; what lies further back is not shown.
pub(crate) const LINEAGE_MAX: usize = 32;

/// Links a walk follows from one folder into another.
pub(crate) const LINKS_MAX: usize = 8;
