//! Evidence of running agents and of those that left files behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use capture::Environment;
use event::{ProcessIdentity, ProcessStart, Time};
use host::{HostProbe, Inspection, Pairings, ProbeTarget, ProcessTable, Processes, Started};
use projection::status::{Life, ProcessEvidence, RegistryWord};
use tempfile::TempDir;

/// A process that runs until it is dropped.
struct Agent(Child);

impl Agent {
    fn start() -> Agent {
        Agent(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Its start in ticks, on Linux.
    fn ticks(&self) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        Some(stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process with the name of an agent, whose command line names a session.
#[cfg(target_os = "linux")]
fn start_as(name: &str, folder: &TempDir, session: &str) -> Agent {
    start_writing(name, folder, session, Stdio::null())
}

/// The same, with a file that the process has open.
#[cfg(target_os = "linux")]
fn start_writing(name: &str, folder: &TempDir, session: &str, file: impl Into<Stdio>) -> Agent {
    let mut command = Command::new("cat");
    let command = command.arg0(name).args(["-", session]).current_dir(folder);
    let agent = Agent(command.stdin(Stdio::piped()).stderr(file).spawn().unwrap());
    // The process exists a moment before its command line.
    let line = || fs::read(format!("/proc/{}/cmdline", agent.pid())).unwrap_or_default();
    while !line().starts_with(name.as_bytes()) {
        std::thread::yield_now();
    }
    agent
}

/// A session that began long ago.
fn target(provider: &str, session: &str) -> ProbeTarget {
    ProbeTarget {
        provider: provider.to_owned(),
        session: session.to_owned(),
        began_at: Some(Time::from_millis(1)),
        last_at: Some(Time::from_millis(2)),
        ..ProbeTarget::default()
    }
}

fn look(home: &Path, provider: &str, session: &str) -> ProcessEvidence {
    look_for(home, &target(provider, session))
}

fn look_for(home: &Path, target: &ProbeTarget) -> ProcessEvidence {
    let environment = Environment::new(home, []);
    let processes = Processes::default();
    let probe = HostProbe::look(&environment, &processes);
    let mut pairings = Pairings::default();
    probe.pair(&mut pairings, [target], Time::MIN, Time::MAX);
    probe.evidence_for(target, &pairings)
}

fn write(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn entry(pid: u32, started: &str, rest: &str) -> String {
    format!(r#"{{"pid":{pid},"sessionId":"s1","procStart":"{started}","startedAt":1000{rest}}}"#)
}

#[test]
fn registry_entry_needs_the_start_time() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let Some(ticks) = agent.ticks() else { return };
    let waits = r#","status":"waiting","waitingFor":"permission prompt","statusUpdatedAt":2000"#;
    let path = format!(".claude/sessions/{}.json", agent.pid());
    write(home.path(), &path, &entry(agent.pid(), &ticks, waits));
    let evidence = look(home.path(), "claude", "s1");
    let process = evidence.process.unwrap();
    assert_eq!((process.pid, process.life, process.is_certain), (agent.pid(), Life::Alive, true));
    assert_eq!(evidence.registry.unwrap().word, Some(RegistryWord::Permission));
    // The same pid, reused by a later process.
    write(home.path(), &path, &entry(agent.pid(), "1", waits));
    let evidence = look(home.path(), "claude", "s1");
    assert_eq!(evidence.process.unwrap().life, Life::Gone);
}

#[test]
fn invalid_entries_are_ignored() {
    let home = TempDir::new().unwrap();
    for (name, text) in [
        ("1.json", r#"{"pid":0,"sessionId":"s1"}"#),
        ("2.json", r#"{"pid":-1,"sessionId":"s1"}"#),
        ("3.json", "{\"pid\":4711,\"sess"),
        ("4.json", "text"),
        ("5.key", r#"{"pid":4711,"sessionId":"s1"}"#),
    ] {
        write(home.path(), &format!(".claude/sessions/{name}"), text);
    }
    let evidence = look(home.path(), "claude", "s1");
    assert_eq!((evidence.registry, evidence.process), (None, None));
    assert_eq!(evidence.missing.unwrap().source, "registry");
    // The list has not changed since the session began: its agent may keep none.
    let later = ProbeTarget { began_at: Some(Time::MAX), ..target("claude", "s1") };
    let evidence = look_for(home.path(), &later);
    assert!(evidence.missing.is_none_or(|missing| missing.source == "process"));
    // It was listed before.
    let evidence = look_for(home.path(), &ProbeTarget { was_listed: true, ..later });
    assert_eq!(evidence.missing.unwrap().source, "registry");
}

#[test]
fn lock_belongs_to_the_named_process() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let folder = ".copilot/session-state/s1";
    write(home.path(), &format!("{folder}/events.jsonl"), "");
    let listed = ProbeTarget { was_listed: true, ..target("copilot", "s1") };
    assert_eq!(look_for(home.path(), &listed).missing.unwrap().source, "lock");
    let pid = agent.pid();
    write(home.path(), &format!("{folder}/inuse.{pid}.lock"), &format!("{pid}\n"));
    let evidence = look(home.path(), "copilot", "s1");
    assert_eq!(evidence.lock.unwrap().life, Life::Alive);
    assert_eq!(evidence.process.unwrap().pid, pid);
    drop(agent);
    let evidence = look(home.path(), "copilot", "s1");
    assert_eq!(evidence.lock.unwrap().life, Life::Gone);
}

#[test]
fn kernel_lists_held_locks() {
    let home = TempDir::new().unwrap();
    let path = ".codex/thread-writer-locks/s1.lock";
    write(home.path(), path, "");
    let file = fs::File::open(home.path().join(path)).unwrap();
    file.lock().unwrap();
    if Path::new("/proc/locks").exists() {
        let evidence = look(home.path(), "codex", "s1");
        assert_eq!(evidence.lock.unwrap().life, Life::Alive);
        let process = evidence.process.unwrap();
        assert_eq!((process.pid, process.is_certain), (std::process::id(), true));
        // The lock is left, and nothing holds it: its session has ended for sure.
        file.unlock().unwrap();
        let evidence = look(home.path(), "codex", "s1");
        assert_eq!((evidence.lock.unwrap().life, evidence.process), (Life::Gone, None));
    }
    let evidence = look(home.path(), "codex", "other");
    assert_eq!(evidence.missing.unwrap().source, "lock");
    // An id that would lead out of the folder has no lock.
    let evidence = look(home.path(), "codex", "../../x");
    assert_eq!(evidence.lock, None);
}

#[cfg(target_os = "linux")]
#[test]
fn locks_are_read_once_for_a_look() {
    let home = TempDir::new().unwrap();
    let path = ".codex/thread-writer-locks/s1.lock";
    write(home.path(), path, "");
    let (environment, processes) = (Environment::new(home.path(), []), Processes::default());
    let target = target("codex", "s1");
    let life = |probe: &HostProbe<'_>| {
        probe.evidence_for(&target, &Pairings::default()).lock.unwrap().life
    };
    let probe = HostProbe::look(&environment, &processes);
    assert_eq!(life(&probe), Life::Gone);
    let file = fs::File::open(home.path().join(path)).unwrap();
    file.lock().unwrap();
    assert_eq!(life(&probe), Life::Gone);
    assert_eq!(life(&HostProbe::look(&environment, &processes)), Life::Alive);
}

#[test]
fn recorded_start_counts_more_than_the_clock() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let Some(ticks) = agent.ticks() else { return };
    let start = ProcessStart::Ticks(ticks.parse().unwrap());
    let started_at = Time::from_millis(5);
    let known = ProcessIdentity { pid: agent.pid(), start, started_at };
    let hooked = ProbeTarget { process: Some(known), ..target("gemini", "s1") };
    assert_eq!(look_for(home.path(), &hooked).process.unwrap().started_at, Some(started_at));
    // The same process, named by the registry, too.
    let path = format!(".claude/sessions/{}.json", agent.pid());
    write(home.path(), &path, &entry(agent.pid(), &ticks, ""));
    let hooked = ProbeTarget { process: Some(known), ..target("claude", "s1") };
    assert_eq!(look_for(home.path(), &hooked).process.unwrap().started_at, Some(started_at));
    // The registry alone: the entry is from before the clock was set.
    let listed = look(home.path(), "claude", "s1").process.unwrap();
    assert_eq!(listed.started_at, Some(Time::from_millis(1_000)));
}

#[test]
#[cfg(target_os = "linux")]
fn resumed_session_outlives_the_process_of_its_hooks() {
    let home = TempDir::new().unwrap();
    let known = {
        let first = Agent::start();
        let start = ProcessStart::Ticks(first.ticks().unwrap().parse().unwrap());
        ProcessIdentity { pid: first.pid(), start, started_at: Time::from_millis(5) }
    };
    let folders = vec![home.path().to_owned()];
    let hooked = ProbeTarget { process: Some(known), folders, ..target("goose", "ssssssss") };
    assert_eq!(look_for(home.path(), &hooked).life(), Life::Gone);
    // It was resumed, and has called no hook yet.
    let agent = start_as("goose", &home, "ssssssss");
    let process = look_for(home.path(), &hooked).process.unwrap();
    assert_eq!((process.pid, process.life), (agent.pid(), Life::Alive));
}

#[test]
#[cfg(target_os = "linux")]
fn resumed_session_outlives_the_lock_of_a_dead_process() {
    let home = TempDir::new().unwrap();
    let dead = Agent::start().pid();
    let lock = format!(".copilot/session-state/ssssssss/inuse.{dead}.lock");
    write(home.path(), &lock, &format!("{dead}\n"));
    let folders = vec![home.path().to_owned()];
    let left = ProbeTarget { folders, ..target("copilot", "ssssssss") };
    assert_eq!(look_for(home.path(), &left).life(), Life::Gone);
    // It works in the same folder, on another session.
    let _other = start_as("copilot", &home, "rrrrrrrr");
    assert_eq!(look_for(home.path(), &left).life(), Life::Gone);
    // It was resumed, and asks whether another process has it open.
    let agent = start_as("copilot", &home, "ssssssss");
    let evidence = look_for(home.path(), &left);
    assert_eq!(evidence.process.map(|process| process.pid), Some(agent.pid()));
    assert_eq!(evidence.life(), Life::Alive);
}

/// A user that has no processes of ours.
const OTHER_USER: u32 = 65_534;

#[test]
#[cfg(target_os = "linux")]
fn lock_that_is_let_go_is_no_end_while_its_process_runs() {
    let home = TempDir::new().unwrap();
    let path = ".codex/thread-writer-locks/s1.lock";
    write(home.path(), path, "");
    let file = fs::File::open(home.path().join(path)).unwrap();
    file.lock().unwrap();
    let (environment, processes) = (Environment::new(home.path(), []), Processes::default());
    let (target, mut pairings) = (target("codex", "s1"), Pairings::default());
    let mut look = || {
        let probe = HostProbe::look(&environment, &processes);
        probe.pair(&mut pairings, [&target], Time::MIN, Time::MAX);
        let evidence = probe.evidence_for(&target, &pairings);
        (evidence.life(), evidence.doubt.is_some())
    };
    assert_eq!(look(), (Life::Alive, false));
    file.unlock().unwrap();
    assert_eq!(look(), (Life::Alive, true));
    assert_eq!(look(), (Life::Alive, true));
    file.lock().unwrap();
    assert_eq!(look(), (Life::Alive, false));
}

#[test]
#[cfg(target_os = "linux")]
fn free_lock_is_no_end_beside_the_process_of_the_session() {
    let home = TempDir::new().unwrap();
    write(home.path(), ".codex/thread-writer-locks/ssssssss.lock", "");
    write(home.path(), "s.jsonl", "");
    let file = home.path().join("s.jsonl");
    let folders = vec![home.path().to_owned()];
    let target = ProbeTarget { folders, file: Some(file.clone()), ..target("codex", "ssssssss") };
    let look = || {
        let evidence = look_for(home.path(), &target);
        let pid = evidence.process.map(|process| process.pid);
        (evidence.lock.unwrap().life, pid, evidence.doubt.is_some())
    };
    let over = (Life::Gone, None, false);
    assert_eq!(look(), over);
    // It works in the same folder, on another session.
    let _other = start_as("codex", &home, "rrrrrrrr");
    assert_eq!(look(), over);
    let agent = start_as("codex", &home, "ssssssss");
    assert_eq!(look(), (Life::Unknown, Some(agent.pid()), true));
    drop(agent);
    assert_eq!(look(), over);
    let agent =
        start_writing("codex", &home, "-", fs::File::options().append(true).open(&file).unwrap());
    assert_eq!(look(), (Life::Unknown, Some(agent.pid()), true));
}

#[test]
#[cfg(target_os = "linux")]
fn other_users_agents_never_count() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can start a process of another user");
        return;
    }
    // The folder for temporary files may be one that other users cannot enter.
    let home = TempDir::new_in("/tmp").unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let lock = ".codex/thread-writer-locks/s1.lock";
    write(home.path(), lock, "");
    // It works in the folder of the session, names the session, and holds its lock.
    let agent = "exec -a goose bash -c 'read line' goose --session ssssssss";
    let script = format!("exec 9< '{}'; flock 9; {agent}", home.path().join(lock).display());
    let mut command = Command::new("bash");
    let command = command.args(["-c", &script]).current_dir(&home).stdin(Stdio::piped());
    let agent = Agent(command.uid(OTHER_USER).spawn().unwrap());
    let is_ready = || {
        let line = fs::read(format!("/proc/{}/cmdline", agent.pid())).unwrap_or_default();
        line.starts_with(b"goose")
    };
    while !is_ready() {
        std::thread::yield_now();
    }
    let processes = Processes::default();
    let inspection = processes.inspect(agent.pid());
    assert!(matches!(inspection, Inspection::Running(process) if process.uid == OTHER_USER));
    assert_eq!(processes.find(agent.pid(), Started::Unknown).life, Life::Gone);
    let scan = processes.agents(Time::MIN).unwrap();
    assert!(scan.processes.iter().all(|process| process.key.0 != agent.pid()));
    let named =
        ProbeTarget { folders: vec![home.path().to_owned()], ..target("goose", "ssssssss") };
    let evidence = look_for(home.path(), &named);
    assert_eq!((evidence.life(), evidence.process), (Life::Gone, None));
    let evidence = look(home.path(), "codex", "s1");
    assert_eq!((evidence.life(), evidence.process), (Life::Gone, None));
}
