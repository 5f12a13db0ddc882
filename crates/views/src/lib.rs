//! Projections of sessions as of now: loaded from what is saved beside the log, continued with the
//! events recorded since, held in memory, and saved again.
//!
//! A saved view may be behind or missing; the rest is read from the log, so a view is never wrong,
//! only more or less expensive. Not here: what an event means for a view (`projection`).

mod facts; // what a list of sessions shows of each
mod signs; // the state a status is derived from
mod turns; // sessions from prompt to answer
mod hots; // the newest part of a session
mod chronicles; // epochs and their digests

pub use chronicles::{chronicle_if_any, chronicle_of};
pub use facts::fold as fold_facts;
pub use facts::{
    FreshFacts, HeldFacts, KeptFacts, UnknownKind, facts_of, keep_facts, unknown_records,
};
pub use hots::Hots;
pub use signs::{FreshStatuses, fold_signs, is_near, kept_signs, prepare_signs};
pub use turns::HeldTurns;
