//! The process table of this machine: whether a process runs, and which ones are agents.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use event::{ProcessIdentity, ProcessStart, Time};
use projection::status::{Life, Process, RunningCommand};
use rustix::process::geteuid;

use crate::agent_process::{AgentProcess, AgentScan, ProcessKey};
use crate::held_locks::{HeldLocks, LockHolder};
use crate::host_watch::{FolderNews, HostWatch};
use crate::known_processes::KnownProcesses;
use crate::process_info::{self, Inspection, started_at};

/// Tolerance of a start time: setting the clock moves it, and macOS counts whole seconds.
const START_SLACK_SECS: i64 = 2;

/// The least time between two scans of all processes. A session that was written since the last one
/// is in doubt until the next.
const SCAN_EVERY: Duration = Duration::from_secs(1);

/// The user of this program, which stays the same.
static OWN_USER: LazyLock<u32> = LazyLock::new(|| geteuid().as_raw());

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

    /// Returns a number that changes with every process that starts, if the system has one.
    ///
    /// A table that only answers the other questions has none.
    fn starts(&self) -> Option<u32> {
        None
    }

    /// Returns the processes of agents, of this user. All processes are scanned if that was not done
    /// since the given time; else those that the last scan found are looked at one by one. `None` if
    /// a process may be missing.
    fn agents(&self, since: Time) -> Option<Arc<AgentScan>>;

    /// Returns how long a scan of all processes takes, by those that were made.
    ///
    /// A table that only answers the other questions makes none.
    fn scan_took(&self) -> Duration {
        Duration::ZERO
    }

    /// Says that a look depends on what is in a folder. It is said before the folder is read.
    ///
    /// A table that tells no news by itself has no use for it.
    fn watch_folder(&self, _folder: &Path, _news: FolderNews) {}

    /// Forgets what is read once for a look at many sessions.
    ///
    /// A table that reads nothing so has nothing to forget.
    fn begin_look(&self) {}

    /// Returns what holds a lock on a file. The list of all locks is read once for a look.
    fn lock_holder(&self, path: &Path) -> LockHolder;
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
/// A scan of all processes is expensive, so it happens only when a session was written since the
/// last one, and at most once a second.
#[derive(Default)]
pub struct Processes {
    last: RefCell<LastScan>,
    known: RefCell<KnownProcesses>,
    /// The locks of this look, once one was asked for; none inside if the system does not tell.
    locks: RefCell<Option<Option<HeldLocks>>>,
    watch: Option<Arc<HostWatch>>,
}

/// The last scan.
#[derive(Default)]
struct LastScan {
    tried_at: Option<Instant>,
    took: Duration,
    /// Absent before the first one, and if it failed.
    scan: Option<Arc<AgentScan>>,
    /// The first known start of each process. The clock of the machine may be set while it runs.
    starts: HashMap<ProcessKey, Option<Time>>,
}

impl Processes {
    /// Those whose ends a watch tells, with the folders that looks depend on.
    pub fn watched() -> Processes {
        let watch = HostWatch::open().map(Arc::new);
        let known = RefCell::new(KnownProcesses::watched_by(watch.clone()));
        Processes { known, watch, ..Processes::default() }
    }

    /// The watch, if there is one.
    pub fn watch(&self) -> Option<&Arc<HostWatch>> {
        self.watch.as_ref()
    }
}

impl ProcessTable for Processes {
    fn inspect(&self, pid: u32) -> Inspection {
        self.known.borrow_mut().inspect(pid).0
    }

    fn find(&self, pid: u32, started: Started<'_>) -> Process {
        let found = |(life, is_certain), started_at| Process { pid, life, is_certain, started_at };
        let (inspection, mut started_at) = self.known.borrow_mut().inspect(pid);
        let process = match inspection {
            Inspection::Running(process) => process,
            Inspection::Gone => return found((Life::Gone, true), None),
            Inspection::Unknown => return found((Life::Unknown, false), None),
        };
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
        let (life, is_certain) = judge(is_same, process.uid == *OWN_USER);
        // What was written down when the process was young is nearer to its start than what the
        // clock says now, which may have been set since.
        match started {
            Started::As(identity) => started_at = Some(identity.started_at),
            Started::Before(time) => started_at = started_at.map(|at| at.min(time)),
            Started::Ticks(_) | Started::Unknown => {}
        }
        // The start of another process says nothing of this one.
        found((life, is_certain), started_at.filter(|_| life == Life::Alive))
    }

    fn commands_below(&self, pid: u32) -> Vec<RunningCommand> {
        let found = process_info::read_descendants(pid).into_iter().filter_map(|line| {
            let Inspection::Running(process) = process_info::inspect(line.pid) else { return None };
            let started_at = started_at(process.started)?;
            Some(RunningCommand { is_cut: line.is_cut, words: line.words, started_at })
        });
        found.collect()
    }

    fn starts(&self) -> Option<u32> {
        // The last of `0.20 0.18 0.12 1/80 11206` is the pid that was given last.
        let text = fs::read_to_string("/proc/loadavg").ok()?;
        text.split_whitespace().next_back()?.parse().ok()
    }

    fn agents(&self, since: Time) -> Option<Arc<AgentScan>> {
        let mut last = self.last.borrow_mut();
        let LastScan { tried_at, took, scan, starts } = &mut *last;
        let is_old = scan.as_ref().is_none_or(|scan| scan.scanned_at < since);
        if is_old && tried_at.is_none_or(|tried_at| tried_at.elapsed() >= SCAN_EVERY) {
            let begun = Instant::now();
            *tried_at = Some(begun);
            *scan = read_agents(starts).map(Arc::new);
            // Other programs may have run meanwhile: what takes much longer than before is no
            // measure.
            *took = match *took {
                Duration::ZERO => begun.elapsed(),
                before => begun.elapsed().min(before.saturating_mul(2)),
            };
        }
        let known = scan.as_mut()?;
        let runs = |process: &AgentProcess| match self.inspect(process.key.0) {
            Inspection::Running(found) => found.started == process.key.1,
            Inspection::Gone => false,
            Inspection::Unknown => true,
        };
        if !known.processes.iter().all(runs) {
            Arc::make_mut(known).processes.retain(runs);
        }
        Some(Arc::clone(known))
    }

    fn scan_took(&self) -> Duration {
        self.last.borrow().took
    }

    fn watch_folder(&self, folder: &Path, news: FolderNews) {
        if let Some(watch) = &self.watch {
            watch.add_folder(folder, news);
        }
    }

    fn begin_look(&self) {
        self.locks.take();
        self.known.borrow_mut().begin_look();
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        let mut locks = self.locks.borrow_mut();
        let locks = locks.get_or_insert_with(HeldLocks::read).as_ref();
        locks.map_or(LockHolder::Unknown, |locks| locks.holder(path))
    }
}

/// Scans all processes of this user for those of agents. `None` if one may be missing.
fn read_agents(starts: &mut HashMap<ProcessKey, Option<Time>>) -> Option<AgentScan> {
    // Taken before the scan: a process that starts during it may be missing.
    let scanned_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let scanned_at = Time::from_nanos(i128::try_from(scanned_at.as_nanos()).ok()?);
    let uid = *OWN_USER;
    let mut processes = Vec::new();
    // Processes of other users are never ours.
    for line in process_info::read_command_lines(uid)? {
        // For known agents the name of the program is that of the provider.
        let mut programs = capture::AGENTS.iter().map(|agent| agent.provider());
        let Some(program) = programs.find(|program| line.runs_program(program)) else { continue };
        let found = match process_info::inspect(line.pid) {
            Inspection::Running(found) => found,
            // It has ended since the listing.
            Inspection::Gone => continue,
            Inspection::Unknown => return None,
        };
        let key = (found.pid, found.started);
        let started_at = *starts.entry(key).or_insert_with(|| started_at(found.started));
        let line = process_info::read_command_line(found.pid).unwrap_or(line);
        // Changed its user since the listing.
        if found.uid == uid {
            processes.push(AgentProcess {
                program,
                key,
                started_at,
                parent: found.parent,
                cwd: found.cwd,
                arguments: line.arguments().to_vec(),
                open_files: process_info::read_open_files(found.pid),
            });
        }
    }
    starts.retain(|key, _| processes.iter().any(|process| process.key == *key));
    Some(AgentScan { scanned_at, processes })
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
    fn agents_are_known_until_they_end() {
        let processes = Processes::default();
        let folder = tempfile::TempDir::new().unwrap();
        let mut command = std::process::Command::new("/bin/sleep");
        let mut child = command.arg0("goose").arg("600").current_dir(&folder).spawn().unwrap();
        let agents = |processes: &Processes, since: Time| {
            let scan = processes.agents(since).unwrap();
            let own = scan.processes.iter().filter(|it| it.key.0 == child.id());
            own.cloned().collect::<Vec<AgentProcess>>()
        };
        // The process exists a moment before its command line.
        while agents(&Processes::default(), Time::MIN).is_empty() {
            std::thread::yield_now();
        }
        let found = agents(&processes, Time::MIN);
        assert_eq!((found[0].program, &found[0].arguments[..]), ("goose", &["600".to_owned()][..]));
        assert_eq!(found[0].cwd, Some(folder.path().canonicalize().unwrap()));
        let scan = processes.agents(Time::MIN).unwrap();
        // Nothing changed: no scan, also if a later one is asked for at once.
        assert!(Arc::ptr_eq(&scan, &processes.agents(Time::MAX).unwrap()));
        drop(scan);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(child.id() as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        while !agents(&processes, Time::MIN).is_empty() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
