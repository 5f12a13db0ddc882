//! The parts wired together.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod truth; // our status over time, against what really was
