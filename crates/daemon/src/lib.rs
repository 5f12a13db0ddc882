//! Wires the parts together: what capture reads goes into the journal, what the journal holds is
//! told on the bus and folded into what people look at.
//!
//! Not here: parsing (`capture`), keeping (`journal`), counting (`projection`), printing (`cli`).

mod up; // the daemon: start, loop and stop
mod instance; // one daemon for a journal
mod capturing; // capture inside the daemon
mod news; // what was committed, told on the bus
mod notifications; // people are told of sessions that need them
mod cortex; // events as messages
mod requests; // who asks for an agent is answered
mod front; // the door for pages and programs
mod live; // what sessions are doing, for those who watch
mod asked; // what agents asked to be allowed
mod feed; // what happened, over all sessions
mod work; // how the work went
mod facets; // what there is to choose from
mod adapters; // how it stands with each agent
mod family; // who a session belongs to
mod resume; // how to go on with a session
mod documents; // sessions as documents and notes
mod pictures; // pictures in what agents wrote
mod answering; // what can be asked over HTTP
mod past; // the journal as the bus reads it
mod opened; // the journal that is open now
mod health; // how the daemon does
mod log; // what the daemon says of itself
mod telemetry; // what agents export about themselves
mod listing; // sessions as people list them
pub mod answers; // what is known, in the shapes others read
mod statuses; // what each session is doing
mod chaining; // the chain as a part of the daemon
mod asking; // a model is asked what was worth keeping
mod settings; // what people have set
mod delete; // a session and everything that was kept of it

pub use asked::{Which, approvals};
pub use chaining::ChainingError;
pub use delete::{DeleteError, delete};
pub use documents::{Secrets, WriteError, handoff_note, write_document, write_events};
pub use front::{Keys, TokenError, keys};
pub use health::Condition;
pub use instance::{InstanceError, Running, socket};
pub use listing::{Listing, ListingError, prices, spending};
pub use log::Echo;
pub use requests::RequestsError;
pub use resume::Way;
pub use settings::{Settings, SettingsError, Switches};
pub use statuses::{SessionStatus, Statuses};
pub use up::{Daemon, EndError, Remote, Up, UpError};
