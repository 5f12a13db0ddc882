//! The record over HTTP, WebSocket and event streams, on this machine only.
//!
//! A program without the token learns nothing. A person whose browser is not signed in is told how
//! to sign in. Followers read from a position on. A slow one is told so and is served from the journal: it misses no event and costs
//! the others nothing.
//!
//! Not here: the content of the answers. It comes from [`Sources`], which the caller of
//! [`HttpServer::open`] passes in; this crate translates and decides nothing.

mod server; // listening, accepting, closing; the shared state
mod auth; // token, cookie, Host and Origin of every request
mod token; // the secrets, in files that only the owner can read
mod page_origin; // the address of the page, and how long it lasts
mod logins; // browsers that are logged in, also after a restart
mod peer; // the user at the other end of a connection
mod sign_in; // the page for people who are not signed in
mod sources; // the backend of the API
mod concurrency; // limits on requests that run and wait
mod connection; // places for connections: those without a token give way
mod answer; // answers and failures as JSON
mod api; // every route, and the OpenAPI description
mod route; // the handlers of the routes
mod ui; // the files of the web page
mod broadcaster; // the one reader of the journal for all followers
mod replay_buffer; // the newest events, encoded once for all followers
mod cursor; // the position of a follower
mod follow; // a follower that reads from the buffer or the journal
mod board; // the latest status of each session
mod socket; // a WebSocket with its streams
mod bridge; // the bus for pages

pub use api::description;
pub use board::{Board, BoardCursor};
pub use page_origin::AddressLife;
pub use server::{HttpServer, HttpServerConfig, Moved, OpenError};
pub use sources::{BusRefused, DocumentKind, PageRequest, SessionSelector, SourceError, Sources};
pub use token::{Keys, TokenError};
