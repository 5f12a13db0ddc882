//! The process table of this machine.
//!
//! On Linux `/proc` has processes and their start times. Elsewhere the only test is whether a pid is
//! in use: a free pid proves that the process has ended, a used one may belong to another process.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use event::Time;
use projection::status::Life;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Clock ticks per second in `/proc` (`USER_HZ`), the same on all supported systems.
const TICKS_PER_SEC: i64 = 100;

/// Tolerance of a start time: the boot time is in whole seconds, and setting the clock after the
/// boot moves it.
const START_SLACK_SECS: i64 = 2;

/// Processes in one scan, and words read of each command line. An interpreter may have a few options
/// before the script.
const PROCESSES_MAX: usize = 65_536;
const WORDS_MAX: usize = 8;

/// Programs that run a script: the script names the actual program.
const INTERPRETERS: &[&str] =
    &["node", "nodejs", "bun", "deno", "python", "python3", "sh", "bash", "dash", "zsh"];

/// Options of interpreters that take a value, and subcommands before a script.
const OPTIONS_WITH_VALUE: &[&str] = &["-r", "--require", "--import", "--loader", "-C", "-W", "-X"];
const SUBCOMMANDS: &[&str] = &["run", "x"];

/// How long a scan may prove that a program does not run. It must not be longer than the time for
/// which a just written session counts as open without a process: otherwise a session would count
/// as ended if its program started after the scan.
const SCAN_EVERY: Duration = Duration::from_secs(2);

/// Access to processes. [`Processes`] is the real one; tests have others.
pub trait ProcessTable {
    /// Returns whether a process runs, and whether it is certain to be the same process.
    fn life(&self, pid: u32, started: Started<'_>) -> (Life, bool);

    /// Returns whether any process of a program runs. `Gone` only after a complete scan.
    fn runs(&self, program: &str) -> Life;

    /// Returns whether a process is known to hold a lock on a file.
    fn holds_lock(&self, path: &Path) -> bool;
}

/// The expected start of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started<'a> {
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
    has_proc: OnceCell<bool>,
    booted_at: OnceCell<Option<i64>>,
    programs: RefCell<ProgramCache>,
}

/// The last scan and what was derived from it.
#[derive(Default)]
struct ProgramCache {
    /// The time of the last scan and its command lines.
    scan: Option<(Instant, Vec<CommandLine>)>,
    /// Programs missing in that scan: many sessions ask for the same few.
    absent: HashSet<String>,
    /// One process of each running program, with its start in ticks.
    known_pids: HashMap<String, (u32, String)>,
}

/// A process and the first words of its command line.
struct CommandLine {
    pid: u32,
    words: Vec<String>,
}

/// The start of a process as read from `/proc`.
enum StartTime {
    Ticks(String),
    Gone,
    Unreadable,
}

impl ProcessTable for Processes {
    fn life(&self, pid: u32, started: Started<'_>) -> (Life, bool) {
        if !self.has_proc() {
            return probe_by_signal(pid);
        }
        // The kernel reuses pids: a process with another start time is another process.
        let ticks = match read_start(pid) {
            StartTime::Ticks(ticks) => ticks,
            StartTime::Gone => return (Life::Gone, true),
            StartTime::Unreadable => return (Life::Unknown, false),
        };
        let is_it = match started {
            // A start that is no number is of another system or version, and proves nothing.
            Started::Ticks(told) => told.parse::<u64>().ok().map(|_| told == ticks),
            // A process that started after its own lock was written is another process with the
            // same pid.
            Started::Before(time) => self
                .started_at(&ticks)
                .map(|at| at <= time.nanos().div_euclid(1_000_000_000) as i64 + START_SLACK_SECS),
            Started::Unknown => None,
        };
        match is_it {
            Some(true) => (Life::Alive, true),
            Some(false) => (Life::Gone, true),
            // The pid is in use, but perhaps by another process.
            None => (Life::Alive, false),
        }
    }

    fn runs(&self, program: &str) -> Life {
        if !self.has_proc() {
            return Life::Unknown;
        }
        let mut programs = self.programs.borrow_mut();
        match programs.known_pids.get(program) {
            Some((pid, ticks)) if self.life(*pid, Started::Ticks(ticks)).0 == Life::Alive => {
                return Life::Alive;
            }
            // Another process of the program may still run: scan again, even if the last scan is new.
            Some(_) => {
                programs.known_pids.remove(program);
                programs.scan = None;
            }
            None => {}
        }
        let is_fresh = |(at, _): &(Instant, _)| at.elapsed() < SCAN_EVERY;
        if !programs.scan.as_ref().is_some_and(is_fresh) {
            let Some(read) = read_command_lines() else { return Life::Unknown };
            programs.scan = Some((Instant::now(), read));
            programs.absent.clear();
        }
        // Many sessions of one agent ask in a row.
        if programs.absent.contains(program) {
            return Life::Gone;
        }
        let scan = programs.scan.iter().flat_map(|(_, running)| running);
        let mut its = scan.filter(|running| running.runs_program(program));
        // A process may have ended since the scan; one that is there is enough.
        let witness = its.find_map(|running| match read_start(running.pid) {
            StartTime::Ticks(ticks) => Some((running.pid, ticks)),
            StartTime::Gone | StartTime::Unreadable => None,
        });
        let Some(witness) = witness else {
            programs.absent.insert(program.to_owned());
            return Life::Gone;
        };
        programs.known_pids.insert(program.to_owned(), witness);
        Life::Alive
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

impl Processes {
    fn has_proc(&self) -> bool {
        *self.has_proc.get_or_init(|| Path::new("/proc/self/stat").exists())
    }

    /// Converts the start of a process to seconds since 1970.
    fn started_at(&self, ticks: &str) -> Option<i64> {
        let booted_at = (*self.booted_at.get_or_init(read_boot_time))?;
        Some(booted_at + ticks.parse::<i64>().ok()? / TICKS_PER_SEC)
    }
}

fn read_start(pid: u32) -> StartTime {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return StartTime::Gone };
    // The program's name may contain spaces and parentheses, so fields count from the last `)`.
    let Some((_, fields)) = stat.rsplit_once(')') else { return StartTime::Unreadable };
    let mut fields = fields.split_whitespace();
    // The state is field 3 of `stat`, the start time field 22. A zombie has ended already.
    match (fields.next(), fields.nth(18)) {
        (Some("Z" | "X"), _) => StartTime::Gone,
        (Some(_), Some(ticks)) => StartTime::Ticks(ticks.to_owned()),
        _ => StartTime::Unreadable,
    }
}

/// Tests whether a pid is in use. Signal 0 is never delivered.
fn probe_by_signal(pid: u32) -> (Life, bool) {
    // Pid 0 would mean a whole group of processes; `from_raw` refuses it.
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match pid.map(test_kill_process) {
        // In use, but without a start time no proof that it is the same process.
        Some(Ok(())) => (Life::Alive, false),
        Some(Err(Errno::SRCH)) => (Life::Gone, true),
        // Of another user, for instance: the pid is in use, and more cannot be known.
        _ => (Life::Unknown, false),
    }
}

fn read_boot_time() -> Option<i64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn read_command_lines() -> Option<Vec<CommandLine>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten().take(PROCESSES_MAX) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended since the listing is skipped.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        // Words are separated by zero bytes. A process may have overwritten them with one text.
        let words = line.split(|byte| *byte == 0).take(WORDS_MAX);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        programs.push(CommandLine { pid, words: words.collect() });
    }
    Some(programs)
}

impl CommandLine {
    /// Returns whether the process runs a program. Further words do not count: a path, a prompt or
    /// an argument may contain the name of any agent.
    fn runs_program(&self, program: &str) -> bool {
        let Some((first, rest)) = self.words.split_first() else { return false };
        // A login shell has a `-` before its name.
        let interpreter = file_name(first).trim_start_matches('-');
        if !INTERPRETERS.contains(&interpreter) {
            return is_program(first, program);
        }
        script_of(rest).is_some_and(|script| {
            let package = package_of(script);
            package.is_some_and(|package| is_named_after(package, program))
                || is_program(script, program)
        })
    }
}

/// Returns the script among the arguments of an interpreter.
fn script_of(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str);
    loop {
        match words.next()? {
            word if OPTIONS_WITH_VALUE.contains(&word) => _ = words.next(),
            // The code is on the command line: there is no script.
            "-c" | "-e" | "-p" | "-m" | "--eval" | "--print" => return None,
            word if word.starts_with('-') || SUBCOMMANDS.contains(&word) => {}
            script => return Some(script),
        }
    }
}

/// Returns the npm package of a file: the folder after the last `node_modules`, without its scope.
fn package_of(path: &str) -> Option<&str> {
    let (_, inside) = path.rsplit_once("/node_modules/")?;
    let mut parts = inside.split('/');
    let first = parts.next()?;
    // `@scope/name` is a package in two parts; `.bin` holds the links to all of them.
    if first.starts_with('@') { parts.next() } else { Some(first).filter(|name| *name != ".bin") }
}

/// Returns whether a file is a program: by its name, or by the folder above `versions/`, where
/// installers name the file after its version.
fn is_program(path: &str, program: &str) -> bool {
    let is_kept = path.split_once("/versions/").is_some_and(|(folder, version)| {
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        is_version && is_named_after(file_name(folder), program)
    });
    is_kept || is_named_after(file_name(path).trim_start_matches('.'), program)
}

/// Returns whether a file or package has the name of a program, with or without a suffix such as
/// `-code` or `-linux-x64`.
fn is_named_after(name: &str, program: &str) -> bool {
    name.strip_prefix(program).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_end()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn start_time_is_compared() {
        let processes = Processes::default();
        let pid = std::process::id();
        assert_eq!(processes.life(pid, Started::Unknown).0, Life::Alive);
        if processes.has_proc() {
            assert_eq!(processes.life(pid, Started::Ticks("1")), (Life::Gone, true));
            let boot = Started::Before(Time::from_millis(0));
            assert_eq!(processes.life(pid, boot), (Life::Gone, true));
            let always = Started::Before(Time::MAX);
            assert_eq!(processes.life(pid, always), (Life::Alive, true));
        }
    }

    #[test]
    fn reaped_child_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Processes::default().life(child.id(), Started::Unknown), (Life::Gone, true));
    }

    #[test]
    fn program_runs_until_its_last_process() {
        let processes = Processes::default();
        if !processes.has_proc() {
            return;
        }
        // A name that no other process on this machine has.
        let program = format!("hansard-witness-{}", std::process::id());
        let run = || {
            let mut command = std::process::Command::new("/bin/sleep");
            let child = command.arg0(&program).arg("600").spawn().unwrap();
            // The process exists a moment before its command line.
            let line = format!("/proc/{}/cmdline", child.id());
            while fs::read(&line).unwrap().is_empty() {
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

    #[test]
    fn command_line_names_its_program() {
        let modules = "/home/dev/node_modules";
        for (program, line) in [
            ("claude", format!("{modules}/.bin/claude --resume")),
            ("claude", "/home/dev/.local/share/claude/versions/2.1.325 --print".to_owned()),
            ("claude", format!("node {modules}/@anthropic-ai/claude-code/cli.js")),
            ("codex", format!("node {modules}/.bin/codex exec --json")),
            ("codex", format!("{modules}/@openai/codex-linux-x64/vendor/x86_64/bin/codex exec")),
            ("codex", "./codex-x86_64-unknown-linux-musl".to_owned()),
            ("gemini", "node /usr/local/bin/gemini -m gemini-2.5-pro".to_owned()),
            ("gemini", format!("/usr/bin/node --max-old-space-size=12052 {modules}/.bin/gemini")),
            ("gemini", format!("node {modules}/@google/gemini-cli/dist/index.js")),
            ("qwen", format!("node -r /tmp/hook.cjs {modules}/@qwen-code/qwen-code/cli.js")),
            ("copilot", format!("node {modules}/.bin/copilot --no-auto-update")),
            ("copilot", format!("{modules}/@github/copilot-linux-x64/copilot")),
            ("opencode", format!("{modules}/opencode-ai/bin/.opencode")),
            // The program has overwritten its command line.
            ("pi", "pi\u{a0}\u{a0}\u{a0}  ".to_owned()),
            ("pi", format!("bun run {modules}/@mariozechner/pi-coding-agent/dist/cli.js")),
            ("cursor", "cursor-agent".to_owned()),
            (
                "cursor",
                "node /home/dev/.local/share/cursor-agent/versions/2026.1/index.js".to_owned(),
            ),
            ("goose", "/bin/sh /home/dev/bin/goose session".to_owned()),
        ] {
            assert!(command_line(&line).runs_program(program), "{line}");
        }
    }

    #[test]
    fn mentioned_program_does_not_run() {
        for (program, line) in [
            ("codex", "bash -c cp\u{a0}-r\u{a0}/home/dev/codex/s1\u{a0}."),
            ("codex", "/bin/bash /home/dev/codex/build.sh"),
            ("codex", "node /home/dev/codex/server.js"),
            ("codex", "vim codex"),
            ("gemini", "grep -r gemini /usr/lib/node_modules/@google/gemini-cli"),
            ("gemini", "node /home/dev/project/ask.js gemini"),
            ("claude", "hansard hook claude Stop"),
            ("claude", "tail -f /home/dev/.claude/projects/x.jsonl"),
            ("claude", "/srv/claude/versions/run"),
            ("pi", "/usr/bin/pipewire"),
            ("opencode", "-bash"),
            ("goose", ""),
        ] {
            assert!(!command_line(line).runs_program(program), "{line}");
        }
    }

    fn command_line(line: &str) -> CommandLine {
        let words = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        CommandLine { pid: 1, words: words.collect() }
    }
}
