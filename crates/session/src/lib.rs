//! A session as a log: what may be appended to it, what a model would see of it, what it has open,
//! how it branches, and how it travels.
//!
//! Pure parts fold events; [`Session`] keeps them current over a journal.
//!
//! Not here: stores and commits (`journal`), agents' files (`capture`), talking to models.

mod host; // a journal, the time, and ids
mod session; // one session, kept current
mod append; // the way into it
mod folded; // what its log amounts to
mod reader; // its log by number, id and key
mod saved; // its state beside the log
mod fork; // branching off
mod mirror; // a copy in another journal, as it happens
mod bundle; // a file another journal can take in
mod requests; // approvals, waits and questions
mod tools; // beginning a tool
mod artifacts; // bodies and their descriptions
mod bases; // snapshots and compactions
mod child; // sessions that work for this one
mod settle; // how they fare
mod restart; // what was left open, and closing it
mod runs; // runs as a journal has them
mod origin; // where an event was first recorded
pub mod view; // the effective history
pub mod builder; // the same from nothing: the oracle
pub mod compaction; // views replaced by shorter ones
pub mod snapshot; // views saved as facts
mod rules; // the hosted door
mod shape; // what a draft must be by itself
mod violation; // the reasons why a batch is refused
mod scope; // what a caller stamps on its events
mod lookup; // keyed lookups into the log
mod answer; // which events make one answer
mod amend; // fuller accounts in place of first ones
mod open_work; // what was begun and not ended
mod breaker; // a policy that only says no
pub mod execution; // whether a tool may run
mod spawn; // asking for a child, hearing from it
mod fate; // how a child ended
mod recover; // what a crash left open
mod children; // child runs
mod settings; // what a session was set to
mod cost; // own and inherited
mod latest; // the newest event, message, answer
mod live_state; // all of that together
mod reduce; // state of the caller's own
mod replay; // a stream folded in memory
mod run; // a log as turns and steps
mod run_tree; // a run with those of its children
mod episode; // what a run taught
mod error;

pub use builder::ViewBuilder;
pub use bundle::{BUNDLE_FORMAT, BundleError, Extent, Imported, export, export_redacted, import};
pub use child::{ChildSpec, SpawnedChild};
pub use error::SessionError;
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
pub use episode::{Episode, EpisodeCall, Episodes, distill};
pub use execution::{ToolExecution, find_execution};
pub use fate::ChildFate;
pub use latest::{Latest, MessagePlace};
pub use live_state::LiveState;
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
pub use spawn::{blocked, first_prompt, left_behind};
pub use violation::{RuleViolation, Subject, Unmatched};
