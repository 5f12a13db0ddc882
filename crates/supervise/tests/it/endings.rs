//! Orderly stops, kills, crashes, and what they leave behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use bus::Server;
use serde_json::{Value, json};
use supervise::{DaemonTask, Supervisor};

use crate::harness::{Guest, PATIENCE, Place, TOOL, TestSupervisor, is, lives};

#[test]
fn stop_answers_all_and_leaves_no_process() {
    let house = TestSupervisor::open(&format!(
        "{TOOL}[[service]]\nname = 'one'\ncmd = ['sleep', '1000']\n\
         [[service]]\nname = 'two'\ncmd = ['sleep', '1000']\n"
    ));
    let mut guest = house.guest();
    guest.script("runs", "a", "echo $$; exec sleep 1000");
    let pid = guest.hear("logs", "line")["line"].as_str().unwrap().parse().unwrap();
    guest.script("waits", "a", "true");
    guest.find(|it| is(it, "supervisor", "queue") && it["queued"] == 1);
    house.supervisor().stop();
    assert!(!lives(pid));
    let waits = guest.stopped("waits");
    assert_eq!((&waits["reason"], &waits["pid"]), (&json!("stopping"), &json!(0)));
    let runs = guest.stopped("runs");
    assert_eq!((&runs["reason"], &runs["exit_code"]), (&json!("stopping"), &json!(-15)));
    // Services stop after tasks, in reverse order.
    for service in ["two", "one"] {
        let stopped = guest.hear("supervisor", "stopped");
        assert_eq!(stopped["service"], service);
        assert!(!lives(stopped["pid"].as_u64().unwrap()));
    }
    let children = fs::read_to_string(house.journal().join("health/children.json")).unwrap();
    assert_eq!(children.trim(), "[]");
}

#[test]
fn held_value_drops_at_the_end() {
    let mut house = TestSupervisor::open(TOOL);
    drop(house.supervisor.take());
    let (held, is_over) = std::sync::mpsc::sync_channel::<()>(1);
    let settings = house.place.settings();
    let supervisor = Supervisor::start_with(settings, house.bus.clone(), held).unwrap();
    assert_eq!(is_over.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    supervisor.stop();
    assert_eq!(is_over.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
}

#[test]
fn kill_all_ends_stubborn_processes() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1000; done) & echo $!; wait";
    guest.script("r", "a", stubborn);
    let child = guest.hear("logs", "line")["line"].as_str().unwrap().parse().unwrap();
    let supervisor = house.supervisor();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.stop());
        supervisor.kill_all();
    });
    assert_eq!(guest.stopped("r")["exit_code"], -9);
    assert!(!lives(child));
}

#[test]
fn kill_all_restarts_no_service() {
    let mut house = TestSupervisor::open(&format!(
        "{TOOL}[[service]]\nname = 'one'\ncmd = ['sleep', '1000']\n\
         [[service]]\nname = 'two'\ncmd = ['sleep', '1000']\n"
    ));
    let mut guest = house.guest();
    guest.script("r", "a", "trap '' TERM; echo ready; while :; do sleep 1000; done");
    guest.hear("logs", "line");
    let supervisor = house.supervisor();
    std::thread::scope(|scope| {
        scope.spawn(|| supervisor.stop());
        supervisor.kill_all();
    });
    drop(house.supervisor.take());
    guest.say(&json!({"tract": "test", "event": "last"}));
    let heard = guest.until(|it| is(it, "test", "last"));
    let names: Vec<&Value> = heard
        .iter()
        .filter(|it| is(it, "supervisor", "started") || is(it, "supervisor", "stopped"))
        .map(|it| &it["event"])
        .collect();
    assert_eq!(names, ["stopped"; 3], "the task and two services");
}

#[test]
fn stubborn_grandchildren_end_with_the_supervisor() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    // The main process ends at the signal, its child does not.
    let script = "(trap '' TERM; echo ready; while :; do sleep 1000; done) & echo $!; wait";
    guest.script("r", "a", script);
    let mut child = None;
    let mut is_ready = false;
    while child.is_none() || !is_ready {
        let line = guest.hear("logs", "line")["line"].as_str().unwrap().to_owned();
        is_ready |= line == "ready";
        child = child.or(line.parse().ok());
    }
    house.supervisor().stop();
    assert!(!lives(child.unwrap()));
    assert_eq!(guest.stopped("r")["exit_code"], -15);
}

/// The variable that turns this test into the daemon of another test.
const JOURNAL: &str = "HOUSE_OF_A_DAEMON";

/// Not a test of its own: the program that other tests kill.
#[test]
fn child_daemon_for_other_tests() {
    let Some(folder) = std::env::var_os(JOURNAL) else { return };
    let folder = std::path::PathBuf::from(folder);
    let mut settings =
        supervise::SupervisorSettings::new(folder.join("journal"), folder.join("bin/hansard"));
    settings.search_path = Some(format!("{}:/usr/bin:/bin", folder.join("bin").display()).into());
    let server = Server::bind(&settings.socket, bus::ServerSettings::default()).unwrap();
    let supervisor = Supervisor::start(settings, server.handle()).unwrap();
    let keep = |script: &str| {
        let cmd = ["tool", "chain", script].map(str::to_owned).to_vec();
        let reference = supervise::Ref::text("chain");
        supervisor.enqueue(DaemonTask { keep: true, reference, ..DaemonTask::new(cmd) }).unwrap();
    };
    if std::env::var_os("WITH_CHAIN").is_some() {
        keep("echo begun; exec sleep 1000");
    }
    println!("ready");
    server.run().unwrap();
}

/// A daemon in a process of its own. Dropping it kills it.
struct Daemon(Child);

impl Daemon {
    fn start(place: &Place, has_chain: bool) -> Daemon {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "endings::child_daemon_for_other_tests", "--nocapture"]);
        command.env(JOURNAL, place.path("")).stdout(Stdio::piped());
        if has_chain {
            command.env("WITH_CHAIN", "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.map_while(Result::ok).any(|line| line.ends_with("ready"));
        assert!(is_ready);
        Daemon(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hear_pid(guest: &mut Guest, reference: &str) -> u64 {
    let line = guest.find(|it| is(it, "logs", "line") && it["ref"] == reference);
    line["line"].as_str().unwrap().parse().unwrap()
}

#[test]
fn next_daemon_ends_and_answers_orphans() {
    let place = Place::new();
    place.write_services(&format!("{TOOL}[[service]]\nname = 'one'\ncmd = ['sleep', '1000']\n"));
    let daemon = Daemon::start(&place, true);
    let mut guest = Guest::connect(&place.journal().join("health/callosum.sock"));
    // One task with its main process, one of which only a stubborn child is left.
    guest.script("main", "a", "echo $$; exec sleep 1000");
    let main = hear_pid(&mut guest, "main");
    let stubborn = "(trap '' TERM; while :; do sleep 1000; done) & echo $!; wait";
    guest.script("child", "b", stubborn);
    let child = hear_pid(&mut guest, "child");
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "again",
        "after_crash": "rerun", "cmd": ["tool", "c", "echo $$; exec sleep 1000"]}));
    let again = hear_pid(&mut guest, "again");
    guest.script("waits", "a", "touch $HANSARD_JOURNAL/waited");
    guest.find(|it| is(it, "supervisor", "queue") && it["queued"] == 1);
    let children = fs::read_to_string(place.journal().join("health/children.json")).unwrap();
    let children: Value = serde_json::from_str(&children).unwrap();
    let pid = |name: &str| -> u64 {
        let all = children.as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap()["pid"].as_u64().unwrap()
    };
    let (service, chain) = (pid("one"), pid("chain"));
    daemon.kill();
    let leader = Command::new("kill").args(["-9", &pid("b").to_string()]).status();
    assert!(leader.unwrap().success());
    for pid in [main, child, again, service, chain] {
        assert!(lives(pid), "a crash ends nobody");
    }
    // Connect before the next daemon starts.
    let server =
        Server::bind(&place.journal().join("health/callosum.sock"), bus::ServerSettings::default());
    let server = server.unwrap();
    let bus = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let mut guest = Guest::connect(&place.journal().join("health/callosum.sock"));
    let supervisor = Supervisor::start(place.settings(), bus.clone()).unwrap();
    for pid in [main, child, again, service, chain] {
        assert!(!lives(pid), "the next daemon ends them");
    }
    let heard = guest.until(|it| is(it, "supervisor", "status"));
    let mut died: Vec<&str> = heard
        .iter()
        .filter(|it| is(it, "supervisor", "stopped"))
        .map(|it| {
            assert_eq!(it["reason"], "daemon_died");
            it["ref"].as_str().unwrap()
        })
        .collect();
    died.sort_unstable();
    // Requests are kept only if the file says so: a request that only waited ended with the bus that
    // its sender was connected to. Tasks of the daemon are always kept.
    assert_eq!(died, ["again", "child", "main"]);
    let started: Vec<&Value> = heard
        .iter()
        .filter(|it| is(it, "supervisor", "started"))
        .map(|it| &it["service"])
        .collect();
    assert_eq!(started, ["one", "chain"]);
    assert!(!place.journal().join("waited").exists());
    supervisor.stop();
    bus.stop();
    thread.join().unwrap();
}

#[test]
fn answered_ref_is_not_answered_again() {
    let house = TestSupervisor::open(TOOL);
    let (first, second) = (house.place.gate("first"), house.place.gate("second"));
    let mut guest = house.guest();
    guest.script("r0", "a", &first.wait());
    for reference in ["r1", "r2"] {
        guest.script(reference, "a", &second.wait());
    }
    guest.find(|it| is(it, "supervisor", "queue") && it["queue"][0]["refs"][1] == "r2");
    first.open();
    guest.find(|it| is(it, "supervisor", "started") && it["ref"] == "r1");
    guest.supervisor("cancel", "ref", "r1");
    assert_eq!(guest.stopped("r1")["reason"], "canceled");
    let path = house.journal().join("health/children.json");
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let children: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if children[0]["refs"] == json!(["r2"]) {
            break;
        }
        assert!(std::time::Instant::now() < until, "{children}");
    }
    second.open();
    assert_eq!(guest.stopped("r2")["exit_code"], 0);
}

#[test]
fn waiting_tasks_survive_if_configured() {
    let place = Place::new();
    place.write_services(&format!("tasks = {{ persist = true }}\n{TOOL}"));
    let daemon = Daemon::start(&place, false);
    let mut guest = Guest::connect(&place.journal().join("health/callosum.sock"));
    guest.script("drop", "a", "exec sleep 1000");
    guest.script("waits", "a", "true");
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "again",
        "after_crash": "rerun", "cmd": ["tool", "b", "echo $$; [ -e $HANSARD_JOURNAL/once ] || \
        { touch $HANSARD_JOURNAL/once; exec sleep 1000; }"]}));
    hear_pid(&mut guest, "again");
    // The queue is on disk when the next message arrives.
    guest.hear("supervisor", "status");
    daemon.kill();
    let server =
        Server::bind(&place.journal().join("health/callosum.sock"), bus::ServerSettings::default());
    let server = server.unwrap();
    let bus = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let mut guest = Guest::connect(&place.journal().join("health/callosum.sock"));
    let supervisor = Supervisor::start(place.settings(), bus.clone()).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let stopped = guest.hear("supervisor", "stopped");
        let reason = stopped["reason"].as_str().unwrap_or("-").to_owned();
        answers.push((stopped["ref"].as_str().unwrap().to_owned(), reason));
    }
    answers.sort();
    let expected = [("again", "-"), ("drop", "daemon_died"), ("waits", "-")];
    assert_eq!(answers, expected.map(|(one, other)| (one.to_owned(), other.to_owned())));
    supervisor.stop();
    bus.stop();
    thread.join().unwrap();
}
