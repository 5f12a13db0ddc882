//! The record over HTTP, WebSocket and event streams, on this machine only.
//!
//! A stranger without the token learns nothing, not even that it is Hansard. Followers read from a
//! place on: a slow one is told so, is served from the journal, misses nothing and costs others
//! nothing.
//!
//! Not here: what the answers are made of. They come from [`Sources`], which whoever opens the
//! [`Door`] hands in; this crate translates and decides nothing.

mod door; // opens, accepts, ends
mod entrance; // who may come in: token, Host, Origin
mod token; // the secret, as a file only its owner can read
mod ticket; // how a page comes back after a restart
mod sources; // where answers come from
mod desk; // how many are answered at a time, and how many wait
mod answer; // answers and failures as JSON
mod api; // every route, and their description
mod route; // what each route does
mod ui; // the page people look at
mod tide; // how far the journal has come, and its newest events
mod recent; // the newest events, encoded once for everybody
mod cursor; // where a follower stands
mod follow; // a follower and its reading
mod board; // the last value of what each session is doing
mod talk; // a WebSocket with its streams
mod bridge; // the bus for pages

pub use api::description;
pub use board::{Board, Seen};
pub use door::{Door, OpenError, Opening};
pub use sources::{BusRefused, DocumentWanted, PageWanted, SourceError, Sources, Which};
pub use token::{Keys, TokenError};
