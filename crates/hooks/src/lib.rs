//! Hooks of agents: our entries in their settings, and messages that no daemon took.
//!
//! Not here: what a call of a hook says (`capture`), the message (`event`), how it travels (`wire`),
//! and how it is recorded (`ingest`).

mod install; // our entries in the settings of agents
mod hook_report; // when hooks called, and which calls failed
mod undelivered; // messages that no daemon took
mod spool; // those with facts that no transcript has
mod signals; // those that are only a signal
mod spool_dir; // a folder of small files that wait

pub use hook_report::{HookFailure, HookReport};
pub use install::{
    EntriesError, HookChange, HookInstall, HookInstallError, HookStatus, SettingsFileError,
    SyntaxError, agents_with_hooks,
};
pub use signals::Signals;
pub use spool_dir::SpoolSummary;
pub use undelivered::{FailureCause, MessageHandler, StoreError, Undelivered, UndeliveredSummary};
