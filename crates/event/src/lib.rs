//! The event vocabulary: one set of kinds and payloads for every agent.
//!
//! An [`Event`] is one immutable fact in a session. Its envelope is the same for all kinds. Its
//! payload is kept byte for byte and decoded into a type only where a caller needs one. Kinds
//! and fields that this program does not know survive reading and writing.
//!
//! Not here: files, clocks, random numbers, the meaning of a session (`session`), storage
//! (`journal`).

mod event; // the envelope
mod hook; // one call of an agent's hook, as a message
mod tool; // what tools do, and where their input says to what
mod patch; // patches, and scripts that call tools
mod kind; // the event kinds, their codes and lanes
pub mod payload; // the typed `data` of each kind
mod child; // the life cycle of a child run
mod id; // ids of events and sessions
mod process_identity; // processes of this machine
mod time; // instants
mod cost; // money
mod project; // matching a project by name
mod raw; // JSON that is carried without decoding it
pub mod json; // reading JSON text without building a tree
mod bytes; // binary data inside JSON
mod codec; // events as lines of JSON
mod key; // the keys that link events
mod salvage; // payloads with unreadable fields
mod reference; // the fields that name other events
mod words; // the text that search indexes
mod bodies; // the artifacts that an event needs
mod error;

pub use child::ChildStatus;
pub use codec::EventHead;
pub use cost::{BadCost, Cost};
pub use error::{BadEvent, BadPayload};
pub use event::{
    AMENDS, Draft, Event, FORK_ORIGIN, ForkOrigin, Metadata, UNDERSTOOD, USER_RECORDS,
};
pub use hook::{HookFact, HookMessage, SignalKind};
pub use id::{BadId, EventId, SessionId};
pub use json::{JsonField, replace_lone_surrogates};
pub use key::{EventKey, KeyFamily};
pub use kind::{Confidence, Kind, Lane, Source};
pub use process_identity::{ProcessIdentity, ProcessStart};
pub use project::is_in_project;
pub use raw::Raw;
pub use salvage::Salvaged;
pub use time::{BadTime, Time};
pub use tool::{CommandInput, Deed, ToolInput, patched_files};
pub use words::SearchFields;
