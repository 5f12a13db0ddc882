//! The words of Hansard: what happened, in one vocabulary for every agent.
//!
//! An [`Event`] is one immutable fact in a session. Its envelope is the same for all kinds; its
//! payload is kept byte for byte and read as a type where somebody needs to. Kinds and fields
//! this program does not know survive.
//!
//! Not here: files, clocks, random numbers, what a session means (`session`), how it is kept
//! (`journal`).

mod event; // the envelope
mod kind; // what can happen
pub mod payload; // what each kind carries
mod child; // the life of a child run
mod id; // ids of events and sessions
mod time; // instants
mod cost; // money
mod project; // what people call a project
mod raw; // JSON that is carried, not understood
mod text; // the strings of JSON
mod token; // JSON taken apart
mod field; // members, found quickly
mod bytes; // what is not text, as JSON
mod codec; // events as lines
mod key; // what an event can be found by
mod reference; // how one event names another
mod words; // what an event offers to search
mod bodies; // the artifacts an event stands on
mod error;

pub use child::ChildStatus;
pub use codec::EventHead;
pub use cost::{BadCost, Cost};
pub use error::{BadEvent, BadPayload};
pub use event::{AMENDS, Draft, Event, FORK_ORIGIN, ForkOrigin, Metadata, UNDERSTOOD};
pub use field::JsonField;
pub use id::{BadId, EventId, SessionId};
pub use key::{EventKey, KeyFamily};
pub use kind::{Confidence, Kind, Lane, Source};
pub use project::is_in_project;
pub use raw::Raw;
pub use text::replace_lone_surrogates;
pub use time::{BadTime, Time};
pub use words::SearchFields;
