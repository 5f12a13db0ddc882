//! The crate at its border.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod install; // our entries in the settings of agents
mod gate; // what rules tell agents
mod plugin; // the program that OpenCode loads
mod hostile; // any bytes as settings
mod signals; // what hooks leave
mod undelivered; // both folders in one order
