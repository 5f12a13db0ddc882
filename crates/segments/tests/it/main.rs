//! The crate at its border.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod segments; // epochs as folders, and what is made of them
mod chain; // from an epoch that closes to its dream
mod foreign; // segments of other programs
