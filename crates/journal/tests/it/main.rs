//! The journal at its border: one suite, the same for every store.
//!
//! A case is a function that is given an empty world; `cases!` makes it a test per store. What a
//! store does beyond that is tested beside the store, and nothing here looks inside one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[macro_use]
mod world; // a journal, and where it lives
mod given; // what cases are made of

mod doors; // what an append answers
mod limits; // one below, at, one above
mod reading; // sessions as ranges of events
mod following; // history and news as one stream
mod live; // what passes without being stored
mod forks; // what a fork shows
mod lineage; // who comes from whom
mod catalogue; // what there is
mod deleting; // what is left of what is gone
mod sources; // how far sources and consumers have got
mod whole; // a batch is seen whole or not at all
mod closing; // the end of a journal
mod handles; // one journal opened twice
mod model; // generated actions against a plain model
