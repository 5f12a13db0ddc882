//! The supervisor at its border: messages on a bus in, processes, files and messages out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod harness; // a bus, a supervisor, and clients
mod tasks; // order, answers and limits of tasks
mod output; // output on disk and on the bus
mod services; // services and reactions
mod settings; // `services.toml`
mod endings; // orderly stops, crashes, orphans
mod chain; // tasks of the daemon itself
