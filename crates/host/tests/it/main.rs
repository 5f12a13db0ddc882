//! The crate at its border.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod probe; // what is seen of agents that run, and of those that do not
