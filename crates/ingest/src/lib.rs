//! Everything agents have written, into the journal: once, again, or as they write.
//!
//! `Ingest` runs passes of `capture` into a `Recorder`, which commits events and the checkpoints
//! behind them together. Messages of hooks arrive at a `HookListener`, wait in a `HookQueue` and its
//! `HookLog`, and `HookIngest` records them in the same way.
//!
//! Not here: parsing (`capture`), storage (`journal`), and when to start and stop (`daemon`).

mod ingest; // passes: once, again, catching up, following
mod recorder; // the journal as capture sees it
mod policy; // which sessions are recorded, and how long originals are kept
mod admission; // the policy, applied to one session
mod project; // which project a session works on
mod view_saver; // views saved meanwhile
mod hook_listener; // the socket on which hooks hand over their messages
mod hook_queue; // messages that were taken and not ingested yet
mod hook_log; // the same messages on disk
mod hook_ingest; // messages into the journal
mod import; // progress of reading history, for the bus
mod repair; // a damaged or lost journal, from its originals

pub use hook_ingest::{HookIngest, store_queue};
pub use hook_listener::HookListener;
pub use hook_queue::HookQueue;
pub use import::{Import, Output, Slice, Stage};
pub use ingest::{Caught, Ingest, IngestError, Ingested};
pub use policy::{CaptureRules, RecordingPolicy, Retention};
pub use project::ProjectAround;
pub use recorder::remove_originals;
