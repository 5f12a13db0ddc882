//! Tools that the tests of several crates and the benchmarks share. Never part of the program.

mod world; // the real program in a home of its own
mod running; // the program while it runs beside the test
pub mod corpus; // generated events of sessions
mod transcripts; // generated transcripts of two agents on disk
pub mod numbered; // events made from numbers
pub mod bulk; // the same, in many bytes
pub mod tables; // databases as agents make them
mod endpoint; // a language model with scripted replies
mod dice; // repeatable random numbers

pub use dice::Dice;
pub use endpoint::{Endpoint, ModelReply, ModelRequest};
pub use running::RunningProgram;
pub use transcripts::Transcripts;
pub use world::{ProgramOutput, World};
