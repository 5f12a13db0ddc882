//! Hooks of agents: our entries in their settings, and what a hook leaves when no daemon takes it.
//!
//! Not here: what a hook says of a session (`capture`), the message it sends (`wire`), and what
//! becomes of it (`ingest`).

mod install; // our entries in the settings of agents
mod hook_report; // when hooks called, and what went wrong
mod spool_dir; // a folder of small files that wait
mod spool; // calls that no daemon took
mod signals; // signals that hooks left

pub use hook_report::{HookFailure, HookReport};
pub use install::{
    EntriesError, HookChange, HookInstall, HookInstallError, HookStatus, PlaceError, SyntaxError,
    agents_with_hooks,
};
pub use signals::{Signal, Signals, kind, word};
pub use spool::Spool;
pub use spool_dir::{SpoolSummary, stamp};
