//! Evidence of running agents on this machine: registries, locks and processes.
//!
//! It only reads. Not here: what the evidence means
//! (`projection::status`), and when to look (`daemon`).

mod probe; // evidence for one session
mod pairing; // which process has which session open
mod candidates; // which ones can have it
mod agent_process; // a running process of an agent
mod registry; // Claude Code's list of running sessions
mod locks; // lock files of open sessions
mod held_locks; // the locks that the kernel lists
mod processes; // the process table: what runs
mod known_processes; // those that were seen to run
mod host_watch; // tells when a look may show something new
mod process_info; // what the kernel knows of one process
mod command_line; // which program a command line runs
mod calling_agent; // the agent that runs this program
mod accounts; // whether other people have an account here

pub use accounts::has_other_people;
pub use agent_process::{AgentProcess, AgentScan, ProcessKey};
pub use calling_agent::calling_agent;
pub use held_locks::LockHolder;
pub use host_watch::{FolderNews, HostWatch};
pub use pairing::{
    PairMemory, Pairing, SessionClaim, SessionKey, SessionLock, pair_processes, remember_pairings,
};
pub use probe::{HostProbe, Pairings, ProbeTarget, modified_at, resolve_folder};
pub use process_info::{Inspection, ProcessInfo};
pub use processes::{ProcessTable, Processes, Started};
