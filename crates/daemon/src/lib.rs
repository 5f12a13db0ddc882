//! Wires the parts together: capture appends to the journal, the journal's events are published on
//! the bus, and pages and commands read what they add up to.
//!
//! Not here: parsing (`capture`), storing (`journal`), counting (`projection`), printing (`cli`).

mod daemon; // start, loop and stop
mod context; // what every part works with, built once
mod threads; // exit guards and priority of the parts' threads
mod instance; // one daemon for a journal
mod settings; // `config.toml`
mod journal_handle; // the journal, opened again after a failed commit
mod health; // the state of each part
mod log; // the daemon's own log
mod publish; // events as messages on the bus: live, replayed and on request
mod capture_thread; // catches up with history, then records as agents write
mod history_import; // the account of history, shared by `capture` and `chain`
mod rules; // the rules of the user: events, and the file that hooks read
mod record_import; // bundles, event lines and the sample, into the journal
mod chain_thread; // runs the chain of segments, handlers and dreams
mod status; // what each session is doing and asks for
mod notify; // notifications about sessions that need the user
mod model_worker; // asks a model about sessions
mod api; // the HTTP service and what it answers from
pub mod answers; // conversion into the types of `wire`
mod delete; // deletes a session and everything stored about it

pub use api::{
    Keys, Listing, ListingError, ResumeCommand, ResumeError, Secrets, TokenError, WriteError,
    budget_uses, facets, handoff_note, keys, own_prices_path, prices, spending, write_document,
    write_events,
};
pub use chain_thread::ChainThreadError;
pub use daemon::{Daemon, DaemonConfig, DaemonHandle, ExitError, StartDaemonError};
pub use delete::{DeleteError, delete};
pub use health::Condition;
pub use instance::{InstanceError, RunningDaemon, socket};
pub use log::{Echo, LogFilter, LogFilterError};
pub use publish::RequestsError;
pub use record_import::{
    ImportError, ImportFormat, ImportProgress, RecordImport, SAMPLE, SAMPLE_NAME,
};
pub use rules::{RuleStore, RuleStoreError, StoredRule};
pub use settings::{Settings, SettingsError, Switches};
pub use status::{ApprovalFilter, FROM_TRANSCRIPT, SessionStatus, StatusTracker, approvals};
