//! The journal at its border: one suite, the same for every store.
//!
//! A case is a function that is given an empty world; `cases!` makes it a test per store. What a
//! store does beyond that is tested beside the store, and nothing here looks inside one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[macro_use]
mod world; // a journal, and where it lives
mod given; // what cases are made of

mod appending; // the answers to an append
mod limits; // one below, at, one above
mod reading; // sessions as ranges of events
mod following; // history and new events as one stream
mod live; // live events, which are not stored
mod forks; // what a fork shows
mod lineage; // parents and children
mod catalogue; // listing sessions
mod deleting; // deleted sessions
mod sources; // checkpoints of sources and consumers
mod whole; // a batch is seen whole or not at all
mod closing; // the end of a journal
mod handles; // one journal opened twice
mod model; // generated actions against a plain model
