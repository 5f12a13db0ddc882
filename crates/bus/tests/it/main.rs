//! The bus at its border: bytes in, bytes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod harness; // a running server and raw clients
mod wire; // what is relayed, line by line
mod server; // who receives what, and that no client waits for another
mod socket; // the socket file: one server, one user
mod subscriptions; // subscriptions and stats
mod lag; // slow clients
mod replay; // subscribers that start in the past
mod handle; // the bus from inside its process
mod clients; // our clients against our server and a plain one
mod hostile; // bytes that no proper client sends
mod python; // a client from the public description, and the one we ship
mod typescript; // the client for Node
mod registry; // tracts, events and fields
