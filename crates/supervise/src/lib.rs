//! Keeps services alive, runs tasks in turn, and keeps what they print.
//!
//! A service is a program of the user's that is started again when it falls. A task runs once, one
//! of its name at a time; whoever asked for it by a ref is answered exactly once, whatever happens.
//! Everything is asked and told on the bus; what is asked there runs only if the user has allowed
//! it. No process outlives the supervisor, not even after a crash.
//!
//! Not here: what a segment or a session is, the journal, the bus itself, printing.

mod day; // a day as folders are called
mod run_ref; // the name of one run
mod run; // one run, as the part that asked for it sees it
mod safe; // names that become part of a path
mod clock; // the clocks, as they are handed in
mod services_file; // what the user wants
mod program; // what a command means, and whether the bus may run it
mod request; // messages that ask for something
mod fill; // commands with gaps
mod reaction; // tasks that answer messages
mod schedule; // tasks that run at their time
mod queue; // tasks in turn: pure
mod alert; // how often the same thing is told
mod services; // programs that are kept alive: pure
mod heartbeat; // who has fallen silent: pure
mod lines; // lines out of what is printed
mod log_file; // what was printed, on disk
mod sweep; // old logs go
mod output; // from a pipe into the log and onto the bus
mod process; // one process
mod group; // it and all its children
mod children; // those that live, for whoever comes after a crash
mod runs; // all processes, their threads and their ends
mod state_file; // small files of our own
mod announce; // what is said, message by message
mod voice; // saying it without waiting
mod status; // one look at everything
mod incoming; // everything that can happen
mod keeper; // the one thread that decides
mod settings; // where things are
mod supervisor; // all of it, from outside

pub use day::Day;
pub use fill::{FillError, fill};
pub use program::GLOBAL_OPTIONS;
pub use run::{Run, RunNews};
pub use run_ref::Ref;
pub use safe::safe_form;
pub use services_file::{Chain, FileError, Handler, ServicesFile};
pub use settings::Settings;
pub use supervisor::{EnqueueError, StartError, Supervisor, Task};
