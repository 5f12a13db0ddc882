//! The keeper under a test clock, observed through the bus.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use bus::{Draft, Filter, Listener, Server};
use serde_json::Value;
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A keeper with a clock that the test sets.
struct House {
    keeper: Keeper,
    incoming: Receiver<KeeperInput>,
    seconds: Arc<AtomicU64>,
    heard: Listener,
    bus: Handle,
    server: Option<JoinHandle<()>>,
    folder: TempDir,
}

impl House {
    fn open(services: &str) -> House {
        House::open_in(tempfile::tempdir().unwrap(), services)
    }

    /// Opens a keeper on a folder that may hold the state of an earlier one.
    fn open_in(folder: TempDir, services: &str) -> House {
        let journal = folder.path().to_owned();
        let path = journal.join("services.toml");
        fs::write(&path, services).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let settings = SupervisorSettings::new(journal, "/bin/true".into());
        let server = Server::bind(&settings.socket, bus::ServerSettings::default()).unwrap();
        let bus = server.handle();
        let thread = std::thread::spawn(move || server.run().unwrap());
        let heard = bus.listen(Filter::default()).unwrap();
        let seconds = Arc::new(AtomicU64::new(0));
        let clock = Clock::set_by(&seconds);
        let (news, incoming) = sync_channel(crate::keeper_input::INPUTS_MAX);
        let keeper = Keeper::open(settings, bus.clone(), news, clock).unwrap();
        let server = Some(thread);
        House { keeper, incoming, seconds, heard, bus, server, folder }
    }

    /// Sends a `status`.
    fn status(&mut self, tract: &str, is_idle: bool) {
        let draft = Draft::new(tract, "status").with("service", "one").with("idle", is_idle);
        self.keeper.handle_input(KeeperInput::Request(draft.build().unwrap()));
    }

    /// Advances the clock to a second, five at a time; returns the messages published meanwhile. The
    /// last of them is the status that comes each time.
    fn until(&mut self, second: u64) -> Vec<Value> {
        let mut said = Vec::new();
        while self.seconds.load(Ordering::Relaxed) < second {
            self.seconds.fetch_add(STATUS_EVERY.as_secs(), Ordering::Relaxed);
            self.keeper.tick();
            loop {
                let message = self.heard.next(PATIENCE).unwrap().to_json();
                let is_status = message["tract"] == NAME && message["event"] == "status";
                said.push(message);
                if is_status {
                    break;
                }
            }
        }
        said
    }

    /// Waits until a process has ended and its output is read.
    fn wait_for_end(&mut self) {
        let (mut is_over, mut is_drained) = (false, false);
        while !is_over || !is_drained {
            let incoming = self.incoming.recv_timeout(PATIENCE).unwrap();
            is_over |= matches!(incoming, KeeperInput::Exited { .. });
            is_drained |= matches!(incoming, KeeperInput::Drained { .. });
            self.keeper.handle_input(incoming);
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.keeper.runs.kill_all(self.keeper.clock.moment());
        self.bus.stop();
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

fn stale(said: &[Value]) -> Vec<String> {
    let last = said.last().unwrap()["stale_heartbeats"].as_array().unwrap();
    last.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn cards(said: &[Value]) -> Vec<&str> {
    let cards = said.iter().filter(|message| message["tract"] == "notification");
    cards.map(|card| card["title"].as_str().unwrap()).collect()
}

#[test]
fn silence_is_reported_until_it_ends() {
    let mut house = House::open("");
    house.status("sync", false);
    let said = house.until(55);
    assert_eq!((stale(&said), cards(&said).len()), (Vec::new(), 0));
    // At 60, 120, 240, 480 and 960.
    let said = house.until(1_000);
    assert_eq!(stale(&said), ["sync/one"]);
    assert_eq!(cards(&said), ["Gone silent"; 5]);
    let logged =
        said.iter().any(|it| it["line"].as_str().is_some_and(|it| it.contains("sync/one")));
    assert!(logged, "it is in the log too");
    house.status("sync", false);
    let said = house.until(1_005);
    assert_eq!((stale(&said), cards(&said)), (Vec::new(), vec!["Heard again"]));
    // A sender that reported itself idle is not expected.
    house.status("sync", true);
    let said = house.until(2_000);
    assert_eq!((stale(&said), cards(&said).len()), (Vec::new(), 0));
}

#[test]
fn silent_service_is_restarted_if_configured() {
    let mut house =
        House::open("[[service]]\nname = 'one'\ncmd = ['/bin/sleep', '1000']\nstale = 'restart'\n");
    house.status("sync", false);
    let said = house.until(60);
    let events = |said: &[Value]| -> Vec<String> {
        let about = said.iter().filter(|it| it["service"] == "one");
        about.map(|it| it["event"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(events(&said), ["started", "restarting"]);
    house.wait_for_end();
    let said = house.until(65);
    assert_eq!(events(&said), ["stopped", "started"]);
    assert_eq!(stale(&said), [""; 0], "one that was ended on purpose is not expected");
}

#[test]
fn failing_service_is_reported_at_fifth_attempt() {
    let mut house = House::open("[[service]]\nname = 'one'\ncmd = ['/nowhere/x']\n");
    // Attempts at 0, 0, 1 and then every five seconds.
    let said = house.until(5);
    assert_eq!(cards(&said).len(), 0);
    let said = house.until(600);
    let attempts = said.last().unwrap()["crashed"][0]["restart_attempts"].as_u64().unwrap();
    assert!(attempts > 100, "{attempts}");
    // The first, and after 60, 120, 240 seconds more.
    assert_eq!(cards(&said), ["A service does not stay up"; 4]);
}

#[test]
fn lost_requests_raise_an_alert() {
    const BATCH: usize = 10_000;
    let mut house = House::open("");
    let status = Draft::new("part", "status").build().unwrap();
    // The keeper takes no inputs: its channel fills up, then the listener's queue.
    let room = crate::keeper_input::INPUTS_MAX + 65_536;
    for _ in 0..=room / BATCH {
        for _ in 0..BATCH {
            house.bus.publish(status.clone()).unwrap();
        }
        let heard = std::iter::from_fn(|| house.heard.next(PATIENCE));
        assert_eq!(heard.filter(|it| it.is_event("part", "status")).take(BATCH).count(), BATCH);
    }
    let told = house.until(5);
    assert_eq!(cards(&told), ["Requests were lost"]);
    assert!(told.last().unwrap()["ignored"].as_u64().unwrap() > 0);
}

#[test]
fn restored_tasks_keep_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let entries = ["doctor", "digest", "usage"].map(|name| {
        serde_json::json!({
            "refs": [name], "day": null, "timeout": null, "rerun": false, "keep": false,
            "work": {"name": name, "program": "own", "cmd": ["hansard", name], "cwd": null, "env": []},
        })
    });
    let health = folder.path().join("health");
    fs::create_dir(&health).unwrap();
    let saved = serde_json::json!({"running": [], "waiting": entries});
    fs::write(health.join("tasks.json"), saved.to_string()).unwrap();
    let house = House::open_in(folder, "tasks = { running_max = 1, persist = true }\n");
    assert_eq!(house.keeper.queue.running().count(), 1);
    assert_eq!(house.keeper.queue.waiting_counts().map(|(_, count)| count).sum::<usize>(), 2);
}

#[test]
fn failed_save_is_retried() {
    let mut house = House::open("tasks = { persist = true }\n");
    let health = house.folder.path().join("health");
    // A folder is in the way of the temporary file.
    fs::create_dir(health.join("tasks.new")).unwrap();
    let request = Draft::new(NAME, "request").with("ref", "r1").with("cmd", ["hansard", "doctor"]);
    house.keeper.handle_input(KeeperInput::Request(request.build().unwrap()));
    house.keeper.save();
    let tasks = || fs::read_to_string(health.join("tasks.json")).unwrap_or_default();
    assert!(!tasks().contains("r1"));
    fs::remove_dir(health.join("tasks.new")).unwrap();
    house.keeper.save();
    assert!(tasks().contains("r1"), "{}", tasks());
}
