//! Services: restarts, reloads, environments, reactions.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Guest, PATIENCE, Place, TOOL, TestSupervisor, is, lives};

const SERVICE: &str = "
[[service]]
name = 'watcher'
cmd = ['sleep', '1000']
";

fn services(status: &Value) -> Vec<(String, u64)> {
    let services = status["services"].as_array().unwrap().iter();
    services
        .map(|it| (it["name"].as_str().unwrap().to_owned(), it["pid"].as_u64().unwrap()))
        .collect()
}

/// The service in the next status.
fn pid_of(guest: &mut Guest, name: &str) -> u64 {
    let status = guest
        .find(|it| is(it, "supervisor", "status") && services(it).iter().any(|(is, _)| is == name));
    services(&status).into_iter().find(|(is, _)| is == name).unwrap().1
}

fn kill(pid: u64) {
    let kill = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(kill.unwrap().success());
}

#[test]
fn killed_service_restarts_at_once() {
    let house = TestSupervisor::open(SERVICE);
    let mut guest = house.guest();
    let pid = pid_of(&mut guest, "watcher");
    kill(pid);
    let stopped = guest.find(|it| is(it, "supervisor", "stopped") && it["service"] == "watcher");
    assert_eq!((&stopped["exit_code"], &stopped["pid"]), (&json!(-9), &json!(pid)));
    let exit = guest.hear("logs", "exit");
    assert_eq!(exit["exit_code"], -9);
    let started = guest.started("watcher");
    assert_ne!(started["pid"], pid);
    assert_ne!(started["ref"], stopped["ref"]);
    let status = guest.hear("supervisor", "status");
    assert_eq!(status["services"][0]["name"], "supervisor");
    assert_eq!(status["services"][0]["pid"], std::process::id());
    assert_eq!(status["services"][1]["ref"], started["ref"]);
    assert_eq!(status["crashed"], json!([{"name": "watcher", "restart_attempts": 1}]));
    assert_eq!(status["callosum_clients"], 1);
    assert_eq!(status["disk"], "ok");
}

#[test]
fn restart_replaces_the_instance() {
    let house = TestSupervisor::open(SERVICE);
    let mut guest = house.guest();
    let pid = pid_of(&mut guest, "watcher");
    // None of these exists.
    guest.supervisor("restart", "service", "unheard-of");
    guest.supervisor("restart", "service", "supervisor");
    guest.supervisor("restart", "service", "watcher");
    let heard = guest.until(|it| is(it, "supervisor", "started"));
    let told: Vec<(&str, &Value)> = heard
        .iter()
        .filter(|it| it["tract"] == "supervisor" && it["event"] != "restart")
        .filter(|it| it["event"] != "status")
        .map(|it| (it["event"].as_str().unwrap(), &it["service"]))
        .collect();
    let watcher = json!("watcher");
    let expected = ["restarting", "stopped", "started"].map(|event| (event, &watcher));
    assert_eq!(told, expected);
    assert_eq!(heard.iter().find(|it| it["event"] == "restarting").unwrap()["pid"], pid);
    assert_ne!(heard.last().unwrap()["pid"], pid);
    let status = guest.hear("supervisor", "status");
    assert_eq!(status["ignored"], 2);
}

#[test]
fn service_ignoring_sigterm_is_killed() {
    let place = Place::new();
    place.program("stubborn", "trap '' TERM; echo ready; while :; do sleep 1000; done");
    place.write_services("[[service]]\nname = 'stubborn'\ncmd = ['stubborn']\nstop_seconds = 1\n");
    let house = place.open();
    let mut guest = house.guest();
    // The line may have been published before the client connected; the log has it.
    let log = house.journal().join("health/stubborn.log");
    let until = Instant::now() + PATIENCE;
    while !fs::read_to_string(&log).is_ok_and(|text| text.contains("ready")) {
        assert!(Instant::now() < until);
    }
    let before = pid_of(&mut guest, "stubborn");
    guest.supervisor("restart", "service", "stubborn");
    let heard = guest.until(|it| is(it, "supervisor", "started"));
    let told: Vec<(&Value, &Value, &Value)> = heard
        .iter()
        .filter(|it| it["tract"] == "supervisor" && it["service"] == "stubborn")
        .filter(|it| it["event"] != "restart")
        .map(|it| (&it["event"], &it["pid"], &it["exit_code"]))
        .collect();
    let [restarting, stopped, started] = told[..] else { panic!("{told:?}") };
    assert_eq!(restarting, (&json!("restarting"), &json!(before), &Value::Null));
    assert_eq!(stopped, (&json!("stopped"), &json!(before), &json!(-9)));
    assert_eq!(started.0, "started");
    assert_ne!(started.1, before);
    assert!(!lives(before));
}

#[test]
fn broken_service_delays_no_other() {
    let house = TestSupervisor::open(&format!(
        "{TOOL}[[service]]\nname = 'broken'\ncmd = ['/nowhere/x']\n{SERVICE}"
    ));
    let mut guest = house.guest();
    pid_of(&mut guest, "watcher");
    guest.script("r", "job", "true");
    assert_eq!(guest.stopped("r")["exit_code"], 0);
    let stopped = guest.find(|it| is(it, "supervisor", "stopped") && it["service"] == "broken");
    assert_eq!((&stopped["reason"], &stopped["pid"]), (&json!("cannot_start"), &json!(0)));
    assert!(stopped["error"].as_str().unwrap().contains("/nowhere/x"));
}

#[test]
fn service_has_environment_and_folder() {
    let place = Place::new();
    // In one line, because the one that runs from the start may be ended between two.
    place.program("show", "echo $LEVEL $(pwd); exec sleep 1000");
    let folder = place.path("bin").canonicalize().unwrap();
    place.write_services(&format!(
        "[[service]]\nname = 'show'\ncmd = ['show']\nenv = {{ LEVEL = '3' }}\ncwd = '{}'\n",
        folder.display()
    ));
    let house = place.open();
    let mut guest = house.guest();
    guest.supervisor("restart", "service", "show");
    let line = guest.find(|it| is(it, "logs", "line") && it["name"] == "show");
    assert_eq!(line["line"], format!("3 {}", folder.display()));
}

#[test]
fn reaction_runs_as_configured() {
    let place = Place::new();
    place.program("report", "echo \"report $*\"");
    place.write_services(
        "[[reaction]]\non = 'dream.completed'\ncmd = ['report', '--day', '{day}', '{mode}']\n\
         [[reaction]]\non = 'dream.failed'\ncmd = ['report']\nunless_pid_file = 'health/own.pid'\n",
    );
    std::fs::create_dir(place.journal().join("health")).unwrap();
    std::fs::write(place.journal().join("health/own.pid"), std::process::id().to_string()).unwrap();
    let house = place.open();
    let mut guest = house.guest();
    guest.say(&json!({"tract": "dream", "event": "completed", "day": "20250213", "mode": "a b"}));
    let line = guest.hear("logs", "line");
    assert_eq!(line["line"], "report --day 20250213 a b");
    guest.say(&json!({"tract": "dream", "event": "failed"}));
    let skipped = guest.hear("supervisor", "skipped");
    assert_eq!(skipped["reason"], "pid_file");
    // A command of the file is not allowed on the bus for that.
    guest.request("r", &["report"]);
    assert_eq!(guest.stopped("r")["reason"], "not_allowed");
}
