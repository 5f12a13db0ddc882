//! The HTTP service of the daemon, and what it answers from. Commands use some of the same answers.

mod service; // opens and closes the HTTP server
mod backend; // answers the server's questions
mod listing; // sessions as lists, and what they cost
mod feed; // what happened, over all sessions
mod work; // turns, waiting and faults, over all sessions
mod facets; // agents and projects to choose from
mod adapters; // roots, sessions and hooks of each agent
mod family; // ancestors and children of a session
mod resume; // the command that resumes a session
mod documents; // a session as a document, as events or as a handoff note
mod pictures; // pictures in original records
mod preferences; // what the user chose in the page
mod telemetry; // what agents export with OpenTelemetry

pub use documents::{Secrets, WriteError, handoff_note, write_document, write_events};
pub use facets::facets;
pub(crate) use listing::budget_uses_of;
pub use listing::{Listing, ListingError, budget_uses, own_prices_path, prices, spending};
pub use resume::{ResumeCommand, ResumeError};
pub(crate) use service::HttpService;
pub use service::{Keys, TokenError, keys};
