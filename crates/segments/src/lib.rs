//! What is made of epochs that are over: segments, activities, and the digest of a day.
//!
//! `Chain` is a consumer of the journal. It takes each epoch that closes through its steps (a
//! segment folder, handlers, a dream) and writes down what it still owes, so that a crash at any
//! instant repeats a step rather than losing it.
//!
//! Not here: threads, the bus connection and the supervisor's tasks (`daemon` lends them as `Hands`).

mod zone; // the local time zone
mod segment; // an epoch that is over, as a folder of its own
mod day_digest; // what was done on a day
mod dream; // activities and digests made from segments
mod chain; // from an epoch that closes to what people read of it

pub use chain::{Begun, Chain, ChainError, Hands, HandsError, REVISION, Site, Went};
pub use day_digest::{DayDigest, ProjectDay, SessionDay};
pub use dream::{Dream, DreamError, Told};
pub use segment::{
    Described, Meta, Segment, SegmentError, SegmentKey, Transcribed, forget_segments, put_whole,
    write_whole,
};
pub use supervise::Day;
pub use zone::Zone;
