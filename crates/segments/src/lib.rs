//! Derives segments, activities and daily digests from closed epochs.
//!
//! `Chain` is a consumer of the journal. It takes each epoch that closes through its steps (a
//! segment folder, handlers, a dream) and stores the work that is pending, so that a crash at any
//! instant repeats a step rather than losing it.
//!
//! Not here: threads, the bus connection and the supervisor's tasks (`daemon` provides them as
//! `ChainRuntime`).

mod zone; // the local time zone
mod segment; // a closed epoch as a folder
mod day_digest; // the work of a day by project
mod dream; // activities and digests made from segments
mod chain; // the steps from a closed epoch to its dream

pub use chain::{
    Chain, ChainError, ChainFlow, ChainRuntime, HandlerEvent, HandlerTarget, REVISION, TaskError,
};
pub use day_digest::{DayDigest, ProjectDay, SessionDay};
pub use dream::{Dream, DreamError, DreamEvent};
pub use segment::{
    DigestSummary, Segment, SegmentError, SegmentKey, SegmentMeta, SegmentOutput, TranscriptStats,
    forget_segments, write_atomic, write_durably,
};
pub use supervise::Day;
pub use zone::Zone;
