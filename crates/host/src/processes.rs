//! Who runs on this machine.
//!
//! On Linux `/proc` tells, start times included. Elsewhere only whether a pid is taken: that it is
//! free proves a death, that it is taken proves little.

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

/// Ticks of the kernel's clock in a second, in everything it tells to programs.
const TICKS_PER_SEC: i64 = 100;

/// Seconds by which a start time may be off: it is told in whole seconds since the boot, and a
/// clock that was set since the boot moves it.
const START_SLACK_SECS: i64 = 2;

/// Processes that are looked at for their names, and words of each command line: behind an
/// interpreter some of its own options may stand before the script.
const PROCESSES_MAX: usize = 65_536;
const WORDS_MAX: usize = 8;

/// Programs that run what a file says: the file is the program that is meant.
const INTERPRETERS: &[&str] =
    &["node", "nodejs", "bun", "deno", "python", "python3", "sh", "bash", "dash", "zsh"];

/// Their options with a word of its own behind them, and what they are told before a script.
const OPTIONS_WITH_A_WORD: &[&str] = &["-r", "--require", "--import", "--loader", "-C", "-W", "-X"];
const BEFORE_A_SCRIPT: &[&str] = &["run", "x"];

/// How long a look at all processes is good for saying that a program does not run. No longer than
/// a session that was just written is taken to be open without a process to be seen: so one whose
/// program was started after the look is not taken to have ended.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What has to be known of processes. The real ones are [`Processes`].
pub trait ProcessTable {
    /// Whether a process runs, and whether it is certain to be the one that is meant.
    fn life(&self, pid: u32, started: Started<'_>) -> (Life, bool);

    /// Whether any process of this program runs; gone only if all could be looked at.
    fn runs(&self, program: &str) -> Life;

    /// Whether somebody is known to hold a lock on this file.
    fn holds_lock(&self, path: &Path) -> bool;
}

/// What is known of when a process started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started<'a> {
    /// In ticks since the boot, as the kernel tells it.
    Ticks(&'a str),
    /// Not after this.
    Before(Time),
    Unknown,
}

/// The processes of this machine. Looking at all of them costs much where many run, so it is done
/// only every few seconds: a program that was seen to run is known by one process of it, until that
/// one ends.
#[derive(Default)]
pub struct Processes {
    has_proc: OnceCell<bool>,
    booted_at: OnceCell<Option<i64>>,
    programs: RefCell<Programs>,
}

/// What is known of who runs.
#[derive(Default)]
struct Programs {
    /// When all were looked at, and the first words of every command line.
    looked: Option<(Instant, Vec<Running>)>,
    /// Programs that were not found then: many sessions ask for the same few.
    absent: HashSet<String>,
    /// A process of each program that was seen to run, and when that started.
    witnesses: HashMap<String, (u32, String)>,
}

/// A process, and the first words of its command line.
struct Running {
    pid: u32,
    words: Vec<String>,
}

/// When a process started, as the kernel tells it.
enum Start {
    Ticks(String),
    Gone,
    Untold,
}

impl ProcessTable for Processes {
    fn life(&self, pid: u32, started: Started<'_>) -> (Life, bool) {
        if !self.has_proc() {
            return by_signal(pid);
        }
        let ticks = match start_of(pid) {
            Start::Ticks(ticks) => ticks,
            Start::Gone => return (Life::Gone, true),
            Start::Untold => return (Life::Unknown, false),
        };
        let is_it = match started {
            Started::Ticks(told) => told.parse::<u64>().ok().map(|_| told == ticks),
            Started::Before(time) => self
                .started_at(&ticks)
                .map(|at| at <= time.nanos().div_euclid(1_000_000_000) as i64 + START_SLACK_SECS),
            Started::Unknown => None,
        };
        match is_it {
            Some(true) => (Life::Alive, true),
            Some(false) => (Life::Gone, true),
            None => (Life::Alive, false),
        }
    }

    fn runs(&self, program: &str) -> Life {
        if !self.has_proc() {
            return Life::Unknown;
        }
        let mut programs = self.programs.borrow_mut();
        match programs.witnesses.get(program) {
            Some((pid, ticks)) if self.life(*pid, Started::Ticks(ticks)).0 == Life::Alive => {
                return Life::Alive;
            }
            // Another one may go on, or has begun since: all are looked at again.
            Some(_) => {
                programs.witnesses.remove(program);
                programs.looked = None;
            }
            None => {}
        }
        let is_fresh = |(at, _): &(Instant, _)| at.elapsed() < LOOK_EVERY;
        if !programs.looked.as_ref().is_some_and(is_fresh) {
            let Some(read) = read_programs() else { return Life::Unknown };
            programs.looked = Some((Instant::now(), read));
            programs.absent.clear();
        }
        if programs.absent.contains(program) {
            return Life::Gone;
        }
        let looked = programs.looked.iter().flat_map(|(_, running)| running);
        let mut its = looked.filter(|running| running.is_of(program));
        let witness = its.find_map(|running| match start_of(running.pid) {
            Start::Ticks(ticks) => Some((running.pid, ticks)),
            Start::Gone | Start::Untold => None,
        });
        let Some(witness) = witness else {
            programs.absent.insert(program.to_owned());
            return Life::Gone;
        };
        programs.witnesses.insert(program.to_owned(), witness);
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
            .any(|file| file.ends_with(&inode) && file.matches(':').count() == 2)
    }
}

impl Processes {
    fn has_proc(&self) -> bool {
        *self.has_proc.get_or_init(|| Path::new("/proc/self/stat").exists())
    }

    /// When a process started, in seconds since 1970.
    fn started_at(&self, ticks: &str) -> Option<i64> {
        let booted_at = (*self.booted_at.get_or_init(read_boot_time))?;
        Some(booted_at + ticks.parse::<i64>().ok()? / TICKS_PER_SEC)
    }
}

fn start_of(pid: u32) -> Start {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Start::Gone };
    // The name of the program may hold anything, so the fields are counted from behind it.
    let Some((_, fields)) = stat.rsplit_once(')') else { return Start::Untold };
    let mut fields = fields.split_whitespace();
    match (fields.next(), fields.nth(18)) {
        (Some("Z" | "X"), _) => Start::Gone,
        (Some(_), Some(ticks)) => Start::Ticks(ticks.to_owned()),
        _ => Start::Untold,
    }
}

/// Asks whether a pid is taken, which sends nothing.
fn by_signal(pid: u32) -> (Life, bool) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match pid.map(test_kill_process) {
        Some(Ok(())) => (Life::Alive, false),
        Some(Err(Errno::SRCH)) => (Life::Gone, true),
        _ => (Life::Unknown, false),
    }
}

fn read_boot_time() -> Option<i64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn read_programs() -> Option<Vec<Running>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten().take(PROCESSES_MAX) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that has ended meanwhile is not there.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let words = line.split(|byte| *byte == 0).take(WORDS_MAX);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        programs.push(Running { pid, words: words.collect() });
    }
    Some(programs)
}

impl Running {
    /// Whether it runs this program. What else stands on its command line says nothing: a path, a
    /// prompt or a script may name any agent there is.
    fn is_of(&self, program: &str) -> bool {
        let Some((first, rest)) = self.words.split_first() else { return false };
        // A shell that somebody logs in with is called so.
        let interpreter = file_name(first).trim_start_matches('-');
        if !INTERPRETERS.contains(&interpreter) {
            return is_program(first, program);
        }
        script_of(rest).is_some_and(|script| {
            let package = package_of(script);
            package.is_some_and(|package| is_called(package, program))
                || is_program(script, program)
        })
    }
}

/// The script among the words that an interpreter was given, if it was given one.
fn script_of(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str);
    loop {
        match words.next()? {
            word if OPTIONS_WITH_A_WORD.contains(&word) => _ = words.next(),
            // What is to be run is said, not named.
            "-c" | "-e" | "-p" | "-m" | "--eval" | "--print" => return None,
            word if word.starts_with('-') || BEFORE_A_SCRIPT.contains(&word) => {}
            script => return Some(script),
        }
    }
}

/// The package that a file was installed with: the folder behind the last `node_modules`, without
/// whose it is.
fn package_of(path: &str) -> Option<&str> {
    let (_, inside) = path.rsplit_once("/node_modules/")?;
    let mut parts = inside.split('/');
    let first = parts.next()?;
    if first.starts_with('@') { parts.next() } else { Some(first).filter(|name| *name != ".bin") }
}

/// Whether a file is this program: by its name, or by the folder that the versions of a program are
/// kept in, where files may be called anything.
fn is_program(path: &str, program: &str) -> bool {
    let is_kept = path.split_once("/versions/").is_some_and(|(folder, version)| {
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        is_version && is_called(file_name(folder), program)
    });
    is_kept || is_called(file_name(path).trim_start_matches('.'), program)
}

/// Whether a file or a package is called after a program, perhaps with a kind or a system behind.
fn is_called(name: &str, program: &str) -> bool {
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
    fn this_process_lives_and_its_start_is_compared() {
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
    fn a_child_that_was_waited_for_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Processes::default().life(child.id(), Started::Unknown), (Life::Gone, true));
    }

    #[test]
    fn a_program_that_was_seen_runs_until_its_last_process_ends() {
        let processes = Processes::default();
        if !processes.has_proc() {
            return;
        }
        // Nobody else on this machine runs one that is called so.
        let program = format!("hansard-witness-{}", std::process::id());
        let run = || {
            let mut command = std::process::Command::new("/bin/sleep");
            let child = command.arg0(&program).arg("600").spawn().unwrap();
            // It is there a moment before its words are.
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
    fn a_process_is_known_by_the_program_it_runs() {
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
            // It has called itself so, over what was there.
            ("pi", "pi\u{a0}\u{a0}\u{a0}  ".to_owned()),
            ("pi", format!("bun run {modules}/@mariozechner/pi-coding-agent/dist/cli.js")),
            ("cursor", "cursor-agent".to_owned()),
            (
                "cursor",
                "node /home/dev/.local/share/cursor-agent/versions/2026.1/index.js".to_owned(),
            ),
            ("goose", "/bin/sh /home/dev/bin/goose session".to_owned()),
        ] {
            assert!(running(&line).is_of(program), "{line}");
        }
    }

    #[test]
    fn a_program_that_is_only_spoken_of_does_not_run() {
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
            assert!(!running(line).is_of(program), "{line}");
        }
    }

    fn running(line: &str) -> Running {
        let words = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        Running { pid: 1, words: words.collect() }
    }
}
