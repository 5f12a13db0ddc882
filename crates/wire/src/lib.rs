//! The messages between the daemon and its clients, and a small client. No server.
//!
//! Commands print and HTTP answers the same shapes. Fields are added, never renamed or removed; an
//! unknown value is `null`. Rust names may differ from the names in the OpenAPI description, which
//! `#[schema(as = …)]` keeps.

pub mod hook; // a call of a hook
mod percent; // texts in addresses
mod place; // where a daemon's sockets, locks and logs lie
mod session; // sessions, their turns and counts
mod recent; // the newest part of one
mod status; // what a session is doing, and why we think so
mod approval; // what agents ask to be allowed
mod usage; // tokens and money
mod search; // what was found
mod page; // a part of a list, and of a log
mod live; // what is said over a WebSocket or an event stream
mod feed; // what happened, over all sessions
mod work; // how the work went
mod facets; // what there is to choose from
mod capture; // how it stands with each agent
mod resume; // how to go on with a session
mod health; // how the daemon does
mod sample; // what importing the sample did
mod preferences; // what the user chose in the page
mod failure; // the words of a failure

pub use approval::Approval;
pub use capture::{Adapter, AdapterHooks, AdapterRoot, UnknownRecord};
pub use facets::{Facet, Facets};
pub use failure::{Failure, FailureBody};
pub use feed::Happening;
pub use health::{Backlog, Follower, Health, ModelHealth, StreamStatus};
pub use live::{StreamFrame, StreamPlace, StreamRequest, StreamState};
pub use page::{Messages, Page, RecordedEvent};
pub use percent::percent_encode;
pub use place::health_dir;
pub use preferences::Preferences;
pub use recent::{EventGlance, RecentActivity, RecentMessage, RecentTurn};
pub use resume::Resume;
pub use sample::SampleImport;
pub use search::{Hit, SearchReply};
pub use session::{Files, Session, SessionCounts, SessionMessage, TokenCounts, Turn};
pub use status::{Attention, Evidence, Overruled, Status, StatusChange, StatusSummary};
pub use usage::{Budget, MoneyParts, Spent, Usage, UsageRow};
pub use work::{Effort, FaultKind, WorkGroup, WorkReport};
