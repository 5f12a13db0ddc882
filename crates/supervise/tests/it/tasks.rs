//! Tasks: their order, their answers, their limits.

use std::collections::HashMap;

use serde_json::{Value, json};
use supervise::Supervisor;

use crate::harness::{PATIENCE, TOOL, TestSupervisor, has, is};

#[test]
fn task_is_reported_from_start_to_end() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    guest.script("r1", "job", "echo out; echo err >&2");
    let heard = guest.until(|message| {
        is(message, "supervisor", "queue")
            && message["command"] == "job"
            && message["running"].is_null()
    });
    let mine = heard.iter().filter(|message| message["event"] != "status");
    // `started` may come before or after its first line.
    let mine = mine.filter(|message| message["running"] != "r1");
    let told: Vec<String> = mine
        .filter(|message| message["event"] != "request" && message["stream"] != "stderr")
        .map(|message| message["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, ["exec", "started", "line", "stopped", "exit", "queue"]);
    let of = |event: &str| heard.iter().find(|message| message["event"] == event).unwrap();
    let pid = of("started")["pid"].as_u64().unwrap();
    for event in ["exec", "started", "line", "stopped", "exit"] {
        assert_eq!(of(event)["ref"], "r1", "{event}");
        assert_eq!(of(event)["pid"], pid, "{event}");
    }
    assert_eq!(of("exec")["cmd"], json!(["tool", "job", "echo out; echo err >&2"]));
    assert_eq!(of("exec")["log_path"], of("exit")["log_path"]);
    assert_eq!(of("stopped")["exit_code"], 0);
    assert_eq!(of("stopped").get("reason"), None);
    assert_eq!(of("exit")["lines"], 2);
    assert_eq!(of("exit")["bytes"], 8);
    assert_eq!(of("queue")["running"], "r1", "the first one tells that it runs");
}

#[test]
fn tasks_of_one_name_take_turns() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    guest.script("a1", "a", &gate.wait());
    guest.script("a2", "a", "true");
    guest.script("b1", "b", "true");
    guest.script("c1", "c", "true");
    let heard =
        guest.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "c1");
    // All but the second of `a` have started, while the first still runs.
    let started = |heard: &[Value]| -> Vec<String> {
        let started = heard.iter().filter(|message| is(message, "supervisor", "started"));
        started.map(|message| message["ref"].as_str().unwrap().to_owned()).collect()
    };
    let mut first = started(&heard);
    first.sort();
    assert_eq!(first, ["a1", "b1", "c1"]);
    gate.open();
    let heard =
        guest.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "a2");
    assert_eq!(started(&heard), ["a2"]);
    let order: Vec<&Value> = heard
        .iter()
        .filter(|message| message["event"] == "stopped" || message["event"] == "started")
        .filter(|message| message["service"] == "a")
        .map(|message| &message["event"])
        .collect();
    assert_eq!(order, ["stopped", "started", "stopped"]);
}

#[test]
fn equal_waiting_requests_are_merged() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    guest.script("r0", "a", &gate.wait());
    for reference in ["r1", "r2", "r3", "r2"] {
        guest.script(reference, "a", "exit 3");
    }
    let queue = guest.find(|message| {
        is(message, "supervisor", "queue")
            && message["queue"][0]["refs"] == json!(["r1", "r2", "r3"])
    });
    assert_eq!(queue["running"], "r0");
    assert_eq!(queue["queued"], 1);
    gate.open();
    guest.stopped("r0");
    let heard =
        guest.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "r3");
    let started: Vec<&Value> =
        heard.iter().filter(|message| is(message, "supervisor", "started")).collect();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0]["ref"], "r1");
    let stopped: Vec<&Value> =
        heard.iter().filter(|message| is(message, "supervisor", "stopped")).collect();
    let refs: Vec<&Value> = stopped.iter().map(|message| &message["ref"]).collect();
    assert_eq!(refs, ["r1", "r2", "r3"]);
    assert!(stopped.iter().all(|message| message["pid"] == started[0]["pid"]));
    assert!(stopped.iter().all(|message| message["exit_code"] == 3));
}

#[test]
fn two_hundred_equal_requests_run_twice() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    for number in 0..200 {
        guest.script(&format!("r{number}"), "a", &gate.wait());
    }
    guest.find(|message| {
        message["queue"][0]["refs"].as_array().is_some_and(|refs| refs.len() == 199)
    });
    gate.open();
    let first = guest.stopped("r0");
    let mut answers = HashMap::from([("r0".to_owned(), 1)]);
    let mut runs = vec![first["pid"].clone()];
    gate.open();
    while answers.len() < 200 {
        let message = guest.hear("supervisor", "stopped");
        *answers.entry(message["ref"].as_str().unwrap().to_owned()).or_default() += 1;
        assert_eq!(message["exit_code"], 0);
        runs.push(message["pid"].clone());
    }
    assert!(answers.values().all(|count| *count == 1));
    runs.dedup();
    assert_eq!(runs.len(), 2);
}

#[test]
fn requests_beyond_limits_are_answered() {
    let house = TestSupervisor::open("");
    let count = 100_000;
    let filter = bus::Filter {
        tracts: vec!["supervisor".to_owned()],
        events: vec!["stopped".to_owned()],
        ..bus::Filter::default()
    };
    let answers = house.bus.listen(filter).unwrap();
    let bus = house.bus.clone();
    let asking = std::thread::spawn(move || {
        for number in 0..count {
            let line = format!(
                r#"{{"tract":"supervisor","event":"request","ref":"r{number}","cmd":["no"]}}"#
            );
            let request = bus::Message::parse(line.as_bytes()).unwrap();
            while bus.publish(request.clone()) == Err(bus::PublishError::Full) {
                std::thread::yield_now();
            }
        }
    });
    let mut answered = std::collections::HashSet::new();
    let mut full = 0;
    while answered.len() < count {
        let answer = answers.next(PATIENCE).expect("every request is answered").to_json();
        full += u64::from(answer["reason"] == "queue_full");
        assert!(answered.insert(answer["ref"].as_str().unwrap().to_owned()), "{answer}");
    }
    asking.join().unwrap();
    println!("{full} of {count} found no room");
    assert_eq!(answers.missed(), 0);
}

#[test]
fn exit_code_is_reported() {
    let house =
        TestSupervisor::open("allow = [\"missing\", { program = \"tool\", subcommands = true }]");
    let mut guest = house.guest();
    guest.script("exit", "a", "exit 42");
    assert_eq!(guest.stopped("exit")["exit_code"], 42);
    guest.script("signal", "a", "kill -9 $$");
    assert_eq!(guest.stopped("signal")["exit_code"], -9);
    guest.request("missing", &["missing", "x"]);
    let heard =
        guest.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "missing");
    let stopped = heard.last().unwrap();
    assert_eq!(stopped["exit_code"], -1);
    assert_eq!(stopped["pid"], 0);
    assert_eq!(stopped["reason"], "cannot_start");
    assert!(stopped["error"].as_str().unwrap().contains("missing"));
    assert!(!heard.iter().any(|message| is(message, "supervisor", "started")));
}

#[test]
fn malformed_request_with_ref_is_answered() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let ask = |fields: Value| {
        let mut message = json!({"tract": "supervisor", "event": "request"});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        message
    };
    for (reference, fields) in [
        (json!("none"), json!({})),
        (json!("empty"), json!({"cmd": []})),
        (json!("text"), json!({"cmd": "tool a b"})),
        (json!("number"), json!({"cmd": ["tool", 1]})),
        (json!("day"), json!({"cmd": ["tool", "a", "true"], "day": "2025-02-13"})),
        (json!(7), json!({"cmd": []})),
    ] {
        let mut message = ask(fields);
        message["ref"] = reference.clone();
        guest.say(&message);
        let stopped = guest.stopped(reference.clone());
        assert_eq!(stopped["reason"], "bad_request", "{reference}");
        assert_eq!((&stopped["pid"], &stopped["exit_code"]), (&json!(0), &json!(-1)));
    }
    // Without a valid ref there is no answer, and nothing is done.
    guest.say(&ask(json!({"cmd": []})));
    guest.say(&ask(json!({"cmd": ["tool", "a", "true"], "ref": ["x"]})));
    guest.script("last", "a", "true");
    let heard =
        guest.until(|message| is(message, "supervisor", "stopped") && message["ref"] == "last");
    assert_eq!(heard.iter().filter(|message| is(message, "supervisor", "stopped")).count(), 1);
}

#[test]
fn only_allowed_commands_run() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    guest.request("own", &["hansard", "doctor"]);
    let line = guest.hear("logs", "line");
    assert_eq!(line["line"], "hansard doctor");
    assert_eq!(line["name"], "doctor");
    assert_eq!(guest.stopped("own")["exit_code"], 0);
    for (reference, cmd) in [
        ("make", &["make", "x"][..]),
        ("run", &["hansard", "run", "--", "sh"]),
        ("task", &["hansard", "--json", "task", "run", "--", "sh"]),
        ("relative", &["./tool", "a", "true"]),
        ("shell", &["/bin/sh", "-c", "true"]),
    ] {
        guest.request(reference, cmd);
        let heard = guest
            .until(|message| is(message, "supervisor", "stopped") && message["ref"] == reference);
        let stopped = heard.last().unwrap();
        assert_eq!(stopped["reason"], "not_allowed", "{reference}");
        assert!(stopped["error"].as_str().unwrap().contains("services.toml"));
        assert!(!heard.iter().any(|message| is(message, "logs", "exec")));
    }
}

#[test]
fn own_program_ignores_path() {
    let place = crate::harness::Place::new();
    let own = place.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::rename(place.path("bin/hansard"), own.join("hansard")).unwrap();
    place.program("hansard", "echo another");
    let mut settings = place.settings();
    settings.program = own.join("hansard");
    let server = bus::Server::bind(
        &place.journal().join("health/callosum.sock"),
        bus::ServerSettings::default(),
    );
    let server = server.unwrap();
    let bus = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let supervisor = supervise::Supervisor::start(settings, bus.clone()).unwrap();
    let mut guest = crate::harness::Guest::connect(&place.journal().join("health/callosum.sock"));
    guest.request("r", &["hansard", "doctor"]);
    assert_eq!(guest.hear("logs", "line")["line"], "hansard doctor");
    supervisor.stop();
    bus.stop();
    thread.join().unwrap();
}

#[test]
fn canceled_request_is_answered() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    guest.script("r0", "a", "exec sleep 1000");
    guest.script("r1", "a", &gate.wait());
    guest.script("r2", "a", &gate.wait());
    guest.script("r3", "a", "true");
    guest.supervisor("cancel", "ref", "r3");
    let stopped = guest.stopped("r3");
    assert_eq!((&stopped["reason"], &stopped["pid"]), (&json!("canceled"), &json!(0)));
    // The only ref: its processes end.
    guest.supervisor("cancel", "ref", "r0");
    let stopped = guest.stopped("r0");
    assert_eq!((&stopped["reason"], &stopped["exit_code"]), (&json!("canceled"), &json!(-15)));
    // One of two refs: only this one is answered.
    guest.find(|message| is(message, "supervisor", "started") && message["ref"] == "r1");
    guest.supervisor("cancel", "ref", "r1");
    assert_eq!(guest.stopped("r1")["reason"], "canceled");
    gate.open();
    let stopped = guest.stopped("r2");
    assert_eq!((stopped.get("reason"), &stopped["exit_code"]), (None, &json!(0)));
}

#[test]
fn task_ends_at_its_timeout() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "r",
        "cmd": ["tool", "a", "exec sleep 1000"], "timeout_seconds": 0.1}));
    let stopped = guest.stopped("r");
    assert_eq!((&stopped["reason"], &stopped["exit_code"]), (&json!("timeout"), &json!(-15)));
}

#[test]
fn skipped_request_names_the_active_ref() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    guest.script("r1", "a", &gate.wait());
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "r2",
        "cmd": ["tool", "a", "true"], "if_busy": "skip"}));
    let skipped = guest.hear("supervisor", "skipped");
    assert_eq!((&skipped["ref"], &skipped["active_ref"]), (&json!("r2"), &json!("r1")));
    assert_eq!(skipped["service"], "a");
    gate.open();
    guest.stopped("r1");
}

#[test]
fn process_inherits_nothing_unwanted() {
    let list = "ls /proc/self/fd";
    // What this test was started with, and nothing that is opened below.
    let before = std::process::Command::new("sh").args(["-c", list]).output().unwrap().stdout;
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    let journal = house.journal();
    let heard = guest.output_of("echo $HANSARD_REF; echo $HANSARD_JOURNAL; echo $HANSARD_BUS");
    let socket = journal.join("health/callosum.sock");
    assert_eq!(heard, ["probe", journal.to_str().unwrap(), socket.to_str().unwrap()]);
    assert_eq!(guest.output_of("cat; echo end"), ["end"], "there is nothing to read");
    let before: Vec<&str> = std::str::from_utf8(&before).unwrap().lines().collect();
    let held = guest.output_of(list);
    assert_eq!(held, before, "nothing of ours is inherited");
    let group = guest.output_of("ps -o pgid= -p $$ | tr -d ' '; echo $$");
    assert_eq!(group[0], group[1], "it leads its own group");
    guest.say(&json!({"tract": "supervisor", "event": "request", "ref": "d", "day": 20250213,
        "cmd": ["tool", "a", "echo $HANSARD_DAY"]}));
    let line = guest.find(|message| is(message, "logs", "line") && message["ref"] == "d");
    assert_eq!(line["line"], "20250213");
}

#[test]
fn generated_refs_rise_across_restarts() {
    let house = TestSupervisor::open(TOOL);
    let mut guest = house.guest();
    for _ in 0..50 {
        guest
            .say(&json!({"tract": "supervisor", "event": "request", "cmd": ["tool", "a", "true"]}));
    }
    guest.script("last", "b", "true");
    let mut refs: Vec<u64> = Vec::new();
    while refs.len() < 50 {
        let stopped = guest.hear("supervisor", "stopped");
        if let Ok(number) = stopped["ref"].as_str().unwrap().parse() {
            refs.push(number);
        }
    }
    assert!(refs.is_sorted_by(|one, other| one < other), "{refs:?}");
}

/// Refs that a tree of values cannot hold: half a surrogate pair, and more digits than a number.
const ODD_REFS: [&str; 2] = [r#""\udcff""#, "-123456789012345678901234567890"];

#[test]
fn ref_is_echoed_as_given() {
    let house = TestSupervisor::open(TOOL);
    let gate = house.place.gate("gate");
    let mut guest = house.guest();
    for odd in ODD_REFS {
        let mut request = |reference: &str, script: &str| {
            guest.say_line(&format!(
                r#"{{"tract":"supervisor","event":"request","ref":{reference},"cmd":["tool","a","{script}"]}}"#
            ));
        };
        request(odd, &format!("echo hello; {}", gate.wait()));
        request(r#""\udcfe""#, "true");
        let (reference, running) = (format!(r#""ref":{odd},"#), format!(r#""running":{odd},"#));
        let task = format!(r#""tasks":[{{"ref":{odd},"#);
        let mut heard = guest.lines_until(&[r#""event":"status""#, &task]);
        gate.open();
        heard.extend(guest.lines_until(&[r#""stopped""#, r#""ref":"\udcfe","#]));
        for event in ["exec", "started", "line", "stopped", "exit"] {
            let event = format!(r#""event":"{event}""#);
            assert!(heard.iter().any(|line| has(line, &[&event, &reference])), "{event} {odd}");
        }
        let waits = [r#""event":"queue""#, &running, r#""queue":[{"refs":["\udcfe"],"#];
        assert!(heard.iter().any(|line| has(line, &waits)), "{odd}");
    }
}

#[test]
fn ref_spelling_survives_a_restart() {
    let mut house = TestSupervisor::open(&format!("tasks = {{ persist = true }}\n{TOOL}"));
    let mut guest = house.guest();
    guest.script("runs", "a", "echo begun; exec sleep 1000");
    guest.hear("logs", "line");
    for (at, odd) in ODD_REFS.iter().enumerate() {
        guest.say_line(&format!(
            r#"{{"tract":"supervisor","event":"request","ref":{odd},"cmd":["tool","a","exit {at}"]}}"#
        ));
    }
    guest.lines_until(&[r#""event":"queue""#, r#""queued":2"#]);
    drop(house.supervisor.take());
    let next = Supervisor::start(house.place.settings(), house.bus.clone());
    house.supervisor = Some(next.unwrap());
    for (at, odd) in ODD_REFS.iter().enumerate() {
        let exit_code = format!(r#""exit_code":{at}"#);
        guest.lines_until(&[r#""event":"stopped""#, &format!(r#""ref":{odd},"#), &exit_code]);
    }
}
