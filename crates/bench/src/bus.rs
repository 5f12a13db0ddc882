//! The bus: deliveries against a bare byte relay, Redis and a plain server in Python, memory, growth, and how long a
//! message takes while others misbehave.
//!
//! Every server is a process of its own and has the same driver: one publisher, one thread that
//! reads for all subscribers, messages of 200 bytes. The publisher stays a little ahead of the
//! slowest subscriber, so that nothing has to be given up.

mod driver; // one publisher, many subscribers
mod others; // those who misbehave
mod growth; // more clients, longer messages
mod rest; // those who do nothing, and those who are stuck
mod printing; // what a task prints
pub(crate) mod relay; // the floor

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{RunningProgram, World};

use crate::Outcome;
use crate::report::{Bar, Quantity, Report, Row};
use crate::stage::Stage;

use driver::{MESSAGE, Speech, deliver_all};
use others::{Delays, Misbehaviour, measure_delays};

/// Subscribers of one run.
const SUBSCRIBERS: [usize; 3] = [10, 50, 100];

/// Deliveries against a bare relay of bytes.
const AGAINST_RELAY: Bar = Bar::AtLeast { must: 0.5, aim: 1.0 };
const AGAINST_REDIS: Bar = Bar::AtLeast { must: 1.0, aim: 2.0 };
/// Deliveries for the same CPU time.
const AGAINST_PYTHON: Bar = Bar::AtLeast { must: 20.0, aim: 100.0 };
/// The part of all deliveries that the server in Python gets: it would take all day.
const PYTHON_SHARE: usize = 50;
/// Memory against 8 MiB.
const MEMORY_MAX: u64 = 8 << 20;
/// What others may add to the time of a delivery.
const DELAY_MAX: Duration = Duration::from_millis(50);

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let is_quick = stage.scale.rounds <= 2;
    let deliveries = if is_quick { 300_000 } else { 2_000_000 };
    let redis = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    let has_redis = redis.is_ok_and(|status| status.success());
    if !has_redis {
        report.add_note("redis", "left out: there is no `redis-server` here");
    }
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    let has_python = python.is_ok_and(|status| status.success());
    if !has_python {
        report.add_note("python", "left out: there is no `python3` here");
    }
    for subscribers in SUBSCRIBERS {
        stage.announce(&format!("{subscribers} subscribers"))?;
        // The same number of deliveries for every number of subscribers, so that runs take as long.
        let messages = deliveries / subscribers;
        let mut runs: [Vec<BusRun>; 4] = Default::default();
        for _ in 0..stage.scale.rounds {
            let lines = Speech::Lines(MESSAGE);
            runs[0].push(run(Kind::Ours, lines, subscribers, messages)?);
            runs[1].push(run(Kind::Relay, lines, subscribers, messages)?);
            if has_redis {
                runs[2].push(run(Kind::Redis, Speech::Redis, subscribers, messages)?);
            }
            if has_python {
                let messages = messages / PYTHON_SHARE;
                runs[3].push(run(Kind::Python, lines, subscribers, messages)?);
            }
        }
        let [ours, relay, redis, python] = runs.map(|runs| median_run(&runs));
        if let (Some(ours), Some(relay)) = (&ours, &relay) {
            let measure = format!("bus: deliveries to {subscribers}, floor a bare relay");
            report.add_row(ours.report_row(measure, relay).with_bar(AGAINST_RELAY));
        }
        if let (Some(ours), Some(redis)) = (&ours, &redis) {
            let measure = format!("bus: deliveries to {subscribers}, floor Redis");
            report.add_row(ours.report_row(measure, redis).with_bar(AGAINST_REDIS));
        }
        if let (Some(ours), Some(python)) = (&ours, &python) {
            let measure =
                format!("bus: deliveries to {subscribers} by CPU time, floor a server in Python");
            let (ours, floor) = (ours.cpu_pace, python.cpu_pace);
            let row =
                Row::against_floor(measure, Quantity::PerSecond(ours), Quantity::PerSecond(floor));
            report.add_row(row.with_bar(AGAINST_PYTHON));
        }
        if let Some(ours) = ours.filter(|_| subscribers == 100) {
            let (ours, floor) = (Quantity::Bytes(ours.memory), Quantity::Bytes(MEMORY_MAX));
            let measure = "bus: memory with 100 clients after the load, floor the limit";
            report.add_row(Row::against_floor(measure, ours, floor).with_bar(Bar::at_most(1.0)));
        }
    }
    growth::measure(deliveries, stage, report)?;
    rest::measure(deliveries, stage, report)?;
    printing::measure(is_quick, stage, report)?;
    delay_by_others(is_quick, stage, report)
}

/// The results of one run.
#[derive(Clone, Copy)]
struct BusRun {
    /// Deliveries per second.
    pace: f64,
    /// Deliveries per second of the server's CPU time.
    cpu_pace: f64,
    memory: u64,
}

impl BusRun {
    fn report_row(&self, measure: String, floor: &BusRun) -> Row {
        let (ours, other) = (Quantity::PerSecond(self.pace), Quantity::PerSecond(floor.pace));
        // Infinite where the system does not tell the CPU time, which then counts as zero.
        let cpu_ratio = Some(self.cpu_pace / floor.cpu_pace).filter(|ratio| ratio.is_finite());
        Row { cpu_ratio, ..Row::against_floor(measure, ours, other) }
    }
}

fn median_run(runs: &[BusRun]) -> Option<BusRun> {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| a.pace.total_cmp(&b.pace));
    runs.get(runs.len() / 2).copied()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Relay,
    Redis,
    Python,
}

fn run(kind: Kind, speech: Speech, subscribers: usize, messages: usize) -> Outcome<BusRun> {
    let server = Served::start(kind, subscribers)?;
    let before = server.cpu_time();
    let took = deliver_all(&server.socket, speech, subscribers, messages)?;
    let cpu = server.cpu_time().saturating_sub(before);
    // The publisher hears itself, but for Redis.
    let heard = if kind == Kind::Redis { subscribers } else { subscribers + 1 };
    let count = (heard * messages) as f64;
    Ok(BusRun {
        pace: count / took.wall.as_secs_f64(),
        cpu_pace: count / cpu.as_secs_f64(),
        // Read while the clients are still connected: their buffers are part of what the server
        // holds.
        memory: server.memory_held(&took.streams),
    })
}

/// A server in a process of its own.
struct Served {
    socket: std::path::PathBuf,
    process: Process,
    _world: World,
}

enum Process {
    Ours(RunningProgram),
    Other(Child),
}

impl Served {
    fn start(kind: Kind, subscribers: usize) -> Outcome<Served> {
        let bench = std::env::current_exe()?;
        let program = bench.with_file_name("hansard");
        if !program.exists() {
            return Err(format!("`{}` is to be built first", program.display()).into());
        }
        let world = World::new(program);
        let socket = world.home().join("bus.sock");
        let path = socket.display().to_string();
        let process = match kind {
            Kind::Ours => Process::Ours(world.start(&["bus", "serve", "--socket", &path])),
            Kind::Relay => {
                // The publisher is a client of the relay, too.
                let clients = (subscribers + 1).to_string();
                let mut relay = Command::new(bench);
                Process::Other(relay.args(["--relay", &path, &clients]).spawn()?)
            }
            Kind::Redis => {
                let mut redis = Command::new("redis-server");
                // No TCP and nothing on disk: Redis is measured as a relay of messages.
                redis.args(["--port", "0", "--save", "", "--appendonly", "no"]);
                // No limit: by default Redis disconnects a subscriber with a long output buffer.
                redis.args(["--client-output-buffer-limit", "pubsub 0 0 0", "--unixsocket", &path]);
                Process::Other(redis.current_dir(world.home()).stdout(Stdio::null()).spawn()?)
            }
            Kind::Python => {
                let mut python = Command::new("python3");
                Process::Other(
                    python.args(["-c", include_str!("bus/plain_server.py"), &path]).spawn()?,
                )
            }
        };
        wait_until(&socket, || socket.exists())?;
        // Their sockets exist before they listen. Ours and the relay rename a socket that listens.
        // The relay also counts its clients, so a connection to try it would take a place.
        if matches!(kind, Kind::Redis | Kind::Python) {
            wait_until(&socket, || UnixStream::connect(&socket).is_ok())?;
        }
        Ok(Served { socket, process, _world: world })
    }

    /// How often it has woken so far.
    fn wake_ups(&self) -> u64 {
        match &self.process {
            Process::Ours(running) => running.pauses().unwrap_or(0),
            Process::Other(_) => 0,
        }
    }

    fn process_id(&self) -> u32 {
        match &self.process {
            Process::Ours(running) => running.process_id(),
            Process::Other(child) => child.id(),
        }
    }

    fn cpu_time(&self) -> Duration {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.process_id())) else {
            return Duration::ZERO;
        };
        let nanos = threads.filter_map(|thread| {
            let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// What it holds while these are connected.
    fn memory_held(&self, _connected: &[UnixStream]) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process_id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) * 1_024
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Process::Other(child) = &mut self.process {
            // It may have ended with its publisher.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_until(socket: &Path, is_so: impl Fn() -> bool) -> Outcome<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        if Instant::now() > until {
            return Err(format!("no bus listens at `{}`", socket.display()).into());
        }
        // The wait is short, and a sleep would be longer than it.
        std::thread::yield_now();
    }
    Ok(())
}

fn delay_by_others(is_quick: bool, stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let probes = if is_quick { 200 } else { 1_000 };
    // A fresh server each time: what one misbehaving client left in the queues must not count
    // again.
    let alone = measure_delays(&Served::start(Kind::Ours, 0)?.socket, Misbehaviour::None, probes)?;
    for (what, delay) in [("p99", alone.most), ("the worst", alone.worst)] {
        let measure = format!("bus: delay of a delivery, {what}, nobody else");
        report.add_row(Row::alone(measure, Quantity::Time(delay)));
    }
    for (others, words) in [
        (Misbehaviour::Stuck(1), "one stuck"),
        (Misbehaviour::Stuck(20), "20 stuck"),
        (Misbehaviour::Crawling, "one reading 20 kB/s"),
        (Misbehaviour::Flooding, "one flooding"),
        (Misbehaviour::OneShots, "one-shots all the time"),
    ] {
        stage.announce(words)?;
        let with = measure_delays(&Served::start(Kind::Ours, 0)?.socket, others, probes)?;
        delay_added(words, with.excess_over(alone), report);
    }
    Ok(())
}

fn delay_added(words: &str, added: Delays, report: &mut Report) {
    for (what, delay) in [("p99", added.most), ("the worst", added.worst)] {
        let measure = format!("bus: delay added by others, {what}, {words}, floor the limit");
        let (added, limit) = (Quantity::Time(delay), Quantity::Time(DELAY_MAX));
        report.add_row(Row::against_floor(measure, added, limit).with_bar(Bar::at_most(1.0)));
    }
}
