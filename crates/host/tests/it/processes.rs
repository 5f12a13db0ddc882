//! What the process table knows of one process.

use std::process::{Command, Stdio};

use event::Time;
use host::{Inspection, ProcessTable, Processes, Started};
use projection::status::Life;
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

#[test]
fn process_is_described_until_it_ends() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new("cat");
    let command = command.current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let processes = Processes::default();
    let inspect = || match processes.inspect(child.id()) {
        Inspection::Running(process) => Some(process),
        Inspection::Gone => None,
        Inspection::Unknown => panic!("a child can be inspected"),
    };
    let process = inspect().unwrap();
    assert_eq!((process.pid, process.parent), (child.id(), Some(std::process::id())));
    assert_eq!((process.uid, process.name.as_str()), (rustix::process::geteuid().as_raw(), "cat"));
    assert_eq!(process.cwd, Some(folder.path().canonicalize().unwrap()));
    assert_eq!(inspect().unwrap().started, process.started);
    // The end of its input ends it. It is gone although its parent has not collected it yet.
    drop(child.stdin.take());
    let inspect = || processes.inspect(child.id());
    while inspect() != Inspection::Gone {
        std::thread::yield_now();
    }
    child.wait().unwrap();
    assert_eq!(processes.inspect(child.id()), Inspection::Gone);
}

#[test]
fn impossible_pid_never_runs() {
    for pid in [0, u32::MAX] {
        assert!(!matches!(Processes::default().inspect(pid), Inspection::Running(_)), "{pid}");
    }
}

#[test]
#[cfg_attr(target_os = "macos", ignore = "no descriptor is needed for a look")]
fn exhausted_descriptors_prove_nothing() {
    const ALONE: &str = "HANSARD_TEST_ALONE";
    // The limit counts for the whole process, so the test runs itself again in another one.
    if std::env::var_os(ALONE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "processes::exhausted_descriptors_prove_nothing";
        let run = command.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    let processes = Processes::default();
    let found = processes.find(std::process::id(), Started::Unknown);
    assert_eq!((found.life, found.is_certain), (Life::Unknown, false));
    assert_eq!(processes.agents(Time::MIN), None);
}
