//! What can be seen of agents on this machine without asking them: registries, locks, processes.
//!
//! Everything is read and nothing is touched. Not here: what the evidence means
//! (`projection::status`), and when to look (`daemon`).

mod probe; // one look at the machine
mod registry; // Claude's own list of running sessions
mod locks; // files that exist while a session is open
mod processes; // the process table

pub use probe::{HostProbe, ProbeTarget, modified_at};
pub use processes::{ProcessTable, Processes, Started};
