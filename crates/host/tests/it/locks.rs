//! What the locks of an agent tell from one look to the next.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use capture::Environment;
use event::{ProcessStart, Time};
use host::{
    AgentProcess, AgentScan, HostProbe, Inspection, LockHolder, Pairings, ProbeTarget, ProcessInfo,
    ProcessTable, Started,
};
use projection::status::{Life, Process};
use tempfile::TempDir;

const PID: u32 = 7;

/// One process of Codex, and the sessions whose locks it holds.
struct OneProcess {
    arguments: &'static str,
    held: RefCell<BTreeSet<&'static str>>,
}

impl ProcessTable for OneProcess {
    fn inspect(&self, pid: u32) -> Inspection {
        Inspection::Running(ProcessInfo {
            pid,
            started: ProcessStart::Ticks(1),
            uid: 0,
            parent: None,
            name: "codex".to_owned(),
            cwd: None,
        })
    }

    fn find(&self, pid: u32, _started: Started<'_>) -> Process {
        Process { pid, life: Life::Alive, is_certain: true, started_at: None }
    }

    fn agents(&self, _since: Time) -> Option<Arc<AgentScan>> {
        let process = AgentProcess {
            program: "codex",
            key: (PID, ProcessStart::Ticks(1)),
            started_at: Some(Time::MIN),
            parent: None,
            cwd: Some("/home/dev".into()),
            arguments: self.arguments.split_whitespace().map(str::to_owned).collect(),
            open_files: BTreeSet::new(),
        };
        Some(Arc::new(AgentScan { scanned_at: Time::MAX, processes: vec![process] }))
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        let session = path.file_stem().and_then(|stem| stem.to_str()).unwrap();
        match self.held.borrow().contains(session) {
            true => LockHolder::Process(Some(PID)),
            false => LockHolder::Nothing,
        }
    }
}

/// The sessions `s1` and `s2`, and a subagent `s3`, that are looked at again and again.
struct Looks {
    home: TempDir,
    processes: OneProcess,
    pairings: Pairings,
}

impl Looks {
    fn new(arguments: &'static str) -> Looks {
        let home = TempDir::new().unwrap();
        let folder = home.path().join(".codex/thread-writer-locks");
        fs::create_dir_all(&folder).unwrap();
        for session in ["s1", "s2", "s3"] {
            fs::write(folder.join(format!("{session}.lock")), "").unwrap();
        }
        let processes = OneProcess { arguments, held: RefCell::default() };
        Looks { home, processes, pairings: Pairings::default() }
    }

    /// What two looks show of each session while the process holds these locks.
    #[track_caller]
    fn check<const N: usize>(&mut self, held: [&'static str; N], expected: [&str; 2]) {
        self.processes.held.replace(held.into());
        let environment = Environment::new(self.home.path(), []);
        let targets = ["s1", "s2", "s3"].map(|session| ProbeTarget {
            provider: "codex".to_owned(),
            session: session.to_owned(),
            began_at: Some(Time::from_millis(1)),
            last_at: Some(Time::from_millis(2)),
            is_child: session == "s3",
            ..ProbeTarget::default()
        });
        for _ in 0..2 {
            let probe = HostProbe::look(&environment, &self.processes);
            probe.pair(&mut self.pairings, &targets, Time::MIN, Time::MAX);
            let [first, second, _] = &targets;
            let shown = [first, second].map(|target| {
                let evidence = probe.evidence_for(target, &self.pairings);
                match (evidence.lock.unwrap().life, evidence.doubt) {
                    (Life::Alive, None) => "held",
                    (Life::Unknown, Some(_)) => "in doubt",
                    (Life::Gone, None) => "over",
                    _ => "unexpected",
                }
            });
            assert_eq!(shown, expected);
        }
    }
}

#[test]
fn process_that_locks_another_session_has_left_the_first() {
    let mut looks = Looks::new("");
    looks.check(["s1"], ["held", "over"]);
    looks.check([], ["in doubt", "over"]);
    // A subagent is no session that it went on to.
    looks.check(["s3"], ["in doubt", "over"]);
    looks.check(["s2"], ["over", "held"]);
    looks.check([], ["over", "in doubt"]);
    looks.check(["s2"], ["over", "held"]);
    // Back in the first.
    looks.check(["s1"], ["held", "over"]);
    looks.check([], ["in doubt", "over"]);
}

#[test]
fn server_that_lets_go_of_a_lock_may_take_it_again() {
    for arguments in ["app-server", "mcp-server", "-c features.x=true app-server"] {
        let mut looks = Looks::new(arguments);
        looks.check(["s1", "s2"], ["held", "held"]);
        looks.check(["s2"], ["in doubt", "held"]);
        looks.check(["s1", "s2"], ["held", "held"]);
    }
}
