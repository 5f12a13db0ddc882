//! The parts wired together: what is left for the journal, and what the journal has then.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod segments; // epochs as folders, and what is made of them
mod chain; // from an epoch that closes to its dream
mod hook_install;
mod signals; // what hooks leave
mod surroundings; // what is seen of agents that run, and of those that do not
mod truth; // our status over time, against what really was
