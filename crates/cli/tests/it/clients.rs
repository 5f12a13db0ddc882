//! Clients of the bus against the daemon: what was said to be sent arrives, and nothing twice.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::World;

use crate::bus::{hears, serve};
use crate::empty;
use crate::up::up;

/// Runs of each example. By hand: `four_lines.py SOCKET 1000`.
const RUNS: usize = 40;

/// Programs that each send one message and end, as many as the protocol asks for.
const BURST: usize = 10_000;

fn socket(world: &World) -> PathBuf {
    world.home().join(".local/share/hansard/health/callosum.sock")
}

fn python(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(script);
    let run = Command::new("python3").arg("-B").arg(script).args(arguments).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    String::from_utf8(run.stdout).unwrap()
}

/// Starts, emits and stops, as a program does that has one thing to say; how often it was taken.
fn four_lines_of_rust(path: &Path) -> usize {
    let runs = (0..RUNS).map(|number| {
        let client = bus::Client::start(path, bus::ClientSettings::default()).unwrap();
        let taken = client.emit("four", "rust", &[("n", json!(number))]).is_ok();
        usize::from(client.stop(Duration::from_secs(60)) == 0 && taken)
    });
    runs.sum()
}

#[test]
fn four_lines_reach_the_daemon() {
    let world = empty();
    let daemon = up(&world);
    let mut listener = world.start(&["bus", "listen", "--tract", "four"]);
    while !hears(&world, &listener) {}
    let path = socket(&world);
    let arguments = [path.to_str().unwrap(), &RUNS.to_string()];
    let told = python("cli/tests/python/four_lines.py", &arguments);
    assert_eq!(told.trim_end().parse(), Ok(RUNS), "there is a daemon, so each is taken");
    assert_eq!(four_lines_of_rust(&path), RUNS);
    assert_eq!(world.run(&["bus", "send", "four", "end"]).code, Some(0));
    let mut heard: Vec<(String, u64)> = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&listener.line().unwrap()).unwrap();
        if message["event"] == "end" {
            break;
        }
        let event = message["event"].as_str().unwrap().to_owned();
        heard.push((event, message["n"].as_u64().unwrap()));
    }
    // Each run has a connection of its own, and the bus promises an order within one only.
    heard.sort_unstable();
    let of = |name: &str| (0..RUNS as u64).map(|n| (name.to_owned(), n)).collect::<Vec<_>>();
    assert_eq!(heard, [of("python"), of("rust")].concat(), "each once");
    assert_eq!(daemon.terminate().code, Some(0));
}

/// Sends at once what many programs say, and returns the counts. Where the system allows a short
/// queue of connections only, a sender may be refused, and knows.
#[track_caller]
fn assert_burst_arrives(world: &World) -> String {
    let path = socket(world);
    let arguments = [path.to_str().unwrap(), &BURST.to_string()];
    let told = python("bus/tests/python/burst.py", &arguments);
    assert!(told.ends_with(" 0 lost\nok\n"), "{told}");
    let taken = told.split_once(" sends: ").and_then(|(_, rest)| rest.split_once(' '));
    assert!(taken.unwrap().0.parse::<usize>().unwrap() > 0, "{told}");
    told
}

#[test]
fn burst_of_senders_reaches_the_daemon() {
    let world = empty();
    let daemon = up(&world);
    println!("{}", assert_burst_arrives(&world));
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn burst_of_senders_reaches_the_bus() {
    let world = empty();
    let bus = serve(&world);
    println!("{}", assert_burst_arrives(&world));
    assert_eq!(bus.terminate().code, Some(0));
}
