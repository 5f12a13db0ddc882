//! `services.toml`: its owner, its faults, and reloading.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::{Place, TOOL, TestSupervisor, is};

const ONE: &str = "[[service]]\nname = 'one'\ncmd = ['sleep', '1000']\n";
const TWO: &str = "[[service]]\nname = 'two'\ncmd = ['sleep', '1000']\n";

fn status(house: &TestSupervisor) -> Value {
    house.guest().hear("supervisor", "status")
}

fn names(status: &Value) -> Vec<&str> {
    let services = status["services"].as_array().unwrap().iter();
    services.map(|service| service["name"].as_str().unwrap()).collect()
}

#[test]
fn writable_file_is_refused() {
    let place = Place::new();
    place.write_services(ONE);
    let path = place.journal().join("services.toml");
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    let house = place.open();
    let status = status(&house);
    assert_eq!(names(&status), ["supervisor"]);
    let fault = status["faults"][0].as_str().unwrap();
    assert!(fault.contains(path.to_str().unwrap()), "{fault}");
    let error = house.supervisor().reload().unwrap_err();
    assert!(matches!(error, supervise::FileError::NotPrivate { .. }));
}

#[test]
fn file_of_other_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can give a file away");
        return;
    }
    let place = Place::new();
    place.write_services(ONE);
    let path = place.journal().join("services.toml");
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    let house = place.open();
    let status = status(&house);
    assert_eq!(names(&status), ["supervisor"]);
    let fault = status["faults"][0].as_str().unwrap();
    assert!(fault.contains("belongs to another user"), "{fault}");
    assert!(fault.contains(path.to_str().unwrap()), "{fault}");
}

#[test]
fn faulty_file_does_not_prevent_start() {
    let house = TestSupervisor::open("[[service]]\nname = 'one'\ncmmd = ['sleep']\n");
    let status = status(&house);
    assert_eq!(names(&status), ["supervisor"]);
    assert!(status["faults"][0].as_str().unwrap().contains("line 3"));
    let mut guest = house.guest();
    guest.request("own", &["hansard", "doctor"]);
    assert_eq!(guest.stopped("own")["exit_code"], 0);
}

#[test]
fn reload_applies_changes() {
    let house = TestSupervisor::open(&format!("{ONE}{TWO}"));
    let mut guest = house.guest();
    let before = guest.hear("supervisor", "status");
    assert_eq!(names(&before), ["supervisor", "one", "two"]);
    house.place.write_services(&format!(
        "{TOOL}{ONE}[[service]]\nname = 'three'\ncmd = ['sleep', '1000']\n"
    ));
    guest.supervisor("reload", "ref", "again");
    let heard = guest.until(|it| is(it, "supervisor", "reloaded"));
    assert_eq!(heard.last().unwrap()["ref"], "again");
    assert_eq!(heard.last().unwrap().get("error"), None);
    let started: Vec<&Value> = heard
        .iter()
        .filter(|it| is(it, "supervisor", "started"))
        .map(|it| &it["service"])
        .collect();
    assert_eq!(started, ["three"]);
    guest.find(|it| is(it, "supervisor", "stopped") && it["service"] == "two");
    let after = guest.hear("supervisor", "status");
    assert_eq!(names(&after), ["supervisor", "one", "three"]);
    assert_eq!(after["services"][1]["pid"], before["services"][1]["pid"], "it was not touched");
    // The new file allows it.
    guest.script("r", "job", "true");
    assert_eq!(guest.stopped("r")["exit_code"], 0);
    // A faulty file changes nothing.
    house.place.write_services("nonsense");
    guest.supervisor("reload", "ref", "fault");
    let heard = guest.until(|it| is(it, "supervisor", "reloaded"));
    assert!(heard.last().unwrap()["error"].as_str().unwrap().contains("line 1"));
    let notice = heard.iter().find(|it| is(it, "notification", "show")).unwrap();
    assert!(notice["message"].as_str().unwrap().contains("services.toml"));
    guest.script("r", "job", "true");
    assert_eq!(guest.stopped("r")["exit_code"], 0);
    house.place.write_services("");
    assert!(house.supervisor().reload().is_ok());
    guest.script("r", "job", "true");
    assert_eq!(guest.stopped("r")["reason"], "not_allowed");
    assert_eq!(guest.hear("supervisor", "status")["faults"], json!([]));
}

#[test]
fn schedule_reports_its_next_run() {
    let house =
        TestSupervisor::open("[[schedule]]\nname = 'fetch'\nevery = 'hourly'\ncmd = ['true']\n");
    let status = status(&house);
    let schedule = &status["schedules"][0];
    assert_eq!((&schedule["name"], &schedule["every"]), (&json!("fetch"), &json!("hourly")));
    assert_eq!((&schedule["last_run"], &schedule["due"]), (&Value::Null, &json!(false)));
    let wait = schedule["next_run"].as_i64().unwrap() - status["ts"].as_i64().unwrap();
    assert!((0..=3_600_000).contains(&wait), "{wait}");
}

#[test]
fn missed_schedule_runs_at_next_start() {
    let place = Place::new();
    place.write_services("[[schedule]]\nname = 'fetch'\nevery = 'hourly'\ncmd = ['true']\n");
    fs::create_dir(place.journal().join("health")).unwrap();
    fs::write(
        place.journal().join("health/schedules.json"),
        r#"{"fetch":{"at_ms":1739440800000,"has_run":true}}"#,
    )
    .unwrap();
    let house = place.open();
    let mut guest = house.guest();
    let status = guest.hear("supervisor", "status");
    assert_eq!(status["schedules"][0]["due"], false);
    let last_run = status["schedules"][0]["last_run"].as_i64().unwrap();
    let written = fs::read_to_string(house.journal().join("health/schedules.json")).unwrap();
    assert!(written.contains(&last_run.to_string()));
    let log = house.journal().join("health/true.log");
    let name = fs::read_link(log).unwrap();
    let name = name.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("sched_fetch_{last_run}")), "{name}");
}
