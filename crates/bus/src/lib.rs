//! A message bus for one user on one machine: the Callosum protocol.
//!
//! Clients send one JSON object per line over a Unix socket. The bus relays every object with a
//! `tract` and an `event` to all clients, in one order and byte for byte. A slow, stuck or flooding
//! client delays no other client; the bus tells it what it missed.
//!
//! Not here: journals, processes, what a message means, printing.

mod scan; // checks a line as its bytes arrive
mod dialect; // JSON as Python writes it, read without a tree
mod message; // reads and builds messages
mod json; // a JSON value kept as text
mod line_decoder; // messages out of a stream of bytes
pub mod registry; // all tracts, events and fields that Hansard uses
mod class; // what is dropped first for a slow client
mod filter; // which messages a subscriber wants
mod relay; // the outgoing form of a line
mod tape; // relayed lines, shared by all clients
mod gap; // what one client has missed
mod replay; // recorded messages for subscribers that start in the past
mod replay_cursor; // joins recorded and live messages into one stream
mod outbox; // what one client still has to be sent
mod control; // requests to the bus itself
mod exchange; // lines in, tape and listeners out
mod connection; // one client
mod socket; // one server at a path, for one user
mod notice; // events worth logging
mod server; // the poll loop
mod handle; // the bus from inside its process
mod send; // sends one message and disconnects
mod stats; // asks a server for its counts
mod client; // a long-lived connection
mod error; // errors

pub use class::Class;
pub use client::{Client, ClientEvent, ClientHandler, ClientSettings, EmitError, Stopper};
pub use control::StartPosition;
pub use error::{BindError, PublishError, RunError};
pub use filter::Filter;
pub use handle::{Handle, Listener};
pub use json::Json;
pub use line_decoder::LineDecoder;
pub use message::{Draft, DraftError, FieldValue, Message};
pub use notice::Notice;
pub use relay::LINE_MAX;
pub use replay::{PAGE_BYTES, PageRequest, ReplayError, ReplayPage, ReplaySource};
pub use scan::{HeaderKey, LineFault};
pub use send::{SendOutcome, send, send_within};
pub use server::{Server, ServerSettings};
pub use socket::{Socket, connect_path, lock_for_life, make_private};
pub use stats::{StatsError, query_stats};
