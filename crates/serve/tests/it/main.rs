//! The door from outside: who comes in, what is answered, and that followers get everything.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod given; // a door over a journal in memory, and clients
mod auth; // strangers, foreign hosts, foreign pages
mod limits; // too much, too slow
mod answers; // what is asked, and what is not
mod following; // streams: from a place on, in order, once
mod status; // what sessions are doing
mod bus; // the bus for pages
mod page; // the page people look at
mod telemetry; // what agents export
mod description; // the API as data
