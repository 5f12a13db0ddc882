//! What tests of several crates share, and benchmarks with them. Never part of the program.

mod world; // the real program with nothing around it
pub mod corpus; // sessions as agents write them, generated
pub mod numbered; // events that can be counted
mod dice; // chance that can be repeated

pub use dice::Dice;
pub use world::{Said, World};
