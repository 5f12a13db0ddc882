//! `hansard up`: one process that records what agents write and tells it on the bus.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use event::Time;
use serde_json::Value;
use testkit::{RunningProgram, Transcripts, World};

use crate::bus::hears;
use crate::chain_crash::live;
use crate::follow::prompt;
use crate::ingest::{ingest, reading};
use crate::totals::{assert_same, counted, expected};
use crate::writer::append;
use crate::{empty, json};

/// A daemon that answers.
#[track_caller]
pub(crate) fn up(world: &World) -> RunningProgram {
    let mut running = world.start(&["--json", "up"]);
    let Some(ready) = running.line() else { panic!("it ended: {}", running.end()) };
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["pid"], running.process_id());
    running
}

/// A listener that starts at a position.
pub(crate) fn listen(world: &World, options: &[&str]) -> RunningProgram {
    world.start(&[&["bus", "listen", "--tract", "cortex"], options].concat())
}

#[track_caller]
fn hear(listener: &mut RunningProgram) -> Value {
    loop {
        let line = listener.line().expect("there is more to hear");
        let message: Value = serde_json::from_str(&line).unwrap();
        // The status service publishes by the clock, and those messages stand for no event. The
        // agents of these tests have no process.
        let is_of_status = message["event"] == "status"
            || message.get("session_id").is_some() && message.get("event_id").is_none();
        if message["tract"] != "cortex" || !is_of_status {
            return message;
        }
    }
}

/// The next start of a run.
#[track_caller]
pub(crate) fn hear_start(listener: &mut RunningProgram) -> Value {
    // On a slow machine the status service may have ended the run before.
    std::iter::repeat_with(|| hear(listener)).find(|message| message["event"] == "start").unwrap()
}

pub(crate) fn ask(world: &World, session: &str, number: u32) {
    let file = world.home().join(format!(".claude/projects/-home-dev-app/{session}.jsonl"));
    append(&file, prompt(session, number).as_bytes());
}

fn health(world: &World) -> PathBuf {
    world.home().join(".local/share/hansard/health")
}

#[test]
fn daemon_records_and_publishes() {
    let world = empty();
    ask(&world, "s0", 0);
    let daemon = up(&world);
    let mut listener = listen(&world, &["--from", "0"]);
    assert_eq!(hear(&mut listener)["kind"], "session.started");
    for number in 1..4 {
        let start = hear_start(&mut listener);
        assert_eq!(start["prompt"], format!("question {}", number - 1), "{start}");
        ask(&world, "s0", number);
    }
    assert_eq!(hear_start(&mut listener)["prompt"], "question 3");
    let said = daemon.terminate();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    assert!(!health(&world).join("callosum.sock").exists());
    assert!(!health(&world).join("supervisor.pid").exists());
    let log = fs::read_to_string(health(&world).join("daemon.log")).unwrap();
    let told: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.last().unwrap()["text"], "stopped", "{log}");
    // A listener resumes with the next daemon.
    let daemon = up(&world);
    ask(&world, "s0", 4);
    assert_eq!(hear_start(&mut listener)["prompt"], "question 4");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn long_journal_path_has_a_daemon() {
    let world = empty();
    let (runtime, journal) = (world.home().to_owned(), world.home().join("x".repeat(120)));
    let world = world.with("XDG_RUNTIME_DIR", runtime).with("HANSARD_JOURNAL", journal.clone());
    let daemon = up(&world);
    let message = r#"{"tract":"test","event":"note"}"#;
    let sent = world.run(&["bus", "send", message]);
    assert_eq!(sent.code, Some(0), "{sent}");
    let payload = br#"{"hook_event_name":"SessionStart","session_id":"s1","cwd":"/home/dev"}"#;
    world.run_with_input(&["hook", "claude"], payload);
    // The daemon took it, so it was left nowhere for later.
    let left = |name: &str| fs::read_dir(journal.join(name)).map_or(0, Iterator::count);
    assert_eq!((left("spool"), left("signals")), (0, 0));
    daemon.terminate();
}

#[test]
fn history_is_not_published_event_by_event() {
    let transcripts = Transcripts::make("1mb", 51, "0.6");
    // What was written a moment ago may still be written to.
    transcripts.age();
    let world = reading(&transcripts);
    let daemon = up(&world);
    let mut plain = listen(&world, &[]);
    let mut reader = listen(&world, &["--from", "0"]);
    // Everything there was is in the record before what is written now.
    let mut last = 0;
    loop {
        let message = hear(&mut reader);
        let Some(position) = message["position"].as_u64() else { continue };
        assert_eq!(position, last + 1, "{message}");
        last = position;
        if message["session_id"] == "claude:now" {
            break;
        }
        if last == 1 {
            let file = transcripts.root().join("claude/projects/-home-dev-app/now.jsonl");
            // As it says itself, it happens now: it is news, also while history is read.
            let now = Time::from_millis(millis()).to_string();
            let line = prompt("now", 0).replace("2026-03-02T09:00:00.000Z", &now);
            append(&file, line.as_bytes());
        }
    }
    let first = hear(&mut plain);
    assert_eq!(first["session_id"], "claude:now", "{first}");
    assert_eq!(daemon.terminate().code, Some(0));
    fs::remove_file(transcripts.root().join("claude/projects/-home-dev-app/now.jsonl")).unwrap();
    assert_eq!(world.run(&["delete", "claude:now", "--yes"]).code, Some(0));
    // It may have been told to end before everything was read.
    ingest(&world);
    assert_same(&counted(&world), &expected(&transcripts));
}

#[test]
fn history_progress_is_published() {
    let transcripts = Transcripts::make("1mb", 52, "0.6");
    transcripts.age();
    let world = reading(&transcripts);
    let mut listener = world.start(&["bus", "listen", "--tract", "importer"]);
    let daemon = up(&world);
    wait_for_log(&world, "MB of history are read");
    wait_for_log(&world, "history is read: ");
    let told = std::iter::from_fn(|| listener.line());
    let mut told = told.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let is_end = |told: &Value| told["event"] == "completed" || told["event"] == "error";
    let end = told.find(is_end).unwrap();
    let stages = ["initialization", "segmenting", "summarizing", "transcribing"];
    let mut run: Vec<&str> =
        end["stages_run"].as_array().unwrap().iter().map(|stage| stage.as_str().unwrap()).collect();
    // Sorted: segments are written beside the reading.
    run.sort_unstable();
    assert_eq!(run, stages, "{end}");
    let segments = end["segments"].as_array().unwrap();
    let files = end["output_files"].as_array().unwrap();
    assert_eq!((segments.is_empty(), files.len()), (false, 2 * segments.len()), "{end}");
    let journal = world.home().join(".local/share/hansard");
    assert!(files.iter().all(|file| journal.join(file.as_str().unwrap()).is_file()), "{end}");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn recreated_folder_is_watched_again() {
    let world = empty();
    ask(&world, "s0", 0);
    let _daemon = up(&world);
    let mut listener = listen(&world, &["--event", "start", "--from", "0"]);
    assert_eq!(hear(&mut listener)["session_id"], "claude:s0");
    // What was there is read; from now on it goes by what the system tells.
    let condition = || fs::read_to_string(health(&world).join("daemon.json")).unwrap();
    while !condition().contains(r#""capture":"running""#) {}
    for number in 1..3 {
        ask(&world, "s0", number);
        assert_eq!(hear(&mut listener)["prompt"], format!("question {number}"));
    }
    fs::remove_dir_all(world.home().join(".claude")).unwrap();
    for number in 0..3 {
        ask(&world, "s1", number);
        let start = hear(&mut listener);
        assert_eq!(
            (&start["session_id"], &start["prompt"]),
            (&"claude:s1".into(), &format!("question {number}").into())
        );
    }
}

pub(crate) fn millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[test]
fn journal_folder_is_made_private_again() {
    let world = empty();
    assert_eq!(up(&world).terminate().code, Some(0));
    fs::set_permissions(health(&world), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = up(&world);
    let mode = fs::metadata(health(&world)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn journal_tract_must_be_requested() {
    let world = empty();
    ask(&world, "s0", 0);
    let _daemon = up(&world);
    let mut everything = world.start(&["bus", "listen", "--from", "0"]);
    let mut positions = BTreeSet::new();
    while positions.len() < 2 {
        let message = hear(&mut everything);
        assert_ne!(message["tract"], "journal", "{message}");
        positions.extend(message["position"].as_u64());
    }
}

#[test]
fn whole_events_can_be_received() {
    let world = empty();
    ask(&world, "s0", 0);
    let _daemon = up(&world);
    let mut listener = world.start(&["bus", "listen", "--tract", "journal", "--from", "0"]);
    for kind in ["session.started", "user.prompt"] {
        let event = hear(&mut listener);
        assert_eq!((&event["tract"], &event["event"]), (&"journal".into(), &kind.into()));
    }
    let events = json(&world.run(&["--json", "show", "claude:s0", "--events"]));
    ask(&world, "s0", 1);
    let event = hear(&mut listener);
    assert_eq!(event["data"]["content"][0]["text"], "question 1", "{event}");
    assert_eq!(event["position"].as_u64().unwrap(), events.len() as u64 + 1);
}

#[test]
fn second_daemon_is_refused() {
    let world = empty();
    let daemon = up(&world);
    for arguments in [&["up"][..], &["up", "--detach"]] {
        let said = world.run(arguments);
        assert_eq!(said.code, Some(1), "{said}");
        assert!(
            said.stderr.contains(&format!("already running (pid {})", daemon.process_id())),
            "{said}"
        );
        assert!(said.stderr.contains("`hansard status`"), "{said}");
    }
    for arguments in [&["ingest"][..], &["ingest", "--once"]] {
        let said = world.run(arguments);
        assert_eq!(said.code, Some(1), "{said}");
        assert!(
            said.stderr.contains(&format!("the daemon (pid {})", daemon.process_id())),
            "{said}"
        );
    }
    assert_eq!(world.run(&["bus", "stats"]).code, Some(0));
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn further_signals_hurry_an_orderly_stop() {
    let world = empty();
    ask(&world, "s0", 0);
    let daemon = up(&world);
    let pid = daemon.process_id().to_string();
    let end = std::thread::scope(|scope| {
        scope.spawn(|| {
            let signal = || Command::new("kill").args(["-TERM", &pid]).status().unwrap();
            // At every instant of its stop, until the process is gone.
            while signal().success() {}
        });
        daemon.end()
    });
    assert_eq!(end.code, Some(0), "{end}");
    assert!(!end.stderr.contains("error"), "{end}");
    assert!(!health(&world).join("callosum.sock").exists());
}

#[test]
fn daemon_messages_match_the_registry() {
    let world = empty();
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen"]);
    while !hears(&world, &listener) {}
    live(&world, "s0", 0);
    let (mut heard, mut faults) = (BTreeSet::new(), BTreeSet::new());
    while !heard.contains("dream.completed") || !heard.contains("supervisor.status") {
        let message = hear(&mut listener);
        let name = |field: &str| message[field].as_str().unwrap().to_owned();
        let (tract, event) = (name("tract"), name("event"));
        if tract != "callosum" && !(tract == "supervisor" && event == "request") {
            faults.extend(bus::registry::fault(&message));
            if message["rev"] != env!("CARGO_PKG_VERSION") {
                faults.insert(format!("{tract}.{event} has no rev"));
            }
        }
        heard.insert(format!("{tract}.{event}"));
    }
    assert!(faults.is_empty(), "{faults:#?}");
    for event in ["cortex.start", "observe.observing", "observe.observed", "logs.exec"] {
        assert!(heard.contains(event), "{heard:?}");
    }
    assert_eq!(daemon.terminate().code, Some(0));
    // What it has said of itself is in one log.
    let log = world.run(&["logs"]).stdout;
    assert!(log.ends_with("[supervisor:log] stopped\n"), "{log}");
}

#[test]
fn agent_request_is_answered() {
    let world = empty();
    let daemon = up(&world);
    let mut listener = listen(&world, &[]);
    while !hears(&world, &listener) {}
    let words = ["bus", "send", "cortex", "request", "agent_id=a1", "prompt=Hello"];
    assert_eq!(world.run(&words).code, Some(0));
    assert_eq!(hear(&mut listener)["event"], "request");
    let answer = hear(&mut listener);
    assert_eq!(bus::registry::fault(&answer), None);
    let about = [&answer["event"], &answer["agent_id"], &answer["skipped"]];
    assert_eq!(about, ["finish", "a1", "no_model"]);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn agent_waiter_may_come_late() {
    let world = empty();
    let daemon = up(&world);
    let agents = world.home().join(".local/share/hansard/agents");
    // Like the protocol's own client: it sends, then listens on another connection, then looks for
    // the file of the agent, then waits for the message.
    for number in 0..12 {
        let id = format!("17000000000{number:02}");
        let words = format!("agent_id={id}");
        let said = world.run(&["bus", "send", "cortex", "request", &words, "prompt=Hello"]);
        assert_eq!(said.code, Some(0));
        let mut late =
            BufReader::new(UnixStream::connect(health(&world).join("callosum.sock")).unwrap());
        late.get_ref().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let file = agents.join(format!("requests/{id}.jsonl"));
        if !fs::read_to_string(file).is_ok_and(|text| text.contains(r#""event":"finish""#)) {
            let mut line = String::new();
            while !(line.contains(&id) && line.contains(r#""finish""#)) {
                line.clear();
                assert!(late.read_line(&mut line).unwrap() > 0);
            }
        }
    }
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn down_stops_a_detached_daemon() {
    let world = empty();
    assert_eq!(world.run(&["down"]).code, Some(3));
    assert_eq!(world.run(&["reload"]).code, Some(3));
    let started = json(&world.run(&["--json", "up", "--detach"])).remove(0);
    assert_eq!(world.run(&["bus", "stats"]).code, Some(0));
    let ended = json(&world.run(&["--json", "down"])).remove(0);
    assert_eq!(ended["pid"], started["pid"]);
    assert_eq!(world.run(&["bus", "stats"]).code, Some(3));
}

#[test]
fn leftovers_of_killed_daemon_are_replaced() {
    let world = empty();
    up(&world).kill();
    assert!(health(&world).join("callosum.sock").exists());
    assert_eq!(world.run(&["down"]).code, Some(3), "what is left belongs to nobody");
    assert_eq!(up(&world).terminate().code, Some(0));
}

#[test]
fn reload_refuses_faulty_settings() {
    let world = empty();
    let config = world.home().join(".local/share/hansard/config.toml");
    let daemon = up(&world);
    let mut listener = listen(&world, &["--from", "0"]);
    fs::write(&config, "[[capture.off]]\nsession = \"claude:s1\"\n").unwrap();
    assert_eq!(world.run(&["reload"]).code, Some(0));
    wait_for_log(&world, "settings read again");
    ask(&world, "s1", 0);
    ask(&world, "s2", 0);
    assert_eq!(hear(&mut listener)["session_id"], "claude:s2");
    fs::write(&config, "[capture]\noff = []\nof = 1\n").unwrap();
    let said = world.run(&["reload"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("line 3: unknown field `of`"), "{said}");
    assert_eq!(daemon.terminate().code, Some(0));
    let said = world.run(&["up"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("line 3"), "{said}");
}

#[test]
fn services_and_tasks_end_with_the_daemon() {
    let world = empty();
    let journal = world.home().join(".local/share/hansard");
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o700)).unwrap();
    let services =
        "[[service]]\nname = \"idle\"\ncmd = [\"/bin/sh\", \"-c\", \"exec sleep 600\"]\n";
    fs::write(journal.join("services.toml"), services).unwrap();
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen", "--tract", "supervisor"]);
    // The status shows it.
    let status = loop {
        let message = hear(&mut listener);
        if message["event"] == "status" {
            break message;
        }
    };
    let part = |name: &str| {
        let parts = status["parts"].as_array().unwrap();
        parts.iter().find(|part| part["name"] == name).map(|part| part["state"].clone())
    };
    assert_eq!(part("capture"), Some("running".into()), "{status}");
    assert_eq!(status["disk"], "ok", "{status}");
    assert_eq!(status["services"][0]["pid"], daemon.process_id(), "{status}");
    let service = status["services"][1]["pid"].as_u64().unwrap();
    let request =
        r#"{"tract":"supervisor","event":"request","ref":"r1","cmd":["hansard","doctor"]}"#;
    assert_eq!(world.run(&["bus", "send", request]).code, Some(0));
    let stopped = loop {
        let message = hear(&mut listener);
        if message["event"] == "stopped" {
            break message;
        }
    };
    assert_eq!((&stopped["ref"], &stopped["exit_code"]), (&"r1".into(), &0.into()), "{stopped}");
    assert_eq!(daemon.terminate().code, Some(0));
    let is_alive = std::process::Command::new("kill").args(["-0", &service.to_string()]).output();
    assert!(!is_alive.unwrap().status.success(), "what it started ends with it");
}

/// Waits until the daemon has logged a text.
pub(crate) fn wait_for_log(world: &World, text: &str) {
    let log = health(world).join("daemon.log");
    while !fs::read_to_string(&log).unwrap().contains(text) {}
}

#[test]
fn filter_makes_one_part_log_more() {
    let world = empty().with("HANSARD_LOG", "capture=debug");
    ask(&world, "s0", 0);
    let daemon = up(&world);
    ask(&world, "s0", 1);
    wait_for_log(&world, "\"level\":\"debug\",\"part\":\"capture\"");
    assert_eq!(daemon.terminate().code, Some(0));
    let said = empty().with("HANSARD_LOG", "captur=debug").run(&["up"]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.stderr.contains("there is no part called `captur`"), "{said}");
}

#[test]
fn install_writes_a_service_file() {
    let world = empty();
    let installed = json(&world.run(&["--json", "up", "--install"])).remove(0);
    assert_eq!(installed["changed"], true);
    let path = PathBuf::from(
        installed["path"].as_str().unwrap().replace('~', world.home().to_str().unwrap()),
    );
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("hansard"), "{text}");
    let again = json(&world.run(&["--json", "up", "--install"])).remove(0);
    assert_eq!(
        (again["changed"].clone(), fs::read_to_string(&path).unwrap()),
        (false.into(), text)
    );
    let removed = json(&world.run(&["--json", "up", "--uninstall"])).remove(0);
    assert_eq!((removed["changed"].clone(), path.exists()), (true.into(), false));
    let removed = json(&world.run(&["--json", "up", "--uninstall"])).remove(0);
    assert_eq!(removed["changed"], false);
    // The same under another name.
    let installed = json(&world.run(&["--json", "service", "install"])).remove(0);
    assert_eq!((installed["changed"].clone(), path.exists()), (true.into(), true));
    let again = json(&world.run(&["--json", "up", "--install"])).remove(0);
    assert_eq!(again["changed"], false);
}
