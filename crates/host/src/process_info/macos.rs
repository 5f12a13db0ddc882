//! Processes as macOS reports them through `sysinfo`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind,
};

use event::{ProcessStart, Time};

use super::{Ancestor, Inspection, ProcessInfo};
use crate::command_line::{ARGUMENTS_MAX, CommandLine, WORDS_MAX};

/// A process that is held on to. The system has no such thing.
pub(crate) struct ProcessHandle;

impl ProcessHandle {
    pub(crate) fn open(_pid: u32) -> Option<ProcessHandle> {
        None
    }

    pub(crate) fn find_ended<'a>(
        _handles: impl Iterator<Item = (u32, &'a ProcessHandle)>,
    ) -> Vec<u32> {
        Vec::new()
    }
}

/// Looks at one process.
pub(crate) fn inspect(pid: u32) -> Inspection {
    let details = ProcessRefreshKind::nothing().with_cwd(UpdateKind::Always);
    let system = refresh(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), details);
    let Some(process) = system.as_ref().and_then(|system| system.process(Pid::from_u32(pid)))
    else {
        return Inspection::by_signal(pid);
    };
    // A zombie has ended: its parent has not collected it yet.
    if matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead) {
        return Inspection::Gone;
    }
    // Of other users' processes the system tells a name and no more.
    let Some(uid) = process.effective_user_id() else { return Inspection::Unknown };
    Inspection::Running(ProcessInfo {
        pid,
        started: ProcessStart::UnixSecs(process.start_time()),
        uid: **uid,
        parent: process.parent().map(Pid::as_u32),
        name: process.name().to_string_lossy().into_owned(),
        cwd: process.cwd().map(Into::into),
    })
}

/// Looks at a process above this one.
pub(crate) fn read_ancestor(pid: u32) -> Option<Ancestor> {
    let Inspection::Running(process) = inspect(pid) else { return None };
    let ProcessInfo { started, uid, parent, .. } = process;
    Some(Ancestor { started, uid, parent, line: read_command_line(pid) })
}

/// Lists nothing: only a list of all processes would tell, and approvals must not cost one.
pub(crate) fn read_descendants(_pid: u32) -> Vec<CommandLine> {
    Vec::new()
}

/// Reads the command line of one process.
pub(crate) fn read_command_line(pid: u32) -> Option<CommandLine> {
    let details = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    let system = refresh(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), details)?;
    system.process(Pid::from_u32(pid)).map(|process| command_line(process, ARGUMENTS_MAX))
}

/// Lists nothing: the system does not tell it without further calls.
pub(crate) fn read_open_files(_pid: u32) -> BTreeSet<PathBuf> {
    BTreeSet::new()
}

/// Returns when a process started by the clock of this machine.
pub(crate) fn started_at(start: ProcessStart) -> Option<Time> {
    match start {
        ProcessStart::UnixSecs(secs) => Some(Time::from_nanos(i128::from(secs) * 1_000_000_000)),
        // A start of another system.
        ProcessStart::Ticks(_) => None,
    }
}

/// Lists the processes of a user. `None` if a process may be missing.
pub(crate) fn read_command_lines(uid: u32) -> Option<Vec<CommandLine>> {
    let details = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    let system = refresh(ProcessesToUpdate::All, details)?;
    // `sysinfo` does not say that its list failed. It is never empty: this process runs.
    let processes = Some(system.processes()).filter(|processes| !processes.is_empty())?;
    let own = processes
        .values()
        .filter(|process| process.effective_user_id().is_some_and(|own| **own == uid));
    Some(own.map(|process| command_line(process, WORDS_MAX)).collect())
}

fn command_line(process: &Process, words_max: usize) -> CommandLine {
    let words = process.cmd().iter().take(words_max);
    CommandLine {
        pid: process.pid().as_u32(),
        words: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        is_cut: process.cmd().len() > words_max,
    }
}

fn refresh(which: ProcessesToUpdate<'_>, details: ProcessRefreshKind) -> Option<System> {
    let mut system = System::new().ok()?;
    system.refresh_processes_specifics(which, true, details);
    Some(system)
}
