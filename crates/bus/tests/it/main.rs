//! The bus at its border: bytes in, bytes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod hall; // a server to talk to, and people who talk
mod wire; // what is relayed, line by line
mod server; // who hears what, and who waits for whom
mod place; // the socket: one server, one user
