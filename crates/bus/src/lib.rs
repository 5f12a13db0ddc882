//! Every message to every listener on this machine: the Callosum protocol.
//!
//! One JSON object per line over a Unix socket, for one user. Whatever has a `tract` and an
//! `event` goes to everybody who is connected, in one order, byte for byte as it came. A client
//! that is slow, stuck or flooding delays nobody: what it misses it is told.
//!
//! Not here: journals, processes, what a message means, printing.

mod scan; // the check of a line, as its bytes arrive
mod dialect; // JSON as Python writes it, read without a tree
mod message; // a message, to be read and to be made
mod json; // a value that no tree can hold
mod lines; // messages out of a stream of bytes
pub mod registry; // what is said on the bus, by whom
mod class; // how much it matters to one who falls behind
mod filter; // which messages somebody asked for
mod relay; // what goes out for what came in
mod tape; // what goes out to everybody, once
mod gap; // what one client has missed
mod record; // what was recorded, for those who begin in the past
mod following; // history and news as one stream
mod outbox; // what one client still has to be sent
mod control; // lines for the bus itself
mod exchange; // lines in, the tape on, listeners told
mod connection; // one client
mod socket; // one server at a path, for one user
mod notice; // what somebody may want to log
mod server; // the loop
mod handle; // the bus from inside the process
mod send; // one message, and gone
mod ask; // how a server does
mod client; // a connection that lives long
mod error; // what can go wrong

pub use ask::{AskError, stats};
pub use class::Class;
pub use client::{Client, ClientSettings, EmitError, Item, Stopper};
pub use control::Begin;
pub use error::{BindError, PublishError, RunError};
pub use filter::Filter;
pub use handle::{Handle, Listener};
pub use json::Json;
pub use lines::Lines;
pub use message::{Draft, DraftError, Field, Message};
pub use notice::Notice;
pub use record::{PAGE_BYTES, Page, Record, RecordError, Wanted};
pub use relay::LINE_MAX;
pub use scan::{Fault, Key};
pub use send::{Sent, send, send_within};
pub use server::{Server, Settings};
pub use socket::{Socket, lock_for_life, make_private};
