//! A model is asked what was worth keeping, by a real daemon, at endpoints on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use event::Time;
use serde_json::{Value, json};
use testkit::{Endpoint, ModelReply, ModelRequest, World};

use crate::chain_crash::{journal, live, read, segments};
use crate::up::up;
use crate::web::{get, ways_in};
use crate::writer::append;
use crate::{empty, json};

/// How long a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// A world in which a model is set up.
pub(crate) fn asking(kind: &str, url: &str, more: &str) -> World {
    let world = empty();
    let journal = journal(&world);
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o700)).unwrap();
    let settings = format!(
        "[model]\nkind = '{kind}'\nname = 'm-1'\nendpoint = '{url}'\n\
         requests_per_minute = 600\n{more}\n"
    );
    fs::write(journal.join("config.toml"), settings).unwrap();
    world
}

fn now() -> Time {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_millis(i64::try_from(now.as_millis()).unwrap())
}

/// Claude answers a prompt at length, and the turn is over.
pub(crate) fn turn(world: &World, session: &str, number: u32, asked: &str) {
    let record = |kind: &str, more: Value| {
        let mut record = json!({"type": kind, "uuid": format!("{session}-{number}-{kind}"),
            "parentUuid": null, "sessionId": session, "isSidechain": false,
            "cwd": "/home/dev/app", "version": "2.1.44", "timestamp": now()});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let prompt = json!({"promptSource": "typed", "message": {"role": "user", "content": asked}});
    let said = format!("Done with {asked} {}", "and so on ".repeat(400));
    let answer = json!({"requestId": format!("r{number}"), "message": {"id": format!("m{number}"),
        "role": "assistant", "model": "claude-x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": said}]}});
    let over = json!({"subtype": "turn_duration", "durationMs": 1});
    let lines = [record("user", prompt), record("assistant", answer), record("system", over)];
    let file = world.home().join(format!(".claude/projects/-home-dev-app/{session}.jsonl"));
    append(&file, lines.concat().as_bytes());
}

/// The answer of a good model, in fences, to every question.
pub(crate) fn good(kind: &str, heard: &ModelRequest) -> ModelReply {
    let is_digest = heard.body.contains("5 to 15 facts");
    let said = match is_digest {
        true => json!({"title": "A parser for streams", "tags": ["parser"], "priority": "high",
            "facts": [{"topic": "decision", "text": "The parser reads streams: v1 → v2",
                "replaces": [1]}]}),
        false => json!({"recent": "wrote the stream parser"}),
    };
    ModelReply::with_text(kind, &format!("<think>Hm.</think>\n```json\n{said}\n```"))
}

/// What a command says as soon as it says what is waited for.
#[track_caller]
pub(crate) fn wait(world: &World, arguments: &[&str], is_it: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let said = world.run(&[&["--json"], arguments].concat());
        let lines = said.stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut lines = lines.collect::<Vec<Value>>();
        if let Some(place) = lines.iter().position(&is_it) {
            return lines.swap_remove(place);
        }
        assert!(began.elapsed() < PATIENCE, "it is not said: {said}");
    }
}

/// The notes of the model in a session.
pub(crate) fn notes(world: &World, session: &str) -> Vec<Value> {
    let events = json(&world.run(&["--json", "show", session, "--events"])).into_iter();
    events
        .map(|mut event| event["data"]["about"]["model"].take())
        .filter(Value::is_object)
        .collect()
}

fn check(model: &Value) -> Value {
    let checks = model["checks"].as_array().unwrap().iter();
    checks.clone().find(|check| check["name"] == "model").cloned().unwrap_or_default()
}

#[track_caller]
fn check_kind(kind: &'static str) {
    let endpoint = Endpoint::start(move |_, heard| good(kind, heard));
    let world = asking(kind, &endpoint.url(), "key_file = '~/key'");
    let key = world.home().join("key");
    fs::write(&key, "k-123\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = up(&world);
    turn(&world, "s0", 0, &format!("Write a stream parser, use {TOKEN} to push"));

    let shown = wait(&world, &["show", "s0"], |shown| shown["title_origin"] == "model");
    assert_eq!(shown["title"], "A parser for streams");
    let told =
        wait(&world, &["status", "--all"], |status| status["summary"]["recent_origin"] == "model");
    assert_eq!(told["summary"]["recent"], "wrote the stream parser");
    assert_eq!(told["title_origin"], "model");
    let digest = json(&world.run(&["--json", "show", "s0", "--digest"])).remove(0);
    assert_eq!(
        (&digest["title"], &digest["title_origin"]),
        (&json!("A parser for streams"), &json!("model"))
    );
    assert_eq!((&digest["tags"], &digest["priority"]), (&json!(["parser"]), &json!("high")));
    let facts = digest["facts"].as_array().unwrap();
    let by =
        |origin: &str| facts.iter().filter(|fact| fact["origin"] == origin).collect::<Vec<_>>();
    assert_eq!(by("model")[0]["text"], "The parser reads streams: v1 → v2");
    // What it replaces is named there and no longer told.
    let replaced = by("model")[0]["replaces"][0].as_str().unwrap();
    assert!(replaced.starts_with("goal:"), "{replaced}");
    assert!(by("heuristic").iter().all(|fact| fact["topic"] != "goal"), "{digest}");

    // Every surface says whose words they are.
    for (arguments, words) in [
        (&["show", "s0"][..], "titled by a model"),
        (&["show", "s0", "--digest"], "By a model: \"A parser for streams\", 1 of "),
        (&["explain", "s0"], "Recent (by a model): wrote the stream parser"),
    ] {
        let said = world.run(arguments);
        assert!(said.stdout.contains(words), "{said}");
    }
    let (address, token) = ways_in(&world);
    let (_, summary) = get(&address, &token, "/api/sessions/s0/summary");
    assert_eq!(summary["recent_origin"], "model", "{summary}");
    let (_, health) = get(&address, &token, "/api/health");
    assert_eq!(
        (&health["model"]["name"], &health["model"]["trouble"]),
        (&json!("m-1"), &Value::Null)
    );

    let heard = endpoint.wait_for(2);
    assert!(heard.iter().all(|heard| !heard.body.contains("16C7e42F292c69")), "{heard:?}");
    assert!(heard.iter().any(|heard| heard.body.contains("[redacted:github_token:")));
    let lets_in = |heard: &ModelRequest| {
        let bearer = heard.header("authorization").map(str::to_owned);
        heard.header("x-api-key").map(str::to_owned).or(bearer)
    };
    assert!(heard.iter().all(|heard| lets_in(heard).is_some_and(|key| key.ends_with("k-123"))));
    assert_eq!(check(&wait(&world, &["doctor"], |_| true))["ok"], true);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn openai_endpoint_titles_and_digests() {
    check_kind("openai");
}

#[test]
fn anthropic_endpoint_titles_and_digests() {
    check_kind("anthropic");
}

#[test]
fn mistral_endpoint_titles_and_digests() {
    check_kind("mistral");
}

#[test]
fn killed_daemon_keeps_one_answer() {
    // The first request gets no answer.
    let endpoint = Endpoint::start(|number, heard| match number {
        0 => ModelReply::Silence,
        _ => good("openai", heard),
    });
    let world = asking("openai", &endpoint.url(), "");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    let first = endpoint.wait_for(1).remove(0);
    daemon.kill();
    let daemon = up(&world);
    wait(&world, &["show", "s0"], |shown| shown["title_origin"] == "model");
    wait(&world, &["status", "--all"], |status| status["summary"]["recent_origin"] == "model");
    daemon.kill();
    // Once more, what comes next is new.
    let daemon = up(&world);
    turn(&world, "s1", 0, "Write another one");
    wait(&world, &["show", "s1"], |shown| shown["title_origin"] == "model");
    wait(&world, &["status", "--all"], |status| {
        status["provider_session_id"] == "s1" && status["summary"]["recent_origin"] == "model"
    });
    assert_eq!(daemon.terminate().code, Some(0));
    let heard = endpoint.requests();
    let same = heard.iter().filter(|heard| heard.body == first.body).count();
    assert_eq!((heard.len(), same), (5, 2), "{heard:?}");
    for session in ["s0", "s1"] {
        let notes = notes(&world, session);
        let digests = notes.iter().filter(|note| note["title"].is_string()).count();
        assert_eq!((notes.len(), digests), (2, 1), "{notes:?}");
    }
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}

#[test]
fn slow_endpoint_is_given_time() {
    let endpoint = Endpoint::start(|number, heard| match number {
        0 => ModelReply::Whole {
            status: 429,
            headers: vec![("retry-after", "1".to_owned())],
            body: "{}".to_owned(),
        },
        _ => good("openai", heard),
    });
    let world = asking("openai", &endpoint.url(), "");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    wait(&world, &["show", "s0"], |shown| shown["title_origin"] == "model");
    assert_eq!(notes(&world, "s0").iter().filter(|note| note["title"].is_string()).count(), 1);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn without_answer_facts_are_used() {
    // No endpoint is running.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = asking("openai", &format!("http://{free}/v1"), "");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    let doctor = wait(&world, &["doctor"], |doctor| {
        check(doctor)["detail"].as_str().is_some_and(|told| told.contains("does not answer"))
    });
    assert_eq!(doctor["ok"], true, "{doctor}");
    let detail = check(&doctor)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("does not answer: the endpoint cannot be reached"), "{detail}");
    let shown = wait(&world, &["show", "s0"], |shown| shown["title"].is_string());
    assert_eq!(
        (&shown["title"], &shown["title_origin"]),
        (&json!("Write a stream parser"), &json!("heuristic"))
    );
    let digest = json(&world.run(&["--json", "show", "s0", "--digest"])).remove(0);
    assert!(digest["facts"].as_array().unwrap().iter().all(|fact| fact["origin"] == "heuristic"));
    assert_eq!(daemon.terminate().code, Some(0));

    // Without a key no request is made, and the log says so.
    let endpoint = Endpoint::start(|_, heard| good("openai", heard));
    let world = asking("openai", &endpoint.url(), "key_env = 'NOT_SET'");
    let daemon = up(&world);
    wait(&world, &["doctor"], |doctor| {
        let told = check(doctor)["detail"].clone();
        told.as_str().is_some_and(|told| told.contains("the variable `NOT_SET` is not set"))
    });
    assert!(endpoint.requests().is_empty());
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn no_command_waits_for_a_model() {
    let endpoint = Endpoint::start(|_, _| ModelReply::Silence);
    let world = asking("openai", &endpoint.url(), "timeout_seconds = 600");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    endpoint.wait_for(1);
    // It is out, and stays out. What happens meanwhile is recorded and told.
    turn(&world, "s1", 0, "Write another one");
    wait(&world, &["status", "--all"], |status| {
        status["provider_session_id"] == "s1" && status["reason"] == "prompt"
    });
    assert_eq!(endpoint.requests().len(), 1);
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn digest_is_rewritten_with_model_words() {
    let endpoint = Endpoint::start(|_, heard| good("mistral", heard));
    let world = asking("mistral", &endpoint.url(), "");
    let daemon = up(&world);
    // An epoch that is over at once, with little in it.
    live(&world, "s", 0);
    let began = Instant::now();
    let kept = loop {
        let is_told =
            |lines: &Vec<Value>| lines.first().is_some_and(|head| head["title_origin"] == "model");
        let folders = segments(&world);
        let mut files = folders.iter().map(|folder| read(&folder.join("digest.jsonl")));
        if let Some(kept) = files.find(is_told) {
            break kept;
        }
        assert!(began.elapsed() < PATIENCE, "no segment has the words of the model");
    };
    assert_eq!(kept[0]["title"], "A parser for streams");
    assert!(kept[1..].iter().any(|fact| fact["origin"] == "model"), "{kept:?}");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn junk_answers_are_given_up() {
    let endpoint =
        Endpoint::start(|_, _| ModelReply::with_text("anthropic", "I would rather not {..."));
    let world = asking("anthropic", &endpoint.url(), "");
    let daemon = up(&world);
    live(&world, "s", 0);
    let doctor = wait(&world, &["doctor"], |doctor| {
        check(doctor)["detail"].as_str().is_some_and(|told| told.contains("2 given up"))
    });
    assert_eq!(doctor["ok"], true, "{doctor}");
    // What was worth keeping, and what was done lately.
    let mut bodies: Vec<String> = endpoint.requests().into_iter().map(|heard| heard.body).collect();
    bodies.sort();
    assert!(bodies.len() == 4 && bodies[0] == bodies[1] && bodies[2] == bodies[3], "{bodies:?}");
    assert!(notes(&world, "s").is_empty());
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn model_can_be_changed_and_stopped() {
    let first = Endpoint::start(|_, _| ModelReply::status(401));
    let second = Endpoint::start(|_, heard| good("openai", heard));
    let world = asking("openai", &first.url(), "key = 'k-in-the-file'");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    wait(&world, &["doctor"], |doctor| {
        check(doctor)["detail"].as_str().is_some_and(|told| told.contains("refuses the key"))
    });
    let config = journal(&world).join("config.toml");
    let text = fs::read_to_string(&config).unwrap().replace(&first.url(), &second.url());
    fs::write(&config, text.replace("key = 'k-in-the-file'", "")).unwrap();
    assert_eq!(world.run(&["reload"]).code, Some(0));
    wait(&world, &["doctor"], |doctor| {
        check(doctor)["detail"].as_str().is_none_or(|told| !told.contains("refuses the key"))
    });
    // New questions go to the new endpoint; those queued for the old one do not.
    turn(&world, "s1", 0, "Write a lexer");
    wait(&world, &["show", "s1"], |shown| shown["title_origin"] == "model");
    let heard = second.requests();
    assert!(heard.iter().all(|heard| heard.header("authorization").is_none()));
    assert!(heard.iter().all(|heard| !heard.body.contains("Write a stream parser")));
    fs::write(&config, "").unwrap();
    assert_eq!(world.run(&["reload"]).code, Some(0));
    wait(&world, &["doctor"], |doctor| check(doctor).is_null());
    let asked = (first.requests().len(), second.requests().len());
    turn(&world, "s2", 0, "Write another one");
    wait(&world, &["show", "s2"], |shown| shown["title_origin"] == "heuristic");
    let said = daemon.terminate();
    assert_eq!(said.code, Some(0));
    assert_eq!((first.requests().len(), second.requests().len()), asked);
    assert!(said.stderr.contains("stands in `config.toml` itself"), "{said}");
    assert!(!said.to_string().contains("k-in-the-file"), "{said}");
}

#[test]
fn answer_does_not_revive_a_deleted_session() {
    // Answers when it is told to.
    let (go, gone) = mpsc::sync_channel::<()>(1);
    let gone = Mutex::new(gone);
    let endpoint = Endpoint::start(move |_, heard| {
        let _ = gone.lock().unwrap().recv();
        good("openai", heard)
    });
    let world = asking("openai", &endpoint.url(), "");
    let daemon = up(&world);
    turn(&world, "s0", 0, "Write a stream parser");
    endpoint.wait_for(1);
    wait(&world, &["show", "s0"], |shown| shown["title"].is_string());
    assert_eq!(world.run(&["delete", "claude:s0", "--yes"]).code, Some(0));
    drop(go);
    turn(&world, "s1", 0, "Write another one");
    wait(&world, &["show", "s1"], |shown| shown["title_origin"] == "model");
    assert_eq!(world.run(&["show", "s0"]).code, Some(1));
    assert_eq!(json(&world.run(&["--json", "sessions"])).len(), 1);
    assert_eq!(daemon.terminate().code, Some(0));
}
