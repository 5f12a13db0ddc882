//! The crate at its border.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod cost; // what a look costs
mod locks; // what locks tell from one look to the next
mod pairing; // which process has which session open
mod probe; // evidence of running and of ended agents
mod processes; // what is known of one process
