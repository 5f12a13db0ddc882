//! What is seen of agents that run, and of those that left something behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use capture::Environment;
use host::{HostProbe, ProbeTarget, Processes};
use projection::status::{Life, ProcessEvidence, RegistryWord};
use tempfile::TempDir;

/// A process that runs until it is told to end.
struct Agent(Child);

impl Agent {
    fn start() -> Agent {
        Agent(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// When it started, as Linux tells it.
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
    let sought = ProbeTarget {
        provider: provider.to_owned(),
        session: session.to_owned(),
        agent_version: Some(version.to_owned()),
        ..ProbeTarget::default()
    };
    HostProbe::look(&environment, &Processes::default()).of(&sought)
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
fn a_registry_entry_counts_with_the_start_of_its_process() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let Some(ticks) = agent.ticks() else { return };
    let waits = r#","status":"waiting","waitingFor":"permission prompt","statusUpdatedAt":2000"#;
    let path = format!(".claude/sessions/{}.json", agent.pid());
    write(home.path(), &path, &entry(agent.pid(), &ticks, waits));
    let outside = look(home.path(), "claude", "s1", "2.1.325");
    let process = outside.process.unwrap();
    assert_eq!((process.pid, process.life, process.is_certain), (agent.pid(), Life::Alive, true));
    assert_eq!(outside.registry.unwrap().word, Some(RegistryWord::Permission));
    // The same pid, taken by somebody who came later.
    write(home.path(), &path, &entry(agent.pid(), "1", waits));
    let outside = look(home.path(), "claude", "s1", "2.1.325");
    assert_eq!(outside.process.unwrap().life, Life::Gone);
}

#[test]
fn entries_that_say_nothing_are_as_good_as_absent() {
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
    let outside = look(home.path(), "claude", "s1", "2.1.325");
    assert_eq!((outside.registry, outside.process), (None, None));
    assert_eq!(outside.missing.unwrap().source, "registry");
    // An older version may run without being listed.
    let outside = look(home.path(), "claude", "s1", "2.0.1");
    assert!(outside.missing.is_none_or(|missing| missing.source == "process"));
}

#[test]
fn a_lock_is_held_by_the_process_it_is_named_after() {
    let (home, agent) = (TempDir::new().unwrap(), Agent::start());
    let folder = ".copilot/session-state/s1";
    write(home.path(), &format!("{folder}/events.jsonl"), "");
    let outside = look(home.path(), "copilot", "s1", "1.0.102");
    assert_eq!(outside.missing.unwrap().source, "lock");
    let pid = agent.pid();
    write(home.path(), &format!("{folder}/inuse.{pid}.lock"), &format!("{pid}\n"));
    let outside = look(home.path(), "copilot", "s1", "1.0.102");
    assert_eq!(outside.lock.unwrap().life, Life::Alive);
    assert_eq!(outside.process.unwrap().pid, pid);
    drop(agent);
    let outside = look(home.path(), "copilot", "s1", "1.0.102");
    assert_eq!(outside.lock.unwrap().life, Life::Gone);
}

#[test]
fn a_lock_that_the_kernel_knows_is_held() {
    let home = TempDir::new().unwrap();
    let path = ".codex/thread-writer-locks/s1.lock";
    write(home.path(), path, "");
    let file = fs::File::open(home.path().join(path)).unwrap();
    file.lock().unwrap();
    if Path::new("/proc/locks").exists() {
        let outside = look(home.path(), "codex", "s1", "0.166.0");
        assert_eq!(outside.lock.unwrap().life, Life::Alive);
    }
    file.unlock().unwrap();
    let outside = look(home.path(), "codex", "other", "0.166.0");
    assert_eq!(outside.missing.unwrap().source, "lock");
    // An id that leaves its folder is nobody's.
    let outside = look(home.path(), "codex", "../../x", "0.166.0");
    assert_eq!(outside.lock, None);
}
