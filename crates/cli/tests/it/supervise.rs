//! `hansard task`, `service`, `logs` and `reload`: a supervisor in this process, the commands as
//! people type them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::JoinHandle;

use bus::Server;
use supervise::{Supervisor, SupervisorSettings};
use testkit::World;

use crate::up::up;
use crate::{empty, json};

/// A world with a supervisor. Everything ends when it is dropped.
struct Supervised {
    world: World,
    supervisor: Supervisor,
    bus: bus::Handle,
    thread: Option<JoinHandle<()>>,
}

fn journal(world: &World) -> PathBuf {
    world.home().join(".local/share/hansard")
}

fn write_services(world: &World, text: &str) {
    let path = journal(world).join("services.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

impl Supervised {
    fn open(services: &str) -> Supervised {
        let world = empty();
        fs::create_dir_all(journal(&world)).unwrap();
        write_services(&world, services);
        let settings =
            SupervisorSettings::new(journal(&world), env!("CARGO_BIN_EXE_hansard").into());
        let server = Server::bind(&settings.socket, bus::ServerSettings::default()).unwrap();
        let bus = server.handle();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        let supervisor = Supervisor::start(settings, bus.clone()).unwrap();
        Supervised { world, supervisor, bus, thread }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.supervisor.stop();
        self.bus.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn task_log_is_in_its_day() {
    let supervised = Supervised::open("allow = [\"sh\"]");
    let world = &supervised.world;
    let words =
        ["task", "run", "--wait", "--day", "20250102", "--", "sh", "-c", "echo of that day"];
    assert_eq!(world.run(&words).code, Some(0));
    assert!(journal(world).join("20250102/health/sh.log").exists());
    let said = world.run(&["logs", "sh", "--day", "20250102"]);
    assert!(said.stdout.contains("of that day"), "{said}");
    let other = world.run(&["logs", "sh", "--day", "20250103"]);
    assert!(!other.stdout.contains("of that day"), "{other}");
}

#[test]
fn task_runs_and_is_awaited() {
    let supervised = Supervised::open("allow = [\"sh\"]");
    let world = &supervised.world;
    let said = world.run(&["task", "run", "--ref", "r1", "--wait", "--", "sh", "-c", "echo one"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "exit 0\n"), "{said}");
    let said = world.run(&["task", "run", "--wait", "--json", "--", "sh", "-c", "exit 3"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stdout.contains(r#""exit_code":3"#), "{said}");
    let said = world.run(&["task", "run", "--wait", "--", "make", "x"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stdout.contains("not_allowed"), "{said}");
    // By its name, by its ref, and as JSON.
    assert!(world.run(&["logs", "r1"]).stdout.ends_with(" [sh:stdout] one\n"));
    let lines = json(&world.run(&["logs", "r1", "--json"]));
    assert_eq!((&lines[0]["name"], &lines[0]["line"]), (&"sh".into(), &"one".into()));
    assert_eq!(world.run(&["logs", "sh"]).code, Some(0));
    let said = world.run(&["logs", "unheard-of"]);
    assert_eq!(said.code, Some(1), "{said}");
}

#[test]
fn running_tasks_are_listed_and_canceled() {
    let supervised = Supervised::open("allow = [\"sleep\"]");
    let world = &supervised.world;
    let said = world.run(&["task", "run", "--ref", "r1", "--", "sleep", "1000"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "r1\n"), "{said}");
    let waiting = world.start(&["task", "run", "--ref", "r2", "--wait", "--", "sleep", "1001"]);
    let list = loop {
        let list = json(&world.run(&["task", "list", "--json"])).remove(0);
        if list["queues"]["sleep"] == 1 {
            break list;
        }
    };
    assert_eq!(list["tasks"][0]["ref"], "r1");
    assert!(world.run(&["task", "list"]).stdout.contains("sleep"));
    assert_eq!(world.run(&["task", "cancel", "r2"]).code, Some(0));
    let said = waiting.end();
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), "exit -1: canceled\n"), "{said}");
}

#[test]
fn services_are_listed_restarted_and_reloaded() {
    let service =
        |name: &str| format!("[[service]]\nname = '{name}'\ncmd = ['/bin/sleep', '1000']\n");
    let world = &empty();
    fs::create_dir_all(journal(world)).unwrap();
    fs::set_permissions(journal(world), Permissions::from_mode(0o700)).unwrap();
    write_services(world, &service("one"));
    let daemon = up(world);
    let list = || json(&world.run(&["service", "list", "--json"])).remove(0);
    let before = list();
    assert_eq!(before["services"][1]["name"], "one");
    assert!(world.run(&["service", "list"]).stdout.contains("supervisor"));
    let started = json(&world.run(&["service", "restart", "one", "--json"])).remove(0);
    assert_ne!(started["pid"], before["services"][1]["pid"]);
    let said = world.run(&["service", "restart", "two"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("no service `two`"), "{said}");
    write_services(world, &(service("one") + &service("two")));
    assert_eq!(world.run(&["reload"]).code, Some(0));
    assert_eq!(world.run(&["service", "restart", "two"]).code, Some(0));
    write_services(world, "nonsense");
    let said = world.run(&["reload"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("line 1"), "{said}");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn log_is_followed_as_it_grows() {
    let supervised = Supervised::open("allow = [\"sh\"]");
    let world = &supervised.world;
    let run = |reference: &str, word: &str| {
        let script = format!("echo {word}");
        let words = ["task", "run", "--ref", reference, "--wait", "--", "sh", "-c", &script];
        let said = world.run(&words);
        assert_eq!(said.code, Some(0), "{said}");
    };
    run("z", "one");
    let mut follower = world.start(&["logs", "sh", "--follow"]);
    assert!(follower.line().unwrap().ends_with("one"));
    // Independent of the refs of the next runs, and of how soon they follow each other.
    for (reference, word) in [("b", "two"), ("a", "three"), ("c", "four")] {
        run(reference, word);
    }
    for word in ["two", "three", "four"] {
        assert!(follower.line().unwrap().ends_with(word), "{word}");
    }
    let said = follower.terminate();
    assert_eq!(said.code, Some(0), "{said}");
}

/// Writes a log as the supervisor does.
fn write_log(world: &World, name: &str, word: &str) {
    let folder = journal(world).join("20250213/health");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("2025-02-13T10:30:45 [job:stdout] {word}\n");
    // It is there whole, or not at all.
    let beside = folder.join("beside");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, folder.join(name)).unwrap();
}

#[test]
fn log_parts_are_followed_in_order() {
    let world = &empty();
    let part = |number: u32| match number {
        0 => "r_job.log".to_owned(),
        number => format!("r_job.log.{number}"),
    };
    (0..10).for_each(|number| write_log(world, &part(number), &format!("part {number}")));
    let mut follower = world.start(&["logs", "r", "--follow"]);
    for number in 0..12 {
        assert!(follower.line().unwrap().ends_with(&format!("] part {number}")), "{number}");
        if number >= 9 {
            write_log(world, &part(number + 1), &format!("part {}", number + 1));
        }
    }
    assert_eq!(follower.terminate().code, Some(0));
}

#[test]
fn ref_is_matched_whole() {
    let world = &empty();
    write_log(world, "a_b_job.log", "of another");
    let said = world.run(&["logs", "a"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(world.run(&["logs", "a_b"]).stdout.ends_with(" of another\n"));
    write_log(world, "a_job.log", "its own");
    assert!(world.run(&["logs", "a"]).stdout.ends_with(" its own\n"));
}

#[test]
fn service_that_exits_at_once_fails() {
    let supervised =
        Supervised::open("[[service]]\nname = 'one'\ncmd = ['/bin/sh', '-c', 'exit 3']\n");
    let said = supervised.world.run(&["service", "restart", "one"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("`one` exited at once with code 3"), "{said}");
}

#[test]
fn missing_daemon_is_exit_3() {
    let world = empty();
    for words in [
        &["task", "list"][..],
        &["task", "run", "--", "true"],
        &["task", "cancel", "x"],
        &["service", "list"],
        &["service", "restart", "x"],
        &["reload"],
    ] {
        let said = world.run(words);
        assert_eq!(said.code, Some(3), "{said}");
        assert!(said.stderr.contains("hansard up"), "{said}");
    }
}

#[test]
fn sighup_reloads_services() {
    let world = empty();
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen", "--event", "started"]);
    while !crate::bus::hears(&world, &listener) {}
    write_services(&world, "[[service]]\nname = 'one'\ncmd = ['/bin/sleep', '1000']\n");
    let words = ["-HUP".to_owned(), daemon.process_id().to_string()];
    assert!(std::process::Command::new("kill").args(words).status().unwrap().success());
    let started = listener.line().unwrap();
    assert!(started.contains(r#""service":"one""#), "{started}");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn waiting_command_notices_dead_daemon() {
    let world = empty();
    fs::create_dir_all(journal(&world)).unwrap();
    fs::set_permissions(journal(&world), Permissions::from_mode(0o700)).unwrap();
    write_services(&world, "allow = [\"/bin/sleep\"]\n");
    let daemon = up(&world);
    let waiting = world.start(&["task", "run", "--wait", "--", "/bin/sleep", "1000"]);
    while json(&world.run(&["task", "list", "--json"])).remove(0)["tasks"][0].is_null() {}
    daemon.kill();
    assert_eq!(waiting.end().code, Some(3));
    // The next daemon ends what this one has left.
    assert_eq!(up(&world).terminate().code, Some(0));
}
