//! Evidence of running agents and of those that left files behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use capture::Environment;
use host::{HostProbe, ProbeTarget, Processes};
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

fn look(home: &Path, provider: &str, session: &str, version: &str) -> ProcessEvidence {
    let environment = Environment::new(home, []);
    let target = ProbeTarget {
        provider: provider.to_owned(),
        session: session.to_owned(),
        agent_version: Some(version.to_owned()),
        ..ProbeTarget::default()
    };
    HostProbe::look(&environment, &Processes::default()).evidence_for(&target)
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
    let evidence = look(home.path(), "claude", "s1", "2.1.325");
    let process = evidence.process.unwrap();
    assert_eq!((process.pid, process.life, process.is_certain), (agent.pid(), Life::Alive, true));
    assert_eq!(evidence.registry.unwrap().word, Some(RegistryWord::Permission));
    // The same pid, reused by a later process.
    write(home.path(), &path, &entry(agent.pid(), "1", waits));
    let evidence = look(home.path(), "claude", "s1", "2.1.325");
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
    let evidence = look(home.path(), "claude", "s1", "2.1.325");
    assert_eq!((evidence.registry, evidence.process), (None, None));
    assert_eq!(evidence.missing.unwrap().source, "registry");
    // An older version may run without being listed.
    let evidence = look(home.path(), "claude", "s1", "2.0.1");
    assert!(evidence.missing.is_none_or(|missing| missing.source == "process"));
}

#[test]
fn lock_belongs_to_the_named_process() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let folder = ".copilot/session-state/s1";
    write(home.path(), &format!("{folder}/events.jsonl"), "");
    let evidence = look(home.path(), "copilot", "s1", "1.0.102");
    assert_eq!(evidence.missing.unwrap().source, "lock");
    let pid = agent.pid();
    write(home.path(), &format!("{folder}/inuse.{pid}.lock"), &format!("{pid}\n"));
    let evidence = look(home.path(), "copilot", "s1", "1.0.102");
    assert_eq!(evidence.lock.unwrap().life, Life::Alive);
    assert_eq!(evidence.process.unwrap().pid, pid);
    drop(agent);
    let evidence = look(home.path(), "copilot", "s1", "1.0.102");
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
        let evidence = look(home.path(), "codex", "s1", "0.166.0");
        assert_eq!(evidence.lock.unwrap().life, Life::Alive);
    }
    file.unlock().unwrap();
    let evidence = look(home.path(), "codex", "other", "0.166.0");
    assert_eq!(evidence.missing.unwrap().source, "lock");
    // An id that would lead out of the folder has no lock.
    let evidence = look(home.path(), "codex", "../../x", "0.166.0");
    assert_eq!(evidence.lock, None);
}
