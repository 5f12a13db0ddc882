//! The process table of this machine: whether a process, or any process of a program, runs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use event::{ProcessIdentity, ProcessStart, Time};
use projection::status::{Life, Process, RunningCommand};
use rustix::process::geteuid;

use crate::command_line::CommandLine;
use crate::process_info::{self, Inspection, started_at};

/// Tolerance of a start time: setting the clock moves it, and macOS counts whole seconds.
const START_SLACK_SECS: i64 = 2;

/// How long a scan may prove that a program does not run. It must not be longer than the time for
/// which a just written session counts as open without a process: otherwise a session would count
/// as ended if its program started after the scan.
const SCAN_EVERY: Duration = Duration::from_secs(2);

/// Access to processes. [`Processes`] is the real one; tests have others.
pub trait ProcessTable {
    /// Looks at one process. The cost does not depend on how many there are.
    ///
    /// A table that only answers the other questions knows no process.
    fn inspect(&self, _pid: u32) -> Inspection {
        Inspection::Unknown
    }

    /// Looks for the process with this pid and start.
    fn find(&self, pid: u32, started: Started<'_>) -> Process;

    /// Returns what a process has started, and what that has, as far as it still runs.
    ///
    /// A table that only answers the other questions knows of none.
    fn commands_below(&self, _pid: u32) -> Vec<RunningCommand> {
        Vec::new()
    }

    /// Returns whether any process of a program runs. `Gone` only after a complete scan.
    fn runs(&self, program: &str) -> Life;

    /// Returns whether a process is known to hold a lock on a file.
    fn holds_lock(&self, path: &Path) -> bool;
}

/// The expected start of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started<'a> {
    /// Exactly as this process did.
    As(ProcessIdentity),
    /// Exactly this, in ticks since the boot.
    Ticks(&'a str),
    /// Not after this time.
    Before(Time),
    Unknown,
}

/// The processes of this machine.
///
/// A scan of all processes is expensive, so it happens at most every few seconds. For a program that
/// runs, one of its processes is remembered and checked alone until it ends.
#[derive(Default)]
pub struct Processes {
    programs: RefCell<ProgramCache>,
}

/// The last scan and what was derived from it.
#[derive(Default)]
struct ProgramCache {
    /// The time of the last scan and its command lines.
    scan: Option<(Instant, Vec<CommandLine>)>,
    /// Programs missing in that scan: many sessions ask for the same few.
    absent: HashSet<String>,
    /// One process of each running program.
    known: HashMap<String, (u32, ProcessStart)>,
}

impl ProcessTable for Processes {
    fn inspect(&self, pid: u32) -> Inspection {
        process_info::inspect(pid)
    }

    fn find(&self, pid: u32, started: Started<'_>) -> Process {
        let found = |(life, is_certain), started_at| Process { pid, life, is_certain, started_at };
        let process = match self.inspect(pid) {
            Inspection::Running(process) => process,
            Inspection::Gone => return found((Life::Gone, true), None),
            Inspection::Unknown => return found((Life::Unknown, false), None),
        };
        let started_at = started_at(process.started);
        // The kernel reuses pids: a process with another start time is another process.
        let is_same = match started {
            Started::As(identity) => Some(process.started == identity.start),
            Started::Ticks(ticks) => compare_ticks(process.started, ticks),
            // A process that started after its own lock was written is another process with the
            // same pid.
            Started::Before(time) => {
                let slack = i128::from(START_SLACK_SECS) * 1_000_000_000;
                started_at.map(|at| at.nanos() <= time.nanos() + slack)
            }
            Started::Unknown => None,
        };
        let (life, is_certain) = judge(is_same, process.uid == geteuid().as_raw());
        // The start of another process says nothing of this one.
        found((life, is_certain), started_at.filter(|_| life == Life::Alive))
    }

    fn commands_below(&self, pid: u32) -> Vec<RunningCommand> {
        let found = process_info::read_descendants(pid).into_iter().filter_map(|line| {
            let Inspection::Running(process) = self.inspect(line.pid) else { return None };
            let started_at = started_at(process.started)?;
            Some(RunningCommand { is_cut: line.is_cut, words: line.words, started_at })
        });
        found.collect()
    }

    fn runs(&self, program: &str) -> Life {
        let mut programs = self.programs.borrow_mut();
        let ProgramCache { scan, absent, known } = &mut *programs;
        if let Some((pid, started)) = known.get(program) {
            match self.inspect(*pid) {
                Inspection::Running(process) if process.started == *started => return Life::Alive,
                // Another process of the program may still run: scan again, even if the last scan
                // is new.
                _ => {
                    known.remove(program);
                    *scan = None;
                }
            }
        }
        let is_fresh = |(at, _): &(Instant, _)| at.elapsed() < SCAN_EVERY;
        if !scan.as_ref().is_some_and(is_fresh) {
            // Processes of other users are never ours.
            let own = process_info::read_command_lines(geteuid().as_raw());
            let Some(running) = own else { return Life::Unknown };
            *scan = Some((Instant::now(), running));
            absent.clear();
        }
        // Many sessions of one agent ask in a row.
        if absent.contains(program) {
            return Life::Gone;
        }
        let running = scan.iter().flat_map(|(_, running)| running);
        let mut is_complete = true;
        for line in running.filter(|line| line.runs_program(program)) {
            // A process may have ended since the scan; one that is there is enough.
            match self.inspect(line.pid) {
                Inspection::Running(process) => {
                    known.insert(program.to_owned(), (process.pid, process.started));
                    return Life::Alive;
                }
                Inspection::Gone => {}
                Inspection::Unknown => is_complete = false,
            }
        }
        if !is_complete {
            return Life::Unknown;
        }
        absent.insert(program.to_owned());
        Life::Gone
    }

    fn holds_lock(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::metadata(path) else { return false };
        let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
        // `1: FLOCK ADVISORY WRITE 4711 fd:01:123456 0 EOF`
        let inode = format!(":{}", metadata.ino());
        locks
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            // `major:minor:inode`: the colon keeps the inode from matching the end of a longer one.
            .any(|file| file.ends_with(&inode) && file.matches(':').count() == 2)
    }
}

/// Compares a start with the one that an agent wrote down. `None` if they cannot be compared.
fn compare_ticks(started: ProcessStart, written: &str) -> Option<bool> {
    match started {
        // A start that is no number is of another system or version, and proves nothing.
        ProcessStart::Ticks(ticks) => written.parse::<u64>().ok().map(|written| written == ticks),
        ProcessStart::UnixSecs(_) => None,
    }
}

/// Says what a running process with the expected pid means for the expected process, and whether
/// that is certain.
fn judge(is_same: Option<bool>, is_own: bool) -> (Life, bool) {
    match (is_same, is_own) {
        (Some(true), true) => (Life::Alive, true),
        (Some(false), _) => (Life::Gone, true),
        // The pid is in use, but perhaps by another process.
        (None, true) => (Life::Alive, false),
        // A process of another user is never ours, so the pid was probably given away.
        (None, false) => (Life::Gone, false),
        // The agent changed its user, or the start is the same by accident.
        (Some(true), false) => (Life::Unknown, false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn start_time_is_compared() {
        let processes = Processes::default();
        let pid = std::process::id();
        let life = |started| {
            let found = processes.find(pid, started);
            (found.life, found.is_certain)
        };
        assert_eq!(life(Started::Unknown), (Life::Alive, false));
        let boot = Started::Before(Time::from_millis(0));
        assert_eq!(life(boot), (Life::Gone, true));
        let always = Started::Before(Time::MAX);
        assert_eq!(life(always), (Life::Alive, true));
    }

    #[test]
    fn process_has_one_start() {
        let processes = Processes::default();
        let find = || processes.find(std::process::id(), Started::Unknown);
        let first = find();
        assert!(first.started_at.is_some());
        assert!((0..10_000).all(|_| find() == first));
    }

    #[test]
    fn ticks_compare_with_ticks_only() {
        for (started, written, expected) in [
            (ProcessStart::Ticks(98_765), "98765", Some(true)),
            (ProcessStart::Ticks(98_765), "98766", Some(false)),
            (ProcessStart::Ticks(98_765), "Wed Nov 18 03:38:33 2026", None),
            (ProcessStart::UnixSecs(98_765), "98765", None),
        ] {
            assert_eq!(compare_ticks(started, written), expected, "{started:?} {written}");
        }
    }

    #[test]
    fn other_users_process_is_never_alive() {
        assert_eq!(judge(None, false), (Life::Gone, false));
        assert_eq!(judge(Some(true), false), (Life::Unknown, false));
        assert_eq!(judge(Some(false), false), (Life::Gone, true));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn commands_below_a_process_are_found() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 3600 & wait"])
            .spawn()
            .expect("a shell starts");
        let own = || Processes::default().commands_below(std::process::id());
        let has = |word: &str| own().iter().any(|it| it.words.iter().any(|given| given == word));
        let is_whole = |it: &RunningCommand| it.words == ["sleep", "3600"] && !it.is_cut;
        // The shell needs a moment to begin, and one more to start what it was told to.
        while !has("3600") {
            std::thread::yield_now();
        }
        assert!(has("sleep 3600 & wait"));
        let below = Processes::default().commands_below(child.id());
        assert!(below.iter().all(is_whole), "{below:?}");
        let sleeping = process_info::read_descendants(child.id());
        for line in sleeping {
            let pid = rustix::process::Pid::from_raw(line.pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }

    #[test]
    fn reaped_child_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let found = Processes::default().find(child.id(), Started::Unknown);
        assert_eq!((found.life, found.is_certain), (Life::Gone, true));
    }

    #[test]
    fn program_runs_until_its_last_process() {
        let processes = Processes::default();
        // A name that no other process on this machine has.
        let program = format!("hansard-witness-{}", std::process::id());
        let is_listed = |pid: u32| {
            let own = process_info::read_command_lines(geteuid().as_raw()).unwrap();
            own.iter().any(|line| line.pid == pid && line.runs_program(&program))
        };
        let run = || {
            let mut command = std::process::Command::new("/bin/sleep");
            let child = command.arg0(&program).arg("600").spawn().unwrap();
            // The process exists a moment before its command line.
            while !is_listed(child.id()) {
                std::thread::yield_now();
            }
            child
        };
        let (mut first, mut second) = (run(), run());
        assert_eq!(processes.runs(&program), Life::Alive);
        for (child, left) in [(&mut first, Life::Alive), (&mut second, Life::Gone)] {
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(processes.runs(&program), left);
        }
    }
}
