//! Evidence of running agents on this machine: registries, locks and processes.
//!
//! It only reads. Not here: what the evidence means
//! (`projection::status`), and when to look (`daemon`).

mod probe; // evidence for one session
mod registry; // Claude Code's list of running sessions
mod locks; // lock files of open sessions
mod processes; // the process table: what runs
mod process_info; // what the kernel knows of one process
mod command_line; // which program a command line runs
mod calling_agent; // the agent that runs this program
mod accounts; // whether other people have an account here

pub use accounts::has_other_people;
pub use calling_agent::calling_agent;
pub use probe::{HostProbe, ProbeTarget, modified_at};
pub use process_info::{Inspection, ProcessInfo};
pub use processes::{ProcessTable, Processes, Started};
