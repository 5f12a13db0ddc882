//! The parts wired together: what is left for the journal, and what the journal has then.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod signals; // what hooks leave
