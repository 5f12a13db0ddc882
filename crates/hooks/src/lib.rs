//! Hooks of agents: our entries in their settings, what rules answer, and messages that no daemon
//! took.
//!
//! Not here: what a call of a hook says (`capture`), the message (`event`), how it travels (`wire`),
//! and how it is recorded (`ingest`).

mod install; // our entries in the settings of agents
mod hook_report; // when hooks called, and which calls failed
mod rules_file; // the compiled rules, which every call reads
mod gate; // what rules say about a tool call, as the agent takes it
mod undelivered; // messages that no daemon took
mod spool; // those with facts that no transcript has
mod signals; // those that are only a signal
mod spool_dir; // a folder of small files that wait

pub use gate::{CallPlace, GateOutcome, judge_call, refuse_unjudged};
pub use hook_report::{HookFailure, HookReport};
pub use install::{
    EntriesError, HookChange, HookInstall, HookInstallError, HookStatus, SettingsFileError,
    SyntaxError, agents_with_hooks,
};
pub use rules_file::{RulesFile, RulesFileError};
pub use signals::Signals;
pub use spool_dir::SpoolSummary;
pub use undelivered::{FailureCause, MessageHandler, StoreError, Undelivered, UndeliveredSummary};
