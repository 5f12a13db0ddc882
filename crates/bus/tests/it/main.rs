//! The bus at its border: bytes in, bytes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod hall; // a server to talk to, and people who talk
mod wire; // what is relayed, line by line
mod server; // who hears what, and who waits for whom
mod place; // the socket: one server, one user
mod extras; // subscriptions and counts
mod lag; // who falls behind is told
mod past; // beginning in the past
mod inside; // the bus from inside the process
mod clients; // what our clients promise
mod hostile; // bytes nobody would send
mod python; // a client written from the public description, and the one we ship
mod typescript; // the client for Node
mod registry; // what is said on the bus
