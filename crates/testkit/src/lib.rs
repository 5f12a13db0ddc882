//! What tests of several crates share, and benchmarks with them. Never part of the program.

mod world; // the real program with nothing around it
mod running; // the same while a test goes on
pub mod corpus; // sessions as agents write them, generated
mod transcripts; // what two agents leave on a disk, generated
pub mod numbered; // events that can be counted
pub mod bulk; // the same, and many bytes of them
pub mod tables; // databases as agents make them
mod endpoint; // a language model, as a test wants it
mod dice; // chance that can be repeated

pub use dice::Dice;
pub use endpoint::{Endpoint, Heard, Reply};
pub use running::Running;
pub use transcripts::Transcripts;
pub use world::{Said, World};
