//! The agent that runs this program as its hook.

use event::ProcessIdentity;
use rustix::process::{geteuid, getppid};

use crate::process_info;

/// Ancestors that are looked at. Between an agent and its hook stand a shell or two; an agent
/// further up is not found, and its call names no process.
const ANCESTORS_MAX: usize = 6;

/// Returns the nearest ancestor of this process that runs an agent's program.
///
/// An ancestor counts only by its command line: when an agent dies during the call, another process
/// adopts the hook, and that one must not pass for the agent.
pub fn calling_agent(program: &str) -> Option<ProcessIdentity> {
    let mut pid = u32::try_from(getppid()?.as_raw_nonzero().get()).ok()?;
    let uid = geteuid().as_raw();
    for _ in 0..ANCESTORS_MAX {
        let ancestor = process_info::read_ancestor(pid)?;
        // Processes of other users are never ours.
        let line = ancestor.line.filter(|_| ancestor.uid == uid);
        if line.is_some_and(|line| line.runs_program(program)) {
            let started_at = process_info::started_at(ancestor.started)?;
            return Some(ProcessIdentity { pid, start: ancestor.started, started_at });
        }
        pid = ancestor.parent?;
    }
    None
}
