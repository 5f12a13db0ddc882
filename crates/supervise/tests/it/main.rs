//! The supervisor at its border: messages on a bus in, processes, files and messages out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod house; // a bus, a supervisor, and people who talk to it
mod tasks; // what runs when, and who is answered
mod output; // what is printed, on disk and on the bus
mod services; // what is kept alive
mod settings; // `services.toml`
mod endings; // orderly ends, crashes, orphans
mod chain; // tasks of the daemon itself
