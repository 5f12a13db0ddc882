//! Sessions on top of a journal: append rules, effective history, open work, forks, replay.
//!
//! The crate is a library: a program that runs its own agent can embed it to record its sessions.
//! Pure parts fold events; [`Session`] keeps their state current over a journal. It promises:
//!
//! - **Recorded means durable.** [`Session::append`] returns after the commit. A batch is recorded
//!   as a whole or not at all.
//! - **Rules.** A batch that breaks a rule is refused with a [`RuleViolation`] and leaves no trace.
//!   Appending the same event again changes nothing.
//! - **Many writers.** Threads, handles and processes may append to one session. Each append is
//!   checked against the state that it really follows.
//! - **One history.** [`Session::effective`] is the history that a model would see. It is maintained
//!   at a cost per event that does not depend on the length of the log, and it always equals what
//!   [`ViewBuilder`] computes from the whole log.
//! - **Recovery.** After a crash, [`recover`] lists what is open and builds the events that close
//!   it. Closing twice adds nothing.
//! - **Time and ids** come from the caller ([`Stamps`]), so that tests can fix them.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU8, Ordering};
//!
//! use event::{SessionId, Time};
//! use session::{Session, SessionError, Stamps};
//!
//! /// A clock that stands still and ids that count.
//! #[derive(Default)]
//! struct TestStamps(AtomicU8);
//!
//! impl Stamps for TestStamps {
//!     fn now(&self) -> Time {
//!         Time::EPOCH
//!     }
//!
//!     fn tail(&self) -> [u8; 10] {
//!         [self.0.fetch_add(1, Ordering::Relaxed); 10]
//!     }
//! }
//!
//! let id = SessionId::new("example").expect("a valid id");
//! let session = Session::in_memory(id, Arc::new(TestStamps::default()));
//! let appended = session.append_prompt("What does this crate do?")?;
//! assert_eq!(appended.seq, 1);
//! assert_eq!(session.effective()?.len(), 1);
//! # Ok::<(), SessionError>(())
//! ```
//!
//! Not here: stores and commits (`journal`), agents' files (`capture`), requests to models.

mod host; // a journal, the time and ids
mod session; // the handle on one session
mod log_point; // a point of its log
mod append; // checking, queueing and committing batches
mod folded; // the folded state of the committed log
mod reader; // the log by number, id and key
mod saved; // the folded state beside the log
mod fork; // new sessions that inherit events
mod mirror; // a live copy in another journal
mod bundle; // export to a file, and import
mod event_lines; // events as JSON lines, taken in
mod requests; // approvals, waits and questions
mod tools; // the start of a tool
mod artifacts; // artifacts and their bodies
mod bases; // appending snapshots and compactions
mod child; // child sessions
mod settle; // the parent's log updated from a child's
mod restart; // closing open work after a crash
mod runs; // runs read from a journal
mod origin; // where an event was first recorded
pub mod view; // the maintained effective history
pub mod builder; // the same from the whole log: the oracle
pub mod compaction; // payloads that shorten the history
pub mod snapshot; // payloads that save the history
mod rules; // the append rules
mod shape; // checks of one draft without the state
mod violation; // the reasons why a batch is refused
mod scope; // metadata that a caller adds to its events
mod lookup; // events by key and id
mod answer; // the events that make up one answer
mod amend; // events that replace earlier ones
mod open_work; // what has begun and not ended
mod breaker; // switches off a policy that only denies
pub mod execution; // the decision whether a tool may run
mod spawn; // the events of requesting a child
mod fate; // how a child ended
mod recover; // open work and the events that close it
mod children; // child runs
mod settings; // the settings of a session
mod cost; // own and inherited cost
mod latest; // the newest event, message and answer
mod live_state; // the small state of a session
mod reduce; // states of the caller
mod replay; // a stream folded in memory
mod run; // a log as turns and steps
mod run_tree; // a run with the runs of its children
mod episode; // the lessons of a run
mod error;

pub use builder::ViewBuilder;
pub use bundle::{BUNDLE_FORMAT, BundleError, Extent, Imported, export, export_redacted, import};
pub use child::{ChildSpec, SpawnedChild};
pub use error::SessionError;
pub use event_lines::{EventLinesError, import_events};
pub use folded::Reduction;
pub use fork::{ForkOptions, fork};
pub use host::{Host, Stamps};
pub use mirror::Mirror;
pub use reader::{SessionEvents, SessionReader};
pub use requests::ApprovalVerdict;
pub use session::Session;
pub use tools::ToolStart;

pub use breaker::{DENIALS_MAX, Denials};
pub use children::{ChildRun, children};
pub use cost::SessionCost;
pub use episode::{Episode, EpisodeCall, Episodes, distill_run};
pub use execution::{ToolExecution, find_execution};
pub use fate::ChildFate;
pub use latest::{Latest, MessagePlace};
pub use live_state::LiveState;
pub use log_point::LogPoint;
pub use lookup::EventLookup;
pub use open_work::{
    Oddity, OpenApproval, OpenCall, OpenChild, OpenQuestion, OpenStep, OpenTurn, OpenWait,
    OpenWork, Opened, StartedCall, Waiting,
};
pub use recover::{Left, LeftOpen, Recovery, Remedy, recover};
pub use reduce::{Reduced, Reducer};
pub use replay::{Replay, ReplayError};
pub use rules::check_batch;
pub use run::{
    Run, RunCall, RunInput, RunMetrics, RunResult, RunStep, RunTurn, Skipped, export_run,
};
pub use run_tree::{TreeError, export_run_tree};
pub use scope::Scope;
pub use settings::{SessionSettings, settings_at};
pub use spawn::{blocked_by_wait, first_prompt, left_behind};
pub use violation::{RuleViolation, Subject, Unmatched};
